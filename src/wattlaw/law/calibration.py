"""A calibration: a law's parameters for some hardware, as a value and as a JSON file."""

from __future__ import annotations

import math
import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec

from wattlaw.errors import DataError, FileError, UnknownNameError, encoding_hint
from wattlaw.law.residual import ResidualProcess
from wattlaw.run.files import write_atomic

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMAT = "wattlaw calibration"
FORMAT_VERSION = 1
#: What is written on one line, so that a file of thousands of numbers can be looked through.
_LIST_OF_NUMBERS = re.compile(r"\[\n[\s\d.,eE+-]*\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Residuals:
    """ln(observed / predicted) of runs that a fit did not see, or as if it had not.

    Attributes:
        energy: of the energies.
        duration: of the durations; empty where the law knows no time.
        energy_spread: standard deviations that were expected of ``energy``; empty where none were.
        duration_spread: the same of ``duration``.
    """

    energy: tuple[float, ...] = ()
    duration: tuple[float, ...] = ()
    energy_spread: tuple[float, ...] = ()
    duration_spread: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Refuse numbers that are not finite, and spreads that are not of these residuals."""
        spreads = (*self.energy_spread, *self.duration_spread)
        if not all(math.isfinite(value) for value in (*self.energy, *self.duration, *spreads)):
            raise DataError("residuals of a calibration must be finite")
        for target in ("energy", "duration"):
            values, expected = getattr(self, target), getattr(self, f"{target}_spread")
            if expected and (len(expected) != len(values) or min(expected) <= 0):
                raise DataError(f"{target}_spread must be above zero, one for each residual", given=len(expected))

    def __bool__(self) -> bool:
        return bool(self.energy or self.duration)

    def scaled(self, target: str) -> NDArray[np.float64]:
        """Return one target's residuals in units of what was expected of them, where something was; ``[runs]``."""
        import numpy as np

        values, expected = np.array(getattr(self, target)), np.array(getattr(self, f"{target}_spread"))
        found: NDArray[np.float64] = values / expected if expected.size else values
        return found

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """Gather the residuals of several parts."""
        kept = tuple(parts)
        return cls(
            energy=tuple(value for part in kept for value in part.energy),
            duration=tuple(value for part in kept for value in part.duration),
            energy_spread=tuple(value for part in kept for value in part.energy_spread),
            duration_spread=tuple(value for part in kept for value in part.duration_spread),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """What a measurement by itself, such as a probe's, says about one parameter of a machine.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCalibration:
    """What a fit found on one machine, where the law tells machines apart.

    Attributes:
        parameters: value of each named parameter.
        residuals: of the machine's runs, as if the fit had not seen them.
        covariance: of the logarithms of the parameters, in their order; ``None`` where it is not known.
        process: what the law leaves unexplained between the machine's runs; ``None`` for nothing.
        anchors: what a probe measured of single parameters, for later fits.
        num_runs: how many of the fit's runs were on it, by strategy; empty where that is not known.
    """

    parameters: Mapping[str, float]
    residuals: Residuals
    covariance: tuple[tuple[float, ...], ...] | None = None
    process: ResidualProcess | None = None
    anchors: tuple[Anchor, ...] = ()
    num_runs: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a covariance that is none."""
        _check_covariance(self.covariance, self.parameters)


#: Fields that every file has; the others may be left out where a law has nothing to put there.
REQUIRED = ("law", "parameters", "residuals", "provenance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Everything that predicting with a law needs, whether fitted here or published by others.

    Attributes:
        law: the law's name.
        parameters: value of each named parameter.
        covariance: of the first parameters, in their order (a law may carry more, held fixed), or of their logarithms
            where the law fits those; ``None`` where it is not known.
        centres: what was subtracted from a regressor before the fit, by the regressor's name.
        domain: smallest and largest value of each numeric column seen in the fit.
        kinds: the values of each column of text seen in the fit, such as the precisions.
        residuals: of the runs in the fit, as if it had not seen them.
        outside: residuals of runs larger than those of the fit, on machines that it saw.
        cold: residuals on machines that the fit did not see.
        num_cold: how many machines these are of.
        machines: what was found on each machine, by its name, where the law tells machines apart; ``parameters`` are
            then what they have in common.
        noise: by target, what the law leaves unexplained on a machine, as the standard deviation of the logarithm.
        boundary: what the energies include: ``accelerators``, ``node`` or ``facility``; empty where not known.
        warnings: findings of the fit that a reader should know, such as a parameter on its bound.
        diagnostics: figures about the fit, by name.
        options: choices of the law that its arithmetic depends on.
        provenance: where it comes from: source, num_records, date, version, and warm, cold or published.
    """

    law: str
    parameters: Mapping[str, float]
    covariance: tuple[tuple[float, ...], ...] | None = None
    centres: Mapping[str, float] = field(default_factory=dict)
    domain: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    kinds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    residuals: Residuals = Residuals()
    outside: Residuals = Residuals()
    cold: Residuals = Residuals()
    num_cold: int = 0
    machines: Mapping[str, MachineCalibration] = field(default_factory=dict)
    noise: Mapping[str, float] = field(default_factory=dict)
    boundary: str = ""
    warnings: tuple[str, ...] = ()
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    provenance: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse numbers that are not finite: JSON cannot hold them and no prediction can use them."""
        for kind in ("parameters", "centres", "noise", "diagnostics"):
            for name, value in getattr(self, kind).items():
                if not math.isfinite(value):
                    raise DataError(f"{kind} of a calibration must be finite", given=f"{name} = {value}")
        for name, limits in self.domain.items():
            if not all(math.isfinite(limit) for limit in limits):
                raise DataError("the domain of a calibration must be finite", given=f"{name} {limits}")
        _check_covariance(self.covariance, self.parameters)

    def without_residual(self) -> Self:
        """Return the law alone, without what it leaves unexplained: quicker, for very many runs at once."""
        machines = {name: replace(machine, process=None) for name, machine in self.machines.items()}
        return replace(self, machines=machines)

    def parameters_on(self, machine: str) -> Mapping[str, float]:
        """Return a machine's own parameters, or the common ones where the calibration did not see it."""
        own = self.machines.get(machine)
        return self.parameters if own is None else own.parameters

    def parameter(self, name: str) -> float:
        """Return one parameter.

        Raises:
            UnknownNameError: the calibration has no parameter of this name.
        """
        try:
            return self.parameters[name]
        except KeyError:
            raise UnknownNameError.among(f"parameter of the {self.law} calibration", name, self.parameters) from None

    def standard_error(self, name: str) -> float | None:
        """Return the standard error of one parameter, ``None`` where it is not known, as on a bound."""
        if f"on_bound:{name}" in self.diagnostics:
            return None
        position = list(self.parameters).index(name) if name in self.parameters else len(self.parameters)
        if self.covariance is None or position >= len(self.covariance):
            return self.diagnostics.get(f"standard_error:{name}")
        return math.sqrt(self.covariance[position][position])

    def save(self, path: str | Path) -> None:
        """Write the calibration as JSON; the file appears whole or not at all.

        Raises:
            FileError: the file cannot be written; what was there before is left as it was.
        """
        content = msgspec.json.format(msgspec.json.encode(self.to_mapping()))
        lines = _LIST_OF_NUMBERS.sub(lambda found: " ".join(found[0].split()), content.decode())
        write_atomic(path, lines + "\n")

    def to_mapping(self) -> dict[str, Any]:
        """Lay the calibration out as its file holds it."""
        return {"format": FORMAT, "format_version": FORMAT_VERSION, **msgspec.to_builtins(self)}

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a calibration written by ``save``.

        Raises:
            FileError: not there, truncated, of another format or version, or a field missing, unknown or of the
                wrong type.
        """
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise FileError("cannot read the calibration", given=error.strerror, place=str(path)) from error
        return cls.from_json(content, place=str(path))

    @classmethod
    def from_json(cls, content: bytes, *, place: str) -> Self:
        """Build a calibration from the bytes of a file, which ``place`` names in errors.

        Raises:
            FileError: as ``load``.
        """
        try:
            found = msgspec.json.decode(content.removeprefix(BOM_UTF8))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            hint = encoding_hint(content) or "fitting the law again"
            raise FileError("not valid JSON", given=str(error), hint=hint, place=place) from error
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise FileError("not a calibration", allowed=f'"format": "{FORMAT}"', place=place)
        if found.get("format_version") != FORMAT_VERSION:
            raise FileError(
                "another version of the format", given=found.get("format_version"), allowed=FORMAT_VERSION, place=place
            )
        _check_fields(cls, found, place)
        try:
            return msgspec.convert(found, cls)
        except (msgspec.ValidationError, DataError) as error:
            raise FileError("a field of the calibration is wrong", given=str(error), place=place) from error


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimate:
    """What a law says of each run.

    Attributes:
        energy_j: one entry per run.
        duration_s: one entry per run; ``None`` where the law knows no time.
        terms_j: named parts that sum to ``energy_j``.
        terms_s: named parts that sum to ``duration_s``; empty where the law knows no time.
    """

    energy_j: NDArray[np.float64]
    duration_s: NDArray[np.float64] | None
    terms_j: Mapping[str, NDArray[np.float64]]
    terms_s: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)


def _check_covariance(covariance: tuple[tuple[float, ...], ...] | None, parameters: Mapping[str, float]) -> None:
    rows = covariance or ()
    if len(rows) > len(parameters) or any(len(row) != len(rows) for row in rows):
        raise DataError("a covariance must be square and no larger than the parameters", given=f"{len(rows)} rows")
    if not all(math.isfinite(value) for row in rows for value in row):
        raise DataError("the covariance of a calibration must be finite")


def _check_fields(kind: type[Calibration], found: dict[str, Any], place: str) -> None:
    names = [each.name for each in fields(kind)]
    for name in found:
        if name not in (*names, "format", "format_version"):
            raise FileError(str(UnknownNameError.among("field of a calibration", name, names)), place=place)
    for name in REQUIRED:
        if name not in found:
            raise FileError(
                "a field of the calibration is missing", given=name, allowed=", ".join(REQUIRED), place=place
            )
