"""A diagnosis of a regression as text; as a mapping it is what its fields are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wattlaw.law.paper.checkup import Checkup

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

#: Above this another column does nearly the same (Marquardt 1970, Technometrics 12).
HIGH_INFLATION = 10
#: Above this share of 1 a run moves the fit (Cook and Weisberg 1982, chapter 3).
HIGH_DISTANCE = 1


def checkup_text(found: Checkup) -> Group:
    """Show coefficients with their errors, what the residuals look like, and the runs that move the fit."""
    from rich.console import Group
    from rich.text import Text

    figures = (
        f"R2 {found.r2:.4f}, adjusted {found.adjusted_r2:.4f}; condition number {found.condition_number:.3g}; "
        f"Durbin-Watson {found.durbin_watson:.2f}; excess kurtosis {found.excess_kurtosis:+.2f}; "
        f"{100 * found.level:g} % residual-bootstrap interval x{found.half_width:.2f}"
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
    return Group(Text("diagnosis", style="bold"), _coefficients(found), Text(figures), _runs(found), *lemma, *doubts)


def _coefficients(found: Checkup) -> Table:
    from rich.table import Table

    ends = f"{100 * found.level:g} %"
    table = Table("coefficient", "value", "HC3 error", ends, "inflation", box=None, pad_edge=False, header_style="dim")
    for name, one in found.coefficients.items():
        inflation = "" if one.variance_inflation is None else f"{one.variance_inflation:.2f}"
        table.add_row(
            name, f"{one.value:.4f}", f"{one.standard_error:.4f}", f"{one.low:.4f} to {one.high:.4f}", inflation
        )
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
    if any(not check.workload_is_fixed for check in found.lemma.values()):
        doubts.append("runs of one family did different amounts of work, so the lemma's first assumption fails")
    return doubts
