"""Anchors: what was measured about single parameters of a machine, kept in a calibration for later fits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wattlaw.law.calibration import Calibration

_VALUE = "anchor:"
_SPREAD = "anchor_spread:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """What a measurement says about one parameter.

    Attributes:
        parameter: its name.
        value: that the measurement makes it.
        spread: standard deviation of its logarithm.
        told_by: the figures that it was made of.
    """

    parameter: str
    value: float
    spread: float
    told_by: tuple[str, ...] = ()


def anchors_of(calibration: Calibration, machine: str) -> tuple[Anchor, ...]:
    """Return the anchors that a calibration holds of a machine."""
    kept = calibration.diagnostics
    own = f"{_VALUE}{machine}:"
    return tuple(
        Anchor(parameter=name, value=value, spread=kept[f"{_SPREAD}{machine}:{name}"])
        for key, value in kept.items()
        if key.startswith(own) and f"{_SPREAD}{machine}:{(name := key.removeprefix(own))}" in kept
    )


def as_diagnostics(machine: str, anchors: Iterable[Anchor]) -> dict[str, float]:
    """Lay anchors out as a calibration keeps them."""
    return {
        key: value
        for anchor in anchors
        for key, value in (
            (f"{_VALUE}{machine}:{anchor.parameter}", anchor.value),
            (f"{_SPREAD}{machine}:{anchor.parameter}", anchor.spread),
        )
    }
