"""What was timed of a model's modules, as values and as a file: lines of JSON, one per configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from wattlaw.errors import FileError
from wattlaw.run import RunSpec, spec_from_mapping, spec_to_mapping, write_atomic

FORMAT = "wattlaw modules"
FORMAT_VERSION = 1

#: Part of a model, such as ``attention.qkv``, and the number of its block; -1 outside of blocks.
Place = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTime:
    """Time of one part of a model in one step, a median over steps.

    Attributes:
        part: module and operation, such as ``attention.qkv``.
        block: number of the block; -1 outside of blocks.
        forward_s: in the forward pass.
        backward_s: in the backward pass.
    """

    part: str
    block: int
    forward_s: float
    backward_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleTimes:
    """What was timed of one configuration.

    Attributes:
        spec: of the run.
        parts: all parts; they sum to a forward and a backward pass.
        pass_s: forward and backward pass without hooks.
        update_s: the optimizer's step.
        num_steps: that each figure is a median of.
        threads: of the processor.
    """

    spec: RunSpec
    parts: tuple[PartTime, ...]
    pass_s: float
    update_s: float
    num_steps: int
    threads: int

    def by_part(self) -> dict[str, float]:
        """Seconds of forward and backward pass by part, blocks together."""
        found: dict[str, float] = {}
        for one in self.parts:
            found[one.part] = found.get(one.part, 0.0) + one.forward_s + one.backward_s
        return found


def write_module_times(path: Path, found: Sequence[ModuleTimes]) -> None:
    """Write times as lines of JSON, one per configuration; the file appears whole or not at all.

    Raises:
        FileError: it cannot be written.
    """
    lines = [
        msgspec.json.encode({
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            **{name: value for name, value in msgspec.to_builtins(one).items() if name != "spec"},
            "spec": spec_to_mapping(one.spec),
        }).decode()
        for one in found
    ]  # fmt: skip
    write_atomic(path, "\n".join(lines) + "\n")


def read_module_times(path: Path) -> tuple[ModuleTimes, ...]:
    """Read what ``write_module_times`` wrote.

    Raises:
        FileError: not there, not such a file, or a line of it is wrong.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise FileError("cannot read the times of modules", given=error.strerror).at(path) from error
    return tuple(_times(line, f"{path}: line {number}") for number, line in enumerate(lines, start=1) if line.strip())


def _times(line: bytes, place: str) -> ModuleTimes:
    try:
        found = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise FileError("not valid JSON", given=error, place=place) from error
    if not isinstance(found, dict) or (found.get("format"), found.get("format_version")) != (FORMAT, FORMAT_VERSION):
        raise FileError("not times of modules", allowed=f'"format": "{FORMAT}"', place=place)
    try:
        spec = spec_from_mapping(found["spec"], Path())
        rest = {name: found[name] for name in ("pass_s", "update_s", "num_steps", "threads")}
        return ModuleTimes(spec=spec, parts=msgspec.convert(found["parts"], tuple[PartTime, ...]), **rest)
    except KeyError as error:
        raise FileError("a field is missing", given=error.args[0], place=place) from error
    except msgspec.ValidationError as error:
        raise FileError("a field is wrong", given=error, place=place) from error
