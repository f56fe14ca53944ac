"""What a power cap does to a run: the clock that it leaves, and the power that is then drawn.

A device's governor lowers the clock until what it draws keeps to the cap. Time splits into work that follows the clock
(matrix products) and work that does not (memory, links, the host); power splits into what flows at any clock and the
power of the products, which goes with the clock and the square of the voltage. The voltage follows the clock down to a
floor, so that power first falls with the clock's cube, and below the floor with the clock only. What leaks while
nothing is computed goes with the voltage.

    voltage(f)  = max(floor, f)
    energy(f)   = active voltage(f) time(f) + products f voltage(f)^2 products_time / f + memory memory_time
    wanted      = (natural^-q + cap^-q - limit^-q)^(-1/q)

``wanted`` is a soft minimum of the cap and of the draw at the board's own limit, and equals the latter without a cap.
On voltage and clock: Guerreiro et al. 2018, GPGPU Power Modeling for Multi-Domain Voltage-Frequency Scaling, HPCA. The
form, ``GOVERNOR_SHARPNESS`` and ``LOWEST_CLOCK`` were chosen on the measured caps of an A40 and a V100 (Zeus).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

#: How closely a governor keeps to its cap. Kernels differ in power within a step, so that it must hold the mean
#: somewhat below a cap that some of them reach (8 to 16 fit the measured caps alike).
GOVERNOR_SHARPNESS = 12.0
#: Lowest clock over the highest, fitted to the caps of both boards (0.12 to 0.13). A cap that this clock overdraws is
#: not kept.
LOWEST_CLOCK = 0.12
#: A cap or limit below this share of a draw counts as this share, whose powers are still finite.
LEAST_SHARE = 1e-9
#: Enough where the governor switches within a percent of the clock, as under the deepest caps (16 leave 1 % there).
_TRIALS = 24


def voltage(clock: Numbers | float, floor: Numbers | float) -> Numbers:
    """Voltage over its highest at a clock over its highest.

    >>> voltage(np.array([0.5, 0.9]), 0.7).tolist()
    [0.7, 0.9]
    """
    return np.asarray(np.maximum(floor, clock))


def drawn_w(cap_w: Numbers, limit_w: Numbers, natural_w: Numbers) -> Numbers:
    """Mean power of a run that would draw ``natural_w`` at the board's own limit, under a cap below it.

    >>> drawn_w(np.array([300.0, 150.0]), np.array([300.0]), np.array([250.0])).round(1).tolist()
    [250.0, 150.0]
    """
    sharpness = GOVERNOR_SHARPNESS
    cap, limit = (np.maximum(watts / natural_w, LEAST_SHARE) for watts in (cap_w, limit_w))
    inverse = cap**-sharpness - limit**-sharpness
    return natural_w * (1 + np.maximum(inverse, 0.0)) ** (-1 / sharpness)


def capped_clock(power_w: Callable[[Numbers], Numbers], cap_w: Numbers, limit_w: Numbers) -> Numbers:
    """Find the clock, 1 at most, at which runs draw what their caps leave them.

    Args:
        power_w: mean power of the runs at given clocks, which must rise with the clock; shape ``[runs]`` each.
        cap_w: power cap of each run, at most ``limit_w``.
        limit_w: limit of each board.

    Returns:
        clocks over the highest, shape ``[runs]``, from ``LOWEST_CLOCK`` to 1.
    """
    low, high = np.full_like(cap_w, LOWEST_CLOCK), np.ones_like(cap_w)
    natural_w = power_w(high)
    wanted_w = drawn_w(cap_w, limit_w, natural_w)
    below, above = power_w(low) - wanted_w, natural_w - wanted_w
    unreachable = below >= 0
    clock, was_over = low, np.zeros(np.shape(cap_w))
    for _ in range(_TRIALS):
        span = np.maximum(above - below, np.finfo(np.float64).tiny)
        clock = np.where(unreachable, LOWEST_CLOCK, np.clip(low - below * (high - low) / span, low, high))
        excess = power_w(clock) - wanted_w
        over = np.where(excess > 0, 1.0, -1.0)
        # An end that stays for the second time counts half, so that the other end moves as well (Illinois method).
        stays = np.where(over == was_over, 0.5, 1.0)
        below, above = np.where(over > 0, stays * below, excess), np.where(over > 0, excess, stays * above)
        low, high = np.where(over > 0, low, clock), np.where(over > 0, clock, high)
        was_over = over
    return clock
