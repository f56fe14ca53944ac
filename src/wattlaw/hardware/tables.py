"""The layout of data files, written down once: which tables a file has, which keys a table."""

from __future__ import annotations

from typing import Annotated

import msgspec

from wattlaw.hardware.region import Scope
from wattlaw.hardware.source import Basis

# The upper bound is there to refuse infinity, which TOML can write.
_Positive = Annotated[float, msgspec.Meta(gt=0, lt=1e30)]
_Count = Annotated[int, msgspec.Meta(ge=1)]
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class Table(msgspec.Struct, forbid_unknown_fields=True):
    """A table with no other keys than those that are named."""


class Figure(Table):
    """A number and the key of its source."""

    value: _Positive
    source: _Text


class SourceTable(Table):
    """``[sources.KEY]``: a document, or an assumption."""

    title: _Text
    publisher: str = ""
    date: str = ""
    url: str = ""
    basis: Basis = "document"


class FileTable(Table):
    """A whole file; its ``[sources.KEY]`` are read apart, as ``SourceTable``."""

    sources: dict[str, dict[str, object]]


class RatesTable(Table):
    """``[peak.UNIT]``: dense rates by number format."""

    fp32_flop_per_s: Figure | None = None
    tf32_flop_per_s: Figure | None = None
    bf16_flop_per_s: Figure | None = None
    fp16_flop_per_s: Figure | None = None
    fp8_flop_per_s: Figure | None = None
    fp16_accumulate_fp16_flop_per_s: Figure | None = None


class PeakTable(Table):
    """``[peak]``: rates by kind of unit."""

    matrix: RatesTable = msgspec.field(default_factory=RatesTable)
    vector: RatesTable = msgspec.field(default_factory=RatesTable)


class MemoryTable(Table):
    """``[memory]``."""

    capacity_bytes: Figure
    bandwidth_bytes_per_s: Figure


class PowerTable(Table):
    """``[power]`` of an accelerator."""

    limit_w: Figure
    includes_host: bool = False


class LinkTable(Table):
    """A link: its kind, and how many bytes it moves."""

    kind: _Text
    bytes_per_s: Figure


class BridgeTable(LinkTable):
    """``[bridge]``: a link that an accessory adds."""

    num_devices: _Count


class AcceleratorTable(FileTable):
    """The file of an accelerator."""

    full_name: _Text
    vendor: _Text
    peak: PeakTable
    memory: MemoryTable
    power: PowerTable
    link: LinkTable
    bridge: BridgeTable | None = None
    architecture: str = ""
    form_factor: str = ""
    year: int = 0
    aliases: tuple[_Text, ...] = ()
    notes: str = ""


class HostPowerTable(Table):
    """``[power]`` of a node type."""

    host_w: Figure
    host_idle_w: Figure
    rated_w: Figure | None = None


class NodeTable(FileTable):
    """The file of a node type."""

    full_name: _Text
    accelerators_per_node: _Count
    power: HostPowerTable
    inter_node_link: LinkTable
    intra_node_link: LinkTable | None = None
    accelerators: tuple[_Text, ...] = ()
    aliases: tuple[_Text, ...] = ()
    notes: str = ""


class LinkKindTable(Table):
    """``[links.KIND]``."""

    full_name: _Text
    bytes_per_s: Figure
    latency_s: Figure


class LinksTable(FileTable):
    """The file of link kinds."""

    links: dict[str, LinkKindTable]


class RegionTable(Table):
    """``[regions.CODE]``."""

    name: _Text
    year: _Count
    scope: Scope
    carbon_g_per_kwh: Figure
    aliases: tuple[_Text, ...] = ()


class RegionsTable(FileTable):
    """The file of regions."""

    regions: dict[str, RegionTable]


class BoardTable(Table):
    """``[boards.NAME]``: emissions of making one."""

    carbon_kg: Figure


class EmbodiedHostTable(BoardTable):
    """``[host]``: emissions of making a server, and its devices."""

    devices: _Count


class LifeTable(Table):
    """``[life]``: years, and the share of them that is worked."""

    years: Figure
    busy_share: Figure


class EmbodiedTable(FileTable):
    """The file of embodied emissions."""

    boards: dict[str, BoardTable]
    host: EmbodiedHostTable
    life: LifeTable
