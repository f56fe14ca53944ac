"""What a probe's figures say about the step law's parameters: one rule per parameter.

A rule turns figures into an anchor: a value of the parameter, with the spread of its measurement and of what such a
figure may be off by from what the parameter means in a training. ``wattlaw.law.probed`` puts anchors on the prior.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from wattlaw.hardware import Accelerator
from wattlaw.law.calibration import Anchor, Calibration

#: Share of the data sheet's bandwidth that long passes over memory reach on the GPUs that the common traffic factors
#: were fitted on: BabelStream (Deakin et al. 2018) finds 0.85 to 0.9 on such.
REFERENCE_BANDWIDTH_FRACTION = 0.87

#: How far a figure may be from what the parameter means in a training, as the standard deviation of the logarithm.
#: Judgements, not measurements: a step's products have other shapes than the probe's, its passes over memory other
#: lengths, its launches other kernels; power is the sensor's own error and the difference between loads. An optimizer
#: step in a training also clips, schedules and logs, of which a bare one has nothing: that figure says little.
TRANSFER_SPREAD = {
    "matrix_fraction": 0.25,
    "head_matrix_fraction": 0.3,
    "traffic_factor": 0.15,
    "head_traffic_factor": 0.4,
    "launch_step_s": 0.4,
    "launch_kernel_s": 0.15,
    "update_step_s": 1.0,
    "update_tensor_s": 0.15,
    "collective_s": 0.3,
    "tensor_collective_s": 0.3,
    "link_fraction": 0.4,
    "active_fraction": 0.1,
    "compute_fraction": 0.15,
    "memory_fraction": 0.2,
}

#: How far a figure may be from its parameter, further, where only long passes over memory were measured and no layer.
PASSES_SPREAD = 0.6

SHARDED_STEP = ("plain_step_s", "sharded_step_s", "sharded_step_collectives")
TENSOR_STEP = ("plain_step_s", "tensor_step_s", "tensor_step_collectives")
#: A divided step that is no longer than this many plain ones tells nothing about its collectives.
LONGER = 1.05
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")


class Known(Protocol):
    """A measured number: its value in SI, and its error."""

    @property
    def value(self) -> float:
        """Return the number."""
        ...

    @property
    def error(self) -> float:
        """Return the standard deviation of its logarithm as a mean of what it was measured on."""
        ...


Figures = Mapping[str, Known]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What figures make of a parameter; ``spread`` is the measurement's, before the transfer's."""

    value: float
    spread: float
    told_by: tuple[str, ...]


Rule = Callable[[Figures, Accelerator, Calibration], "_Told | None"]


def _share_of_peak(stem: str) -> Rule:
    """Measured rate over the data sheet's, geometric mean over the number formats: the law has one share for all."""

    def rule(figures: Figures, device: Accelerator, prior: Calibration) -> _Told | None:
        shares = {
            name: figures[name].value / device.peak_flop_per_s(precision)
            for precision in PRECISIONS
            if (name := f"{stem}_{precision}_flop_per_s") in figures and precision in device.precisions
        }
        return _mean(shares, figures)

    return rule


def _block_traffic(figures: Figures, device: Accelerator, prior: Calibration) -> _Told | None:
    """The data sheet's bandwidth over the rate at which a layer gets through its traffic, beside its products."""
    name = "layer_traffic_bytes_per_s"
    if name in figures:
        return _mean({name: device.bandwidth_bytes_per_s / figures[name].value}, figures)
    told = _traffic("traffic_factor")(figures, device, prior)
    return None if told is None else replace(told, spread=math.hypot(told.spread, PASSES_SPREAD))


def _traffic(name: str) -> Rule:
    """The common factor, times how much less of its bandwidth this memory reaches than those it was fitted on."""

    def rule(figures: Figures, device: Accelerator, prior: Calibration) -> _Told | None:
        names = ("copy_bytes_per_s", "add_bytes_per_s")
        shares = {each: figures[each].value / device.bandwidth_bytes_per_s for each in names if each in figures}
        told = _mean(shares, figures)
        if told is None:
            return None
        return replace(told, value=prior.parameter(name) * REFERENCE_BANDWIDTH_FRACTION / told.value)

    return rule


def _as_measured(name: str) -> Rule:
    """The figure is the parameter."""

    def rule(figures: Figures, device: Accelerator, prior: Calibration) -> _Told | None:
        return _mean({name: figures[name].value}, figures) if name in figures else None

    return rule


