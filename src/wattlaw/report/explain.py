"""An explanation as tables for people and as a mapping for machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wattlaw.explain.efficiency import Efficiency
from wattlaw.explain.tree import merged
from wattlaw.report import quantities
from wattlaw.report.machine import as_builtins
from wattlaw.report.prediction import title

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from wattlaw.explain.counterfactual import Outcome
    from wattlaw.explain.node import Node
    from wattlaw.explain.sensitivity import Sensitivity
    from wattlaw.law.prediction import Prediction
    from wattlaw.run.spec import RunSpec

#: Phases and parts as people say them.
WORDS = {
    "backward_input": "backward, for inputs",
    "backward_weight": "backward, for weights",
    "recompute": "computed again",
    "launch": "waiting for launches",
    "pipeline": "waiting for the pipeline",
    "setup": "set-up",
    "seq_len": "sequence length",
    "batch_size": "batch size",
    "grad_accumulation": "gradient accumulation",
    "vocab_size": "vocabulary",
    "evaluation_fraction": "evaluation",
    "qkv": "queries, keys, values",
    "mlp": "MLP",
}
BOUND_BY = {"compute": "compute", "memory": "memory", "launch": "launches", "communication": "messages"}
BAR_LENGTH = 10
#: Parts below this share of the energy and of the time are told together.
SMALLEST_SHARE = 0.002
#: Changes of energy and time below this are none, in the tables for people.
NO_CHANGE = 0.0005


def explanation_mapping(
    spec: RunSpec,
    prediction: Prediction,
    tree: Node,
    *,
    depth: int | None,
    merit: Efficiency,
    slopes: Sequence[Sensitivity],
    changes: Sequence[Outcome],
) -> dict[str, Any]:
    """Lay an explanation out for ``--json``: the prediction, its tree down to a depth, slopes and changes."""
    predicted: dict[str, Any] = as_builtins(prediction)
    return {
        "run": title(spec),
        **predicted,
        "tree": tree_mapping(tree, depth=depth),
        "efficiency": as_builtins(merit),
        "sensitivities": [
            {**as_builtins(one), "energy_change": one.energy_change, "duration_change": one.duration_change}
            for one in slopes
        ],
        "what_if": [{name: value for name, value in as_builtins(one).items() if value not in (None, "")}
                    for one in changes],
    }  # fmt: skip


def tree_mapping(node: Node, *, depth: int | None = None) -> dict[str, Any]:
    """Lay a tree out as nested mappings, the root at depth 0; ``None`` for all of it."""
    kept = node.children if depth is None or depth > 0 else ()
    mapping: dict[str, Any] = as_builtins(replace(node, children=()))
    mapping["children"] = [tree_mapping(child, depth=None if depth is None else depth - 1) for child in kept]
    return mapping


def explanation_text(
    spec: RunSpec,
    prediction: Prediction,
    tree: Node,
    *,
    depth: int,
    merit: Efficiency,
    slopes: Sequence[Sensitivity],
    changes: Sequence[Outcome],
) -> Group:
    """Show where a run's energy and time go, what would change them, and what to doubt."""
    from rich.console import Group
    from rich.text import Text

    from wattlaw.report.prediction import for_people, provenance

    parts: list[Any] = [Text(title(spec), style="bold"), Text(_totals(prediction)), Text(_merit(merit)), Text()]
    parts += [tree_table(tree, depth=depth), Text(), _slopes_table(slopes)]
    if changes:
        parts += [Text(), _changes_table(changes)]
        parts += [Text(f"  {one.name}: {one.refused}", style="dim") for one in changes if one.refused]
    parts.append(Text(provenance(prediction), style="dim"))
    parts += [Text(f"! {for_people(warning)}", style="yellow") for warning in prediction.warnings]
    return Group(*parts)


def _totals(prediction: Prediction) -> str:
    energy, time = prediction.energy_j, prediction.duration_s
    assert time is not None
    level = f"{100 * energy.level:g} %"
    return (
        f"{quantities.energy(energy.mid)} ({quantities.interval(energy, quantities.energy)}), "
        f"{quantities.duration(time.mid)} ({quantities.interval(time, quantities.duration)}) at {level}; "
        f"boundary {prediction.boundary or 'unknown'}"
    )


