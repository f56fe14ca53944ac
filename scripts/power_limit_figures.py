"""Figures of power caps: from two limits of a measured curve predict the others, and choose the one of least energy.

A curve is BERT-base fine-tuned on one A40 or V100 at one batch size under 4 to 7 limits (Zeus, NSDI'23). The source
states neither how many samples an epoch has, nor their length, nor the precision, nor the attention: these are assumed
below, and how much work an epoch is comes from the two known limits, with the share of it in which the device idles.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from claims import claims_of, show
from measured_tables import read_table
from numpy.typing import NDArray
from scipy.optimize import least_squares

from wattlaw.features.physical import physical_columns
from wattlaw.law import hierarchy
from wattlaw.law.step_terms import COLUMNS, PARAMETERS, terms
from wattlaw.run.record import RunRecord
from wattlaw.run.spec_file import spec_from_mapping

_figure = claims_of("python scripts/power_limit_figures.py")

Numbers = NDArray[np.float64]
Columns = Mapping[str, Numbers]

#: Not stated: the length of questions is that of the usual script, tweets are short; products have the precision that
#: PyTorch had by default on such a board.
LENGTHS = {"squad": 384, "sentiment140": 64, "": 384}
PRECISIONS = {"a40": "tf32", "v100-pcie-16gb": "fp32"}
PROFILED_BATCH = 32
#: Any number of steps: the fit finds how many there are.
STEPS = 1000

#: Parameters that a curve says something about, from the medians and with the spreads of the law's priors; the others
#: stay at these medians.
FREE = (
    "matrix_fraction",
    "traffic_factor",
    "launch_kernel_s",
    "active_fraction",
    "compute_fraction",
    "memory_fraction",
    "voltage_floor",
)
#: How long an epoch holds the device idle at its active draw (loading, evaluation on the host), as a share of the
#: uncapped training, with the standard deviation of its logarithm.
GAP, GAP_SPREAD = 0.05, 0.7
#: Known limits of a curve of n, by what is asked of the fit.
PAIRS = {
    "lowest and highest": lambda n: (0, n - 1),
    "lowest and middle": lambda n: (0, n // 2),
    "second lowest and highest": lambda n: (1, n - 1),
    "middle and highest": lambda n: (n // 2, n - 1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One training under several limits, lowest first; shape ``[limits]`` each.

    Attributes:
        columns: of the step law, of so many steps as are assumed.
        free: the same without the cap.
        duration_s: measured.
        energy_j: measured, of the board.
        idles: whether an epoch may leave the device idle; a profiling window does not.
    """

    columns: Columns
    free: Columns
    duration_s: Numbers
    energy_j: Numbers
    idles: bool


def figures() -> list[dict[str, Any]]:
    """Compute all figures of this script."""
    curves = curves_of(read_table("bert_power_limit"))
    found = {pair: [judged(curve, at(len(curve.duration_s))) for curve in curves] for pair, at in PAIRS.items()}
    summaries = {pair: _summary(each) for pair, each in found.items()}
    first, *others = summaries
    energy, duration, regret, worst, largest = summaries[first]
    beside = "; ".join(
        f"{pair} {summaries[pair][0]:.1f} %, regret {summaries[pair][2]:.1f} % (worst {summaries[pair][3]:.0f} %)"
        for pair in others
    )
    note = (
        f"{len(curves)} curves of two boards from their {first} limit, form of the cap's law chosen with all of them "
        "in view; length, precision and attention assumed, work of an epoch from the two"
    )
    return [
        _figure("accuracy.power_limit.median_ape", "<= 4", energy, "%",
                f"energy (time {duration:.1f} %), largest {largest:.0f} %; {note}; {beside}"),
        _figure("accuracy.power_limit.regret", "<= 1", regret, "%", f"mean, worst {worst:.1f} %; {note}"),
    ]  # fmt: skip


def curves_of(records: Sequence[RunRecord]) -> list[Curve]:
    """Gather the records by board, data and batch, and complete what they do not state."""
    groups: dict[tuple[Any, ...], list[RunRecord]] = defaultdict(list)
    for record in records:
        stated = record.stated
        board, data = stated["hardware"]["gpu"], record.environment.get("dataset", "")
        groups[board, data, stated.get("recipe", {}).get("batch_size", PROFILED_BATCH)].append(completed(record))
    return [_curve(group) for group in groups.values()]


