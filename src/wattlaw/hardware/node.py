"""Node types: what surrounds the accelerators of one machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wattlaw.errors import ConfigError
from wattlaw.hardware.accelerator import cited_source
from wattlaw.hardware.source import Source, require_positive

if TYPE_CHECKING:
    from wattlaw.hardware.accelerator import Accelerator
    from wattlaw.hardware.link import Link


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """One kind of machine.

    Attributes:
        name: canonical name, the stem of its data file.
        accelerators_per_node: devices in one machine.
        inter_node_link: one device's share of the network, in one direction.
        host_power_w: power of all but the accelerators while training: processors, memory, fans, network,
            losses of the power supplies.
        host_idle_power_w: the same while nothing runs.
        rated_power_w: the most that the whole machine may draw, where its maker states it.
        intra_node_link: what limits the way between devices, where it is not the accelerator's own link.
        accelerators: canonical names of the devices that it is sold with; empty where any can be put in.
        full_name: as it is shown to people.
        aliases: other exact names of it.
        notes: what a reader of the figures must know.
        cited: pairs of a field of the data file and the key of its source.
        sources: the sources by key.
        file: path of the data file that the user gave; empty for those that wattlaw ships.
    """

    name: str
    accelerators_per_node: int
    inter_node_link: Link
    host_power_w: float
    host_idle_power_w: float
    rated_power_w: float | None = None
    intra_node_link: Link | None = None
    accelerators: tuple[str, ...] = ()
    full_name: str = ""
    aliases: tuple[str, ...] = ()
    notes: str = ""
    cited: tuple[tuple[str, str], ...] = ()
    sources: tuple[Source, ...] = ()
    file: str = ""

    def __post_init__(self) -> None:
        """Refuse figures that are not above zero, and an idle host that draws more than a busy one."""
        require_positive(
            accelerators_per_node=self.accelerators_per_node,
            host_power_w=self.host_power_w,
            host_idle_power_w=self.host_idle_power_w,
            rated_power_w=self.rated_power_w,
        )
        if self.host_idle_power_w > self.host_power_w:
            raise ConfigError(
                "host_idle_power_w exceeds host_power_w",
                given=self.host_idle_power_w,
                allowed=f"<= {self.host_power_w}",
            )

    @property
    def reference(self) -> str:
        """What ``node_type`` finds this machine by: its name, or the path of the user's file."""
        return self.file or self.name

    def link_of(self, accelerator: Accelerator) -> Link:
        """The link over which a device in this machine reaches its neighbours: the slower of its own and the node's.

        Raises:
            ConfigError: this machine is not sold with such devices.
        """
        if self.accelerators and accelerator.name not in self.accelerators:
            raise ConfigError(
                f"{self.name} has no {accelerator.name}",
                given=accelerator.name,
                allowed=", ".join(self.accelerators),
                hint="another node type",
            )
        ways = [link for link in (accelerator.link, self.intra_node_link) if link is not None]
        return min(ways, key=lambda link: link.bytes_per_s)

    def source_of(self, field: str) -> Source:
        """The source of a figure, by its place in the data file, such as ``power.host_w``.

        Raises:
            UnknownNameError: the data file has no such figure.
        """
        return cited_source(field, self.cited, self.sources)
