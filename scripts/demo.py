"""The main job on real input: BERT-base fine-tuned on SST-2, on 1, 2 and 4 GPUs, from a config.json to a decision.

Prints what each way of running it takes, and draws the fastest against the greenest in ``build/demo/``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rich.console import Console

from wattlaw.law.bundled import bundled
from wattlaw.law.footprint import Footprint
from wattlaw.law.prediction import predict
from wattlaw.parallel import Layout
from wattlaw.report.figures import energy_against_time, save
from wattlaw.report.prediction import comparison_table, prediction_text, terms_table
from wattlaw.run import read_spec

HERE = Path(__file__).resolve().parent
LAYOUTS = [("single", 1), ("fsdp", 2), ("fsdp", 4), ("tp", 2), ("tp", 4)]


def main() -> None:
    """Predict, print, draw."""
    base = read_spec(HERE.parent / "examples" / "bert-base-sst2.toml")
    specs = [replace(base, layout=Layout.of(strategy, num_devices=count)) for strategy, count in LAYOUTS]
    predictions = predict(specs, bundled())
    rows = list(zip(specs, predictions, strict=True))
    console = Console(highlight=False)
    console.print(f"[bold]{base.name}[/bold]: {len(rows)} ways on {base.accelerator.full_name}")
    console.print(comparison_table(rows))
    console.print("\nwhere the energy goes:")
    console.print(terms_table(rows))
    greenest = min(rows, key=lambda row: row[1].energy_j.mid)
    console.print("\nthe greenest in detail:")
    console.print(prediction_text(*greenest, Footprint()))
    target = HERE.parent / "build" / "demo" / "fastest-against-greenest.png"
    save(energy_against_time(rows, heading=f"{base.name}: fastest against greenest"), target)
    console.print(f"\nfigure: {target.relative_to(HERE.parent)} (and .svg, .html beside it)")


if __name__ == "__main__":
    main()
