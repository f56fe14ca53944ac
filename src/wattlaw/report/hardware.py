"""Accelerators, node types and regions as tables and mappings, with the sources of their figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wattlaw.hardware import RATED_PRECISIONS, Accelerator, NodeType, Region
from wattlaw.report.machine import as_builtins
from wattlaw.units import BYTES_PER_GB, BYTES_PER_GIB, FLOP_PER_TFLOP

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table


def list_mapping(
    devices: Sequence[Accelerator], nodes: Sequence[NodeType], regions: Sequence[Region]
) -> dict[str, Any]:
    """Lay all known hardware and regions out for ``--json``, without sources."""
    return {
        "accelerators": [_without_sources(device) for device in devices],
        "node_types": [_without_sources(node) for node in nodes],
        "regions": [_without_sources(one) for one in regions],
    }


def show_mapping(found: Accelerator | NodeType | Region) -> dict[str, Any]:
    """Lay one device, node type or region out for ``--json``, with the source of each figure."""
    if isinstance(found, Region):
        return {**_without_sources(found), "sources": {"carbon_g_per_kwh": as_builtins(found.source)}}
    return {
        **_without_sources(found),
        "sources": {field: as_builtins(found.source_of(field)) for field, _ in found.cited},
    }


def list_text(devices: Sequence[Accelerator], nodes: Sequence[NodeType], regions: Sequence[Region]) -> Group:
    """Show what is known: devices and nodes one line each, regions several."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))  # 80 characters hold a line
    table.add_column("accelerator", no_wrap=True)
    for heading in ("GiB", "GB/s", *RATED_PRECISIONS, "W", "link"):
        table.add_column(heading, justify="right" if heading != "link" else "left")
    for device in devices:
        rates = [
            _rate(device.peak_flop_per_s(name) / FLOP_PER_TFLOP) if name in device.precisions else "-"
            for name in RATED_PRECISIONS
        ]
        table.add_row(
            device.name,
            f"{device.memory_bytes / BYTES_PER_GIB:.0f}",
            f"{device.bandwidth_bytes_per_s / BYTES_PER_GB:.0f}",
            *rates,
            f"{device.power_limit_w:.0f}",
            device.link.kind,
        )
    hosts = Table("node type", "devices", "of", "host W", "network", box=None, header_style="bold", pad_edge=False)
    for node in nodes:
        hosts.add_row(
            node.name,
            str(node.accelerators_per_node),
            ", ".join(node.accelerators) or "any",
            f"{node.host_power_w:.0f}",
            f"{node.inter_node_link.kind} {node.inter_node_link.bytes_per_s / BYTES_PER_GB:.3g} GB/s",
        )
    note = "dense TFLOP/s of matrix products with sums in fp32; GB/s of memory; network per direction and device"
    parts: list[Any] = [table, Text(note, style="dim"), Text(""), hosts]
    for scope in dict.fromkeys(one.scope for one in regions):
        within = [one for one in regions if one.scope == scope]
        years = sorted({one.year for one in within})
        heading = f"region: g/kWh, {scope}, {years[0]}" + (f" to {years[-1]}" if len(years) > 1 else "")
        parts += [Text(""), Text(heading, style="bold"), _intensities(within)]
    return Group(*parts)


def _intensities(regions: Sequence[Region], *, columns: int = 7) -> Table:
    """Show codes and intensities, filled by columns; a region's own page has its name, year and source."""
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    for _ in range(columns):
        table.add_column()
        table.add_column(justify="right", min_width=4)
    rows = -(-len(regions) // columns)
    for row in range(rows):
        cells = [(one.code, f"{one.carbon_g_per_kwh:.0f}") for one in regions[row::rows]]
        table.add_row(*(cell for pair in cells for cell in pair))
    return table


def _rate(tflop_per_s: float) -> str:
    return f"{tflop_per_s:.0f}" if tflop_per_s >= 100 else f"{tflop_per_s:.3g}"


def show_text(found: Accelerator | NodeType | Region) -> Group:
    """Show one device, node type or region, each figure with its source."""
    from rich.console import Group
    from rich.text import Text

    if isinstance(found, Region):
        return Group(
            Text(f"{found.name} ({found.code})", style="bold"),
            Text(f"{found.carbon_g_per_kwh:g} g/kWh, {found.scope}, {found.year}"),
            Text(f"{found.source} ({found.source.basis})", style="dim"),
        )
    lines = [Text(found.full_name or found.name, style="bold")]
    if found.aliases:
        lines.append(Text(f"also {', '.join(found.aliases)}", style="dim"))
    if found.notes:
        lines.append(Text(found.notes))
    return Group(*lines, _figures(found))


def _figures(found: Accelerator | NodeType) -> Table:
    from rich.table import Table

    table = Table("figure", "value", "basis", "source", box=None, pad_edge=False, header_style="dim")
    values = _values(found)
    for field, _ in found.cited:
        source = found.source_of(field)
        value = values.get(field)
        table.add_row(field, "" if value is None else f"{value:.6g}", source.basis, str(source))
    return table


def _values(found: Accelerator | NodeType) -> dict[str, float]:
    """Figures by their place in the data file."""
    if isinstance(found, Accelerator):
        return {
            **{peak.field: peak.flop_per_s for peak in found.peaks},
            "memory.capacity_bytes": found.memory_bytes,
            "memory.bandwidth_bytes_per_s": found.bandwidth_bytes_per_s,
            "power.limit_w": found.power_limit_w,
            "link.bytes_per_s": found.link.bytes_per_s,
        }
    rated = {} if found.rated_power_w is None else {"power.rated_w": found.rated_power_w}
    return {
        "power.host_w": found.host_power_w,
        "power.host_idle_w": found.host_idle_power_w,
        "accelerators_per_node": float(found.accelerators_per_node),
        "inter_node_link.bytes_per_s": found.inter_node_link.bytes_per_s,
        **rated,
    }


def _without_sources(found: Accelerator | NodeType | Region) -> dict[str, Any]:
    mapping: dict[str, Any] = as_builtins(found)
    return {name: value for name, value in mapping.items() if name not in ("cited", "source", "sources", "file")}
