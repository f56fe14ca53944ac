"""Options that several verbs share, and how they print."""

from __future__ import annotations

from typing import Any

import click

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")


def print_json(value: object) -> None:
    """Print a result as JSON on standard output."""
    from wattlaw.report.machine import as_json

    click.echo(as_json(value))


def print_rich(*parts: Any) -> None:
    """Print tables and text for people, in colour where the terminal has it."""
    from rich.console import Console

    console = Console(highlight=False)
    for part in parts:
        console.print(part)
