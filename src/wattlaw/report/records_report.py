"""The report of records, and of a law on records: the paper's eight figures, times, and what there is to doubt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from wattlaw.errors import DataError, WattlawError
from wattlaw.law.fit_diagnostics import FitDiagnostics, diagnose_fit
from wattlaw.law.fitting import measured
from wattlaw.law.paper.additive_checkup import AdditiveCheckup, additive_checkup
from wattlaw.law.paper.checkup import Checkup, checkup
from wattlaw.law.paper.options import PaperOptions, law_of
from wattlaw.report.checkup import diagnosis_sentences, diagnosis_tables
from wattlaw.report.document import Cell, DataTable, Document, Section
from wattlaw.report.figures.fit import fit_figures
from wattlaw.report.figures.records import record_figures
from wattlaw.report.fit import standard_errors
from wattlaw.report.run_report import provenance

if TYPE_CHECKING:
    from wattlaw.law.calibration import Calibration
    from wattlaw.run.record import RunRecord


def records_document(records: Sequence[RunRecord], calibration: Calibration, *, fitted: bool) -> Document:
    """Report records beside what a law says of them.

    Args:
        records: of any sources.
        calibration: of the law.
        fitted: whether the report is of the law, so that its parameters come first, or of the records.

    Raises:
        DataError: no record states a whole run that ended well.
        MissingExtraError: the plotting library is not installed.
    """
    figures, missing = record_figures(records, calibration)
    if not figures:
        raise DataError("nothing to draw from these records", given=missing[0] if missing else "no records")
    seen = Section(
        heading="What was measured",
        sentences=tuple(f"Not drawn: {reason}." for reason in missing),
        blocks=(_counts(records), *figures),
    )
    doubts = diagnostics_section(records, calibration)
    regression = regression_sections(records, calibration)
    sections = (_parameters(calibration), doubts, *regression, seen) if fitted else (seen, doubts, *regression)
    title = f"The {calibration.law} law on {len(records)} records" if fitted else f"{len(records)} records"
    return Document(
        title=title,
        kind="fit" if fitted else "records",
        summary=_summary(records, calibration),
        sections=sections,
        provenance=provenance(calibration),
    )


def diagnostics_section(records: Sequence[RunRecord], calibration: Calibration) -> Section:
    """Draw the diagnostic suite of a law on records, or say why it cannot be."""
    heading = "Diagnostics of the law"
    try:
        kept = measured(records, laws=[law_of(calibration)], boundary=calibration.boundary or None,
                        targets=("energy_j",), options=PaperOptions.of(calibration))  # fmt: skip
        found = diagnose_fit(calibration, kept.table)
    except WattlawError as error:
        return Section(heading=heading, sentences=(f"Not drawn: {error}.",))
    names = [record.record_id for record in kept.records]
    figures = fit_figures(calibration, kept.table, found, names)
    return Section(
        heading=heading,
        sentences=(f"Of {len(names)} runs with an energy within {calibration.boundary or 'one boundary'}.",
                   *(f"Doubt: {warning}." for warning in calibration.warnings)),
        blocks=(_numbers(found, calibration), *figures),
    )  # fmt: skip


def regression_sections(records: Sequence[RunRecord], calibration: Calibration) -> tuple[Section, ...]:
    """Diagnose one of the paper's laws as ``fit --diagnose`` does, fitted anew to these records; others have none."""
    heading = "The fit to these runs"
    options = PaperOptions.of(calibration)
    if options.covariance == "HC3":
        options = replace(options, covariance=None)  # the fit's usual one: intervals are then by family
    boundary = calibration.boundary or None
    found: Checkup | AdditiveCheckup
    try:
        match calibration.law:
            case "paper" | "power":
                found = checkup(records, law_name=calibration.law, boundary=boundary, options=options)
            case "additive":
                found = additive_checkup(records, boundary=boundary, options=options)
            case _:
                return ()
    except WattlawError as error:
        return (Section(heading=heading, sentences=(f"Not diagnosed: {error}.",)),)
    return (Section(heading=heading, sentences=diagnosis_sentences(found), blocks=diagnosis_tables(found)),)


def _numbers(found: FitDiagnostics, calibration: Calibration) -> DataTable:
    errors = sorted(abs(float(one)) for one in found.residuals)
    rows: list[dict[str, Cell]] = [
        {"figure": "median of |ln(measured / estimated)|", "value": errors[len(errors) // 2]},
        {"figure": "Durbin-Watson", "value": found.durbin_watson},
        {"figure": "excess kurtosis of the residuals", "value": found.excess_kurtosis},
        {"figure": "largest leverage", "value": float(found.leverage.max())},
        {"figure": "largest Cook's distance", "value": float(found.cooks_distance.max())},
    ]
    condition = calibration.diagnostics.get("condition_number")
    if condition is not None:
        rows.append({"figure": "condition number of the law's own fit", "value": condition})
    return DataTable.of("Diagnostics as numbers", rows)


def _counts(records: Sequence[RunRecord]) -> DataTable:
    counted = Counter(
        ("unknown", "unknown", 0, record.status)
        if record.spec is None
        else (
            record.spec.accelerator.name,
            record.spec.layout.strategy,
            int(record.spec.layout.num_devices),
            record.status,
        )
        for record in records
    )
    rows = [
        {"machine": machine, "strategy": strategy, "devices": devices or None, "status": status, "runs": count}
        for (machine, strategy, devices, status), count in sorted(counted.items())
    ]
    return DataTable.of("The records", rows)


def _parameters(calibration: Calibration) -> Section:
    machines = calibration.machines
    errors = {} if machines else standard_errors(calibration)
    rows = [
        {"parameter": name, "in common" if machines else "value": value,
         **({"standard error": errors[name]} if any(errors.values()) else {}),
         **{machine: found.parameters.get(name) for machine, found in machines.items()}}
        for name, value in calibration.parameters.items()
    ]  # fmt: skip
    return Section(heading="The law", blocks=(DataTable.of(f"Parameters of the {calibration.law} law", rows),))


def _summary(records: Sequence[RunRecord], calibration: Calibration) -> tuple[str, ...]:
    sources = sorted({record.source for record in records if record.source})
    named = "; ".join(sources[:3]) or "not named"
    whole = sum(record.spec is not None and record.status == "ok" for record in records)
    return (
        f"{whole} of {len(records)} records state a whole run that ended well. Source: {named}.",
        f"Estimates are those of the {calibration.law} law ({calibration.provenance.get('source', 'unknown source')}).",
    )
