"""Scores of predictions beside what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from wattlaw.errors import DataError
from wattlaw.law.interval import ends_of_runs

if TYPE_CHECKING:
    from wattlaw.features.table import Table
    from wattlaw.law.calibration import Calibration, Estimate
    from wattlaw.law.protocol import Law

Numbers = NDArray[np.float64]
Target = Literal["energy", "time", "power"]
TARGETS: tuple[Target, ...] = get_args(Target)
METRICS = ("r2_log", "median_ape", "mean_ape", "bias", "coverage", "half_width")


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One metric over all splits: median, quartiles, and the number of splits it could be computed on."""

    median: float
    lower_quartile: float
    upper_quartile: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Summary:
        """Summarise the figure of each split.

        >>> Summary.of([5.0, 1.0, 3.0, 2.0, 4.0])
        Summary(median=3.0, lower_quartile=2.0, upper_quartile=4.0, count=5)
        """
        lower, median, upper = np.quantile(np.asarray(values, dtype=np.float64), [0.25, 0.5, 0.75])
        return cls(median=float(median), lower_quartile=float(lower), upper_quartile=float(upper), count=len(values))


def observed(table: Table, target: str) -> Numbers:
    """Return what was measured of each run: joules, seconds or watts."""
    if target == "power":
        return table.positive("energy_j") / table.positive("duration_s")
    return table.positive({"energy": "energy_j", "time": "duration_s"}[target])


def predicted(law: Law, estimate: Estimate, target: str) -> Numbers:
    """Return what the law says of each run: joules, seconds or watts.

    Raises:
        DataError: the law knows no time, and the target needs one.
    """
    if target == "energy":
        return estimate.energy_j
    if estimate.duration_s is None:
        raise DataError(f"the {law.name} law predicts no time", given=f"target {target}", allowed="energy")
    return estimate.duration_s if target == "time" else estimate.energy_j / estimate.duration_s


def interval_ends(calibration: Calibration, table: Table, target: str, level: float) -> tuple[Numbers, Numbers] | None:
    """Ends of each run's interval; none for power, and none where the fit left too few residuals."""
    if target == "power":
        return None
    try:
        return ends_of_runs(calibration, table, target={"energy": "energy", "time": "duration"}[target], level=level)
    except DataError:
        return None


def r2_log(log_ratio: Numbers, measured: Numbers) -> float | None:
    """Share of the variance of ln(measured) explained, ``None`` where there is none; below 0 their mean does better."""
    spread = float(np.sum((np.log(measured) - np.log(measured).mean()) ** 2))
    return 1 - float(np.sum(log_ratio**2)) / spread if spread > 0 else None


def score(log_ratio: Numbers, measured: Numbers, interval: tuple[Numbers, Numbers] | None) -> dict[str, float]:
    """Score one split.

    Args:
        log_ratio: ln(observed / predicted) of each run.
        measured: what was observed; errors are relative to it.
        interval: ends of ln(observed / predicted), where there are any.

    Returns:
        the metrics that can be computed: percentages, but for ``r2_log`` and ``half_width``, the factor from the
        middle of the median interval to its end.
    """
    error = np.exp(-log_ratio) - 1
    scores = {
        "median_ape": 100 * float(np.median(np.abs(error))),
        "mean_ape": 100 * float(np.mean(np.abs(error))),
        "bias": 100 * float(np.expm1(-np.mean(log_ratio))),
    }
    r2 = r2_log(log_ratio, measured)
    if r2 is not None:
        scores["r2_log"] = r2
    if interval is not None:
        low, high = interval
        scores["coverage"] = 100 * float(np.mean((log_ratio >= low) & (log_ratio <= high)))
        scores["half_width"] = float(np.exp(np.median(high - low) / 2))
    return scores


def summaries(scores: Sequence[dict[str, float]]) -> dict[str, Summary]:
    """Summarise each metric over the splits on which it could be computed."""
    found = {metric: [score[metric] for score in scores if metric in score] for metric in METRICS}
    return {metric: Summary.of(values) for metric, values in found.items() if values}
