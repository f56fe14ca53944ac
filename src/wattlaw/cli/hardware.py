"""``wattlaw hardware``."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import click

from wattlaw.cli.options import as_json_option, print_json, print_rich

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wattlaw.errors import UnknownNameError
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
    from wattlaw.hardware import accelerator
    from wattlaw.report.hardware import show_mapping, show_text

    found: Accelerator | NodeType | Region
    try:
        found = accelerator(name)
    except UnknownNameError as unknown:
        found = _node_or_region(name, unknown)
    if as_json:
        print_json(show_mapping(found))
    else:
        print_rich(show_text(found))


def _node_or_region(name: str, unknown: UnknownNameError) -> NodeType | Region:
    """Find what is no accelerator; of a name of nothing say the nearest of all three kinds, or what it could mean."""
    from wattlaw.errors import UnknownNameError
    from wattlaw.hardware import accelerators, node_type, node_types, region, regions

    errors = [unknown]
    for look_up in (node_type, region):
        try:
            found: NodeType | Region = look_up(name)
        except UnknownNameError as error:
            errors.append(error)
        else:
            return found
    for other in errors:
        if not other.attempted.startswith("unknown "):
            raise other from None
    names = [*(one.name for one in accelerators()), *(one.name for one in node_types())]
    raise UnknownNameError.among(
        "accelerator, node type or region",
        name,
        [*names, *_resembling(name, [one.name for one in regions()])],
        hint="'wattlaw hardware list'",
    ) from None


def _resembling(name: str, others: Sequence[str]) -> list[str]:
    """Those of ``others`` that may be a slip of the pen: a GPU's name is nearer to many a place than to its own."""
    return difflib.get_close_matches(name.title(), others, n=2, cutoff=0.75)
