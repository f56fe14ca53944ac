"""Proposition 3.1 and theorem 3.2 on runs: the bounds (5) and (6) from data sheets, the band from an additive fit.

C and M are proxies that count less than a training does: (2) is 12 d^2 per layer and token where forward and backward
pass take 72 d^2, (3) counts each hidden state once. With C in FLOP, M in numbers of the run's precision and the rates
of the data sheet, (5) and (6) therefore hold of every run, with room.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wattlaw.errors import DataError
from wattlaw.features.table import Table
from wattlaw.law.bundled import bundled
from wattlaw.law.paper.bounds import (
    TrafficBand,
    energy_band_j,
    least_duration_s,
    least_energy_j,
    local_slope,
    traffic_band,
)
from wattlaw.workload.operations import OPERAND_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wattlaw.law.calibration import Calibration
    from wattlaw.run.spec import RunSpec

    Numbers = NDArray[np.float64]

#: Figures of the traffic band among the diagnostics of a calibration.
TRAFFIC = ("traffic_exponent", "traffic_lowest", "traffic_highest")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunBounds:
    """What the additive model says of runs beside their energy, one entry per run, shape ``[n]``.

    Attributes:
        least_duration_s: T >= C / min(F_peak, tau_mem AI), (5).
        least_energy_j: E >= P_dyn C / F_peak and E >= P_dyn M / tau_mem, (6), the larger, over all devices.
        limited_by: ``compute`` or ``memory``, whichever bound is the larger.
        band_low_j: lower end of theorem 3.2's band, min(e_mem M, e_comp C).
        band_high_j: its upper end, e_comp C + e_mem M + E0.
        slope: d ln E / d ln C where M grows as C^b; ``None`` where the fit does not tell b.
    """

    least_duration_s: Numbers
    least_energy_j: Numbers
    limited_by: NDArray[np.str_]
    band_low_j: Numbers
    band_high_j: Numbers
    slope: Numbers | None


def bounds_of_runs(calibration: Calibration, table: Table, specs: Sequence[RunSpec]) -> RunBounds:
    """Bound runs, with an additive law's prices for the band.

    Args:
        calibration: of the additive law.
        table: ``paper_columns`` of the runs.
        specs: of the same runs.

    Raises:
        DataError: a column is missing or not above zero, or the calibration was published without its units.
    """
    if "compute_j" not in calibration.parameters:
        raise DataError("the band needs prices in joules per unit of C and M", given=calibration.law)
    steps = table.positive("num_steps")
    compute, memory = table.positive("compute_proxy") / steps, table.positive("memory_proxy")
    devices = table.positive("num_devices")
    moved_bytes = memory * np.array([_bytes_per_number(spec) for spec in specs])
    rates = {
        "peak_per_s": np.array([spec.accelerator.peak_flop_per_s(spec.recipe.precision) for spec in specs]),
        "memory_rate_per_s": np.array([spec.accelerator.bandwidth_bytes_per_s for spec in specs]),
    }
    power_w = np.array([dynamic_power_w(spec) for spec in specs])
    own = {"compute": compute / devices, "memory": moved_bytes}
    least_j = least_energy_j(**own, **rates, dynamic_power_w=power_w)
    prices = {name: calibration.parameter(name) for name in ("compute_j", "memory_j")}
    fixed_j = np.array([_fixed_j(calibration, spec.layout.strategy) for spec in specs])
    low_j, high_j = energy_band_j(compute=compute, memory=memory, **prices, fixed_j=fixed_j)
    band = traffic_of(calibration)
    slope = None
    if band is not None:
        slope = local_slope(compute=compute, memory=memory, exponent=band.exponent, **prices, fixed_j=fixed_j)
    by_compute = own["compute"] / rates["peak_per_s"] >= own["memory"] / rates["memory_rate_per_s"]
    return RunBounds(
        least_duration_s=np.asarray(least_duration_s(**own, **rates)) * steps,
        least_energy_j=np.asarray(least_j) * steps * devices,
        limited_by=np.where(by_compute, "compute", "memory"),
        band_low_j=np.asarray(low_j) * steps,
        band_high_j=np.asarray(high_j) * steps,
        slope=None if slope is None else np.asarray(slope),
    )


def dynamic_power_w(spec: RunSpec) -> float:
    """P_dyn of a device: the least that it draws for being busy, over being on, as the shipped step law says.

    The smaller of the shares for matrix products and for memory traffic, of the lower of its limit and the cap.
    """
    law, device = bundled(), spec.accelerator
    shares = law.parameters_on(device.name)
    share = min(shares["compute_fraction"], shares["memory_fraction"])
    return share * min(device.power_limit_w, spec.power_limit_w or device.power_limit_w)


def traffic_of(calibration: Calibration) -> TrafficBand | None:
    """Return the premise of theorem 3.2 on the runs of a fit; ``None`` where they did not tell it."""
    found = [calibration.diagnostics.get(name) for name in TRAFFIC]
    values = [value for value in found if value is not None]
    if len(values) < len(TRAFFIC):
        return None
    return TrafficBand(exponent=values[0], lowest=values[1], highest=values[2])


def traffic_diagnostics(compute: Numbers, memory: Numbers) -> dict[str, float]:
    """Return b, k1 and k2 of the steps of a fit as its diagnostics; nothing where one value of C has no slope."""
    if np.ptp(np.log(compute)) < 1e-9:
        return {}
    band = traffic_band(compute=compute, memory=memory)
    return dict(zip(TRAFFIC, (band.exponent, band.lowest, band.highest), strict=True))


def _bytes_per_number(spec: RunSpec) -> float:
    """Bytes that a device moves per unit of M: tensor and pipeline parallelism divide what (3) counts whole."""
    return OPERAND_BYTES[spec.recipe.precision] / float(spec.layout.tensor_parallel * spec.layout.pipeline_parallel)


def _fixed_j(calibration: Calibration, strategy: str) -> float:
    return calibration.parameter("fixed_j") + calibration.parameters.get(f"strategy:{strategy}", 0.0)