def completed(record: RunRecord) -> RunRecord:
    """Complete the record of a run in parts; what is assumed is named in it."""
    stated: dict[str, dict[str, Any]] = {name: dict(table) for name, table in record.stated.items()}
    data = record.environment.get("dataset", "")
    assumed = {
        "model": {"head": "classification"},
        "recipe": {
            "batch_size": PROFILED_BATCH,
            "seq_len": LENGTHS[data],
            "precision": PRECISIONS[stated["hardware"]["gpu"]],
            "optimizer": "adamw",
            "attention_kernel": "eager",
            "steps": STEPS,
        },
    }
    stated.get("recipe", {}).pop("epochs", None)
    tables = {name: {**assumed.get(name, {}), **stated.get(name, {})} for name in {**assumed, **stated}}
    fields = tuple(
        f"{name}.{key}" for name, table in assumed.items() for key in table if key not in stated.get(name, {})
    )
    spec = spec_from_mapping(tables, already_run=True)
    return replace(record, spec=spec, stated={}, missing=(), assumed=(*record.assumed, *fields))


def _curve(records: Sequence[RunRecord]) -> Curve:
    ordered = sorted(records, key=lambda record: float(record.require_spec().power_limit_w or 0))
    table = physical_columns([record.require_spec() for record in ordered])
    columns = {name: table.numbers(name) for name in COLUMNS}
    energies = [record.energy("accelerators") for record in ordered]
    return Curve(
        columns=columns,
        free=columns | {"cap_share": np.ones(len(ordered))},
        duration_s=np.array([record.duration_s for record in ordered], dtype=np.float64),
        energy_j=np.array([one.energy_j for one in energies if one is not None]),
        idles="dataset" in ordered[0].environment,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Absolute errors at the limits that were not known, and what the chosen one costs above the best, as shares."""

    energy: Numbers
    duration: Numbers
    regret: float


def judged(curve: Curve, known: tuple[int, int]) -> Judged:
    """Predict a curve from two of its limits; at these what was measured counts for the choice."""
    duration_s, energy_j = _predicted(curve, list(known))
    rest = [place for place in range(len(duration_s)) if place not in known]
    expected_j = energy_j.copy()
    expected_j[list(known)] = curve.energy_j[list(known)]
    return Judged(
        energy=np.abs(energy_j / curve.energy_j - 1)[rest],
        duration=np.abs(duration_s / curve.duration_s - 1)[rest],
        regret=float(curve.energy_j[np.argmin(expected_j)] / curve.energy_j.min() - 1),
    )


def _predicted(curve: Curve, known: list[int]) -> tuple[Numbers, Numbers]:
    """Fit the free parameters, the work and the idle share to the known limits; time and energy at all of them."""
    prior = {parameter.name: parameter for parameter in PARAMETERS}
    common = {name: parameter.start for name, parameter in prior.items()}
    centre = np.log([prior[name].start for name in FREE])
    spread = np.array([prior[name].spread for name in FREE])
    upper = np.log([prior[name].upper for name in FREE])

    def run(logarithms: Numbers) -> tuple[Numbers, Numbers]:
        scale, gap, own = logarithms[0], logarithms[1], logarithms[2:]
        p = common | dict(zip(FREE, np.exp(np.minimum(own, upper)), strict=True))
        found, free = terms(p, curve.columns), terms(p, curve.free)
        idle_s = np.exp(gap) * GAP * free.duration_s if curve.idles else 0.0
        idle_w = p["active_fraction"] * p["voltage_floor"] * curve.columns["power_limit_w"]
        energy_j = found.energy_j - found.terms_j["host"] + idle_s * idle_w
        return np.exp(scale) * (found.duration_s + idle_s), np.exp(scale) * energy_j

    def residuals(logarithms: Numbers) -> Numbers:
        duration_s, energy_j = (values[known] for values in run(logarithms))
        seen_s, seen_j = curve.duration_s[known], curve.energy_j[known]
        return np.concatenate([
            hierarchy.soften(np.log(duration_s / seen_s)),
            hierarchy.soften(np.log(energy_j / duration_s / (seen_j / seen_s))),
            (logarithms[2:] - centre) / spread,
            [logarithms[1] / GAP_SPREAD],
        ])  # fmt: skip

    start = np.concatenate([[0.0, 0.0], centre])
    start[0] = np.mean(np.log(curve.duration_s[known] / run(start)[0][known]))
    return run(least_squares(residuals, start, x_scale=0.3, max_nfev=25).x)


def _summary(found: Sequence[Judged]) -> tuple[float, float, float, float, float]:
    """Median errors of energy and time, mean and worst regret, largest error of energy, in %."""
    energy = np.concatenate([one.energy for one in found])
    duration = np.concatenate([one.duration for one in found])
    regrets = np.array([one.regret for one in found])
    values = (np.median(energy), np.median(duration), regrets.mean(), regrets.max(), energy.max())
    return tuple(100 * float(value) for value in values)  # type: ignore[return-value]


if __name__ == "__main__":
    show(figures())
