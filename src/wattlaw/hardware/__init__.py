"""Hardware: accelerators, links and node types, each number with its unit and its source.

A device is described by one TOML file; ``docs/hardware.md`` says how its numbers are chosen and how to add one.
"""

from wattlaw.hardware.accelerator import RATED_PRECISIONS, Accelerator, Peak
from wattlaw.hardware.link import Link
from wattlaw.hardware.lookup import accelerator, accelerators, link, links, node_type, node_types
from wattlaw.hardware.node import NodeType
from wattlaw.hardware.source import Source

__all__ = [
    "RATED_PRECISIONS",
    "Accelerator",
    "Link",
    "NodeType",
    "Peak",
    "Source",
    "accelerator",
    "accelerators",
    "link",
    "links",
    "node_type",
    "node_types",
]
