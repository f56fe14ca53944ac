"""A plan of a run's work, as the page shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wattlaw.app.bodies import MOST_GLOBAL_BATCH
from wattlaw.errors import ConfigError
from wattlaw.plan import Limits, Objective, Offer, Plan, Problem, Space, plan
from wattlaw.plan.space import global_batch
from wattlaw.report.machine import as_builtins

if TYPE_CHECKING:
    from wattlaw.app.bodies import PlanQuestion
    from wattlaw.hardware import Accelerator
    from wattlaw.plan.option import Option

#: Caps that are tried, as shares of the board's own limit.
CAP_SHARES = (0.5, 0.6, 0.7, 0.8, 0.9)
#: Strategies beyond these multiply the search; `wattlaw plan` has them all.
STRATEGIES = ("single", "ddp", "fsdp", "tp", "pp", "ddp x tp", "fsdp x tp")


def plan_answer(question: PlanQuestion) -> dict[str, Any]:
    """Search, and lay out the best ways and the front.

    Raises:
        WattlawError: limits or prices that are missing or cannot be.
    """
    spec = question.run.spec()
    if global_batch(spec) > MOST_GLOBAL_BATCH:
        raise ConfigError(
            "a larger batch of all devices than is searched here",
            given=global_batch(spec),
            allowed=f"<= {MOST_GLOBAL_BATCH}",
            hint="wattlaw plan, which has no such limit",
        ).at("[recipe] batch_size")
    offer = Offer(
        accelerator=spec.accelerator,
        num_devices=question.num_devices,
        node=spec.node,
        power_caps_w=_caps(spec.accelerator) if question.caps else (),
    )
    limits = Limits(
        deadline_s=question.deadline_s,
        max_money=question.max_money,
        max_carbon_g=question.max_carbon_g,
        confidence=question.confidence,
    )
    found = plan(
        Problem(
            run=spec,
            space=Space(offers=(offer,), strategies=STRATEGIES),
            limits=limits,
            objective=Objective(goal=question.objective),  # type: ignore[arg-type]  # it refuses what is no goal
            prices=question.prices.known(spec.accelerator.name),
        ),
        question.calibration(),
        level=question.level,
    )
    return _mapping(found)


def _caps(accelerator: Accelerator) -> tuple[float, ...]:
    return tuple(round(share * accelerator.power_limit_w) for share in CAP_SHARES)


def _mapping(found: Plan) -> dict[str, Any]:
    return {
        "best": None if found.best is None else _option(found.best),
        "ranking": _options(found.ranking),
        "front": _options(found.front),
        "open_front": _options(found.open_front),
        "first_place": None if found.first_place is None else as_builtins(found.first_place),
        "infeasible": _infeasible(found),
        "num_configurations": found.num_configurations,
        "num_fitting": found.num_fitting,
        "num_feasible": found.num_feasible,
    }


def _infeasible(found: Plan) -> dict[str, Any] | None:
    why = found.infeasible
    if why is None:
        return None
    return {
        "nearest": _option(why.nearest),
        "misses": [as_builtins(miss) for miss in why.misses],
        "alone": [as_builtins(miss) for miss in why.alone],
    }


def _options(options: Sequence[Option]) -> list[dict[str, Any]]:
    return [_option(one) for one in options]


def _option(option: Option) -> dict[str, Any]:
    spec, prediction = option.spec, option.prediction
    return {
        "strategy": spec.layout.strategy,
        "num_devices": int(spec.layout.num_devices),
        "tensor_parallel": int(spec.layout.tensor_parallel),
        "pipeline_parallel": int(spec.layout.pipeline_parallel),
        "batch_size": int(spec.recipe.batch_size),
        "grad_accumulation": int(spec.recipe.grad_accumulation),
        "checkpointing": spec.recipe.checkpointing,
        "power_limit_w": spec.power_limit_w,
        "energy_j": None if prediction is None else as_builtins(prediction.energy_j),
        "duration_s": None if prediction is None else as_builtins(prediction.duration_s),
        "memory_bytes": option.memory_bytes,
        "money": as_builtins(option.money),
        "carbon_g": as_builtins(option.carbon_g),
    }
