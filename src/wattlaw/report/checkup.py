"""A diagnosis of one of the paper's laws as text and as tables of a report; as a mapping it is what its fields are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from wattlaw.law.paper.additive_checkup import AdditiveCheckup
from wattlaw.law.paper.checkup import Checkup, EfficiencyTest
from wattlaw.report.additive import additive_lines, additive_text
from wattlaw.report.document import Cell, DataTable

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

#: Above this another column does nearly the same (Marquardt 1970, Technometrics 12).
HIGH_INFLATION = 10
#: Above this share of 1 a run moves the fit (Cook and Weisberg 1982, chapter 3).
HIGH_DISTANCE = 1
#: Below this neighbouring residuals are alike: 2 (1 - r) of a serial correlation r above a quarter.
LOW_DURBIN_WATSON = 1.5
#: Which errors the intervals of coefficients are made of, for people.
ERRORS = {
    "cluster": "coefficients' intervals from errors by family",
    "HC3": "coefficients' intervals from HC3 errors",
    "classical": "coefficients' intervals from classical errors",
}


def diagnosis_text(found: Checkup | AdditiveCheckup) -> Group:
    """Show the diagnosis of any of the paper's laws."""
    return checkup_text(found) if isinstance(found, Checkup) else additive_text(found)


def checkup_text(found: Checkup) -> Group:
    """Show coefficients with their errors, what the residuals look like, and the runs that move the fit."""
    from rich.console import Group
    from rich.text import Text

    figures = (
        f"R2 {found.r2:.4f}, adjusted {found.adjusted_r2:.4f}; condition number {found.condition_number:.3g}; "
        f"Durbin-Watson {found.durbin_watson:.2f}; excess kurtosis {found.excess_kurtosis:+.2f}; "
        f"{100 * found.level:g} % residual-bootstrap interval of a run x{found.half_width:.2f} with residuals drawn by "
        f"family, x{found.half_width_independent:.2f} by run, as the paper does; {ERRORS[found.covariance]}"
    )
    lemma = [
        Text(
            f"{strategy}: per doubling of devices power x{2**check.power_elasticity:.2f}, time x"
            f"{2**check.duration_elasticity:.2f}, energy x{2**check.energy_elasticity:.2f} "
            f"({check.num_families} families)"
        )
        for strategy, check in found.lemma.items()
    ]
    doubts = [Text(f"! {doubt}", style="yellow") for doubt in _doubts(found)]
    gain = [Text(line) for line in [_gain(found.efficiency_test)] if line]
    return Group(
        Text("diagnosis", style="bold"), _coefficients(found), Text(figures), *gain, _runs(found), *lemma, *doubts
    )


def _gain(test: EfficiencyTest | None) -> str:
    """Say what eta_h adds to the fit, as in table 4 of the paper."""
    if test is None:
        return ""
    ratio = test.likelihood_ratio
    exponent = math.floor(ratio.log10_p_value)
    chance = f"{10 ** (ratio.log10_p_value - exponent):.1f}e{exponent:+03d}"
    return (
        f"without eta_h R2 {test.r2_without:.4f}, RMSE {test.rmse_without:.4f}; with it {test.r2:.4f}, {test.rmse:.4f} "
        f"({test.rmse / test.rmse_without - 1:+.0%}); likelihood ratio {ratio.statistic:.2f} on {ratio.dof}, "
        f"p {chance} (runs taken as independent)"
    )


def _coefficients(found: Checkup) -> Table:
    from rich.table import Table

    ends = f"{100 * found.level:g} %"
    head = ("coefficient", "value", "HC3 error", "by family", ends, "inflation")
    table = Table(*head, box=None, pad_edge=False, header_style="dim")
    for name, one in found.coefficients.items():
        inflation = "" if one.variance_inflation is None else f"{one.variance_inflation:.2f}"
        family_error = "-" if one.family_error is None else f"{one.family_error:.4f}"
        interval = f"{one.low:.4f} to {one.high:.4f}"
        table.add_row(name, f"{one.value:.4f}", f"{one.standard_error:.4f}", family_error, interval, inflation)
    return table


