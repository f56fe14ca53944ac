"""The main job on real input, twice: from a config.json to a decision, and from a sweep to a law that predicts.

Prints what ways of fine-tuning BERT-base take, and draws the fastest against the greenest in ``build/demo/``. Then fits
the step law to an excerpt of a measured sweep, and compares its predictions with the configurations left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from wattlaw.features.records import record_columns, usable
from wattlaw.law.bundled import bundled
from wattlaw.law.footprint import Footprint
from wattlaw.law.interval import ends_of_runs
from wattlaw.law.prediction import Prediction, predict
from wattlaw.law.step import StepLaw
from wattlaw.parallel import Layout
from wattlaw.report import quantities
from wattlaw.report.figures import energy_against_time, save
from wattlaw.report.prediction import prediction_text
from wattlaw.run import RunRecord, RunSpec, read_records, read_spec

HERE = Path(__file__).resolve().parent
LAYOUTS = [("single", 1), ("fsdp", 2), ("fsdp", 4), ("tp", 2), ("tp", 4)]
#: One configuration in so many is learnt from; the others are predicted.
LEARNT_FROM = 3
LEVEL = 0.95


def main() -> None:
    """Predict, print, draw; measure, fit, compare."""
    console = Console(highlight=False)
    decide(console)
    learn(console)


def decide(console: Console) -> None:
    """Predict five ways of fine-tuning a model before any is run."""
    base = read_spec(HERE.parent / "examples" / "bert-base-sst2.toml")
    specs = [replace(base, layout=Layout.of(strategy, num_devices=count)) for strategy, count in LAYOUTS]
    predictions = predict(specs, bundled())
    rows = list(zip(specs, predictions, strict=True))
    console.print(f"[bold]{base.name}[/bold]: {len(rows)} ways on {base.accelerator.full_name}")
    console.print(_comparison(rows))
    console.print("\nwhere the energy goes:")
    console.print(_terms(rows))
    greenest = min(rows, key=lambda row: row[1].energy_j.mid)
    console.print("\nthe greenest in detail:")
    console.print(prediction_text(*greenest, Footprint()))
    target = HERE.parent / "build" / "demo" / "fastest-against-greenest.png"
    save(energy_against_time(rows, heading=f"{base.name}: fastest against greenest"), target)
    console.print(f"\nfigure: {target.relative_to(HERE.parent)} (and .svg, .html beside it)")


def _comparison(rows: Sequence[tuple[RunSpec, Prediction]]) -> Table:
    """Show several runs side by side, one line each; the greenest and the fastest are marked."""
    greenest = min(prediction.energy_j.mid for _, prediction in rows)
    fastest = min(prediction.duration_s.mid for _, prediction in rows if prediction.duration_s is not None)
    table = Table("strategy", "GPUs", "energy", "interval", "time", "power", "", box=None, pad_edge=False)
    for spec, prediction in rows:
        time, power = prediction.duration_s, prediction.power_w
        marks = ["greenest"] if prediction.energy_j.mid == greenest else []
        marks += ["fastest"] if time is not None and time.mid == fastest else []
        table.add_row(
            spec.layout.strategy,
            f"{int(spec.layout.num_devices)}",
            quantities.energy(prediction.energy_j.mid),
            quantities.interval(prediction.energy_j, quantities.energy),
            "-" if time is None else quantities.duration(time.mid),
            "-" if power is None else quantities.power(power),
            " ".join(marks),
            style="green" if marks else None,
        )
    return table


def _terms(rows: Sequence[tuple[RunSpec, Prediction]]) -> Table:
    """Show where the energy of several runs goes: each term's share, one line a run."""
    names = list(rows[0][1].terms_j)
    table = Table("strategy", "GPUs", box=None, pad_edge=False)
    for name in names:
        table.add_column(name, justify="right")
    for spec, prediction in rows:
        shares = [f"{prediction.terms_j[name] / prediction.energy_j.mid:.0%}" for name in names]
        table.add_row(spec.layout.strategy, f"{int(spec.layout.num_devices)}", *shares)
    return table


def learn(console: Console) -> None:
    """Fit the step law to an excerpt of a measured sweep, and predict the times of the configurations left out."""
    path = HERE.parent / "examples" / "cpu_sample" / "records.jsonl"
    records, _ = usable(read_records(path))
    sample = [record for record in records if record.environment["role"] == "sample"]
    table = record_columns(sample)
    group = np.unique(table.text("group"), return_inverse=True)[1]
    learnt, rest = group % LEARNT_FROM == 0, group % LEARNT_FROM != 0
    calibration = StepLaw().fit(table.take(learnt))
    held_out = table.take(rest)
    duration_s = StepLaw().estimate(calibration, held_out).duration_s
    assert duration_s is not None
    measured_s = held_out.positive("duration_s")
    low, high = (
        duration_s * np.exp(end) for end in ends_of_runs(calibration, held_out, target="duration", level=LEVEL)
    )
    console.print(
        f"\n[bold]a sweep of BERT and GPT-2 on two CPU cores[/bold], measured with `wattlaw measure`: "
        f"{learnt.sum()} runs learnt from, {rest.sum()} of other configurations predicted; times only",
        soft_wrap=True,
    )
    shown = Table("held out", "measured", "predicted", f"{100 * LEVEL:g} % interval", box=None, pad_edge=False)
    kept = [record for record, out in zip(sample, rest, strict=True) if out]
    for row in np.linspace(0, len(kept) - 1, 8).astype(int):
        steps = kept[row].observed["num_steps"]
        shown.add_row(
            _named(kept[row]),
            *(quantities.duration(seconds[row] / steps) for seconds in (measured_s, duration_s)),
            " to ".join(quantities.duration(seconds[row] / steps) for seconds in (low, high)),
        )
    console.print(shown)
    error_percent = 100 * np.abs(duration_s / measured_s - 1)
    covered = np.mean((low <= measured_s) & (measured_s <= high))
    console.print(
        f"all {len(kept)}: median error {np.median(error_percent):.1f} %, {covered:.0%} of times in their intervals",
        soft_wrap=True,
    )


def _named(record: RunRecord) -> str:
    spec = record.require_spec()
    (stack,) = spec.architecture.stacks
    return (
        f"{spec.architecture.family} {int(stack.num_layers)} x {int(spec.architecture.hidden_size)}, "
        f"{int(spec.recipe.batch_size)} x {int(spec.recipe.seq_len)} tokens, {spec.layout.strategy}"
    )


if __name__ == "__main__":
    main()
