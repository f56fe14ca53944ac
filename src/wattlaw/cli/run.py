"""``wattlaw run``: meter a command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from wattlaw.cli.options import InputPath, declare_power_option

if TYPE_CHECKING:
    from wattlaw.measure.command import CommandResult

EPILOG = """\b
Examples:
  wattlaw run -- python train.py
  wattlaw run --spec run.toml -o runs/records.jsonl -- torchrun --nproc-per-node 4 train.py
  wattlaw run --json -- python train.py 2> >(tail -n 1 > record.json)
  srun -N 2 --ntasks-per-node 4 wattlaw run -- python train.py
"""


@click.command(
    "run",
    epilog=EPILOG,
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False},
)
@click.argument("arguments", metavar="COMMAND", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--spec", "spec_file", metavar="RUN.toml", type=InputPath("a run spec", path_type=Path),
              help="What the command runs; without it the record holds time and energy only.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), default=Path("runs/records.jsonl"),
              show_default=True, help="Store of records; the job's is added.")  # fmt: skip
@declare_power_option
@click.option("--json", "as_json", is_flag=True,
              help="Print the record as JSON, last on the error stream: the output is the command's own.")  # fmt: skip
def command(
    *,
    arguments: tuple[str, ...],
    spec_file: Path | None,
    output: Path,
    declare_power: float | None,
    as_json: bool,
) -> int:
    """Run a command, meter this node while it runs, and add one record to a store.

    Input, output, signals and the exit code are the command's own. Under torchrun and Slurm one rank per node meters,
    and the job gets one record. A command that fails is recorded as failed.
    """
    from wattlaw.measure.command import run_command
    from wattlaw.run import read_spec

    result = run_command(
        arguments,
        spec=None if spec_file is None else read_spec(spec_file),
        output=output,
        declared_power_w=declare_power,
    )
    if as_json:
        if result.fault is not None or result.job.meters or result.job.recovered:
            click.echo(_as_json(result), err=True)
        return result.exit_code
    for record in result.job.recovered:
        click.echo(f"wattlaw: {record.record_id} had ended without a word; recorded as failed", err=True)
    if result.fault is not None:
        click.echo(f"wattlaw: {result.fault}", err=True)
    elif result.job.meters:
        click.echo(f"wattlaw: {result.job.summary()}", err=True)
    return result.exit_code


def _as_json(result: CommandResult) -> str:
    """Say on one line what became of the command, so that the last line of the error stream is it."""
    import msgspec

    from wattlaw.run.record import record_to_mapping

    record = result.job.record
    said = {
        "record": None if record is None else record_to_mapping(record),
        "output": str(result.job.store),
        "exit_code": result.exit_code,
        "fault": result.fault,
        "recovered": [one.record_id for one in result.job.recovered],
    }
    return msgspec.json.encode(said).decode()
