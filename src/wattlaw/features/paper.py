"""The columns of the paper's laws: proxies of compute and memory traffic, and the hardware efficiency."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from wattlaw.errors import ConfigError, DataError
from wattlaw.features.table import Table
from wattlaw.parallel.speedup import hardware_efficiency
from wattlaw.run.amount import schedule
from wattlaw.run.record import Boundary, Energy, RunRecord
from wattlaw.run.spec import RunSpec
from wattlaw.workload.proxies import compute_proxy_per_token, compute_proxy_per_token_artifact, memory_proxy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ComputeDefinition = Literal["eq2", "artifact"]
COMPUTE_DEFINITIONS: tuple[ComputeDefinition, ...] = get_args(ComputeDefinition)
ProxySource = Literal["spec", "observed"]
PROXY_SOURCES: tuple[ProxySource, ...] = get_args(ProxySource)

#: A single-device run tells the efficiency of a run on several only where both did the same work, to this share.
SAME_WORK_FRACTION = 0.05


def paper_columns(
    runs: Sequence[RunRecord | RunSpec],
    *,
    compute: ComputeDefinition,
    proxies: ProxySource = "spec",
    boundary: Boundary | None = None,
) -> Table:
    """Return the columns that the power, paper and additive laws read, one row per run.

    Always there: ``compute_proxy`` (C, of the whole run, tokens seen in evaluation included) with its
    ``compute_definition``, ``memory_proxy`` (M = B S d L, of one step on one device), ``num_steps`` (micro-steps of one
    rank), ``num_devices``, ``data_parallel``, ``tensor_parallel``, ``strategy``, ``architecture`` (the model's family),
    ``machine`` (the GPU model), ``group`` (the configuration family: everything but strategy, devices and how long).

    There where every run has it: ``energy_j`` and ``boundary``, ``duration_s``, ``efficiency`` (eta_h = S(N) / N)
    with ``efficiency_source``: ``single`` (one device: 1 by definition), ``stated`` (the record states
    ``single_device_duration_s``) or ``paired`` (with the run of the same group and work on one device among
    ``runs``, the median where there are several).

    C, M and the steps are what the spec implies, because a run to come has nothing else: a law that was fitted to
    what was observed (padding left out, say) is off on a spec. ``observed`` takes ``tokens_seen``, ``memory_proxy``
    and ``micro_steps`` of each record that states them, to reproduce what others fitted; ``proxy_source`` says which.

    Args:
        runs: records, or specs of runs to come.
        compute: ``eq2``, C_tok = 12 L d^2 + 3 L S d, as in the paper, or ``artifact``, L (12 d^2 + 2 d ff), as in
            the data of its follow-up; both summed over the stacks of an encoder-decoder, at the encoder's length.
        proxies: ``spec`` or ``observed``.
        boundary: which energy to take; ``None`` takes each record's narrowest, which must be the same for all.

    Raises:
        ConfigError: an unknown definition of compute, or source of the proxies.
        DataError: a failed run, a record without a spec, or energies within different boundaries.
    """
    if compute not in COMPUTE_DEFINITIONS:
        raise ConfigError("unknown definition of compute", given=compute, allowed=", ".join(COMPUTE_DEFINITIONS))
    if proxies not in PROXY_SOURCES:
        raise ConfigError("unknown source of the proxies", given=proxies, allowed=", ".join(PROXY_SOURCES))
    specs = [_spec(run) for run in runs]
    seen = [dict(run.observed) if proxies == "observed" and isinstance(run, RunRecord) else {} for run in runs]
    columns: dict[str, list[float] | list[str]] = {
        "compute_proxy": [_compute(observed, spec, compute) for observed, spec in zip(seen, specs, strict=True)],
        "compute_definition": [str(compute) for _ in runs],
        "proxy_source": [str(proxies) for _ in runs],
        "memory_proxy": [_memory(observed, spec) for observed, spec in zip(seen, specs, strict=True)],
        "num_steps": [_num_steps(observed, spec) for observed, spec in zip(seen, specs, strict=True)],
        "num_devices": [float(spec.layout.num_devices) for spec in specs],
        "data_parallel": [float(spec.layout.data_parallel) for spec in specs],
        "tensor_parallel": [float(spec.layout.tensor_parallel) for spec in specs],
        "strategy": [spec.layout.strategy for spec in specs],
        "architecture": [spec.architecture.family for spec in specs],
        "machine": [spec.accelerator.name for spec in specs],
        "group": [configuration_family(spec) for spec in specs],
    }
    table = Table({name: np.array(values) for name, values in columns.items()})
    return _with_efficiency(_with_targets(table, runs, boundary), runs)


def configuration_family(spec: RunSpec) -> str:
    """Name what runs share that differ only in strategy, number of devices and amount of training.

    Held-out splits keep a family whole, so that no run is predicted from the same configuration on other devices.
    """
    model, recipe = spec.architecture, spec.recipe
    stacks = [f"{stack.num_layers:g}x{stack.num_heads:g}h{stack.ffn_size:g}" for stack in model.stacks]
    parts = [
        spec.accelerator.name,
        f"{spec.power_limit_w:g} W" if spec.power_limit_w is not None else "",
        f"{model.family} {'+'.join(stacks)} d{model.hidden_size:g} v{model.vocab_size:g} {model.head}",
        f"b{recipe.batch_size:g} s{recipe.seq_len:g} a{recipe.grad_accumulation:g}",
        f"{recipe.precision} {recipe.optimizer} {recipe.checkpointing} {recipe.attention_kernel} {recipe.software}",
        f"r{recipe.adapter_rank:g} {recipe.adapter_targets}" if recipe.adapter_rank else "",
    ]
    return "|".join(parts)


def _spec(run: RunRecord | RunSpec) -> RunSpec:
    if isinstance(run, RunSpec):
        return run
    if run.status != "ok":
        raise DataError(f"record {run.record_id} is of a run that failed", hint="leaving it out")
    return run.require_spec()


def _compute(observed: Mapping[str, Any], spec: RunSpec, compute: ComputeDefinition) -> float:
    tokens = observed.get("tokens_seen")
    if tokens is None:
        amount = schedule(spec.recipe, spec.layout)
        tokens = amount.trained_tokens + amount.evaluated_tokens
    hidden, length = spec.architecture.hidden_size, spec.recipe.computed_len
    if compute == "eq2":
        per_token = [compute_proxy_per_token(stack.num_layers, hidden, length) for stack in spec.architecture.stacks]
    else:
        per_token = [
            compute_proxy_per_token_artifact(stack.num_layers, hidden, stack.ffn_size)
            for stack in spec.architecture.stacks
        ]
    return float(tokens) * float(sum(per_token))


def _memory(observed: Mapping[str, Any], spec: RunSpec) -> float:
    stated = observed.get("memory_proxy")
    if stated is not None:
        return float(stated)
    return float(
        memory_proxy(
            spec.recipe.batch_size,
            spec.recipe.computed_len,
            spec.architecture.hidden_size,
            spec.architecture.num_layers,
        )
    )


def _num_steps(observed: Mapping[str, Any], spec: RunSpec) -> float:
    stated = observed.get("micro_steps")
    return float(schedule(spec.recipe, spec.layout).micro_steps if stated is None else stated)


def _with_targets(table: Table, runs: Sequence[RunRecord | RunSpec], boundary: Boundary | None) -> Table:
    records = [run for run in runs if isinstance(run, RunRecord)]
    if not records or len(records) < len(runs):
        return table
    durations = [record.duration_s for record in records]
    if None not in durations:
        table = table.with_columns(duration_s=np.array(durations, dtype=np.float64))
    energies = [record.energy(boundary) if boundary else record.energy() for record in records]
    known = [energy for energy in energies if energy is not None]
    if len(known) < len(records):
        return table
    _require_one_boundary(records, known)
    return table.with_columns(
        energy_j=np.array([energy.energy_j for energy in known]),
        boundary=np.array([energy.boundary for energy in known]),
    )


def _require_one_boundary(records: Sequence[RunRecord], energies: Sequence[Energy]) -> None:
    first = energies[0].boundary
    for record, energy in zip(records, energies, strict=True):
        if energy.boundary != first:
            raise DataError(
                "energies within different boundaries cannot be compared",
                given=f"{records[0].record_id} {first}, {record.record_id} {energy.boundary}",
                hint="a boundary that every record has",
            )


def _with_efficiency(table: Table, runs: Sequence[RunRecord | RunSpec]) -> Table:
    found = [_efficiency(table, runs, row) for row in range(len(runs))]
    if not found or any(each is None for each in found):
        return table
    known = [each for each in found if each is not None]
    return table.with_columns(
        efficiency=np.array([value for value, _ in known]), efficiency_source=np.array([source for _, source in known])
    )


def _efficiency(table: Table, runs: Sequence[RunRecord | RunSpec], row: int) -> tuple[float, str] | None:
    run, devices = runs[row], table["num_devices"][row]
    if devices == 1:
        return 1.0, "single"
    if not isinstance(run, RunRecord) or run.duration_s is None:
        return None
    single, source = run.observed.get("single_device_duration_s"), "stated"
    if single is None:
        single, source = _paired_duration_s(table, runs, row), "paired"
    if single is None:
        return None
    efficiency = hardware_efficiency(
        single_device_duration_s=float(single), duration_s=run.duration_s, num_devices=devices
    )
    return float(efficiency), source


def _paired_duration_s(table: Table, runs: Sequence[RunRecord | RunSpec], row: int) -> float | None:
    work = table["compute_proxy"]
    same = (
        (table["group"] == table["group"][row])
        & (table["num_devices"] == 1)
        & (np.abs(work / work[row] - 1) <= SAME_WORK_FRACTION)
    )
    siblings = [runs[position] for position in np.flatnonzero(same).tolist()]
    durations = [run.duration_s for run in siblings if isinstance(run, RunRecord) and run.duration_s is not None]
    return median(durations) if durations else None
