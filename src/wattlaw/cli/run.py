"""``wattlaw run``: meter a command."""

from __future__ import annotations

from pathlib import Path

import click

EPILOG = """\b
Examples:
  wattlaw run -- python train.py
  wattlaw run --spec run.toml -o runs/records.jsonl -- torchrun --nproc-per-node 4 train.py
  srun -N 2 --ntasks-per-node 4 wattlaw run -- python train.py
"""


@click.command(
    "run",
    epilog=EPILOG,
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False},
)
@click.argument("arguments", metavar="COMMAND", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--spec", "spec_file", metavar="RUN.toml", type=click.Path(path_type=Path),
              help="What the command runs; without it the record holds time and energy only.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), default=Path("runs/records.jsonl"),
              show_default=True, help="Store of records; the job's is added.")  # fmt: skip
@click.option("--declare-power", metavar="WATTS", help="Power of the node as you state it, such as 65W; labelled so.")
def command(*, arguments: tuple[str, ...], spec_file: Path | None, output: Path, declare_power: str | None) -> int:
    """Run a command, meter this node while it runs, and add one record to a store.

    Input, output, signals and the exit code are the command's own. Under torchrun and Slurm one rank per node meters,
    and the job gets one record. A command that fails is recorded as failed.
    """
    from wattlaw.measure.command import run_command
    from wattlaw.measure.meters.declared import parse_power
    from wattlaw.run import read_spec

    result = run_command(
        arguments,
        spec=None if spec_file is None else read_spec(spec_file),
        output=output,
        declared_power_w=None if declare_power is None else parse_power(declare_power),
    )
    for record in result.job.recovered:
        click.echo(f"wattlaw: {record.record_id} had ended without a word; recorded as failed", err=True)
    if result.fault is not None:
        click.echo(f"wattlaw: {result.fault}", err=True)
    elif result.job.meters:
        click.echo(f"wattlaw: {result.job.summary()}", err=True)
    return result.exit_code
