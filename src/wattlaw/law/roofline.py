"""What no run can go below, equations (5) and (6) of the paper: an interval that reaches there says nothing possible.

Intervals are wide where little was measured, and know nothing of peaks. The bound here is that of the operations:
what memory traffic is counted is moved by kernels that know no cache, and a device whose cache holds a layer moves
less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wattlaw.features.table import Table
    from wattlaw.law.calibration import Estimate

#: Terms of energy that grow with time alone.
ALWAYS_DRAWN = frozenset(("active", "host"))


def least_durations_s(table: Table) -> NDArray[np.float64]:
    """Return the seconds of training if every operation ran at its peak and nothing waited, shape ``[runs]``.

    T >= C / F_peak, the first branch of (5). A pipeline's stages work on their blocks at the same time; fp8 is for
    products with weights.

    Args:
        table: columns of ``features.physical``.
    """
    attention = table.numbers("block_flop") * table.numbers("attention_share")
    quantised_s = (table.numbers("block_flop") - attention) / table.numbers("peak_flop_per_s")
    other_s = (attention + table.numbers("head_flop")) / table.numbers("unquantised_flop_per_s")
    return table.numbers("micro_steps") * (quantised_s + other_s)


def least_energies_j(estimate: Estimate, least_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the joules that devices and hosts take by being on for the least time, shape ``[runs]``.

    (6) with the law's own power of what is drawn whether or not anything is computed: nothing, of a law that does not
    tell that apart.

    Args:
        estimate: of any law.
        least_s: of ``least_durations_s``.
    """
    if estimate.duration_s is None or not estimate.terms_j.keys() >= ALWAYS_DRAWN:
        return np.zeros(len(least_s))
    return least_s / estimate.duration_s * (estimate.terms_j["active"] + estimate.terms_j["host"])
