"""What a named change of a run would do: half the sequence length, no checkpointing, a cap, adapters, more devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from wattlaw.errors import WattlawError
from wattlaw.explain.efficiency import efficiency
from wattlaw.explain.sensitivity import more_devices
from wattlaw.law.interval import Interval
from wattlaw.law.prediction import predict
from wattlaw.parallel.layout import Layout
from wattlaw.run.spec import RunSpec, check_fits, check_runnable

if TYPE_CHECKING:
    from wattlaw.law.calibration import Calibration

#: Of the board's own limit, a cap that saves energy at little cost on most boards.
CAP_FRACTION = 0.7
#: Rank of adapters that a first try takes: Hu et al. 2021, arXiv 2106.09685, table 6.
ADAPTER_RANK = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of a run.

    Attributes:
        name: in words.
        apply: the changed run, or an error that says why it cannot be.
    """

    name: str
    apply: Callable[[RunSpec], RunSpec]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a change does.

    Attributes:
        name: of the change.
        energy_j: of the changed run; ``None`` where it is refused.
        duration_s: of the changed run.
        energy_per_token_j: of the changed run.
        energy_change: relative to the run as it is.
        duration_change: the same of its time.
        energy_per_token_change: the same of the energy per token, for changes that train on fewer or more tokens.
        refused: why it cannot be run; empty where it can.
    """

    name: str
    energy_j: Interval | None = None
    duration_s: Interval | None = None
    energy_per_token_j: float | None = None
    energy_change: float | None = None
    duration_change: float | None = None
    energy_per_token_change: float | None = None
    refused: str = ""


def outcomes(
    spec: RunSpec, calibration: Calibration, changes: Sequence[Change], *, level: float = 0.95
) -> tuple[Outcome, ...]:
    """Predict a run with each change by itself; a change that cannot be run says why."""
    changed: dict[int, RunSpec] = {}
    refused: dict[int, str] = {}
    for number, change in enumerate(changes):
        try:
            changed[number] = check_runnable(change.apply(spec))
            check_fits(changed[number])
        except WattlawError as error:
            changed.pop(number, None)
            refused[number] = str(error)
    before, *after = predict([spec, *changed.values()], calibration, level=level)
    assert before.duration_s is not None
    per_token_j = efficiency(spec, before).energy_per_token_j
    found = {}
    for (number, run), prediction in zip(changed.items(), after, strict=True):
        assert prediction.duration_s is not None
        now_j = efficiency(run, prediction).energy_per_token_j
        found[number] = Outcome(
            name=changes[number].name,
            energy_j=prediction.energy_j,
            duration_s=prediction.duration_s,
            energy_per_token_j=now_j,
            energy_change=prediction.energy_j.mid / before.energy_j.mid - 1,
            duration_change=prediction.duration_s.mid / before.duration_s.mid - 1,
            energy_per_token_change=now_j / per_token_j - 1,
        )
    return tuple(
        found.get(number) or Outcome(name=change.name, refused=refused[number]) for number, change in enumerate(changes)
    )


def usual_changes(spec: RunSpec) -> tuple[Change, ...]:
    """List the changes that people ask for, as far as they would change this run."""
    return tuple(
        Change(name=name, apply=apply) for name, apply in (*_of_recipe(spec), *_of_layout(spec), *_of_hardware(spec))
    )


Named = tuple[str, Callable[[RunSpec], RunSpec]]


def _of_recipe(spec: RunSpec) -> Iterator[Named]:
    recipe = spec.recipe
    if recipe.seq_len >= 2:
        yield "half the sequence length", _shorter
    if recipe.batch_size >= 2:
        yield "half the batch", lambda run: _recipe(run, batch_size=run.recipe.batch_size // 2)
    yield "twice the batch", lambda run: _recipe(run, batch_size=2 * run.recipe.batch_size)
    if recipe.checkpointing == "none":
        yield "full checkpointing", lambda run: _recipe(run, checkpointing="full")
    else:
        yield "no checkpointing", lambda run: _recipe(run, checkpointing="none")
    if recipe.attention_kernel == "eager":
        yield "fused attention", lambda run: _recipe(run, attention_kernel="fused")
    else:
        yield "eager attention", lambda run: _recipe(run, attention_kernel="eager")
    for software, name in (("fused", "fused kernels"), ("graphs", "captured graphs")):
        if recipe.software != software:
            yield name, lambda run, chosen=software: _recipe(run, software=chosen)  # type: ignore[misc]
    yield from _of_precision(spec)
    if recipe.adapter_rank == 0:
        yield f"LoRA, rank {ADAPTER_RANK}", lambda run: _recipe(run, adapter_rank=ADAPTER_RANK)
    else:
        yield "all weights trained", lambda run: _recipe(run, adapter_rank=0)
    if recipe.optimizer in ("adam", "adamw"):
        yield "8-bit AdamW", lambda run: _recipe(run, optimizer="adamw-8bit")
    if recipe.evaluation_fraction > 0:
        yield "no evaluation", lambda run: _recipe(run, evaluation_fraction=0.0)


def _of_precision(spec: RunSpec) -> Iterator[Named]:
    for precision in ("bf16", "fp8"):
        shorter = precision == "fp8" or spec.recipe.precision in ("fp32", "tf32")
        if shorter and spec.recipe.precision != precision and precision in spec.accelerator.precisions:
            yield precision, lambda run, chosen=precision: _recipe(run, precision=chosen)  # type: ignore[misc]


def _of_layout(spec: RunSpec) -> Iterator[Named]:
    layout = spec.layout
    yield "twice the devices", lambda run: more_devices(run, 2)
    if layout.num_devices > 1:
        yield "half the devices", lambda run: more_devices(run, 0.5)
        yield "one device", lambda run: replace(run, layout=Layout())
    if layout.data_parallel > 1:
        for stage, name in ((0, "replicas (ddp)"), (2, "sharded states (fsdp-grad-op)"), (3, "all sharded (fsdp)")):
            if layout.zero_stage != stage:
                yield name, lambda run, chosen=stage: replace(run, layout=replace(run.layout, zero_stage=chosen))  # type: ignore[misc]


def _of_hardware(spec: RunSpec) -> Iterator[Named]:
    board_w = spec.accelerator.power_limit_w
    cap_w = round(CAP_FRACTION * board_w, -1) or CAP_FRACTION * board_w
    if spec.power_limit_w is not None:
        yield "no cap", lambda run: replace(run, power_limit_w=None)
    if spec.power_limit_w != cap_w:
        yield f"cap {cap_w:g} W", lambda run: replace(run, power_limit_w=cap_w)


def _shorter(run: RunSpec) -> RunSpec:
    lengths = {
        "seq_len": run.recipe.seq_len // 2,
        "padded_len": None if run.recipe.padded_len is None else run.recipe.padded_len / 2,
        "target_len": None if run.recipe.target_len is None else max(1, run.recipe.target_len // 2),
    }
    return _recipe(run, **lengths)


def _recipe(run: RunSpec, **changes: Any) -> RunSpec:
    return replace(run, recipe=replace(run.recipe, **changes))
