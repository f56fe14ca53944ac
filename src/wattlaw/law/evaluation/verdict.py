"""Several laws side by side, on the same splits of the same records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wattlaw.errors import ConfigError, DataError, MissingExtraError, WattlawError
from wattlaw.law.evaluation.judge import Evaluation, Trial, require_target, scored, trials
from wattlaw.law.evaluation.protocols import Split, splits
from wattlaw.law.evaluation.scores import observed, predicted
from wattlaw.law.fitting import USUAL, law_with_prior, measured, refuse_seen
from wattlaw.law.interval import require_level
from wattlaw.run.record import RunRecord

if TYPE_CHECKING:
    from wattlaw.features.table import Table
    from wattlaw.law.paper.options import PaperOptions
    from wattlaw.law.protocol import Law

#: Columns whose values may be scored apart.
PARTS = ("architecture", "strategy", "machine")

#: Target -> the columns that hold what was measured of it.
MEASURED_TARGETS = {"energy": ("energy_j",), "time": ("duration_s",), "power": ("energy_j", "duration_s")}

#: Goes through splits, given what is done with them and how many there are; for a progress bar.
Watch = Callable[[Iterable[Split], str, int], Iterable[Split]]


def unwatched(cuts: Iterable[Split], label: str, total: int) -> Iterable[Split]:
    """Go through the splits and tell nobody."""
    return cuts


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One run as a law predicted it when it had not seen it.

    Attributes:
        law: the law's name.
        target: ``energy``, ``time`` or ``power``.
        machine: the GPU model that it ran on.
        measured: joules, seconds or watts.
        predicted: the same, the geometric mean over the splits that held the run out.
    """

    law: str
    target: str
    machine: str
    measured: float
    predicted: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Unjudged:
    """A law of which there is nothing to say for a target, and why."""

    law: str
    target: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was found of all laws.

    Attributes:
        evaluations: one for each law, target and part.
        unjudged: laws that could not be judged, where others could.
        points: each held-out run, by law and target.
        num_records: records that were used.
        num_left_out: records that failed, do not state a whole run, or lack a measurement.
        num_splits: splits that each law was judged on.
        level: of the intervals.
    """

    evaluations: tuple[Evaluation, ...]
    unjudged: tuple[Unjudged, ...]
    points: tuple[Point, ...]
    num_records: int
    num_left_out: int
    num_splits: int
    level: float


def judge(
    records: Sequence[RunRecord],
    *,
    law_names: Sequence[str],
    prior_name: str = "none",
    protocol: str = "grouped",
    targets: Sequence[str] = ("energy",),
    num_splits: int = 20,
    test_fraction: float = 0.3,
    num_runs: int = 4,
    seed: int = 0,
    level: float = 0.95,
    by: str | None = None,
    boundary: str | None = None,
    options: PaperOptions = USUAL,
    watch: Watch = unwatched,
) -> Verdict:
    """Judge laws on records; see ``splits`` and ``evaluate`` for what the options mean.

    A law that cannot be judged (it knows no time, say) is named with its reason beside those that can.

    Raises:
        ConfigError: an option that is none.
        DataError: too few records for the protocol, or no law that could be judged at all.
        MissingExtraError: the only law needs an optional part.
        UnknownNameError: no such law, protocol or target.
    """
    require_level(level)
    if by is not None and by not in PARTS:
        raise ConfigError("unknown column to score by", given=by, allowed=", ".join(PARTS))
    for target in targets:
        require_target(target)
    laws = [options.applied(law_with_prior(name, prior_name)) for name in law_names]
    for law in laws:
        refuse_seen(law, records)
    failures: dict[Unjudged, WattlawError] = {}
    laws, table = measured_laws(records, laws, failures, boundary=boundary, targets=targets, options=options)
    cuts = splits(table, protocol, num_splits=num_splits, test_fraction=test_fraction, num_runs=num_runs, seed=seed)
    evaluations: list[Evaluation] = []
    points: list[Point] = []
    for law in laws:
        try:
            _require_read(law, table)
            tried = tuple(trials(law, table, watch(cuts, law.name, len(cuts)), protocol=protocol))
        except (DataError, MissingExtraError) as error:
            failures |= _unjudged(law, targets, error)
            continue
        for target in targets:
            try:
                evaluations += scored(
                    law, tried, protocol=protocol, target=target, level=level, by=by, num_rows=len(table)
                )
            except DataError as error:
                failures |= _unjudged(law, [target], error)
            else:
                points += points_of(law, table, tried, target)
    return verdict_of(
        evaluations, points, failures, num_records=len(table), num_left_out=len(records) - len(table),
        num_splits=len(cuts), level=level,
    )  # fmt: skip


def verdict_of(
    evaluations: Sequence[Evaluation],
    points: Sequence[Point],
    failures: Mapping[Unjudged, WattlawError],
    *,
    num_records: int,
    num_left_out: int,
    num_splits: int,
    level: float,
) -> Verdict:
    """Gather what was found of all laws; where no law could be judged, raise why the first could not."""
    if not evaluations:
        raise next(iter(failures.values()))
    return Verdict(
        evaluations=tuple(evaluations),
        unjudged=tuple(failures),
        points=tuple(points),
        num_records=num_records,
        num_left_out=num_left_out,
        num_splits=num_splits,
        level=level,
    )


def measured_laws(
    records: Sequence[RunRecord],
    laws: Sequence[Law],
    failures: dict[Unjudged, WattlawError],
    *,
    boundary: str | None,
    targets: Sequence[str],
    options: PaperOptions = USUAL,
) -> tuple[list[Law], Table]:
    """Return the laws that the records hold enough for, and the columns; the others are added to the ``failures``.

    Raises:
        DataError: there is not enough for any law.
    """
    columns = tuple(dict.fromkeys(column for target in targets for column in MEASURED_TARGETS[target]))
    try:
        return list(laws), measured(records, laws=laws, boundary=boundary, targets=columns, options=options).table
    except DataError:
        if len(laws) == 1:
            raise
    served: list[Law] = []
    for law in laws:
        try:
            measured(records, laws=[law], boundary=boundary, targets=columns, options=options)
        except DataError as error:
            failures |= _unjudged(law, targets, error)
        else:
            served.append(law)
    if not served:
        raise next(iter(failures.values()))
    return served, measured(records, laws=served, boundary=boundary, targets=columns, options=options).table


def _require_read(law: Law, table: Table) -> None:
    if law.times == "unread" and "energy_j" not in table:
        raise DataError(f"the {law.name} law knows energies alone, and no time")


def _unjudged(law: Law, targets: Sequence[str], error: WattlawError) -> dict[Unjudged, WattlawError]:
    return {Unjudged(law=law.name, target=target, reason=str(error)): error for target in targets}


def points_of(law: Law, table: Table, tried: Sequence[Trial], target: str) -> Iterator[Point]:
    """Gather what the trials say of each row; a row that no split held out is not there."""
    total, count = np.zeros(len(table)), np.zeros(len(table))
    for trial in tried:
        if trial.estimate is not None:
            total[trial.rows] += np.log(predicted(law, trial.estimate, target))
            count[trial.rows] += 1
    seen, machines = observed(table, target), table.text("machine")
    for row in np.flatnonzero(count).tolist():
        yield Point(
            law=law.name,
            target=target,
            machine=str(machines[row]),
            measured=float(seen[row]),
            predicted=float(np.exp(total[row] / count[row])),
        )
