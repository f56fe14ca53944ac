"""How well a law predicts runs that it has not seen.

A protocol is a list of splits into training and test rows; every law is judged on the same ones. Rows of one
configuration family (runs that differ in strategy and device count only) never stand on both sides of a
grouped split, because they share most of what decides their energy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from wattlaw.errors import ConfigError, DataError, FitError, UnknownNameError
from wattlaw.law.interval import ends_of_runs

if TYPE_CHECKING:
    from wattlaw.features.table import Table
    from wattlaw.law.calibration import Calibration
    from wattlaw.law.protocol import Law

ProtocolName = Literal["grouped", "leave-one-gpu-out", "few-runs", "small-to-large"]
Target = Literal["energy", "time", "power"]
PROTOCOLS: tuple[ProtocolName, ...] = get_args(ProtocolName)
TARGETS: tuple[Target, ...] = get_args(Target)
METRICS = ("r2_log", "median_ape", "mean_ape", "bias", "coverage", "half_width")


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Rows to fit on and rows to predict, as positions in the table, and what the split is called."""

    name: str
    train: NDArray[np.intp]
    test: NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One metric over all splits: median, quartiles, and the number of splits it could be computed on."""

    median: float
    lower_quartile: float
    upper_quartile: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The verdict on one law under one protocol.

    Attributes:
        law: the law's name.
        protocol: the protocol's name.
        target: what was predicted: ``energy``, ``time`` or ``power``.
        part: the rows that were scored: ``pooled``, or the value of the column that they share.
        metrics: summary of each metric in ``METRICS``; a metric that could not be computed is left out.
        num_rows: rows in the table.
        num_uncovered: test rows, over all splits, that the fitted law cannot say anything about (a strategy that it has
            never seen) and that are not scored.
        num_failed: splits on which the law could not be fitted.
        failure: why, for the first of them.
    """

    law: str
    protocol: str
    target: str
    part: str
    metrics: dict[str, Summary]
    num_rows: int
    num_uncovered: int
    num_failed: int
    failure: str


def splits(
    table: Table, protocol: str, *, num_splits: int = 20, test_fraction: float = 0.3, num_runs: int = 4, seed: int = 0
) -> tuple[Split, ...]:
    """List the splits of a protocol over a table with the text columns ``group`` and ``machine``.

    ``grouped``: whole groups drawn at random into training and test. ``leave-one-gpu-out``: each machine is
    predicted from all others. ``few-runs``: the same, with ``num_runs`` random runs of the machine in training.
    ``small-to-large``: trained on the runs with less work than the median, tested on the others.

    Raises:
        ConfigError: a number of splits, fraction or number of runs that is none.
        DataError: the table has too few groups or machines for the protocol.
        UnknownNameError: no such protocol.
    """
    if num_splits < 1 or num_runs < 0 or not 0 < test_fraction < 1:
        raise ConfigError(
            "a protocol needs splits",
            given=f"splits {num_splits}, test fraction {test_fraction}, runs {num_runs}",
            allowed="splits >= 1, 0 < test fraction < 1, runs >= 0",
        )
    rng = np.random.default_rng(seed)
    if protocol == "grouped":
        return tuple(_grouped(table, num_splits, test_fraction, rng))
    if protocol == "leave-one-gpu-out":
        return tuple(_machines(table, 1, 0, rng))
    if protocol == "few-runs":
        return tuple(_machines(table, num_splits, num_runs, rng))
    if protocol == "small-to-large":
        return (_small_to_large(table),)
    raise UnknownNameError.among("protocol", protocol, PROTOCOLS)


def _grouped(table: Table, num_splits: int, test_fraction: float, rng: np.random.Generator) -> Iterator[Split]:
    names, member = np.unique(table.text("group"), return_inverse=True)
    num_test = round(test_fraction * len(names))
    if num_test < 1 or num_test >= len(names):
        raise DataError(
            "too few configuration families to split",
            given=f"{len(names)}, test fraction {test_fraction:g}",
            allowed="one or more on both sides",
        )
    for number in range(num_splits):
        held_out = np.isin(member, rng.permutation(len(names))[:num_test])
        yield Split(name=f"split {number}", train=np.flatnonzero(~held_out), test=np.flatnonzero(held_out))


def _machines(table: Table, num_splits: int, num_runs: int, rng: np.random.Generator) -> Iterator[Split]:
    machines = table.text("machine")
    names = np.unique(machines)
    if len(names) < 2:
        raise DataError("one GPU model only: none can be left out", given=", ".join(names), allowed="two or more")
    for name in names:
        rows, others = np.flatnonzero(machines == name), np.flatnonzero(machines != name)
        if len(rows) <= num_runs:
            raise DataError(f"too few runs on {name}", given=len(rows), allowed=f"more than {num_runs}")
        for number in range(num_splits):
            seen = rng.permutation(rows)[:num_runs]
            label = f"{name}, draw {number}" if num_runs else str(name)
            yield Split(name=label, train=np.concatenate([others, seen]), test=np.setdiff1d(rows, seen))


def _small_to_large(table: Table) -> Split:
    work = table.positive("compute_proxy")
    small = work < np.median(work)
    if not small.any():  # half of the runs, or more, do the least work
        small = work == work.min()
    if small.all():
        raise DataError("every run does the same work: none is larger than the others", given=f"{len(table)} runs")
    return Split(name="small to large", train=np.flatnonzero(small), test=np.flatnonzero(~small))


