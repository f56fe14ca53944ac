"""From a request's value to an answer: parse, call, lay out. No arithmetic lives here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from wattlaw.app.bodies import (
    MOST_PLANNED_DEVICES,
    Comparison,
    ConfigFile,
    PlanQuestion,
    Question,
    Run,
    read_config,
)
from wattlaw.app.command import command_line
from wattlaw.errors import ConfigError
from wattlaw.hardware import accelerators, node_types, regions
from wattlaw.law.footprint import footprint
from wattlaw.law.laws import LAWS
from wattlaw.law.prediction import predict
from wattlaw.parallel.layout import STRATEGIES
from wattlaw.report.alternatives import alternatives
from wattlaw.report.explain import WORDS
from wattlaw.report.machine import as_builtins
from wattlaw.report.prediction import COLUMNS, TERMS, prediction_mapping
from wattlaw.run.assumed import assumed
from wattlaw.run.spec import RunSpec
from wattlaw.run.spec_file import spec_to_mapping
from wattlaw.run.toml_text import toml_text
from wattlaw.workload import preset, presets, recipe, step_cost
from wattlaw.workload.architecture import HEADS
from wattlaw.workload.config import from_mapping

if TYPE_CHECKING:
    from wattlaw.explain import Node

Answer = dict[str, Any]

#: Most device counts of one comparison.
MOST_COUNTS = 16


@cache
def options() -> Answer:
    """List the names that a run may hold, with what a page needs to know of each."""
    return {
        "models": [{"name": name, "family": preset(name).family} for name in presets()],
        "heads": list(HEADS),
        "gpus": [
            {
                "name": one.name,
                "full_name": one.full_name,
                "memory_bytes": one.memory_bytes,
                "power_limit_w": one.power_limit_w,
                "precisions": list(one.precisions),
            }
            for one in accelerators()
        ],
        "nodes": [{"name": one.name, "accelerators_per_node": one.accelerators_per_node} for one in node_types()],
        "regions": [
            {
                "code": one.code,
                "name": one.name,
                "carbon_g_per_kwh": one.carbon_g_per_kwh,
                "year": one.year,
                "scope": one.scope,
            }
            for one in regions()
        ],
        "strategies": list(STRATEGIES),
        "precisions": list(recipe.PRECISIONS),
        "optimizers": list(recipe.OPTIMIZERS),
        "checkpointings": list(recipe.CHECKPOINTINGS),
        "attention_kernels": list(recipe.ATTENTION_KERNELS),
        "softwares": list(recipe.SOFTWARES),
        "adapter_targets": list(recipe.ADAPTER_TARGETS),
        "laws": list(LAWS),
        "terms": dict(TERMS),
        "columns": dict(COLUMNS),
    }


def predicted(question: Question) -> Answer:
    """Predict a run: what ``wattlaw predict --json`` prints, and the run as TOML and as a command."""
    spec = question.run.spec()
    (prediction,) = predict([spec], question.calibration(), level=question.level)
    prices = question.prices.known(spec.accelerator.name)
    costs = footprint(prediction, prices, num_devices=float(spec.layout.num_devices))
    return {
        **prediction_mapping(
            spec,
            prediction,
            costs,
            assumed=assumed({"recipe": question.run.recipe, "layout": question.run.layout}),
            sources=question.prices.sources(),
        ),
        "toml": run_toml(question.run, spec),
        "command": command_line(question.run, question.prices, level=question.level),
    }


def run_toml(run: Run, spec: RunSpec) -> str:
    """Write the run as a spec file: as it was asked for, or with the architecture in full where a config.json was."""
    if "config" in run.model:
        return toml_text(spec_to_mapping(spec))
    tables = {"model": run.model, "recipe": run.recipe, "hardware": run.hardware, "layout": run.layout}
    return toml_text(
        {**({"name": run.name} if run.name else {}), **{key: table for key, table in tables.items() if table}}
    )


def compared(question: Comparison) -> Answer:
    """Predict the other layouts that do the same work."""
    counts = question.counts
    if not 1 <= len(counts) <= MOST_COUNTS or not all(1 <= count <= 10**6 for count in counts):
        raise ConfigError("device counts to compare", given=counts[:MOST_COUNTS], allowed=f"1 to {MOST_COUNTS} of them")
    spec = question.run.spec()
    rows = alternatives(spec, question.calibration(), counts=counts, level=question.level)
    return {
        "rows": [
            {
                "strategy": one.layout.strategy,
                "num_devices": int(one.layout.num_devices),
                "chosen": one.layout == spec.layout,
                "energy_j": as_builtins(prediction.energy_j),
                "duration_s": as_builtins(prediction.duration_s),
                "in_domain": prediction.in_domain,
            }
            for one, prediction in rows
        ]
    }


def explained(question: Question) -> Answer:
    """Share the energy out to modules and operations; blocks that are alike stand together."""
    from wattlaw.explain import efficiency, explained
    from wattlaw.explain.tree import merged

    spec, calibration = question.run.spec(), question.calibration()
    (prediction,) = predict([spec], calibration, level=question.level)
    tree = explained(spec, calibration, prediction)
    return {"tree": _node(merged(tree)), "efficiency": as_builtins(efficiency(spec, prediction))}


def changed(question: Question) -> Answer:
    """Predict what named changes of the run would do, each by itself."""
    from wattlaw.explain import outcomes, usual_changes
    from wattlaw.explain.tree import check_explainable

    spec, calibration = question.run.spec(), question.calibration()
    check_explainable(calibration)
    return {"changes": as_builtins(outcomes(spec, calibration, usual_changes(spec), level=question.level))}


def _node(node: Node) -> Answer:
    return {
        "name": WORDS.get(node.name, node.name),
        "kind": node.kind,
        "energy_j": node.energy_j,
        "time_s": node.time_s,
        "energy_share": node.energy_share,
        "time_share": node.time_share,
        "flop": node.flop,
        "traffic_bytes": node.traffic_bytes,
        "bottleneck": node.bottleneck,
        "phases_j": dict(node.phases_j),
        "children": [_node(child) for child in node.children if child.kind != "phase"],
    }


def planned(question: PlanQuestion) -> Answer:
    """Search the ways to do the run's work, under a deadline and a budget."""
    from wattlaw.app.planning import plan_answer

    if not 1 <= question.num_devices <= MOST_PLANNED_DEVICES:
        raise ConfigError(
            "more devices than are searched here",
            given=question.num_devices,
            allowed=f"1 to {MOST_PLANNED_DEVICES}",
            hint="wattlaw plan, which has no such limit",
        ).at("num_devices")
    return plan_answer(question)


