"""Speedup and hardware efficiency of parallel training, equations (7) to (12) of arXiv 2606.23546.

The functions state the equations as they are printed. Two facts to know: (9) is not 1 at one device and (11) is
1/(1 + alpha) there, and with the published parameters (9) promises more than t-fold speedup below t of about 10
(3.8 at t = 2), so that phi leaves (0, 1]. An axis that is not divided has efficiency 1 in ``combined_efficiency``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wattlaw.errors import ConfigError

if TYPE_CHECKING:
    from wattlaw.units import Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedupParameters:
    """Parameters of the two speedup laws.

    Attributes:
        alpha: overhead of data parallelism on one device, in (11).
        beta: how that overhead grows with the devices, in (11).
        s_max: speedup at which tensor parallelism saturates, in (9).
        rate: how fast it saturates, per device, k in (9).
    """

    alpha: float
    beta: float
    s_max: float
    rate: float

    def __post_init__(self) -> None:
        """Refuse parameters for which an efficiency is not positive and finite."""
        for name in ("alpha", "beta", "s_max", "rate"):
            value = getattr(self, name)
            if not 0 <= value < math.inf or (value == 0 and name in ("s_max", "rate")):
                raise ConfigError(f"{name} of a speedup law is out of range", given=value, allowed="finite, above zero")


#: Section 3.5 of the paper, fitted to the speedups of Nichols et al. 2022, arXiv 2111.04949.
PUBLISHED = SpeedupParameters(alpha=0.005, beta=1.266, s_max=9.8, rate=0.76)


def speedup(*, single_device_duration_s: Quantity, duration_s: Quantity) -> Quantity:
    """How many times faster than on one device, equation (7): S(N) = T(1) / T(N)."""
    return single_device_duration_s / duration_s


def hardware_efficiency(*, single_device_duration_s: Quantity, duration_s: Quantity, num_devices: Quantity) -> Quantity:
    """Measured efficiency of the devices, lemma 3.3: eta_h = S(N) / N.

    >>> hardware_efficiency(single_device_duration_s=100.0, duration_s=50.0, num_devices=4)
    0.5
    """
    return speedup(single_device_duration_s=single_device_duration_s, duration_s=duration_s) / num_devices


def tensor_parallel_speedup(degree: Quantity, parameters: SpeedupParameters) -> Quantity:
    """Saturating speedup of t tensor-parallel devices, equation (9): S_TP(t) = S_max (1 - exp(-k t))."""
    return parameters.s_max * (1.0 - math.e ** (-parameters.rate * degree))


def tensor_parallel_efficiency(degree: Quantity, parameters: SpeedupParameters) -> Quantity:
    """Efficiency of t tensor-parallel devices, equation (10): eta_TP(t) = S_TP(t) / t."""
    return tensor_parallel_speedup(degree, parameters) / degree


def data_parallel_speedup(degree: Quantity, parameters: SpeedupParameters) -> Quantity:
    """Speedup of d data-parallel devices, equation (11): S_DP(d) = d / (1 + alpha d^beta)."""
    return degree * data_parallel_efficiency(degree, parameters)


def data_parallel_efficiency(degree: Quantity, parameters: SpeedupParameters) -> Quantity:
    """Efficiency of d data-parallel devices, equation (12): eta_DP(d) = 1 / (1 + alpha d^beta)."""
    return 1.0 / (1.0 + parameters.alpha * degree**parameters.beta)


def combined_efficiency(
    *, tensor_parallel: Quantity, data_parallel: Quantity, parameters: SpeedupParameters
) -> Quantity:
    """Efficiency of N = t d devices, equation (8): phi(t, d) = eta_TP(t) eta_DP(d).

    An axis of degree 1 contributes 1, what (7) says of one device, rather than (10) or (12) at 1.
    """
    tensor = (tensor_parallel == 1) + (tensor_parallel != 1) * tensor_parallel_efficiency(tensor_parallel, parameters)
    data = (data_parallel == 1) + (data_parallel != 1) * data_parallel_efficiency(data_parallel, parameters)
    return tensor * data
