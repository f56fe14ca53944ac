"""Lower bounds of time and energy, and the bands of the additive law: proposition 3.1 and theorem 3.2.

All of arXiv 2606.23546. The bounds hold for whatever C and M count, as long as the rates count the same: floating
point operations and bytes for bounds in seconds and joules, proxies for bounds in units of the proxies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattlaw.errors import ConfigError, DataError

Numbers = float | NDArray[np.float64]


def arithmetic_intensity(*, compute: Numbers, memory: Numbers) -> Numbers:
    """Work per unit of memory traffic, AI = C / M."""
    return compute / memory


def least_duration_s(*, compute: Numbers, memory: Numbers, peak_per_s: Numbers, memory_rate_per_s: Numbers) -> Numbers:
    """Roofline bound of the time, equation (5): T >= C / min(F_peak, tau_mem AI).

    Args:
        compute: C, of one step.
        memory: M, of one step.
        peak_per_s: F_peak, units of C per second.
        memory_rate_per_s: tau_mem, units of M per second.

    >>> least_duration_s(compute=10.0, memory=4.0, peak_per_s=5.0, memory_rate_per_s=1.0)
    4.0
    """
    attainable = np.minimum(peak_per_s, memory_rate_per_s * arithmetic_intensity(compute=compute, memory=memory))
    return _plain(compute / attainable)


def least_compute_energy_j(*, compute: Numbers, peak_per_s: Numbers, dynamic_power_w: Numbers) -> Numbers:
    """Bound of the energy by compute, first of (6): E >= P_dyn C / F_peak."""
    return dynamic_power_w * compute / peak_per_s


def least_memory_energy_j(*, memory: Numbers, memory_rate_per_s: Numbers, dynamic_power_w: Numbers) -> Numbers:
    """Bound of the energy by memory traffic, second of (6): E >= P_dyn M / tau_mem."""
    return dynamic_power_w * memory / memory_rate_per_s


def least_energy_j(
    *,
    compute: Numbers,
    memory: Numbers,
    peak_per_s: Numbers,
    memory_rate_per_s: Numbers,
    dynamic_power_w: Numbers,
) -> Numbers:
    """The larger of the two bounds (6), which is the dynamic power over the time of (5)."""
    by_compute = least_compute_energy_j(compute=compute, peak_per_s=peak_per_s, dynamic_power_w=dynamic_power_w)
    by_memory = least_memory_energy_j(
        memory=memory, memory_rate_per_s=memory_rate_per_s, dynamic_power_w=dynamic_power_w
    )
    return _plain(np.maximum(by_compute, by_memory))


def energy_band_j(
    *, compute: Numbers, memory: Numbers, compute_j: float, memory_j: float, fixed_j: Numbers
) -> tuple[Numbers, Numbers]:
    """Lower and upper end of the energy of a step, theorem 3.2.

    min(e_mem M, e_comp C) <~ E <~ e_comp C + e_mem M + E0.

    Args:
        compute: C, of one step.
        memory: M, of one step.
        compute_j: e_comp, joules per unit of C.
        memory_j: e_mem, joules per unit of M.
        fixed_j: E0, joules per step.
    """
    by_compute, by_memory = compute_j * compute, memory_j * memory
    return _plain(np.minimum(by_compute, by_memory)), by_compute + by_memory + fixed_j


def local_slope(
    *, compute: Numbers, memory: Numbers, exponent: float, compute_j: float, memory_j: float, fixed_j: Numbers
) -> Numbers:
    """Slope d ln E / d ln C of the additive law where M grows as C^b: (e_comp C + b e_mem M) / E, theorem 3.2.

    It lies between b and 1 when E0 is negligible, and falls below b, down to 0, as E0 takes over: the paper's
    exponent a_C = 0.20 lies outside of the theorem's range because launching kernels costs time and energy that
    does not grow with the work.

    Args:
        compute: C, of one step.
        memory: M, of one step.
        exponent: b.
        compute_j: e_comp, joules per unit of C.
        memory_j: e_mem, joules per unit of M.
        fixed_j: E0, joules per step.
    """
    energy = compute_j * compute + memory_j * memory + fixed_j
    return (compute_j * compute + exponent * memory_j * memory) / energy


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficBand:
    """The premise of theorem 3.2 on some records: k1 C^b <= M <= k2 C^b.

    Attributes:
        exponent: b, the slope of ln M on ln C.
        lowest: k1, the smallest M / C^b.
        highest: k2, the largest M / C^b.
    """

    exponent: float
    lowest: float
    highest: float

    @property
    def theorem_applies(self) -> bool:
        """Whether b lies in [1/2, 1), as the theorem asks."""
        return 0.5 <= self.exponent < 1


def traffic_band(*, compute: NDArray[np.float64], memory: NDArray[np.float64]) -> TrafficBand:
    """Find the exponent and the constants between which memory traffic follows compute, both shape ``[n]``.

    Raises:
        DataError: fewer than two different values of compute.
        ConfigError: a value that is not above zero.
    """
    if not (np.all(compute > 0) and np.all(memory > 0)):
        raise ConfigError("compute and memory must be above zero")
    if np.unique(compute).size < 2:
        raise DataError("one value of compute has no slope", given=np.unique(compute).size, allowed="at least 2")
    exponent = float(np.polyfit(np.log(compute), np.log(memory), 1)[0])
    constants = memory / compute**exponent
    return TrafficBand(exponent=exponent, lowest=float(constants.min()), highest=float(constants.max()))


def _plain(values: NDArray[np.float64]) -> Numbers:
    """Give a number back for numbers, a column for columns."""
    return values if np.ndim(values) else float(values)
