"""What a plan must keep: each limit says by how much every configuration misses it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattlaw.errors import ConfigError

if TYPE_CHECKING:
    from wattlaw.plan.points import Points

#: Share of a device's memory that is left free where the user does not say.
MEMORY_FREE = 0.1
#: Limit -> the column that it bounds. Memory is bounded per accelerator and has its own column of what is allowed.
COLUMNS = {
    "deadline": "duration_s",
    "energy": "facility_energy_j",
    "money": "money",
    "carbon": "carbon_g",
    "devices": "num_devices",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What must be kept; ``None`` where there is no such limit.

    Attributes:
        deadline_s: longest duration of the run.
        memory_free_fraction: share of each device's memory that stays free; what a framework reserves must fit into
            the rest.
        max_energy_j: of the run, within the calibration's boundary, times the PUE where one is given.
        max_money: electricity and rent, in the currency of the prices.
        max_carbon_g: of the electricity.
        max_devices: in use at once.
        confidence: level of the intervals whose upper ends must keep the limits; ``None`` compares what is expected.
    """

    deadline_s: float | None = None
    memory_free_fraction: float = MEMORY_FREE
    max_energy_j: float | None = None
    max_money: float | None = None
    max_carbon_g: float | None = None
    max_devices: int | None = None
    confidence: float | None = None

    def __post_init__(self) -> None:
        """Refuse limits that nothing can keep, and shares that are none."""
        for name, bound in self.bounds().items():
            if not 0 < bound < float("inf"):
                raise ConfigError(f"a limit on {name} must be above zero", given=bound, allowed="> 0")
        if not 0 <= self.memory_free_fraction < 1:
            raise ConfigError(
                "the memory left free is a share", given=self.memory_free_fraction, allowed=">= 0, below 1"
            )
        if self.confidence is not None and not 0 < self.confidence < 1:
            raise ConfigError("a confidence is a share of runs", given=self.confidence, allowed="between 0 and 1")

    def bounds(self) -> dict[str, float]:
        """Return the limits that there are, but memory, by their names in ``COLUMNS``."""
        given = {
            "deadline": self.deadline_s,
            "energy": self.max_energy_j,
            "money": self.max_money,
            "carbon": self.max_carbon_g,
            "devices": self.max_devices,
        }
        return {name: float(bound) for name, bound in given.items() if bound is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """By how much one configuration misses one limit.

    Attributes:
        limit: its name: ``memory``, ``deadline``, ``energy``, ``money``, ``carbon`` or ``devices``.
        allowed: in SI (money in its currency).
        needed: at least, in the same unit.
    """

    limit: str
    allowed: float
    needed: float

    @property
    def over(self) -> float:
        """What is too much, in the unit of ``allowed``."""
        return self.needed - self.allowed

    @property
    def over_fraction(self) -> float:
        """What is too much, as a share of what is allowed."""
        return self.needed / self.allowed - 1


def needed(points: Points, limit: str) -> NDArray[np.float64]:
    """Return what each point needs of what a limit bounds: the upper end where the points carry one."""
    if limit == "memory":
        return points["memory_bytes"]
    column = COLUMNS[limit]
    return points[f"{column}_high"] if f"{column}_high" in points else points[column]


def allowed(points: Points, limits: Limits, limit: str) -> NDArray[np.float64] | float:
    """Return what a limit allows, a column for memory, which differs with the device."""
    return points["memory_allowed_bytes"] if limit == "memory" else limits.bounds()[limit]


def excess(points: Points, limits: Limits) -> dict[str, NDArray[np.float64]]:
    """Return by how much each point exceeds each limit, as a share of what is allowed; at most 0 where it is kept."""
    return {limit: needed(points, limit) / allowed(points, limits, limit) - 1 for limit in ("memory", *limits.bounds())}


def misses(points: Points, limits: Limits, place: int) -> tuple[Miss, ...]:
    """List the limits that one point does not keep."""
    one = points.take([place])
    return tuple(
        Miss(
            limit=limit,
            allowed=float(np.broadcast_to(allowed(one, limits, limit), 1)[0]),
            needed=float(needed(one, limit)[0]),
        )
        for limit, over in excess(one, limits).items()
        if over[0] > 0
    )
