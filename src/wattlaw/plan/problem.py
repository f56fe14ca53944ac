"""The question that a plan answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wattlaw.errors import ConfigError
from wattlaw.footprint import Prices
from wattlaw.plan.limits import Limits
from wattlaw.plan.objective import Objective
from wattlaw.plan.space import Space

if TYPE_CHECKING:
    from wattlaw.run.spec import RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One training, the ways to run it that are open, what they must keep, and what is to be small.

    Attributes:
        run: what is trained, for how long, and with which global batch; its accelerator and layout are not binding.
        space: what may vary.
        limits: what must be kept.
        objective: what is made small.
        prices: of electricity, devices and carbon; what is not priced is not known, and never 0.
    """

    run: RunSpec
    space: Space
    limits: Limits = field(default_factory=Limits)
    objective: Objective = field(default_factory=Objective)
    prices: Prices = field(default_factory=Prices)

    def __post_init__(self) -> None:
        """Refuse limits and objectives that need prices which nobody named."""
        prices = self.prices
        no_money = prices.price_per_kwh is None and prices.price_per_device_hour is None
        for wanted, missing, what, hint in (
            (self.limits.max_money is not None or self.objective.goal == "money", no_money, "money",
             "a price per kWh, a price per device-hour, or both"),
            (self.limits.max_carbon_g is not None or self.objective.goal == "carbon",
             prices.intensity_g_per_kwh is None, "carbon", "the carbon intensity of the electricity, or its region"),
        ):  # fmt: skip
            if wanted and missing:
                raise ConfigError(f"{what} is to be kept low, and nothing says what it costs", allowed=hint)