def _runs(found: Checkup) -> Table:
    from rich.table import Table

    head = ("most influential runs", "Cook's distance", "leverage", "studentized")
    table = Table(*head, box=None, pad_edge=False, header_style="dim")
    for one in found.influential:
        table.add_row(one.record_id, f"{one.cooks_distance:.3f}", f"{one.leverage:.3f}", f"{one.studentized:+.2f}")
    return table


def _doubts(found: Checkup) -> list[str]:
    doubts = [
        f"{name} is hardly told apart from the other columns (inflation {one.variance_inflation:.0f})"
        for name, one in found.coefficients.items()
        if (one.variance_inflation or 0) > HIGH_INFLATION
    ]
    doubts += [
        f"{one.record_id} moves the fit (Cook's distance {one.cooks_distance:.1f})"
        for one in found.influential
        if one.cooks_distance > HIGH_DISTANCE
    ]
    if found.durbin_watson < LOW_DURBIN_WATSON:
        doubts.append(
            f"neighbouring runs err alike (Durbin-Watson {found.durbin_watson:.2f}), which HC3 errors and the "
            "likelihood ratio take no account of"
        )
    if any(not check.workload_is_fixed for check in found.lemma.values()):
        doubts.append("runs of one family did different amounts of work, so the lemma's first assumption fails")
    return doubts


def diagnosis_tables(found: Checkup | AdditiveCheckup) -> tuple[DataTable, ...]:
    """Lay a diagnosis out for a report: coefficients with both errors, and the figures of the fit."""
    return _regression_tables(found) if isinstance(found, Checkup) else _additive_tables(found)


def diagnosis_sentences(found: Checkup | AdditiveCheckup) -> tuple[str, ...]:
    """Say what there is to say of a diagnosis in words."""
    if isinstance(found, AdditiveCheckup):
        return tuple(f"{line[0].upper()}{line[1:]}." for line in additive_lines(found))
    said = [ERRORS[found.covariance], _gain(found.efficiency_test)]
    return (
        *(f"{line[0].upper()}{line[1:]}." for line in said if line),
        *(f"Doubt: {doubt}." for doubt in _doubts(found)),
    )


def _regression_tables(found: Checkup) -> tuple[DataTable, ...]:
    ends = f"{100 * found.level:g} %"
    coefficients: list[dict[str, Cell]] = [
        {"coefficient": name, "value": one.value, "HC3 error": one.standard_error, "error by family": one.family_error,
         f"{ends} low": one.low, f"{ends} high": one.high, "variance inflation": one.variance_inflation}
        for name, one in found.coefficients.items()
    ]  # fmt: skip
    test = found.efficiency_test
    figures: dict[str, Cell] = {
        "runs": found.num_records,
        "configuration families": found.num_families,
        "R2": found.r2,
        "adjusted R2": found.adjusted_r2,
        "condition number": found.condition_number,
        "Durbin-Watson": found.durbin_watson,
        f"{ends} bootstrap interval of a run, factor, by family": found.half_width,
        f"{ends} bootstrap interval of a run, factor, by run": found.half_width_independent,
    }
    if test is not None:
        figures |= {
            "R2 without eta_h": test.r2_without,
            "RMSE of ln(energy)": test.rmse,
            "RMSE without eta_h": test.rmse_without,
            "likelihood ratio of eta_h": test.likelihood_ratio.statistic,
            "log10 of its p": test.likelihood_ratio.log10_p_value,
        }
    return (
        DataTable.of("Coefficients of the fit to these runs", coefficients),
        DataTable.of("The fit in numbers", [{"figure": name, "value": value} for name, value in figures.items()]),
    )


def _additive_tables(found: AdditiveCheckup) -> tuple[DataTable, ...]:
    rows: list[dict[str, Cell]] = [
        {"parameter": name, "value": one.value, "HC3 error": one.standard_error, "on its bound": one.on_bound}
        for name, one in found.prices.items()
    ]
    return (DataTable.of("Prices of the fit to these runs", rows),)
