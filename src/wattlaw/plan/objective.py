"""What a plan makes as small as it can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from wattlaw.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    from wattlaw.plan.points import Points

Goal = Literal["energy", "time", "money", "carbon", "weighted"]
GOALS: tuple[Goal, ...] = get_args(Goal)
#: Goal -> the column that it minimises; ``weighted`` is computed of three.
COLUMNS = {"energy": "energy_j", "time": "duration_s", "money": "money", "carbon": "carbon_g"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """One goal, or the weighted cost of Zeus.

    Attributes:
        goal: what is made small.
        energy_weight: of ``weighted`` alone: the share of the energy in the cost, from 0 (time) to 1 (energy).
    """

    goal: Goal = "energy"
    energy_weight: float | None = None

    def __post_init__(self) -> None:
        """Refuse unknown goals, and a weight that is missing, out of range or without use."""
        if self.goal not in GOALS:
            raise UnknownNameError.among("objective", self.goal, GOALS)
        if self.goal != "weighted" and self.energy_weight is not None:
            raise ConfigError("a weight of the energy goes with the objective weighted", given=self.goal)
        if self.goal == "weighted" and not (self.energy_weight is not None and 0 <= self.energy_weight <= 1):
            raise ConfigError(
                "the objective weighted needs the weight of the energy",
                given=self.energy_weight,
                allowed="0 (time) to 1 (energy)",
            )

    @property
    def needs(self) -> str | None:
        """The column that must be there: ``money`` or ``carbon_g``, which need prices."""
        return COLUMNS[self.goal] if self.goal in ("money", "carbon") else None

    def value(self, points: Points) -> NDArray[np.float64]:
        """Return what each point costs."""
        if self.goal != "weighted":
            return points[COLUMNS[self.goal]]
        assert self.energy_weight is not None
        return weighted_cost(
            points["energy_j"], points["duration_s"], points["max_power_w"], energy_weight=self.energy_weight
        )


def weighted_cost(
    energy_j: NDArray[np.float64],
    duration_s: NDArray[np.float64],
    max_power_w: NDArray[np.float64],
    *,
    energy_weight: float,
) -> NDArray[np.float64]:
    """Weigh energy against time: w energy + (1 - w) power time, in J.

    You et al. 2023, Zeus, NSDI (arXiv 2208.06102), equation 2. Their power is the highest limit of the one GPU; here
    it is that of all devices that a configuration occupies, so that idle speed is not bought with more of them.
    """
    return energy_weight * energy_j + (1 - energy_weight) * max_power_w * duration_s
