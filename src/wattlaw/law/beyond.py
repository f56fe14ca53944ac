"""What a machine's own share of the peak says of steps larger than any that were measured.

Small products do not fill a device: its fit counts their waiting as a low ``matrix_fraction``, which large products
need not share. So the time per operation by which a machine is slower than the common value is counted for as much
work as was measured, and the rest of a larger step is done at the common one:

    1 / matrix_fraction = share / own + (1 - share) / common
    share               = known / flop of a step's blocks, at most 1
    known               = most of the fit, and more for more kernels than the fit had, in proportion

Only a value below the common one is taken for such waiting; one above it stays: products get no slower by being large.
So does one that a probe measured, whose products were large.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from wattlaw.errors import UnknownNameError
from wattlaw.law.step_terms import PARAMETERS

if TYPE_CHECKING:
    from wattlaw.law.calibration import Calibration


def step_parameters(calibration: Calibration, machine: Any, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters with which the step law predicts: a machine's own, for steps of this size.

    Args:
        calibration: of the step law.
        machine: name of the accelerator, or an array of one per run.
        columns: of ``features.physical``, numbers or of shape ``[runs]``.

    Returns:
        each parameter, a number or one per run.

    Raises:
        UnknownNameError: the calibration lacks a parameter.
    """
    if isinstance(machine, str):
        own = calibration.parameters_on(machine)
        found: dict[str, Any] = {one.name: value_of(own, one.name) for one in PARAMETERS}
    else:
        names, member = np.unique(machine, return_inverse=True)
        each = [calibration.parameters_on(str(name)) for name in names]
        found = {one.name: np.array([value_of(own, one.name) for own in each])[member] for one in PARAMETERS}
    found["matrix_fraction"] = toward_common(found["matrix_fraction"], calibration, machine, columns)
    return found


def value_of(parameters: Mapping[str, float], name: str) -> float:
    """Return one parameter.

    Raises:
        UnknownNameError: there is none of this name.
    """
    try:
        return parameters[name]
    except KeyError:
        raise UnknownNameError.among("parameter of the step law's calibration", name, parameters) from None


def toward_common(own: Any, calibration: Calibration, machine: Any, columns: Mapping[str, Any]) -> Any:
    """Return the share of the peak that products reach, by what a machine has of its own and how large its steps are.

    Args:
        own: the machine's ``matrix_fraction``, a number or one per run; the common one where nothing was measured.
        calibration: of the step law: the common value, and the domain that says how large measured steps were.
        machine: name of the accelerator, or one per run.
        columns: of ``features.physical``, numbers or of shape ``[runs]``.

    Returns:
        ``own``, but between it and the common value for steps beyond those of the fit.
    """
    common, domain = calibration.parameters.get("matrix_fraction"), calibration.domain
    _, most_flop = domain.get("block_flop", (0.0, 0.0))
    _, most_kernels = domain.get("block_kernels", (0.0, 0.0))
    if common is None or most_flop <= 0 or most_kernels <= 0:
        return own
    known_flop = most_flop * np.maximum(columns["block_kernels"] / most_kernels, 1.0)
    share = known_flop / np.maximum(columns["block_flop"], known_flop)
    probed = [
        name
        for name, seen in calibration.machines.items()
        if any(anchor.parameter == "matrix_fraction" for anchor in seen.anchors)
    ]
    moved = (share < 1) & (own < common)
    if probed:
        moved = moved & ~np.isin(machine, probed)
    return np.where(moved, 1 / (share / own + (1 - share) / common), own) if np.any(moved) else own