def _sharded_collective(figures: Figures, device: Accelerator, prior: Calibration) -> _Told | None:
    """Latency of a collective of FSDP with what is around it.

    In the law collectives run beside launches, step^3 = launch^3 + (n latency)^3 where kernels and bytes are next to
    nothing; solved for the latency. Where the divided step is no longer, latency hides and only the bare one is known.
    """
    plain, divided, count = (figures.get(name) for name in SHARDED_STEP)
    if plain is not None and divided is not None and count is not None and divided.value > LONGER * plain.value:
        latency_s = (divided.value**3 - plain.value**3) ** (1 / 3) / count.value
        spread = math.hypot(plain.error, divided.error)
        return _Told(value=latency_s, spread=spread, told_by=("plain_step_s", "sharded_step_s"))
    return _mean(_by_count(figures, "latency_s"), figures)


def _tensor_collective(figures: Figures, device: Accelerator, prior: Calibration) -> _Told | None:
    """Host's work per all-reduce of tensor parallelism: what it adds to a step that launches bound."""
    plain, divided, count = (figures.get(name) for name in TENSOR_STEP)
    if plain is None or divided is None or count is None or divided.value <= LONGER * plain.value:
        return None
    added_s = (divided.value - plain.value) / count.value
    spread = math.hypot(plain.error, divided.error)
    return _Told(value=added_s, spread=spread, told_by=("plain_step_s", "tensor_step_s"))


def _share_of_link(figures: Figures, device: Accelerator, prior: Calibration) -> _Told | None:
    """Rate at which each device sends over the data sheet's, geometric mean over the numbers of devices."""
    rates = _by_count(figures, "bytes_per_s")
    return _mean({name: rate / device.link.bytes_per_s for name, rate in rates.items()}, figures)


def _active_power(figures: Figures, device: Accelerator, prior: Calibration) -> _Told | None:
    """Power under a stream of the smallest kernels, over the power limit."""
    name = "accelerators_launch_power_w"
    return _mean({name: figures[name].value / device.power_limit_w}, figures) if name in figures else None


def _power_above_active(name: str) -> Rule:
    """Power under a load less that under the smallest kernels, over the power limit."""

    def rule(figures: Figures, device: Accelerator, prior: Calibration) -> _Told | None:
        busy, active = figures.get(name), figures.get("accelerators_launch_power_w")
        if busy is None or active is None or busy.value <= active.value:
            return None
        difference_w = busy.value - active.value
        spread = math.hypot(busy.error * busy.value, active.error * active.value) / difference_w
        told_by = (name, "accelerators_launch_power_w")
        return _Told(value=difference_w / device.power_limit_w, spread=spread, told_by=told_by)

    return rule


RULES: Mapping[str, Rule] = {
    "matrix_fraction": _share_of_peak("matrix"),
    "head_matrix_fraction": _share_of_peak("head_matrix"),
    "traffic_factor": _block_traffic,
    "head_traffic_factor": _traffic("head_traffic_factor"),
    "launch_step_s": _as_measured("launch_step_s"),
    "launch_kernel_s": _as_measured("launch_kernel_s"),
    "update_step_s": _as_measured("update_step_s"),
    "update_tensor_s": _as_measured("update_tensor_s"),
    "collective_s": _sharded_collective,
    "tensor_collective_s": _tensor_collective,
    "link_fraction": _share_of_link,
    "active_fraction": _active_power,
    "compute_fraction": _power_above_active("accelerators_matrix_power_w"),
    "memory_fraction": _power_above_active("accelerators_memory_power_w"),
}


def _by_count(figures: Figures, ending: str) -> dict[str, float]:
    """Return the collectives' figures of one kind, for every number of devices."""
    return {
        name: figure.value
        for name, figure in figures.items()
        if name.startswith("collective_") and name.endswith(f"_{ending}")
    }


def _mean(values: Mapping[str, float], figures: Figures) -> _Told | None:
    """Geometric mean of several figures' shares; its error from how they differ and from their own, together."""
    if not values:
        return None
    logarithms = np.log(list(values.values()))
    between = float(np.std(logarithms)) / math.sqrt(len(values))
    within = float(np.sqrt(np.mean([figures[name].error ** 2 for name in values])))
    return _Told(value=float(np.exp(logarithms.mean())), spread=math.hypot(between, within), told_by=tuple(values))


def anchors(figures: Figures, device: Accelerator, prior: Calibration) -> tuple[Anchor, ...]:
    """Turn figures into anchors, one rule per parameter; a rule whose figures are missing gives none."""
    found = []
    for name, rule in RULES.items():
        told = rule(figures, device, prior)
        if told is not None:
            spread = math.hypot(told.spread, TRANSFER_SPREAD[name])
            found.append(Anchor(parameter=name, value=told.value, spread=spread, told_by=told.told_by))
    return tuple(found)
