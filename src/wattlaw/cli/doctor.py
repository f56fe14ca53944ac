"""``wattlaw doctor``: what can be measured on this machine."""

from __future__ import annotations

import click
import msgspec
from rich.console import Console

from wattlaw.measure.doctor import diagnose
from wattlaw.measure.power_limit import restore_left_over
from wattlaw.report.doctor import diagnosis_table


@click.command(epilog="Example: wattlaw doctor --json")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines instead of a table.")
@click.option("--restore", is_flag=True, help="First give back power limits that killed processes left behind.")
def command(*, as_json: bool, restore: bool) -> None:
    """Tell which sensors, permissions and versions there are, and what to do about what is missing.

    Tries the sensors for about a second. A missing sensor is a finding, not a failure: the exit code is 0.
    """
    restored = restore_left_over() if restore else ()
    diagnosis = diagnose()
    if as_json:
        document = {**msgspec.to_builtins(diagnosis), "restored": msgspec.to_builtins(restored)}
        click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
        return
    for entry in restored:
        click.echo(f"{entry.device}: power limit back from {entry.set_w:g} W to {entry.previous_w:g} W")
    Console().print(diagnosis_table(diagnosis))
