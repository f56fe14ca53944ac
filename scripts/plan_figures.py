"""Figures of planning: how many configurations a second, and whether the chance of the first place is a chance."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import choice_figures
import numpy as np
from claims import claims_of, show
from measured_tables import FINE_TUNING, read_table
from numpy.typing import NDArray

from wattlaw.features.records import record_columns
from wattlaw.features.table import Table
from wattlaw.law.calibration import Calibration
from wattlaw.law.step import StepLaw
from wattlaw.plan.confidence import draw_errors, judge

HERE = Path(__file__).resolve().parent
_figure = claims_of("python scripts/plan_figures.py")
#: Parts that the families are dealt into; each is judged by the law calibrated on the others.
FOLDS = 4

Numbers = NDArray[np.float64]


def figures() -> list[dict[str, Any]]:
    """Compute all figures of this script."""
    return [*_speed(), *_chance()]


def _speed() -> list[dict[str, Any]]:
    """Configurations of GPT-3 175B on 1,024 devices per second of one core."""
    command = [sys.executable, str(HERE.parent / "benchmarks" / "planning.py"), "--json"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = json.loads(output)
    share = 100 * found["num_fitting"] / found["num_configurations"]
    note = (
        f"best of 3 searches of {found['num_configurations']:,.0f} ways to train GPT-3 175B on up to 1,024 A100, one "
        f"core: memory of all, time and energy of the {share:.0f} % that fit"
    )
    every = "the same with memory enough for all, so that time and energy of every one are computed"
    seconds = "an exhaustive search of GPT-3 175B on up to 1,024 devices, one core"
    memory = f"peak of the process, {found['num_configurations']:,.0f} configurations in chunks"
    return [
        _figure("plan.configs_per_s", ">= 1e6", found["configs_per_s"], "configurations/s", note),
        _figure("plan.configs_per_s.all_costed", ">= 1e6", found["all_costed_configs_per_s"], "configurations/s",
                every),
        _figure("plan.configs_per_s.capped", "none", found["capped_configs_per_s"], "configurations/s",
                "the same as the first under two power caps besides none"),
        _figure("plan.configs_per_s.confident", "none", found["confident_configs_per_s"], "configurations/s",
                "the same as the first where the upper end of the 90 % interval must keep the deadline"),
        _figure("plan.configs_per_s.capped_confident", "none", found["capped_confident_configs_per_s"],
                "configurations/s", "both together"),
        _figure("plan.175b.seconds", "<= 10", found["seconds"], "s", seconds),
        _figure("plan.175b.peak_memory", "none", found["peak_memory_bytes"] / 1e6, "MB", memory),
    ]  # fmt: skip


def _chance() -> list[dict[str, Any]]:
    """On the public families: how often the first is best, and how often that was said to be so."""
    records = read_table(FINE_TUNING)
    table = record_columns(records)
    tokens = np.array([choice_figures.tokens_of(record) for record in records])
    measured = table.positive("energy_j") / tokens
    names, member = np.unique(table.text("group"), return_inverse=True)
    part = np.random.default_rng(0).permutation(len(names)) % FOLDS
    families = choice_figures.families_of(table)
    said, came = [], []
    for number in range(FOLDS):
        law = StepLaw()
        calibration = law.fit(table.take(part[member] != number))
        for options in families:
            if part[member[options[0][0]]] == number:
                chance, best = _judged(law, calibration, table, tokens, measured, options)
                said.append(chance)
                came.append(best)
    off = 100 * abs(np.mean(said) - np.mean(came))
    sure = np.array(said) >= np.median(said)
    halves = [
        f"{100 * np.mean(np.array(came)[half]):.0f} % where {100 * np.mean(np.array(said)[half]):.0f} % was said"
        for half in (sure, ~sure)
    ]
    note = (
        f"{len(said)} families, calibrated on the others in {FOLDS} parts: the first was best in "
        f"{100 * np.mean(came):.1f} %, which was said with {100 * np.mean(said):.1f} %; by halves {', '.join(halves)}"
    )
    return [_figure("plan.first_place.off", "none", off, "percentage points", note)]


def _judged(
    law: StepLaw,
    calibration: Calibration,
    table: Table,
    tokens: Numbers,
    measured: Numbers,
    options: list[NDArray[np.intp]],
) -> tuple[float, float]:
    """The chance that the option predicted to be best is best, and whether it was."""
    rows = np.array([option[0] for option in options])
    part = table.take(rows)
    expected = law.estimate(calibration, part).energy_j / tokens[rows]
    order = np.argsort(expected, kind="stable")
    errors = draw_errors(calibration, part.take(order))["energy"]
    chance = judge(expected[order] * np.exp(errors), assumption="").chance
    seen = [np.exp(np.log(measured[option]).mean()) for option in options]
    return chance, float(np.argmin(seen) == order[0])


if __name__ == "__main__":
    show(figures())
