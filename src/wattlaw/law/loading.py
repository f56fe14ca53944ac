"""Reading a fitted law from a file, and checking that its law can work with it before it is used."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from wattlaw.errors import FileError, WattlawError
from wattlaw.hardware import accelerator
from wattlaw.law.calibration import Calibration
from wattlaw.law.interval import outside_columns
from wattlaw.law.laws import law_named
from wattlaw.law.prediction import columns_of
from wattlaw.law.protocol import PriorLaw
from wattlaw.parallel.layout import Layout
from wattlaw.run.record import BOUNDARIES
from wattlaw.run.spec import RunSpec
from wattlaw.workload import Recipe, preset

#: No parameter of any law, in its unit, is larger; what it is multiplied by then still gives a finite number.
LARGEST_PARAMETER = 1e60
#: How far a parameter may be above where its law starts from, where physics gives no bound: fits move by e^4 at most.
MOST_ABOVE_START = 1e6


def load_law(path: str | Path) -> Calibration:
    """Read a calibration written by ``wattlaw fit``, or a published one by its name, such as ``paper-table3``.

    A file goes before a published calibration of the same name. What others published may lack what a prediction needs
    (its centring constants, say), which the prediction then says.

    Beyond the form of the file, which ``Calibration.load`` checks: that its law is known, that no parameter breaks
    the law's bounds, and that the law predicts an ordinary run with it. A file that was edited by hand, or comes
    from another law, is refused here, where it can be named, and not in the middle of a prediction.

    Raises:
        FileError: not a calibration, or one that its law cannot use; the field is named.
        UnknownNameError: no such law.
    """
    if not Path(path).exists():
        from wattlaw.law.paper.published import published, published_names

        if str(path) in published_names():
            return published(str(path))
    calibration = Calibration.load(path)
    try:
        return check_law(calibration)
    except WattlawError as error:
        error.at(path)
        raise


def check_law(calibration: Calibration) -> Calibration:
    """Return a calibration that its law can use, wherever it comes from.

    Raises:
        FileError: one that its law cannot use; the field is named.
        UnknownNameError: no such law.
    """
    try:
        law = law_named(calibration.law)
    except WattlawError as error:
        error.at("law")
        raise
    _check_values(calibration)
    if isinstance(law, PriorLaw):
        _check_bounds(law, calibration)
    try:
        with np.errstate(all="ignore"):
            usable = _predicts(calibration)
    except (KeyError, ValueError, WattlawError) as error:
        given = getattr(error, "given", None)
        reason = f"{error.args[0] if error.args else error}{'' if given is None else f' ({given})'}"
        hint = getattr(error, "hint", None) or "fitting the law again"
        raise FileError(f"lacks what the {law.name} law needs", given=reason, hint=hint) from error
    if not usable:
        raise FileError("predicts no finite energy of an ordinary run", hint="fitting the law again").at("parameters")
    return calibration


def _check_values(calibration: Calibration) -> None:
    if calibration.boundary not in ("", *BOUNDARIES):
        raise FileError("unknown boundary", given=repr(calibration.boundary), allowed=", ".join(BOUNDARIES)).at(
            "boundary"
        )
    for place, table in (("noise", calibration.noise), ("centres", calibration.centres), *_parameters(calibration)):
        for name, value in table.items():
            if not abs(value) <= LARGEST_PARAMETER:
                raise FileError(
                    "no measurement gives such a number", given=f"{value:g}", allowed=f"<= {LARGEST_PARAMETER:g}"
                ).at(f"{place}.{name}")
    for name, (low, high) in calibration.domain.items():
        if low > high:
            raise FileError("a range upside down", given=f"{low:g} to {high:g}").at(f"domain.{name}")


def _check_bounds(law: PriorLaw, calibration: Calibration) -> None:
    for place, covariance in _covariances(calibration):
        if covariance is not None and len(covariance) != len(law.limits):
            raise FileError(
                f"a covariance is not of the {law.name} law's parameters",
                given=f"{len(covariance)} rows",
                allowed=len(law.limits),
                hint="fitting the law again",
            ).at(place)
    starts = law.common  # of the law by its name: round figures, not those of a prior
    for place, parameters in _parameters(calibration):
        for name, bound in law.limits.items():
            upper = min(bound, MOST_ABOVE_START * starts[name])
            if not 0 < parameters.get(name, math.nan) <= upper:
                raise FileError(
                    f"a parameter of the {law.name} law is missing or out of bounds",
                    given=parameters.get(name, "nothing"),
                    allowed=f"> 0, <= {upper:g}",
                    hint="fitting the law again",
                ).at(f"{place}.{name}")


def _parameters(calibration: Calibration) -> Iterator[tuple[str, dict[str, float]]]:
    yield "parameters", dict(calibration.parameters)
    for name, machine in calibration.machines.items():
        yield f"machines.{name}.parameters", dict(machine.parameters)


def _covariances(calibration: Calibration) -> Iterator[tuple[str, tuple[tuple[float, ...], ...] | None]]:
    yield "covariance", calibration.covariance
    for name, machine in calibration.machines.items():
        yield f"machines.{name}.covariance", machine.covariance


def _predicts(calibration: Calibration) -> bool:
    law = law_named(calibration.law)
    table = columns_of([_ordinary_run()], calibration)
    outside_columns(calibration, table)
    if not law.covers(calibration, table).all():
        return True  # a law that was fitted to other strategies only says nothing of this run, and may
    energy = law.estimate(calibration, table).energy_j
    return bool(np.all(np.isfinite(energy) & (energy > 0)))


def _ordinary_run() -> RunSpec:
    return RunSpec(
        architecture=preset("bert-base-uncased", head="classification"),
        recipe=Recipe(batch_size=32, seq_len=128, precision="fp16", steps=1000),
        layout=Layout(),
        accelerator=accelerator("a100-sxm4-40gb"),
    )
