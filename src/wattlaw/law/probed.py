"""A host's calibration from a probe: measured anchors on what machines have in common.

A probe's figure is not a parameter of the law; it says something about one, with an uncertainty of its own: the spread
of the measurement, and how far such a figure may be from what the parameter means in a training. Before the probe, the
logarithms of this machine's parameters are normal around the common ones (``hierarchy``); an anchor is a measured
logarithm with normal error; the most probable parameters are then those of a linear Gaussian model:

    m = mu + C H' (H C H' + R)^-1 (a - mu)

with mu the parameters before, C their covariance, H the choice of the anchored ones and R the anchors' variances
(Gelman et al. 2013, Bayesian Data Analysis, section 14.8). Through C an anchor moves what it was not measured for: a
host that launches slowly also updates slowly (``step.COMMON_PACE``).
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from wattlaw.errors import ConfigError, DataError
from wattlaw.hardware import Accelerator
from wattlaw.law.calibration import Anchor, Calibration, MachineCalibration, Residuals
from wattlaw.law.step_terms import PARAMETERS, between_machines

Numbers = NDArray[np.float64]

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

#: What machines have in common was found on GPUs: the parameters of a processor may be farther from it, by this
#: standard deviation of the logarithm.
PROCESSOR_SPREAD = 1.0
#: How far a figure may be from its parameter, further, where only long passes over memory were measured and no layer.
PASSES_SPREAD = 0.6

SHARDED_STEP = ("plain_step_s", "sharded_step_s", "sharded_step_collectives")
TENSOR_STEP = ("plain_step_s", "tensor_step_s", "tensor_step_collectives")
#: A divided step that is no longer than this many plain ones tells nothing about its collectives.
LONGER = 1.05
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")

#: Where a parameter of a probed machine comes from: a figure of the probe, correlation with such, or the prior alone.
Origin = Literal["measured", "moved along", "prior"]
#: A change of an unmeasured parameter below this share is none.
MOVED = 0.01


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
class ProbedParameter:
    """One parameter of a probed machine.

    Attributes:
        name: of the parameter.
        before: what it was without the probe.
        value: what it is with it.
        spread: standard deviation of its logarithm, as far as the prior's and the anchors' uncertainties are right.
        origin: where the value comes from.
        told_by: the figures, where it was measured.
    """

    name: str
    before: float
    value: float
    spread: float
    origin: Origin
    told_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCalibration:
    """A probe's calibration, and how each parameter came about."""

    calibration: Calibration
    parameters: tuple[ProbedParameter, ...]


def calibrate_host(
    figures: Figures, device: Accelerator, prior: Calibration, *, date: str = "", doubts: Sequence[str] = ()
) -> HostCalibration:
    """Put a probe's figures on top of a step law's calibration, as this machine's parameters.

    Args:
        figures: by the names that ``docs/probing.md`` lists; what is missing leaves its parameter to the prior.
        device: whose data sheet the law's shares are of.
        prior: of the step law. What machines have in common, and other machines, stay as they are.
        date: of the probe.
        doubts: of the probe, which the calibration carries on.

    Returns:
        the calibration with this machine added or replaced. It has no residuals of the machine, because no run was
        measured: intervals are what the probe and the prior leave its parameters unsure (``interval``).

    Raises:
        ConfigError: the prior is of another law.
        DataError: no figure says anything about a parameter.
    """
    if prior.law != "step":
        raise ConfigError("a probe calibrates the step law", given=prior.law, allowed="step")
    found = anchors(figures, device, prior)
    if not found:
        raise DataError("no figure of the probe says anything about a parameter", given=f"{len(figures)} figures")
    kept, notes = within_bounds(found, device)
    covariance = covariance_before(prior, device)
    parameters = condition(kept, before_probe(prior, device.name), covariance)
    machine = MachineCalibration(
        parameters={one.name: one.value for one in parameters},
        residuals=Residuals(),
        covariance=tuple(tuple(row) for row in covariance_after(kept, covariance).tolist()),
        anchors=kept,
    )
    by_origin = {
        origin: ", ".join(one.name for one in parameters if one.origin == origin)
        for origin in ("measured", "moved along", "prior")
    }
    unseen = f"{device.name}: from a probe, not from runs; its interval is as wide as the probe leaves it unsure"
    calibration = replace(
        prior,
        machines={**prior.machines, device.name: machine},
        warnings=(*prior.warnings, unseen, *notes, *(f"probe of {device.name}: {doubt}" for doubt in doubts)),
        provenance={
            **prior.provenance,
            "source": f"probe of {device.name} on top of {prior.provenance.get('source', 'an unnamed calibration')}",
            "state": "probed",
            "date": date or dt.datetime.now(dt.UTC).date().isoformat(),
            "version": metadata.version("wattlaw"),
            "probed_machine": device.name,
            **{f"parameters_{origin.replace(' ', '_')}": names for origin, names in by_origin.items()},
        },
    )
    return HostCalibration(calibration=calibration, parameters=parameters)