def _merit(merit: Efficiency) -> str:
    used, with_again = f"{merit.mfu_fraction:.1%}", f"{merit.hfu_fraction:.1%}"
    again = "" if used == with_again else f" (with what is computed again {with_again})"
    return (
        f"MFU {used}{again}, {quantities.digits(merit.tokens_per_s)} tokens/s, "
        f"{quantities.energy(merit.energy_per_token_j) if merit.energy_per_token_j >= 1 else _millijoules(merit)} "
        f"per token, {quantities.digits(merit.kwh_per_billion_tokens)} kWh per billion tokens"
    )


def _millijoules(merit: Efficiency) -> str:
    return f"{quantities.digits(1e3 * merit.energy_per_token_j)} mJ"


def tree_table(tree: Node, *, depth: int) -> Table:
    """Draw a tree as a table, the blocks of a stack together; small parts of a node in one line."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    # On a narrow terminal names fold and bars are cut, so that no number loses its end.
    table.add_column("where it goes", max_width=28, overflow="fold")
    table.add_column("", overflow="crop")
    for name in ("energy", "share", "time", "share"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("bound by", no_wrap=True)
    for level, node, name in _lines(merged(tree), depth):
        table.add_row(
            Text("  " * level + name, style="bold" if level == 0 else ""),
            Text(_bar(node.energy_share), style="green"),
            quantities.energy(node.energy_j),
            f"{node.energy_share:.1%}",
            quantities.duration(node.time_s),
            f"{node.time_share:.1%}",
            BOUND_BY[node.bottleneck],
        )
    return table


def _lines(node: Node, depth: int, level: int = 0) -> Iterator[tuple[int, Node, str]]:
    """Yield the nodes that are shown, largest phases first within an operation."""
    yield level, node, WORDS.get(node.name, node.name)
    if level >= depth:
        return
    small = [one for one in node.children if max(one.energy_share, one.time_share) < SMALLEST_SHARE]
    hidden = small if len(small) > 1 else []
    for child in node.children:
        if child not in hidden:
            yield from _lines(child, depth, level + 1)
    if hidden:
        yield level + 1, _rest(hidden), f"{len(hidden)} smaller"


def _rest(nodes: Sequence[Node]) -> Node:
    return replace(
        max(nodes, key=lambda one: one.time_s),
        energy_j=sum(one.energy_j for one in nodes),
        time_s=sum(one.time_s for one in nodes),
        energy_share=sum(one.energy_share for one in nodes),
        time_share=sum(one.time_share for one in nodes),
        flop=sum(one.flop for one in nodes),
        traffic_bytes=sum(one.traffic_bytes for one in nodes),
        children=(),
    )


def _bar(share: float) -> str:
    whole, eighths = divmod(round(8 * BAR_LENGTH * share), 8)
    return f"{'█' * whole}{' ▏▎▍▌▋▊▉'[eighths].strip()}"


def _slopes_table(slopes: Sequence[Sensitivity]) -> Table:
    from rich.table import Table

    table = Table("+10 % of", box=None, pad_edge=False, header_style="dim")
    for name in ("energy", "time"):
        table.add_column(name, justify="right")
    for one in slopes:
        table.add_row(WORDS.get(one.input, one.input), _change(one.energy_change), _change(one.duration_change))
    return table


def _changes_table(changes: Sequence[Outcome]) -> Table:
    from rich.table import Table

    table = Table("what if", box=None, pad_edge=False, header_style="dim")
    for name in ("energy", "", "time", "", "per token"):
        table.add_column(name, justify="right")
    for one in changes:
        if one.energy_j is None or one.duration_s is None:
            table.add_row(one.name, "cannot run", "", "", "", "", style="dim")
            continue
        table.add_row(
            one.name,
            quantities.energy(one.energy_j.mid),
            _change(one.energy_change),
            quantities.duration(one.duration_s.mid),
            _change(one.duration_change),
            _change(one.energy_per_token_change),
        )
    return table


def _change(change: float | None) -> str:
    return "" if change is None else "0.0%" if abs(change) < NO_CHANGE else f"{change:+.1%}"
