"""The additive law's bounds, bands and slopes as text: proposition 3.1 and theorem 3.2 of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wattlaw.law.paper.additive_checkup import AdditiveCheckup
from wattlaw.law.paper.bounds import TrafficBand
from wattlaw.law.paper.run_bounds import RunBounds, traffic_of
from wattlaw.report import quantities

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from wattlaw.law.calibration import Calibration


def additive_text(found: AdditiveCheckup) -> Group:
    """Show the prices with their errors, and what the theorem says of the runs."""
    from rich.console import Group
    from rich.text import Text

    doubts = [Text(f"! {doubt}", style="yellow") for doubt in _doubts(found)]
    lines = [Text(line) for line in additive_lines(found)]
    return Group(Text("diagnosis", style="bold"), _prices(found), *lines, *doubts)


def additive_lines(found: AdditiveCheckup) -> list[str]:
    """Say what the bounds, the band and the slopes are of the runs."""
    lines = [f"adjusted R2 of the energy per step {found.adjusted_r2:.4f}; {traffic_line(found.traffic)}"]
    if found.slope:
        low, mid, high = found.slope
        lines.append(
            f"local slope d ln E / d ln C {low:.2f} to {high:.2f}, median {mid:.2f}; the fixed energy, which it "
            f"neglects, is {found.fixed_share:.0%} of the median run"
        )
    lines.append(f"{found.within_band:.0%} of the runs lie within the theorem's band")
    ratios = [("energy over bound (6)", found.energy_over_bound), ("time over bound (5)", found.duration_over_bound)]
    told = [f"{name} x{low:.3g} to x{high:.3g}, median x{mid:.3g}" for name, (low, mid, high) in
            [one for one in ratios if one[1]]]  # fmt: skip
    lines.append(f"{'; '.join(told)}; compute is the larger bound of {found.compute_limited:.0%} of the runs")
    return lines


def traffic_line(traffic: TrafficBand | None) -> str:
    """Say how memory traffic follows compute, the premise of theorem 3.2."""
    if traffic is None:
        return "one value of C per step, so that b is not known"
    applies = "" if traffic.theorem_applies else "; outside of [1/2, 1), where the theorem does not apply"
    return (
        f"M between k1 {traffic.lowest:.3g} and k2 {traffic.highest:.3g} times C^b per step, b {traffic.exponent:.3f}"
        f"{applies}"
    )


def bounds_mapping(calibration: Calibration, bounds: RunBounds) -> dict[str, Any]:
    """Lay the bounds of one run out for ``--json``."""
    traffic = traffic_of(calibration)
    return {
        "least_duration_s": float(bounds.least_duration_s[0]),
        "least_energy_j": float(bounds.least_energy_j[0]),
        "limited_by": str(bounds.limited_by[0]),
        "band_j": {"low": float(bounds.band_low_j[0]), "high": float(bounds.band_high_j[0])},
        "local_slope": None if bounds.slope is None else float(bounds.slope[0]),
        "traffic": None if traffic is None else {
            "exponent": traffic.exponent,
            "lowest": traffic.lowest,
            "highest": traffic.highest,
            "theorem_applies": traffic.theorem_applies,
        },
    }  # fmt: skip


def bounds_lines(calibration: Calibration, bounds: RunBounds) -> list[str]:
    """Say of one run what it cannot go below, and between what the theorem puts it."""
    least_s, least_j = float(bounds.least_duration_s[0]), float(bounds.least_energy_j[0])
    low, high = (quantities.energy(float(end[0])) for end in (bounds.band_low_j, bounds.band_high_j))
    slope = "" if bounds.slope is None else f"; local slope d ln E / d ln C {float(bounds.slope[0]):.2f}"
    at_least = f"at least {quantities.duration(least_s)} (5) and {quantities.energy(least_j)} (6)"
    return [
        f"bounds: {at_least}, by {bounds.limited_by[0]}, at the data sheet's rates",
        f"theorem 3.2: {low} to {high}{slope}",
        traffic_line(traffic_of(calibration)),
    ]


def _prices(found: AdditiveCheckup) -> Table:
    from rich.table import Table

    table = Table("parameter", "value", "HC3 error", box=None, pad_edge=False, header_style="dim")
    for name, one in found.prices.items():
        error = "on its bound" if one.on_bound else "-" if one.standard_error is None else f"{one.standard_error:.3g}"
        table.add_row(name, f"{one.value:.4g}", error)
    return table


def _doubts(found: AdditiveCheckup) -> list[str]:
    doubts = [f"{name} is on its bound of zero, so its error is not known" for name, one in found.prices.items()
              if one.on_bound]  # fmt: skip
    if found.slope and found.traffic is not None and found.slope[1] < found.traffic.exponent:
        doubts.append(
            f"the median slope lies below b {found.traffic.exponent:.2f}: the fixed energy is not negligible, as the "
            "theorem asks; the step law has kernel launches as a term"
        )
    return doubts
