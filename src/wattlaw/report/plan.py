"""A plan as tables for people and as a mapping for machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from wattlaw.law.interval import Interval
from wattlaw.plan.curves import Crossover
from wattlaw.plan.launch import Launch
from wattlaw.plan.neighbours import Neighbour
from wattlaw.plan.option import Option
from wattlaw.plan.planning import Plan
from wattlaw.plan.tradeoffs import spread
from wattlaw.report import quantities
from wattlaw.report.machine import as_builtins
from wattlaw.report.plan_limits import WRITE, divided, miss_mapping, missed, relaxed, trades_mapping, trades_table
from wattlaw.report.prediction import for_people, provenance, title
from wattlaw.run.spec_file import spec_to_mapping
from wattlaw.units import BYTES_PER_GIB

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

#: Rows of the front and of the runners-up that are read.
ROWS = 8


def plan_mapping(
    plan: Plan,
    launch: Launch | None,
    *,
    instead: tuple[Option, Launch] | None = None,
    curve: Sequence[Option] = (),
    crossovers: Sequence[Crossover] = (),
) -> dict[str, Any]:
    """Lay a plan out for ``--json``: the best, what comes next, the fronts, rejected neighbours, how sure that is."""
    problem = plan.problem
    found: dict[str, Any] = {
        "run": problem.run.name or problem.run.architecture.name or problem.run.architecture.family,
        "objective": as_builtins(problem.objective),
        "limits": as_builtins(problem.limits),
        "level": plan.level,
        "warnings": list(plan.warnings),
        "num_configurations": plan.num_configurations,
        "num_fitting": plan.num_fitting,
        "num_feasible": plan.num_feasible,
        "best": None if plan.best is None else option_mapping(plan.best, whole=True),
        "first_place": as_builtins(plan.first_place),
        "ranking": [option_mapping(option) for option in plan.ranking],
        "front": [option_mapping(option) for option in plan.front],
        "open_front": [option_mapping(option) for option in plan.open_front],
        "neighbours": [_neighbour_mapping(neighbour) for neighbour in plan.neighbours],
        "trades": trades_mapping(plan, option_mapping),
        "infeasible": None,
        "launch": as_builtins(launch),
        "launch_instead": None
        if instead is None
        else {"option": option_mapping(instead[0]), "launch": as_builtins(instead[1])},
    }
    if plan.infeasible is not None:
        found["infeasible"] = {
            "nearest": option_mapping(plan.infeasible.nearest, whole=True),
            "misses": [miss_mapping(miss) for miss in plan.infeasible.misses],
            "alone": [miss_mapping(miss) for miss in plan.infeasible.alone],
            "more_devices": [option_mapping(option) for option in plan.infeasible.more_devices],
        }
    if curve:
        found["by_device_count"] = [option_mapping(option) for option in curve]
        found["crossovers"] = [as_builtins(one) for one in crossovers]
    return found


def option_mapping(option: Option, *, whole: bool = False) -> dict[str, Any]:
    """Lay out one option; ``whole`` adds the run spec and the terms of the prediction."""
    spec, prediction = option.spec, option.prediction
    layout, recipe = spec.layout, spec.recipe
    found: dict[str, Any] = {
        "accelerator": spec.accelerator.name,
        "node": None if spec.node is None else spec.node.name,
        "strategy": layout.strategy,
        **{
            name: int(getattr(layout, name))
            for name in (
                "num_devices",
                "num_nodes",
                "data_parallel",
                "tensor_parallel",
                "pipeline_parallel",
                "pipeline_interleaving",
                "context_parallel",
                "expert_parallel",
            )
        },
        "batch_size": int(recipe.batch_size),
        "grad_accumulation": int(recipe.grad_accumulation),
        **{name: getattr(recipe, name) for name in ("checkpointing", "attention_kernel", "precision", "optimizer")},
        "adapter_rank": int(recipe.adapter_rank),
        "power_cap_w": spec.power_limit_w,
        "memory_bytes": option.memory_bytes,
        "memory_allowed_bytes": option.memory_allowed_bytes,
    }
    if prediction is not None:
        names = ("energy_j", "duration_s", "power_w", "boundary", "cold", "in_domain")
        found |= {name: as_builtins(getattr(prediction, name)) for name in names}
        found |= {name: as_builtins(getattr(option, name)) for name in ("money", "carbon_g", "cost")}
    if whole:
        found["spec"] = spec_to_mapping(spec)
        found["prediction"] = as_builtins(prediction)
    return found


def _neighbour_mapping(neighbour: Neighbour) -> dict[str, Any]:
    return {
        "change": neighbour.change,
        "value": neighbour.value,
        "misses": [miss_mapping(miss) for miss in neighbour.misses],
        "cost_fraction": neighbour.cost_fraction,
        "option": option_mapping(neighbour.option),
    }


def plan_text(
    plan: Plan,
    launch: Launch | None,
    *,
    instead: tuple[Option, Launch] | None = None,
    crossovers: Sequence[Crossover] = (),
    notes: Sequence[str] = (),
) -> Group:
    """Show a plan: the best way, how sure that is, the front, why its neighbours were rejected, and how to start it."""
    from rich.console import Group
    from rich.text import Text

    parts: list[Any] = [Text(_heading(plan), style="bold")]
    if plan.best is None:
        parts += _infeasible(plan)
        return Group(*parts)
    best = plan.best
    parts += [Text(""), Text(title(best.spec), style="green bold"), Text(_how(best)), _totals(best, plan)]
    parts += [Text(line) for line in _first_place(plan)]
    if len(plan.ranking) > 1:
        parts += [Text("\nnext best", style="bold"), _table(plan.ranking[1:ROWS], plan)]
    if len(plan.front) > 1:
        parts += [Text("\nnothing that keeps the limits beats these in both time and energy", style="bold")]
        parts += [_table([plan.front[at] for at in spread(len(plan.front), ROWS)], plan)]
    traded = trades_table(plan)
    if traded is not None:
        parts += [Text("\none limit moved, all others kept", style="bold"), traded]
    if plan.neighbours:
        parts += [Text("\none thing changed", style="bold"), _neighbours(plan)]
    parts += [Text(_crossover(one)) for one in crossovers]
    parts += [Text(f"\n{note}") for note in notes]
    if launch is not None:
        parts.append(Text("\nto start it", style="bold"))
        parts += [Text(line, no_wrap=True, overflow="ignore") for line in _commands(launch)]
    if instead is not None:
        option, started = instead
        beyond = "" if not option.cost or not best.cost else f", {quantities.change(option.cost / best.cost - 1)}"
        parts.append(Text(f"the next best that it runs is {title(option.spec)}{beyond}:"))
        parts += [Text(line, no_wrap=True, overflow="ignore") for line in _commands(started)]
    assert best.prediction is not None
    parts.append(Text(f"\n{provenance(best.prediction)}", style="dim"))
    parts += [
        Text(f"! {for_people(warning)}", style="yellow") for warning in (*plan.warnings, *best.prediction.warnings)
    ]
    return Group(*parts)


def _heading(plan: Plan) -> str:
    problem = plan.problem
    name = problem.run.name or problem.run.architecture.name or problem.run.architecture.family
    goal = "weighted energy and time" if problem.objective.goal == "weighted" else str(problem.objective.goal)
    bounds = [f"{limit} {WRITE[limit](bound)}" for limit, bound in problem.limits.bounds().items()]
    free = problem.limits.memory_free_fraction
    bounds.append(f"{100 * free:.3g} % of memory free")
    sure = problem.limits.confidence
    kept = "" if sure is None else f", kept by the upper end of the {100 * sure:.12g} % interval"
    counts = f"{plan.num_configurations:,} configurations, {plan.num_fitting:,} fit, {plan.num_feasible:,} keep limits"
    return f"{name}: least {goal}; limits: {', '.join(bounds)}{kept}\n{counts}"


def _how(option: Option) -> str:
    spec = option.spec
    recipe, layout = spec.recipe, spec.layout
    batches = (int(recipe.batch_size), int(recipe.grad_accumulation), int(layout.data_parallel))
    parts = [
        "micro-batch {} x accumulation {} x {} data-parallel".format(*batches),
        f"checkpointing {recipe.checkpointing}",
        recipe.optimizer,
    ]
    degrees = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")
    names = (*degrees, "pipeline_interleaving", "num_nodes")
    parts += [f"{name.replace('_', ' ')} {int(getattr(layout, name))}" for name in names if getattr(layout, name) > 1]
    if recipe.adapter_rank:
        parts.append(f"adapters of rank {int(recipe.adapter_rank)}")
    if spec.power_limit_w is not None:
        parts.append(f"power cap {spec.power_limit_w:g} W")
    return ", ".join(parts)


def _totals(option: Option, plan: Plan) -> Table:
    """Show what the best option takes, with intervals."""
    from rich.table import Table

    prediction = option.prediction
    assert prediction is not None
    table = Table("", "expected", f"{100 * plan.level:g} % interval", box=None, pad_edge=False, header_style="dim")
    rows: tuple[tuple[str, Interval | None, Callable[[float], str]], ...] = (
        (f"energy ({prediction.boundary or 'boundary unknown'})", prediction.energy_j, quantities.energy),
        ("time", prediction.duration_s, quantities.duration),
        ("money", option.money, quantities.digits),
        ("carbon", option.carbon_g, quantities.mass),
    )
    for name, found, write in rows:
        if found is not None:
            table.add_row(name, write(found.mid), quantities.interval(found, write))
    table.add_row("memory per GPU", WRITE["memory"](option.memory_bytes), f"of {_allowed(option)} allowed")
    return table


def _allowed(option: Option) -> str:
    return WRITE["memory"](option.memory_allowed_bytes)


def _table(options: Sequence[Option], plan: Plan) -> Table:
    """Show options in a line each."""
    from rich.table import Table

    best = plan.best
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("GPUs", "strategy", "batch", "energy", "time", "GiB", plan.problem.objective.goal):
        table.add_column(heading, no_wrap=heading in ("energy", "time", "batch"))
    for option in options:
        spec, prediction = option.spec, option.prediction
        assert prediction is not None
        assert prediction.duration_s is not None
        cap = "" if spec.power_limit_w is None else f" at {spec.power_limit_w:g} W"
        again = "" if spec.recipe.checkpointing == "none" else f" {spec.recipe.checkpointing}"
        beyond = ""
        if best is not None and option.cost is not None and best.cost:
            beyond = quantities.change(option.cost / best.cost - 1)
        table.add_row(
            f"{int(spec.layout.num_devices)} {spec.accelerator.name}{cap}",
            divided(spec.layout),
            f"{int(spec.recipe.batch_size)}x{int(spec.recipe.grad_accumulation)}{again}",
            quantities.energy(prediction.energy_j.mid),
            quantities.duration(prediction.duration_s.mid),
            f"{option.memory_bytes / BYTES_PER_GIB:.0f}",
            beyond,
        )
    return table


def _first_place(plan: Plan) -> list[str]:
    first = plan.first_place
    assert first is not None
    if first.num_contenders == 1:
        return ["nothing else keeps the limits"]
    sure = (
        f"truly the best of {first.num_contenders} contenders with a chance of {first.chance:.0%}, within 2 % of it "
        f"with {first.close_chance:.0%}; costs {first.typical_regret:.1%} more than it in half of the cases or fewer"
    )
    return [sure, f"({first.assumption})"]


def _neighbours(plan: Plan) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("changed", "to", "would need", "rejected because"):
        table.add_column(heading)
    for neighbour in plan.neighbours:
        prediction = neighbour.option.prediction
        needs = ""
        if prediction is not None and prediction.duration_s is not None:
            needs = f"{quantities.energy(prediction.energy_j.mid)}, {quantities.duration(prediction.duration_s.mid)}"
        table.add_row(neighbour.change, neighbour.value, needs, why(neighbour, plan))
    return table


def why(neighbour: Neighbour, plan: Plan) -> str:
    """Say why a neighbour of the best was rejected."""
    if neighbour.misses:
        return "; ".join(missed(miss) for miss in neighbour.misses)
    if neighbour.cost_fraction is None:
        return ""
    goal = "cost" if plan.problem.objective.goal == "weighted" else plan.problem.objective.goal
    return f"{goal} {quantities.change(neighbour.cost_fraction)}"


def _infeasible(plan: Plan) -> list[Any]:
    from rich.text import Text

    assert plan.infeasible is not None
    nearest = plan.infeasible.nearest
    parts: list[Any] = [Text("\nnothing keeps all limits", style="red bold")]
    parts += [Text(line) for line in relaxed(plan)]
    parts.append(Text(f"\nnearest: {title(nearest.spec)}; {_how(nearest)}", style="bold"))
    parts += [Text(missed(miss)) for miss in plan.infeasible.misses]
    if nearest.prediction is not None:
        parts.append(_totals(nearest, plan))
    return parts


def _crossover(one: Crossover) -> str:
    return f"on {one.accelerator}, {one.after} becomes greener than {one.before} at {one.num_devices} devices"


def _commands(launch: Launch) -> list[str]:
    if launch.command is None:
        return [f"no command: {launch.obstacle}"]
    return [*launch.before, launch.command]
