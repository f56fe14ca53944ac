"""What a probe finds: figures with their unit, method and spread, as a value and as a JSON file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Self

import msgspec

from wattlaw.errors import DataError, FileError
from wattlaw.run.files import write_atomic

FORMAT = "wattlaw probe"
FORMAT_VERSION = 1

#: Median absolute deviation of a normal distribution, as a share of its standard deviation, is one over this.
DEVIATIONS_PER_MAD = 1.4826


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured number.

    Attributes:
        value: above zero, in ``unit``.
        unit: SI, such as ``flop/s``.
        method: how it was measured, in words.
        spread: standard deviation of its logarithm, over repeats or over cases; 0 where there was one only.
        num_samples: times that it was measured.
        num_cases: cases of which it is the mean, such as shapes of products.
    """

    value: float
    unit: str
    method: str
    spread: float = 0.0
    num_samples: int = 1
    num_cases: int = 1

    @property
    def error(self) -> float:
        """Standard deviation of the logarithm of the mean over cases.

        Repeats of one case do not make it smaller: what disturbs them lasts longer than one of them.
        """
        return self.spread / math.sqrt(self.num_cases)

    def __post_init__(self) -> None:
        """Refuse what no measurement gives."""
        if not (math.isfinite(self.value) and self.value > 0):
            raise DataError("a probe's figure must be above zero", given=f"{self.value} {self.unit}: {self.method}")
        if not (math.isfinite(self.spread) and self.spread >= 0):
            raise DataError("a spread must not be negative", given=f"{self.spread}: {self.method}")

    @classmethod
    def of_samples(cls, samples: Sequence[float], *, unit: str, method: str) -> Self:
        """Take the median of repeats; their spread from the median absolute deviation, which outliers hardly move.

        >>> figure = Figure.of_samples([1.0, 1.0, 1.0, 9.0], unit="s", method="by hand")
        >>> figure.value, figure.spread, figure.num_samples
        (1.0, 0.0, 4)
        """
        middle = median(samples)
        deviation = median(abs(sample - middle) for sample in samples)
        spread = DEVIATIONS_PER_MAD * deviation / middle if middle > 0 else 0.0
        return cls(value=middle, unit=unit, method=method, spread=spread, num_samples=len(samples))

    @classmethod
    def of_cases(cls, values: Sequence[float], *, unit: str, method: str, num_samples: int) -> Self:
        """Take the geometric mean of cases that differ, such as shapes; their spread in the logarithm.

        >>> figure = Figure.of_cases([1.0, 4.0], unit="flop/s", method="two shapes", num_samples=20)
        >>> figure.value, round(figure.spread, 3), round(figure.error, 3)
        (2.0, 0.98, 0.693)
        """
        logarithms = [math.log(value) for value in values]
        mean = sum(logarithms) / len(logarithms)
        freedom = max(1, len(logarithms) - 1)
        spread = math.sqrt(sum((value - mean) ** 2 for value in logarithms) / freedom)
        return cls(value=math.exp(mean), unit=unit, method=method, spread=spread, num_samples=num_samples,
                   num_cases=len(values))  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What was found out about one machine.

    Attributes:
        accelerator: its name, or the path of the user's file.
        device: ``cpu`` or ``cuda``.
        num_devices: devices, or ranks on a CPU, of which the collectives were measured.
        threads: of each rank on a CPU.
        measured: figure by name; ``None`` is not measured, and ``unavailable`` says why.
        unavailable: name -> reason.
        warnings: doubts, one line each.
        environment: versions, processor, driver.
        date: of the measurement, ISO 8601.
        duration_s: that the probe took.
    """

    accelerator: str
    device: str
    num_devices: int
    threads: int
    measured: Mapping[str, Figure | None]
    unavailable: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    date: str = ""
    duration_s: float = 0.0

    @property
    def figures(self) -> dict[str, Figure]:
        """What was measured, without what was not."""
        return {name: figure for name, figure in self.measured.items() if figure is not None}

    def save(self, path: str | Path) -> None:
        """Write the probe as JSON; the file appears whole or not at all.

        Raises:
            FileError: the file cannot be written.
        """
        document = {"format": FORMAT, "format_version": FORMAT_VERSION, **msgspec.to_builtins(self)}
        write_atomic(path, msgspec.json.format(msgspec.json.encode(document)).decode() + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a probe that ``save`` wrote.

        Raises:
            FileError: not there, no probe, of another version, or a field is missing or wrong.
        """
        try:
            found: Any = msgspec.json.decode(Path(path).read_bytes())
        except OSError as error:
            raise FileError("cannot read the probe", given=error.strerror).at(path) from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise FileError("not valid JSON", given=str(error)).at(path) from error
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise FileError("not a probe", allowed=f'"format": "{FORMAT}"').at(path)
        if found.get("format_version") != FORMAT_VERSION:
            raise FileError(
                "another version of the format", given=found.get("format_version"), allowed=FORMAT_VERSION
            ).at(path)
        try:
            return msgspec.convert(found, cls)
        except (msgspec.ValidationError, DataError) as error:
            raise FileError("a field of the probe is wrong", given=str(error)).at(path) from error
