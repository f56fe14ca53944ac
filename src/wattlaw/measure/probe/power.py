"""Idle and busy power, from the meters of this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wattlaw.errors import MeterError
from wattlaw.measure.probe.figure import Figure
from wattlaw.measure.reading import BOUNDARIES, Boundary, Reading

if TYPE_CHECKING:
    from wattlaw.measure.sweep.metering import SweepMeter

#: State -> what the device does in it.
STATES = {
    "idle": "nothing was asked of the device",
    "launch": "the smallest kernels, one after another",
    "matrix": "large matrix products, one after another",
    "memory": "copies within memory, one after another",
}
#: Parts of a machine whose power is told; a sum with the node's would count them twice.
PROBED: tuple[Boundary, ...] = tuple(name for name in BOUNDARIES if name != "facility")
#: A window is planned longer than the meter's shortest by this factor.
WINDOW_MARGIN = 1.3


@dataclass(slots=True)
class PowerProbe:
    """One window after another.

    Args:
        meter: of the device that is probed; ``None`` where nothing here measures.
    """

    meter: SweepMeter | None
    figures: dict[str, Figure] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def shortest_window_s(self) -> float:
        """The shortest window that is worth its figure; 0 where nothing measures."""
        return 0.0 if self.meter is None else WINDOW_MARGIN * self.meter.shortest_window_s

    def measure(self, state: str, run: Callable[[Callable[[], None], Callable[[], None]], None]) -> None:
        """Meter one state.

        Args:
            state: of ``STATES``.
            run: is given what opens and what closes the window, and calls both while the device is in the state.
        """
        if self.meter is None:
            return
        meter, readings = self.meter, list[Reading]()
        try:
            run(meter.start, lambda: readings.append(meter.stop()))
        except MeterError as error:
            self.warnings.append(f"power, {state}: {error}")
        finally:
            meter.cancel()
        for reading in readings:
            self.figures.update(figures_of(reading, state))
            self.warnings += [f"power, {state}: {warning}" for warning in reading.warnings]

    def rest(self, duration_s: float) -> None:
        """Meter the idle state for some time."""

        def run(start: Callable[[], None], stop: Callable[[], None]) -> None:
            start()
            time.sleep(duration_s)
            stop()

        self.measure("idle", run)


def figures_of(reading: Reading, state: str) -> Mapping[str, Figure]:
    """Return the mean power within each boundary that was measured, as ``BOUNDARY_STATE_power_w``.

    Power that somebody declared is no measurement and is left out. The spread is the bound of what the window's edges
    and the sampling can do; the difference of counter and integrated power is a figure of its own, as a ratio.
    """
    found: dict[str, Figure] = {}
    for boundary in PROBED:
        total = reading.total(boundary)
        if total is None or not total.energy_j or total.method == "declared":
            continue
        spread = 0.0 if total.uncertainty_j is None else total.uncertainty_j / total.energy_j
        found[f"{boundary}_{state}_power_w"] = Figure(
            value=total.energy_j / reading.duration_s,
            unit="W",
            method=f"{STATES[state]} for {reading.duration_s:.3g} s: {total.method}, {total.source}",
            spread=spread,
        )
    checks = [entry.cross_check for entry in reading.energies if entry.cross_check is not None]
    ratios = [
        check.integrated_j / check.counter_j for check in checks if check.counter_j > 0 and check.integrated_j > 0
    ]
    if ratios:
        found[f"integrated_over_counter_{state}"] = Figure.of_cases(
            ratios,
            unit="1",
            method="integrated power over the energy counter, the same window",
            num_samples=len(ratios),
        )
    return found
