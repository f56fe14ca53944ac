"""One law through the splits of a protocol."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattlaw.errors import DataError, FitError, UnknownNameError
from wattlaw.law.evaluation.cold import cold
from wattlaw.law.evaluation.protocols import Split
from wattlaw.law.evaluation.scores import TARGETS, Summary, interval_ends, observed, predicted, score, summaries

if TYPE_CHECKING:
    from wattlaw.features.table import Table
    from wattlaw.law.calibration import Calibration, Estimate
    from wattlaw.law.protocol import Law


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trial:
    """What a law, fitted on one split, says of the split's test rows.

    Attributes:
        cut: the split.
        rows: positions of the test rows that the fitted law covers, shape ``[n]``.
        test: those rows.
        calibration: what the law was fitted to; ``None`` where it could not be.
        estimate: of ``test``; ``None`` where the law could not be fitted.
        failure: why not; empty where it could.
    """

    cut: Split
    rows: NDArray[np.intp]
    test: Table
    calibration: Calibration | None
    estimate: Estimate | None
    failure: str


def trials(law: Law, table: Table, cuts: Iterable[Split], *, protocol: str) -> Iterator[Trial]:
    """Fit ``law`` on the training rows of every split and let it predict the test rows.

    A split on which the law cannot be fitted is a trial too, with the reason.
    """
    for cut in cuts:
        rows, calibration, estimate, failure = cut.test, None, None, ""
        try:
            train = table.take(cut.train)
            calibration = cold(law, train) if protocol == "cold" else law.fit(train)
            rows = cut.test[law.covers(calibration, table.take(cut.test))]
            if len(rows):
                estimate = law.estimate(calibration, table.take(rows))
            else:
                failure = f"{cut.name}: the law says nothing about any of the runs that it was to be tested on"
        except (DataError, FitError) as error:
            failure = f"{cut.name}: {error}"
        yield Trial(
            cut=cut, rows=rows, test=table.take(rows), calibration=calibration, estimate=estimate, failure=failure
        )


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

    With ``by`` (a text column, such as ``architecture`` or ``machine``) the test rows that share a value are scored
    apart as well. A split on which the law cannot be fitted is counted, never dropped in silence.

    Raises:
        DataError: the law says nothing about the target, or no split could be fitted.
        UnknownNameError: no such target.
    """
    require_target(target)
    tried = tuple(trials(law, table, cuts, protocol=protocol))
    return scored(law, tried, protocol=protocol, target=target, level=level, by=by, num_rows=len(table))


def scored(
    law: Law, tried: Sequence[Trial], *, protocol: str, target: str, level: float, by: str | None, num_rows: int
) -> tuple[Evaluation, ...]:
    """Score the trials of a law as ``evaluate`` does.

    Raises:
        DataError: the law says nothing about the target, or no split could be fitted.
    """
    scores: dict[str, list[dict[str, float]]] = {}
    for trial in tried:
        if trial.estimate is None or trial.calibration is None:
            continue
        measured = observed(trial.test, target)
        log_ratio = np.log(measured) - np.log(predicted(law, trial.estimate, target))
        interval = interval_ends(trial.calibration, trial.test, target, level)
        for part, rows in _parts(trial.test, by).items():
            ends = None if interval is None else (interval[0][rows], interval[1][rows])
            scores.setdefault(part, []).append(score(log_ratio[rows], measured[rows], ends))
    failures = [trial.failure for trial in tried if trial.failure]
    if not scores:
        raise DataError(f"the {law.name} law could not be fitted on any split", given=failures[0])
    num_uncovered = sum(len(trial.cut.test) - len(trial.rows) for trial in tried)
    return tuple(
        Evaluation(
            law=law.name,
            protocol=protocol,
            target=target,
            part=part,
            metrics=summaries(found),
            num_rows=num_rows,
            num_uncovered=num_uncovered,
            num_failed=len(failures),
            failure=failures[0] if failures else "",
        )
        for part, found in scores.items()
    )


def require_target(target: str) -> None:
    """Refuse a target that is none.

    Raises:
        UnknownNameError: no such target.
    """
    if target not in TARGETS:
        raise UnknownNameError.among("target", target, TARGETS)


def _parts(table: Table, by: str | None) -> dict[str, NDArray[np.bool_]]:
    parts = {"pooled": np.ones(len(table), dtype=bool)}
    if by is not None:
        values = table.text(by)
        parts |= {str(value): values == value for value in np.unique(values)}
    return parts
