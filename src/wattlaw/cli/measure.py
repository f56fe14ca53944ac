"""``wattlaw measure``: run a sweep on this machine and record it."""

from __future__ import annotations

from pathlib import Path

import click

from wattlaw.cli.options import InputPath, OutputFolder, as_json_option, declare_power_option, print_json, print_rich
from wattlaw.errors import ConfigError
from wattlaw.measure.sweep import MachineMeters, Sweep, read_sweep, run_sweep, stop_on_signals
from wattlaw.report.sweep import plan_document, plan_table, progress_bar, result_document, result_lines

#: What a shell says of a program that Ctrl-C ended.
STOPPED = 130


@click.command(epilog="Example: wattlaw measure examples/cpu_sweep.toml -o runs/")
@click.argument("sweep_file", metavar="SWEEP.toml", type=InputPath("a sweep", path_type=Path))
@click.option("-o", "--output", type=OutputFolder(path_type=Path, file_okay=False), default=Path("runs"),
              show_default=True, help="Folder of sweeps; this one's records go into a folder of its name.")  # fmt: skip
@click.option("--resume", is_flag=True, help="Skip the runs that are recorded, go on with the others.")
@click.option("--dry-run", is_flag=True, help="Show the plan and run nothing.")
@click.option("--gpu", help="Accelerator, instead of the file's.")
@declare_power_option
@click.option("--max-seconds", type=click.FloatRange(min=0), help="Start no configuration after this time.")
@click.option("--modules", is_flag=True, help="Time the modules of the one-device configurations, and nothing else.")
@as_json_option
def command(
    *,
    sweep_file: Path,
    output: Path,
    resume: bool,
    dry_run: bool,
    gpu: str | None,
    declare_power: float | None,
    max_seconds: float | None,
    modules: bool,
    as_json: bool,
) -> int:
    """Run the configurations of a sweep one after another, and record each.

    Ctrl-C finishes the running configuration and stops; a second one stops at once. Either way every record is kept
    and --resume goes on. A configuration that fails is recorded as failed with the reason, and the sweep goes on.
    """
    sweep = read_sweep(sweep_file, gpu=gpu)
    if dry_run:
        print_json(plan_document(sweep)) if as_json else print_rich(plan_table(sweep))
        return 0
    if modules:
        return _time_modules(sweep, output, as_json=as_json)
    meters = MachineMeters(sweep.device, declared_power_w=declare_power)
    with stop_on_signals(_tell_stopping) as stop, progress_bar(shown=not as_json) as watch:
        result = run_sweep(
            sweep, output, resume=resume, meter_of=meters, watch=watch, stop=stop, max_duration_s=max_seconds
        )
    if as_json:
        print_json(result_document(result))
    else:
        for line in result_lines(result):
            click.echo(line)
    return STOPPED if stop.asked and result.stopped else 0


def _time_modules(sweep: Sweep, output: Path, *, as_json: bool) -> int:
    """Time the modules of every configuration on one device, each once, and write them beside the sweep's records."""
    from wattlaw.measure.module_times import write_module_times
    from wattlaw.measure.modules import check_modules, time_modules
    from wattlaw.report.modules import modules_document, modules_tables

    planned = {run.configuration: run.spec for run in sweep.runs if run.spec.layout.num_devices == 1}
    if not planned:
        raise ConfigError("modules are timed on one device", given="no such configuration", allowed="strategy single")
    specs = [check_modules(spec) for spec in planned.values()]
    times = time_modules(specs, threads=sweep.measuring.threads)
    path = output / sweep.name / "modules.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_module_times(path, times)
    if as_json:
        print_json(modules_document(times, path))
    else:
        print_rich(*modules_tables(times), f"{path}: {len(times)} configurations")
    return 0


def _tell_stopping() -> None:
    click.echo("finishing the running configuration; Ctrl-C again stops at once", err=True)
