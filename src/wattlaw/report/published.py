"""Trainings that others published, beside what the law says of them.

Such a comparison is of orders of magnitude: the law has seen nothing of the kind, how the work was divided is mostly
assumed, and what was published includes restarts and evaluations, or is a rated power times hours.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from wattlaw.law.bundled import bundled
from wattlaw.law.footprint import Prices, footprint
from wattlaw.law.interval import Interval
from wattlaw.law.prediction import predict
from wattlaw.run.spec import RunSpec
from wattlaw.run.spec_file import spec_from_mapping
from wattlaw.units import JOULES_PER_KWH, SECONDS_PER_HOUR
from wattlaw.workload.config import from_mapping

_FILE = resources.files("wattlaw.report") / "data" / "published_runs.toml"
_JOULES_PER_MWH = 1e3 * JOULES_PER_KWH


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRun:
    """One published training.

    Attributes:
        name: of the model.
        source: of the figures.
        scope: what the published energy includes.
        energy_mwh: as published; ``None`` where no energy was.
        device_hours: as published; ``None`` where none were.
        circular: whether the energy is hours times a rated power, which says nothing about energy.
        pue: that the energy includes.
        assumed: of the run, what the publication does not say.
        not_predicted: why nothing can be said of it; empty where it can.
        tables: of the run, as in a spec file, but for ``config``, which is the content of a config.json.
    """

    name: str
    source: str
    scope: str
    energy_mwh: float | None = None
    device_hours: float | None = None
    circular: bool = False
    pue: float | None = None
    assumed: str = ""
    not_predicted: str = ""
    tables: Mapping[str, Any]

    @property
    def energy_j(self) -> float | None:
        """The published energy in joules."""
        return None if self.energy_mwh is None else self.energy_mwh * _JOULES_PER_MWH

    def spec(self) -> RunSpec:
        """Build the run."""
        model = dict(self.tables["model"])
        if "config" in model:
            model = {"architecture": msgspec.to_builtins(from_mapping(model["config"]))}
        return spec_from_mapping({**self.tables, "model": model, "name": self.name})


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A published training and its prediction.

    Attributes:
        run: as published.
        energy_j: predicted; the facility's where the published figure includes a PUE.
        duration_s: predicted.
        device_hours: predicted.
        cold: whether nothing was measured on such a machine.
    """

    run: PublishedRun
    energy_j: Interval | None = None
    duration_s: Interval | None = None
    device_hours: float | None = None
    cold: bool = True


@cache
def published_runs() -> tuple[PublishedRun, ...]:
    """Return the published trainings."""
    found = []
    for row in tomllib.loads(_FILE.read_text(encoding="utf-8"))["runs"]:
        tables = {name: row.pop(name) for name in ("model", "recipe", "hardware", "layout") if name in row}
        found.append(PublishedRun(**row, tables=tables))
    return tuple(found)


@cache
def compared_with_published() -> tuple[Comparison, ...]:
    """Predict the published trainings with the shipped law."""
    return tuple(_compared(run) for run in published_runs())


def _compared(run: PublishedRun) -> Comparison:
    if run.not_predicted:
        return Comparison(run=run)
    spec = run.spec()
    (prediction,) = predict([spec], bundled())
    devices = float(spec.layout.num_devices)
    costs = footprint(prediction, Prices(pue=run.pue), num_devices=devices)
    time = prediction.duration_s
    return Comparison(
        run=run,
        energy_j=costs.facility_energy_j or prediction.energy_j,
        duration_s=time,
        device_hours=None if time is None else devices * time.mid / SECONDS_PER_HOUR,
        cold=prediction.cold,
    )
