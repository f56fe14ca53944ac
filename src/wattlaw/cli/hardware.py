"""``wattlaw hardware``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from wattlaw.cli.options import as_json_option, print_json, print_rich

if TYPE_CHECKING:
    from wattlaw.hardware import Accelerator, NodeType, Region

EPILOG = """\b
Examples:
  wattlaw hardware list
  wattlaw hardware show "NVIDIA A100-SXM4-40GB"
  wattlaw hardware show DE
"""


@click.group("hardware", epilog=EPILOG)
def command() -> None:
    """Show known accelerators, node types and regions, each number with its source."""


@command.command("list", epilog="Example: wattlaw hardware list --json")
@as_json_option
def list_all(as_json: bool) -> None:
    """List the accelerators, the node types, and the regions with their carbon intensity."""
    from wattlaw.hardware import accelerators, node_types, regions
    from wattlaw.report.hardware import list_mapping, list_text

    if as_json:
        print_json(list_mapping(accelerators(), node_types(), regions()))
    else:
        print_rich(list_text(accelerators(), node_types(), regions()))


@command.command("show", epilog="Example: wattlaw hardware show 'NVIDIA A100-SXM4-40GB'")
@click.argument("name")
@as_json_option
def show(name: str, as_json: bool) -> None:
    """Show one accelerator by name, alias or TOML file, one node type, or one region, with its figures' sources."""
    from wattlaw.errors import UnknownNameError
    from wattlaw.hardware import accelerator, node_type, region
    from wattlaw.report.hardware import show_mapping, show_text

    found: Accelerator | NodeType | Region
    try:
        found = accelerator(name)
    except UnknownNameError as unknown:
        for look_up in (node_type, region):
            try:
                found = look_up(name)
                break
            except UnknownNameError:
                continue
        else:
            raise unknown from None
    if as_json:
        print_json(show_mapping(found))
    else:
        print_rich(show_text(found))
