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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from wattlaw.errors import ConfigError, DataError
from wattlaw.hardware import Accelerator
from wattlaw.law.anchoring import Figures, anchors
from wattlaw.law.calibration import Anchor, Calibration, MachineCalibration, Residuals
from wattlaw.law.step_terms import PARAMETERS, between_machines

Numbers = NDArray[np.float64]

#: What machines have in common was found on GPUs: the parameters of a processor may be farther from it, by this
#: standard deviation of the logarithm.
PROCESSOR_SPREAD = 1.0
#: Where a parameter of a probed machine comes from: a figure of the probe, correlation with such, or the prior alone.
Origin = Literal["measured", "moved along", "prior"]
#: A change of an unmeasured parameter below this share is none.
MOVED = 0.01


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
    parameters = condition(kept, prior.parameters_on(device.name), covariance)
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
