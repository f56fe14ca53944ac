"""Figures of choosing a strategy and a number of GPUs by the step law, for the least energy per token."""

from __future__ import annotations

from typing import Any

import numpy as np
from claims import claims_of, show
from measured_tables import FINE_TUNING, read_table
from numpy.typing import NDArray

from wattlaw.features.records import record_columns
from wattlaw.features.table import Table
from wattlaw.law.calibration import Calibration
from wattlaw.law.step import StepLaw
from wattlaw.law.step_terms import PARAMETERS
from wattlaw.run.amount import schedule
from wattlaw.run.record import RunRecord

_figure = claims_of("python scripts/choice_figures.py")
#: Parts that the families are dealt into; each is chosen for with the law calibrated on the others.
FOLDS = 10
#: A layout that costs this much more than the best is as good as the best: runs repeat no better.
ALIKE = 0.02

Numbers = NDArray[np.float64]


def figures() -> list[dict[str, Any]]:
    """Compute all figures of this script."""
    records = read_table(FINE_TUNING)
    table = record_columns(records)
    tokens = np.array([tokens_of(record) for record in records])
    measured = table.positive("energy_j") / tokens
    families = families_of(table)
    held_out = energies(table, StepLaw()) / tokens
    alone = energies(table, StepLaw(residual=False)) / tokens
    devices = table.numbers("num_devices")
    starts = Calibration(law="step", parameters={one.name: one.start for one in PARAMETERS})
    cold = StepLaw().estimate(starts, table).energy_j / tokens
    return [
        *_judged(families, measured, held_out, "", "calibrated on the other families", alone, devices),
        *_judged(families, measured, cold, ".cold", "from data sheets and priors alone, no run seen", None, devices),
    ]


def tokens_of(record: RunRecord) -> float:
    """Tokens that a run goes through, evaluation included, over all devices."""
    spec = record.require_spec()
    amount = schedule(spec.recipe, spec.layout)
    return float(amount.trained_tokens + amount.evaluated_tokens)


def families_of(table: Table) -> list[list[NDArray[np.intp]]]:
    """Options of each configuration family (one machine, model and batch) that has several, as their rows.

    An option is a strategy on a number of GPUs. Some were measured twice, up to 24 % apart: the same choice still.
    """
    names = zip(table.text("group"), table.text("strategy"), table.numbers("num_devices"), strict=True)
    options: dict[str, dict[tuple[str, float], list[int]]] = {}
    for place, (group, strategy, devices) in enumerate(names):
        options.setdefault(str(group), {}).setdefault((str(strategy), float(devices)), []).append(place)
    return [[np.array(rows) for rows in found.values()] for found in options.values() if len(found) > 1]


def energies(table: Table, law: StepLaw) -> Numbers:
    """Predict each row by the law calibrated on the families of the other parts."""
    names, member = np.unique(table.text("group"), return_inverse=True)
    part = np.random.default_rng(0).permutation(len(names)) % FOLDS
    found = np.empty(len(table))
    for number in range(FOLDS):
        out = part[member] == number
        found[out] = law.estimate(law.fit(table.take(~out)), table.take(out)).energy_j
    return found


def choices(families: list[list[NDArray[np.intp]]], measured: Numbers, predicted: Numbers) -> tuple[Numbers, Numbers]:
    """Of each family: whether the option predicted to be best is, and how much more it takes than the best, in %.

    An option measured twice takes the geometric mean.
    """
    first, lost = [], []
    for options in families:
        seen = np.array([np.exp(np.log(measured[rows]).mean()) for rows in options])
        expected = np.array([np.exp(np.log(predicted[rows]).mean()) for rows in options])
        chosen = int(np.argmin(expected))
        first.append(chosen == int(np.argmin(seen)))
        lost.append(100 * (seen[chosen] / seen.min() - 1))
    return np.array(first, dtype=np.float64), np.array(lost)


def _judged(
    families: list[list[NDArray[np.intp]]],
    measured: Numbers,
    predicted: Numbers,
    ending: str,
    how: str,
    alone: Numbers | None,
    devices: Numbers,
) -> list[dict[str, Any]]:
    first, lost = choices(families, measured, predicted)
    count = np.mean([len(options) for options in families])
    note = (
        f"{len(families)} families with {count:.1f} options each, {how}; the choice is within {100 * ALIKE:.0f} % of "
        f"the best in {100 * np.mean(lost <= 100 * ALIKE):.1f} %, worst regret {lost.max():.1f} %"
    )
    fewest, more = choices(families, measured, devices)
    note += f"; always the fewest GPUs is right in {100 * fewest.mean():.1f} %, regret {more.mean():.2f} %"
    if alone is not None:
        own_first, own_lost = choices(families, measured, alone)
        note += f"; without the residual's process {100 * own_first.mean():.1f} %, regret {own_lost.mean():.2f} %"
    return [
        _figure(f"{name}{ending}", target, value, "%", note)
        for top, regret in (("accuracy.choice.top1", "accuracy.choice.regret"), ("plan.top1", "plan.regret"))
        for name, target, value in ((top, ">= 95", 100 * first.mean()), (regret, "<= 1", lost.mean()))
    ]


if __name__ == "__main__":
    show(figures())
