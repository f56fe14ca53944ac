"""Several laws side by side, on the same splits of the same records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from wattlaw.errors import ConfigError
from wattlaw.law.evaluation import Evaluation, Split, evaluate, splits
from wattlaw.law.fitting import law_with_prior, measured
from wattlaw.law.interval import require_level
from wattlaw.run.record import RunRecord

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
class Verdict:
    """What was found of all laws.

    Attributes:
        evaluations: one for each law and part.
        num_records: records that were used.
        num_left_out: records that failed, do not state a whole run, or lack a measurement.
        num_splits: splits that each law was judged on.
        level: of the intervals.
    """

    evaluations: tuple[Evaluation, ...]
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
    target: str = "energy",
    num_splits: int = 20,
    test_fraction: float = 0.3,
    num_runs: int = 4,
    seed: int = 0,
    level: float = 0.95,
    by: str | None = None,
    boundary: str | None = None,
    watch: Watch = unwatched,
) -> Verdict:
    """Judge laws on records; see ``evaluation.splits`` and ``evaluation.evaluate`` for what the options mean.

    Raises:
        ConfigError: an option that is none.
        DataError: too few records for the protocol, or a law that could not be fitted at all.
        UnknownNameError: no such law, protocol or target.
    """
    require_level(level)
    if by is not None and by not in PARTS:
        raise ConfigError("unknown column to score by", given=by, allowed=", ".join(PARTS))
    laws = [law_with_prior(name, prior_name) for name in law_names]
    measurements = measured(records, laws=laws, boundary=boundary, targets=MEASURED_TARGETS.get(target, ()))
    table = measurements.table
    cuts = splits(table, protocol, num_splits=num_splits, test_fraction=test_fraction, num_runs=num_runs, seed=seed)
    evaluations = [
        evaluation
        for law in laws
        for evaluation in evaluate(
            law, table, watch(cuts, law.name, len(cuts)), protocol=protocol, target=target, level=level, by=by
        )
    ]
    return Verdict(
        evaluations=tuple(evaluations),
        num_records=len(table),
        num_left_out=len(records) - len(table),
        num_splits=len(cuts),
        level=level,
    )