def evaluate(
    law: Law,
    table: Table,
    cuts: Iterable[Split],
    *,
    protocol: str,
    target: str = "energy",
    level: float = 0.95,
    by: str | None = None,
) -> tuple[Evaluation, ...]:
    """Fit ``law`` on the training rows of every split and score it on the test rows.

    With ``by`` (a text column, such as ``family`` or ``machine``) the test rows that share a value are scored apart as
    well. A split on which the law cannot be fitted is counted, never dropped in silence.

    Raises:
        DataError: the law says nothing about the target, or no split could be fitted.
        UnknownNameError: no such target.
    """
    if target not in TARGETS:
        raise UnknownNameError.among("target", target, TARGETS)
    scores: dict[str, list[dict[str, float]]] = {}
    failures: list[str] = []
    num_uncovered = 0
    for cut in cuts:
        try:
            calibration = law.fit(table.take(cut.train))
            held_out = table.take(cut.test)
            test = held_out.take(law.covers(calibration, held_out))
            num_uncovered += len(held_out) - len(test)
            log_ratio = residuals(law, calibration, test, target)
        except (DataError, FitError) as error:
            failures.append(f"{cut.name}: {error}")
            continue
        measured = observed(test, target)
        interval = _interval(calibration, test, target, level)
        for part, rows in _parts(test, by).items():
            ends = None if interval is None else (interval[0][rows], interval[1][rows])
            scores.setdefault(part, []).append(_score(log_ratio[rows], measured[rows], ends))
    if not scores:
        raise DataError(f"the {law.name} law could not be fitted on any split", given=failures[0])
    return tuple(
        Evaluation(
            law=law.name,
            protocol=protocol,
            target=target,
            part=part,
            metrics=_summaries(found),
            num_rows=len(table),
            num_uncovered=num_uncovered,
            num_failed=len(failures),
            failure=failures[0] if failures else "",
        )
        for part, found in scores.items()
    )


def observed(table: Table, target: str) -> NDArray[np.float64]:
    """Return what was measured of each run: joules, seconds or watts."""
    if target == "power":
        return table.positive("energy_j") / table.positive("duration_s")
    return table.positive({"energy": "energy_j", "time": "duration_s"}[target])


def residuals(law: Law, calibration: Calibration, table: Table, target: str) -> NDArray[np.float64]:
    """Return ln(observed / predicted) of each run, shape ``[runs]``.

    Raises:
        DataError: no run, or the law knows no time, and the target needs one.
    """
    if not len(table):
        raise DataError("the law says nothing about any of the runs that it was to be tested on")
    estimate = law.estimate(calibration, table)
    if target != "energy" and estimate.duration_s is None:
        raise DataError(f"the {law.name} law predicts no time", given=f"target {target}", allowed="energy")
    predicted = estimate.energy_j
    if target != "energy":
        assert estimate.duration_s is not None
        predicted = estimate.duration_s if target == "time" else estimate.energy_j / estimate.duration_s
    return np.log(observed(table, target)) - np.log(predicted)


def _interval(
    calibration: Calibration, table: Table, target: str, level: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Ends of each run's interval; none for power, and none where the fit left too few residuals."""
    if target == "power":
        return None
    try:
        return ends_of_runs(calibration, table, target={"energy": "energy", "time": "duration"}[target], level=level)
    except DataError:
        return None


def _parts(table: Table, by: str | None) -> dict[str, NDArray[np.bool_]]:
    parts = {"pooled": np.ones(len(table), dtype=bool)}
    if by is not None:
        values = table.text(by)
        parts |= {str(value): values == value for value in np.unique(values)}
    return parts


def _score(
    log_ratio: NDArray[np.float64],
    measured: NDArray[np.float64],
    interval: tuple[NDArray[np.float64], NDArray[np.float64]] | None,
) -> dict[str, float]:
    """Score one split: residuals are ln(observed / predicted); errors are relative to what was observed."""
    error = np.exp(-log_ratio) - 1
    spread = float(np.sum((np.log(measured) - np.log(measured).mean()) ** 2))
    scores = {
        "median_ape": 100 * float(np.median(np.abs(error))),
        "mean_ape": 100 * float(np.mean(np.abs(error))),
        "bias": 100 * float(np.expm1(-np.mean(log_ratio))),
    }
    if spread > 0:
        scores["r2_log"] = 1 - float(np.sum(log_ratio**2)) / spread
    if interval is not None:
        low, high = interval
        scores["coverage"] = 100 * float(np.mean((log_ratio >= low) & (log_ratio <= high)))
        scores["half_width"] = float(np.exp(np.median(high - low) / 2))
    return scores


def _summaries(scores: list[dict[str, float]]) -> dict[str, Summary]:
    summaries = {}
    for metric in METRICS:
        values = [score[metric] for score in scores if metric in score]
        if values:
            lower, median, upper = np.quantile(values, [0.25, 0.5, 0.75])
            summaries[metric] = Summary(
                median=float(median), lower_quartile=float(lower), upper_quartile=float(upper), count=len(values)
            )
    return summaries
