"""Accelerators: what one device can do at most, as its vendor states it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from wattlaw.errors import ConfigError, UnknownNameError
from wattlaw.hardware.source import Source, require_positive

if TYPE_CHECKING:
    from wattlaw.hardware.link import Link

Unit = Literal["matrix", "vector"]

#: Number formats that a peak can be asked for, in the order in which they are shown.
RATED_PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """The dense peak rate of one kind of unit in one number format.

    Attributes:
        unit: ``matrix`` for tensor cores, matrix cores and systolic arrays, ``vector`` for the ordinary lanes.
        precision: format of the factors.
        flop_per_s: dense; a multiply-add counts as two.
        accumulation: format of the sums. Training accumulates in fp32; GeForce cards do that at half the rate.
    """

    unit: Unit
    precision: str
    flop_per_s: float
    accumulation: Literal["fp32", "fp16"] = "fp32"

    def __post_init__(self) -> None:
        """Refuse a rate that is not above zero."""
        require_positive(flop_per_s=self.flop_per_s)

    @property
    def field(self) -> str:
        """Where a data file holds this figure."""
        suffix = "_accumulate_fp16" if self.accumulation == "fp16" else ""
        return f"peak.{self.unit}.{self.precision}{suffix}_flop_per_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One device: a GPU, a TPU chip, a module, a processor.

    Attributes:
        name: canonical name, the stem of its data file.
        peaks: dense peak rates per unit and number format.
        memory_bytes: capacity. The GB that vendors print for memory are GiB, and are taken as such.
        bandwidth_bytes_per_s: peak rate between the device and its memory.
        power_limit_w: default power limit of the whole board, package or module.
        link: how it reaches other devices without accessories: NVLink on SXM boards, the bus on PCIe cards.
        bridge: link between neighbouring cards that an accessory adds, if there is one.
        bridge_num_devices: how many cards one bridge joins.
        includes_host: whether the power limit is of a module that holds the processor as well.
        full_name: as it is shown to people.
        vendor: in lower case.
        architecture: the vendor's name of its generation.
        form_factor: how it is mounted.
        year: of its first sale; 0 where unknown.
        aliases: other exact names of it, among them what NVML prints.
        notes: what a reader of the figures must know.
        cited: pairs of a field of the data file and the key of its source.
        sources: the sources by key.
        file: path of the data file that the user gave; empty for those that wattlaw ships.
    """

    name: str
    peaks: tuple[Peak, ...]
    memory_bytes: float
    bandwidth_bytes_per_s: float
    power_limit_w: float
    link: Link
    bridge: Link | None = None
    bridge_num_devices: int | None = None
    includes_host: bool = False
    full_name: str = ""
    vendor: str = ""
    architecture: str = ""
    form_factor: str = ""
    year: int = 0
    aliases: tuple[str, ...] = ()
    notes: str = ""
    cited: tuple[tuple[str, str], ...] = ()
    sources: tuple[Source, ...] = ()
    file: str = ""

    def __post_init__(self) -> None:
        """Refuse a device without peaks, and figures that are not above zero."""
        if not self.peaks:
            raise ConfigError("an accelerator needs a peak rate", given="none", allowed="at least one")
        require_positive(
            memory_bytes=self.memory_bytes,
            bandwidth_bytes_per_s=self.bandwidth_bytes_per_s,
            power_limit_w=self.power_limit_w,
            bridge_num_devices=self.bridge_num_devices,
        )

    @property
    def reference(self) -> str:
        """What ``accelerator`` finds this device by: its name, or the path of the user's file."""
        return self.file or self.name

    @property
    def precisions(self) -> tuple[str, ...]:
        """Number formats that the device computes in."""
        rated = {peak.precision for peak in self.peaks}
        return tuple(precision for precision in RATED_PRECISIONS if precision in rated)

    def peak(self, precision: str) -> Peak:
        """The rate of a training step's matrix products in a number format.

        Matrix units go before vector units, and sums in fp32 before sums in fp16. So ``fp32`` is the vector
        rate on NVIDIA, whose matrix units round fp32 factors to TF32, and the matrix rate on AMD's CDNA; and
        a device that states no rate with sums in fp32 (Pascal) answers with the one that it states.

        Raises:
            ConfigError: the device has no unit for this format.
        """
        rated = [peak for peak in self.peaks if peak.precision == precision]
        if not rated:
            raise ConfigError(
                f"{self.name} does not compute in {precision}", given=precision, allowed=", ".join(self.precisions)
            )
        return min(rated, key=lambda peak: (peak.accumulation != "fp32", peak.unit != "matrix"))

    def peak_flop_per_s(self, precision: str) -> float:
        """Dense peak of matrix products in a number format, as ``peak`` chooses it.

        Raises:
            ConfigError: the device has no unit for this format.

        >>> from wattlaw.hardware import accelerator
        >>> accelerator("a100-sxm4-40gb").peak_flop_per_s("bf16")
        312000000000000.0
        """
        return self.peak(precision).flop_per_s

    def ridge_flop_per_byte(self, precision: str) -> float:
        """Arithmetic intensity above which the peak rate, and no longer the memory, limits a kernel.

        Williams, Waterman, Patterson 2009, Roofline: peak rate / bandwidth.

        Raises:
            ConfigError: the device has no unit for this format.
        """
        return self.peak_flop_per_s(precision) / self.bandwidth_bytes_per_s

    def peak_source(self, precision: str) -> Source:
        """The source of ``peak_flop_per_s``.

        Raises:
            ConfigError: the device has no unit for this format.
            UnknownNameError: the device was made without sources.
        """
        return self.source_of(self.peak(precision).field)

    def source_of(self, field: str) -> Source:
        """The source of a figure, by its place in the data file, such as ``power.limit_w``.

        Raises:
            UnknownNameError: the data file has no such figure.
        """
        return cited_source(field, self.cited, self.sources)


def cited_source(field: str, cited: tuple[tuple[str, str], ...], sources: tuple[Source, ...]) -> Source:
    """The source that ``cited`` names for a field.

    Raises:
        UnknownNameError: no source is named for it.
    """
    keys = dict(cited)
    if field not in keys:
        raise UnknownNameError.among("figure", field, keys)
    return next(source for source in sources if source.key == keys[field])
