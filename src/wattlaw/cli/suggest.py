"""``wattlaw suggest``: which few runs would teach the law most about this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattlaw.cli.options import (
    COUNT,
    ENERGY,
    Duration,
    InputPath,
    Number,
    OutputPath,
    about,
    as_json_option,
    print_json,
    print_rich,
    working,
)
from wattlaw.errors import FileError

if TYPE_CHECKING:
    from wattlaw.law.calibration import Calibration
    from wattlaw.law.suggestion import Suggestion
    from wattlaw.measure.sweep import Sweep

EPILOG = """\b
Examples:
  wattlaw suggest examples/gpu_sweep.toml --gpu "NVIDIA H100 PCIe" --runs 4 -o few.toml
  wattlaw suggest sweep.toml --runs 6 --max-time 30min --max-energy 1kWh --law host.json
  wattlaw measure few.toml -o runs/ && wattlaw fit runs/few/records.jsonl -o law.json
"""
#: More runs than this are a sweep and no choice.
RUNS = Number(whole=True, at_least=1, at_most=1000)


@click.command("suggest", epilog=EPILOG)
@click.argument("sweep_file", metavar="SWEEP.toml", type=InputPath("a sweep", path_type=Path))
@click.option("--gpu", metavar="NAME|FILE", help="Accelerator, instead of the file's.")
@click.option("--runs", "num_runs", type=RUNS, default=4, show_default=True, help="How many to choose.")
@click.option("--for", "wanted", multiple=True, metavar="RUN.toml", type=InputPath("a run spec", path_type=Path),
              help="A run to be predicted, or several; the sweep's configurations where none is named.")  # fmt: skip
@click.option("--max-time", type=Duration(above=0), metavar="TIME", help="For all measurements, such as 30min.")
@click.option("--max-energy", type=ENERGY, metavar="ENERGY", help="For all measurements, such as 1kWh.")
@click.option("--law", metavar="FILE", type=InputPath("a fitted law", path_type=Path),
              help="What is known so far: a fitted law or a probe's; the shipped one where none is given.")  # fmt: skip
@click.option("--seed", type=COUNT, default=1, show_default=True, help="Of the draws that the choice averages over.")
@click.option("-o", "--output", type=OutputPath(path_type=Path), help="File for a sweep of the chosen runs.")
@as_json_option
def command(
    *,
    sweep_file: Path,
    gpu: str | None,
    num_runs: int,
    wanted: tuple[Path, ...],
    max_time: float | None,
    max_energy: float | None,
    law: Path | None,
    seed: int,
    output: Path | None,
    as_json: bool,
) -> None:
    """Choose the few runs of a sweep that would teach the law most about a machine.

    The choice needs no measurement: it follows from what the law already knows and from how its predictions depend on
    what it does not. Budgets are of predicted times and energies, warm-up included, loading and building left out.
    """
    from wattlaw.law.suggestion import suggest
    from wattlaw.measure.sweep import read_sweep
    from wattlaw.report.suggest import suggestion_mapping, suggestion_text
    from wattlaw.run.spec_file import read_spec

    _refuse_other_files(output, sweep_file)
    sweep = read_sweep(sweep_file, gpu=gpu)
    samples = [run for run in sweep.runs if run.role == "sample" and run.repeat == 0]
    measuring = sweep.measuring
    steps = measuring.window.steps + measuring.window.max_warmup_steps
    candidates = [replace(run.spec, recipe=replace(run.spec.recipe, steps=steps)) for run in samples]
    calibration = _calibration(law)
    with about([sweep_file]), working("choosing runs", shown=not as_json):
        found = suggest(
            candidates,
            calibration,
            num_runs=num_runs,
            targets=[read_spec(path) for path in wanted],
            max_duration_s=max_time,
            max_energy_j=max_energy,
            min_window_s=measuring.window.min_window_s,
            rest_s=measuring.cooldown_s,
            seed=seed,
        )
    if output is not None:
        _write(output, sweep_file, sweep, [samples[run.place] for run in found.runs], found, gpu)
    if as_json:
        print_json(suggestion_mapping(found, output))
    else:
        print_rich(suggestion_text(found, output))


def _calibration(law: Path | None) -> Calibration:
    from wattlaw.law.bundled import bundled
    from wattlaw.law.loading import load_law

    return bundled() if law is None else load_law(law)


def _write(output: Path, sweep_file: Path, sweep: Sweep, chosen: list[Any], found: Suggestion, gpu: str | None) -> None:
    from wattlaw.measure.sweep.subset import subset_text
    from wattlaw.report.suggest import WRITTEN_BY, suggestion_notes
    from wattlaw.run.files import write_atomic

    notes = (f"{WRITTEN_BY} {sweep_file.name}.", *suggestion_notes(found))
    write_atomic(output, subset_text(sweep_file, chosen, name=output.stem, gpu=gpu, notes=notes))


def _refuse_other_files(output: Path | None, sweep_file: Path) -> None:
    """Refuse to write over anything that this command has not written."""
    from wattlaw.report.suggest import WRITTEN_BY

    if output is None or not output.exists() or not output.stat().st_size:
        return
    if output.resolve() == sweep_file.resolve():
        raise FileError("the chosen runs would replace the sweep that they are chosen from", hint="another name").at(
            output
        )
    with output.open("rb") as file:
        if WRITTEN_BY.encode() not in file.read(200):
            raise FileError(
                "this file was not written by suggest, and is left as it is", hint="another name for -o"
            ).at(output)