def anchors(figures: Figures, device: Accelerator, prior: Calibration) -> tuple[Anchor, ...]:
    """Turn figures into anchors, one rule per parameter; a rule whose figures are missing gives none."""
    found = []
    for name, rule in RULES.items():
        told = rule(figures, device, prior)
        if told is not None:
            spread = math.hypot(told.spread, TRANSFER_SPREAD[name])
            found.append(Anchor(parameter=name, value=told.value, spread=spread, told_by=told.told_by))
    return tuple(found)


def within_bounds(found: Sequence[Anchor], device: Accelerator) -> tuple[tuple[Anchor, ...], tuple[str, ...]]:
    """Hold shares of a data sheet's figure at 1, and say which were above.

    More than a data sheet states means another device, another data sheet, or one that is only declared.
    """
    upper = {parameter.name: parameter.upper for parameter in PARAMETERS}
    kept = tuple(replace(anchor, value=min(anchor.value, upper[anchor.parameter])) for anchor in found)
    notes = tuple(
        f"{anchor.parameter} of {device.name} was measured as {anchor.value:.3g} and is held at its bound "
        f"{upper[anchor.parameter]:g}: its data sheet is too low, and a file with its own figures (--gpu FILE) helps"
        for anchor in found
        if anchor.value > upper[anchor.parameter]
    )
    return kept, notes


def before_probe(prior: Calibration, machine: str) -> Mapping[str, float]:
    """Return the parameters without the probe: the machine's own where a fit has seen such, else the common."""
    return prior.machines[machine].parameters if machine in prior.machines else prior.parameters


def covariance_before(prior: Calibration, device: Accelerator) -> Numbers:
    """Return the covariance of the parameters' logarithms without the probe; shape ``[parameters, parameters]``.

    The mean of n machines is known to a machine's spread over the root of n, and this machine is one more.
    """
    covariance: Numbers = between_machines() * (1 + 1 / max(1, len(prior.machines)))
    if device.architecture == "CPU":
        covariance = covariance + PROCESSOR_SPREAD**2 * np.eye(len(PARAMETERS))
    return covariance


def condition(found: Sequence[Anchor], before: Mapping[str, float], covariance: Numbers) -> tuple[ProbedParameter, ...]:
    """Find the most probable parameters given the anchors; the formula is the module's."""
    names = [parameter.name for parameter in PARAMETERS]
    centre = np.log([before[name] for name in names])
    rows = [names.index(anchor.parameter) for anchor in found]
    measured = np.log([anchor.value for anchor in found])
    after = centre + _gain(found, covariance) @ (measured - centre[rows])
    left = covariance_after(found, covariance)
    told = {anchor.parameter: anchor.told_by for anchor in found}
    return tuple(
        ProbedParameter(
            name=name,
            before=before[name],
            value=float(np.exp(after[place])),
            spread=float(np.sqrt(left[place, place])),
            origin=_origin(name in told, after[place] - centre[place]),
            told_by=told.get(name, ()),
        )
        for place, name in enumerate(names)
    )


def covariance_after(found: Sequence[Anchor], covariance: Numbers) -> Numbers:
    """Return what the anchors leave of the covariance of the parameters' logarithms; same shape."""
    names = [parameter.name for parameter in PARAMETERS]
    left: Numbers = covariance - _gain(found, covariance) @ covariance[[names.index(one.parameter) for one in found], :]
    return left


def _gain(found: Sequence[Anchor], covariance: Numbers) -> Numbers:
    """How far each parameter follows each anchor; shape ``[parameters, anchors]``."""
    names = [parameter.name for parameter in PARAMETERS]
    rows = [names.index(anchor.parameter) for anchor in found]
    errors = np.diag([anchor.spread**2 for anchor in found])
    gain: Numbers = covariance[:, rows] @ np.linalg.inv(covariance[np.ix_(rows, rows)] + errors)
    return gain


def _origin(is_measured: bool, change: float) -> Origin:
    if is_measured:
        return "measured"
    return "moved along" if abs(change) > MOVED else "prior"


# ---------------------------------------------------------------- one rule per parameter


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
