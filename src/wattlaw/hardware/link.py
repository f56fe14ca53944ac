"""Links: how fast and how soon bytes get from one device or node to the next."""

from __future__ import annotations

from dataclasses import dataclass

from wattlaw.hardware.source import require_positive


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What one device has of one kind of link.

    Attributes:
        kind: its name in ``links()``, such as ``nvlink-3`` or ``pcie-4-x16``.
        bytes_per_s: peak rate in one direction, of all lanes that the device has of it together. Data sheets
            often print the sum of both directions, which is twice this.
        latency_s: time of an empty message from one end to the other, software included; an assumption of the
            right size where nothing was measured.
        full_name: the kind in words.
    """

    kind: str
    bytes_per_s: float
    latency_s: float
    full_name: str = ""

    def __post_init__(self) -> None:
        """Refuse rates and latencies that are not above zero."""
        require_positive(bytes_per_s=self.bytes_per_s, latency_s=self.latency_s)