def looked_at(question: ConfigFile) -> Answer:
    """Read a config.json, and tell what it is and which of its fields matter."""
    fields = read_config(question.text)
    architecture = from_mapping(fields, head=question.head)
    small = recipe.Recipe(batch_size=1, seq_len=1, steps=1)
    cost = step_cost(architecture, small, attention="full", head="counted")
    return {
        "name": architecture.name or architecture.family,
        "family": architecture.family,
        "head": architecture.head,
        "num_layers": int(architecture.num_layers),
        "hidden_size": int(architecture.hidden_size),
        "parameters": float(cost.parameters),
        "config": _plain(fields),
    }


def _plain(fields: Mapping[str, Any]) -> Answer:
    """Leave out what no size follows from, so that a page's address can hold the rest."""
    kept = {key: value for key, value in fields.items() if isinstance(value, (str, int, float, bool))}
    lists = {key: value for key, value in fields.items() if isinstance(value, list) and len(value) <= 8}
    labels = fields.get("id2label")
    counted = {"id2label": {str(number): "" for number in range(len(labels))}} if isinstance(labels, dict) else {}
    text = {key for key in kept if key.startswith(("_", "transformers")) and key != "_name_or_path"}
    return {key: value for key, value in {**kept, **lists, **counted}.items() if key not in text}
