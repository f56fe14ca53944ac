"""Hardware and where it runs: accelerators, links, node types, regions, each number with its unit and its source.

A device is described by one TOML file; ``docs/hardware.md`` says how its numbers are chosen and how to add one.
"""

from wattlaw.hardware.accelerator import RATED_PRECISIONS, Accelerator, Peak
from wattlaw.hardware.embodied import Embodied
from wattlaw.hardware.link import Link
from wattlaw.hardware.lookup import (
    accelerator,
    accelerators,
    embodied,
    link,
    links,
    node_type,
    node_types,
    region,
    regions,
)
from wattlaw.hardware.node import NodeType
from wattlaw.hardware.region import Region
from wattlaw.hardware.source import Source

__all__ = [
    "RATED_PRECISIONS",
    "Accelerator",
    "Embodied",
    "Link",
    "NodeType",
    "Peak",
    "Region",
    "Source",
    "accelerator",
    "accelerators",
    "embodied",
    "link",
    "links",
    "node_type",
    "node_types",
    "region",
    "regions",
]
