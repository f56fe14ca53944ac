"""From records to a fitted law, with its provenance."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from wattlaw.errors import ConfigError, DataError, WattlawWarning
from wattlaw.features.records import record_columns, usable
from wattlaw.features.table import Table
from wattlaw.law.bundled import bundled
from wattlaw.law.calibration import Calibration
from wattlaw.law.laws import law_named
from wattlaw.law.loading import load_law
from wattlaw.law.paper import PaperLaw
from wattlaw.law.paper.options import PaperOptions
from wattlaw.law.protocol import Law, PriorLaw
from wattlaw.run.record import BOUNDARIES, Boundary, RunRecord

#: The paper's laws as they are where nobody chose otherwise.
USUAL = PaperOptions()
#: What a column of measurements is, for people.
MEASURED = {
    "energy_j": "an energy",
    "duration_s": "a duration",
    "efficiency": "a duration and observed.single_device_duration_s",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedLaw:
    """A fit, and what became of the records.

    Attributes:
        calibration: what was fitted.
        num_records: records that were used.
        num_left_out: records that failed, do not state a whole run, or lack a measurement.
    """

    calibration: Calibration
    num_records: int
    num_left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """The records that laws can use, and their columns.

    Attributes:
        records: in the order given.
        table: one row per record.
    """

    records: tuple[RunRecord, ...]
    table: Table


def measured(
    records: Sequence[RunRecord],
    *,
    laws: Sequence[Law],
    boundary: str | None,
    targets: Sequence[str] = (),
    options: PaperOptions = USUAL,
) -> Measurements:
    """Choose the records that state a whole run with all that the laws need, and return their columns.

    A record without an energy is left out, and one without a duration where others have both: a column of the table
    is of all rows or of none. Where no record has an energy, durations alone are enough for the step law, unless
    ``targets`` names the columns that there must be, or a boundary says which energy is meant. The ``options`` say how
    the columns of the paper's laws are counted.

    Raises:
        ConfigError: an unknown boundary.
        DataError: nothing is left.
    """
    within = _boundaries(boundary)
    whole, _ = usable(records)
    if not whole:
        raise DataError(
            "no record states a whole run that ended well",
            given=f"{len(records)} records",
            hint="wattlaw import --help",
        )
    with_energy = [record for record in whole if record.energy(*within) is not None]
    if any(law.times != "unread" for law in laws):
        timed = [record for record in with_energy or whole if record.duration_s is not None]
    else:
        timed = []
    kept = tuple(timed or with_energy)
    table = record_columns(
        kept or whole,
        boundary=within[0] if within else None,
        compute=options.compute,
        proxies=options.proxies,
    )
    for law in laws:
        timed_only = law.times == "enough" and "duration_s" in table and not within
        own = ["efficiency"] if isinstance(law, PaperLaw) and law.needs_measured_efficiency else []
        for column in (*(targets or (["duration_s"] if timed_only else ["energy_j"])), *own):
            if column not in table:
                raise DataError(
                    f"the {law.name} law needs {MEASURED[column]} of each run{_said(within)}",
                    given=f"{len(whole)} records without",
                    hint=_other_boundary(whole) if column == "energy_j" else None,
                )
    return Measurements(records=kept, table=table)


def _boundaries(boundary: str | None) -> tuple[Boundary, ...]:
    if boundary is None:
        return ()
    for name in BOUNDARIES:
        if name == boundary:
            return (name,)
    raise ConfigError("unknown boundary", given=boundary, allowed=", ".join(BOUNDARIES))


def _said(within: tuple[Boundary, ...]) -> str:
    return f" within the boundary {within[0]}" if within else ""


def _other_boundary(records: Sequence[RunRecord]) -> str | None:
    found = sorted({energy.boundary for record in records for energy in record.energies})
    return (
        f"boundary {' or '.join(found)}"
        if found
        else "records with an energy; the step law also learns from times alone"
    )


def fit_records(
    records: Sequence[RunRecord],
    *,
    law_name: str,
    prior_name: str = "bundled",
    boundary: str | None = None,
    residual: bool = True,
    options: PaperOptions = USUAL,
) -> FittedLaw:
    """Fit a law to the records that state a whole run.

    Args:
        records: from a store.
        law_name: one of ``laws.LAWS``.
        prior_name: what the step law starts from: ``bundled``, ``none``, or the path of a fitted law.
        boundary: which energy to take; ``None`` takes each record's narrowest.
        residual: interpolate what the step law leaves between the runs, whose inputs the calibration then keeps.
        options: of the paper's laws.

    Raises:
        ConfigError: an unknown boundary, or a prior of another law.
        DataError: no usable record, or too few for the law.
        FitError: the fit did not converge.
        UnknownNameError: no such law.
    """
    law = options.applied(law_with_prior(law_name, prior_name, residual=residual))
    measurements = measured(records, laws=[law], boundary=boundary, options=options)
    kept = measurements.records
    calibration = law.fit(measurements.table)
    sources = sorted({record.source for record in kept if record.source})
    provenance = {
        **calibration.provenance,
        "source": "; ".join(sources[:3]) or "records without a named source",
        "num_records": str(len(kept)),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "version": metadata.version("wattlaw"),
        "state": "warm",
    }
    return FittedLaw(
        calibration=replace(calibration, provenance=provenance),
        num_records=len(kept),
        num_left_out=len(records) - len(kept),
    )


def refuse_seen(law: Law, records: Sequence[RunRecord]) -> None:
    """Keep a law from being judged on the records that its prior was fitted on: it would remember them.

    The prior knows where its records came from, not which they were. The shipped one holds all of its source.

    Raises:
        ConfigError: the shipped prior, and records of a source of it.

    Warns:
        WattlawWarning: a prior of the user's, and records of a source of it.
    """
    prior: Calibration | None = getattr(law, "prior", None)
    if prior is None:
        return
    learned_from = prior.provenance.get("source", "")
    seen = sorted({r.source for r in records if r.source and r.source.partition(",")[0] in learned_from})
    if not seen:
        return
    if prior == bundled():
        raise ConfigError(
            "the bundled prior was fitted on records of this source, and would be judged on what it has seen",
            given=seen[0],
            allowed="none, or the file of a law that was fitted on others",
        ).at("--prior")
    warnings.warn(
        f"the prior was fitted on records of the same source ({seen[0]}): if these were among them, every score is of "
        "what it has seen",
        WattlawWarning,
        stacklevel=2,
    )


def law_with_prior(law_name: str, prior_name: str, *, residual: bool = True) -> Law:
    """Return a law; one that knows priors with that which it starts from.

    Raises:
        ConfigError: the prior is of another law.
        UnknownNameError: no such law.
    """
    law = law_named(law_name)
    if not isinstance(law, PriorLaw):
        return law
    if prior_name == "none":
        return law.starting_from(None, residual=residual)
    prior = bundled() if prior_name == "bundled" else load_law(Path(prior_name))
    if prior.law != law.name:
        raise ConfigError("the prior is of another law", given=prior.law, allowed=law.name).at(prior_name)
    return law.starting_from(prior, residual=residual)
