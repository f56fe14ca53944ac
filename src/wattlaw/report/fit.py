"""A fit as text and as a mapping."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattlaw.law.calibration import Calibration
from wattlaw.law.fitting import FittedLaw
from wattlaw.report import quantities

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table


def fit_mapping(fitted: FittedLaw, output: Path) -> dict[str, Any]:
    """Lay a fit out for ``--json``."""
    calibration = fitted.calibration
    return {
        "output": str(output),
        "law": calibration.law,
        "num_records": fitted.num_records,
        "num_left_out": fitted.num_left_out,
        "boundary": calibration.boundary,
        "parameters": dict(calibration.parameters),
        "standard_errors": standard_errors(calibration),
        "machines": {name: dict(machine.parameters) for name, machine in calibration.machines.items()},
        "noise": dict(calibration.noise),
        "num_interpolated": {
            name: len(machine.process.inputs)
            for name, machine in calibration.machines.items()
            if machine.process is not None
        },
        "diagnostics": dict(calibration.diagnostics),
        "warnings": list(calibration.warnings),
        "options": dict(calibration.options),
        "provenance": dict(calibration.provenance),
    }


def standard_errors(calibration: Calibration) -> dict[str, float | None]:
    """Return the error of each parameter of a law that is fitted as it is; ``None`` where it is not known.

    A law that tells machines apart is fitted in logarithms around its priors, and keeps that covariance by machine.
    """
    if calibration.machines:
        return {}
    return {name: calibration.standard_error(name) for name in calibration.parameters}


def fit_text(fitted: FittedLaw, output: Path) -> Group:
    """Show what was fitted, to how much, and what to doubt."""
    from rich.console import Group
    from rich.text import Text

    calibration = fitted.calibration
    left_out = f", {fitted.num_left_out} left out" if fitted.num_left_out else ""
    heading = f"{output}: {calibration.law} law, {fitted.num_records} records{left_out}"
    warnings = [Text(f"! {warning}", style="yellow") for warning in calibration.warnings]
    heading_line = Text(heading, style="bold", no_wrap=True, overflow="ignore")
    left = [Text(line, style="dim") for line in _left(calibration)]
    return Group(heading_line, _parameters(calibration), *left, *warnings)


def _left(calibration: Calibration) -> Iterator[str]:
    """Say what the law leaves, and between how many runs it is interpolated."""
    if calibration.noise:
        shown = ", ".join(
            f"x{math.exp(calibration.noise[target]):.2f} {word}"
            for target, word in (("energy", "energy"), ("duration", "time"))
            if target in calibration.noise
        )
        yield f"the law alone leaves {shown} unexplained (one standard deviation)"
    for name, machine in calibration.machines.items():
        if machine.process is not None:
            yield f"{name}: interpolated between {quantities.counted(len(machine.process.inputs), 'run')}"


def _parameters(calibration: Calibration) -> Table:
    from rich.table import Table

    machines = calibration.machines
    first = "in common" if machines else "value"
    errors = standard_errors(calibration)
    told = any(error is not None for error in errors.values())
    more = ["standard error"] if told else []
    table = Table("parameter", first, *more, *machines, box=None, pad_edge=False, header_style="dim")
    for name, value in calibration.parameters.items():
        others = [machine.parameters.get(name) for machine in machines.values()]
        shown = ["" if other is None else quantities.digits(other) for other in others]
        table.add_row(name, quantities.digits(value), *([_error(calibration, name)] if told else []), *shown)
    return table


def _error(calibration: Calibration, name: str) -> str:
    if f"on_bound:{name}" in calibration.diagnostics:
        return "on its bound"
    error = calibration.standard_error(name)
    return "" if error is None else quantities.digits(error)
