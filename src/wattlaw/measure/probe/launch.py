"""What the host works in a step: per kernel of a block, per micro-step, per weight tensor, per optimizer step.

Models are so narrow that their kernels take no time worth the name. The time of a micro-step is then a straight line
over the kernels of the blocks, as the list of operations counts them, through models of different depth; and the time
of an optimizer step a line over the weight tensors. Slopes and intercepts are the host's work. On a CPU, where nothing
is launched, it is what each operation costs before it computes.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from wattlaw.measure.probe.figure import Figure
from wattlaw.measure.probe.timing import in_turns, line, sample_times
from wattlaw.workload import Architecture, Recipe, from_sizes, operations

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

DEPTHS = (1, 3, 6)
HIDDEN_SIZE, NUM_HEADS, FFN_SIZE, VOCAB_SIZE, SEQ_LEN, BATCH_SIZE = 32, 2, 64, 64, 8, 1
NAMES = ("launch_kernel_s", "launch_step_s", "update_tensor_s", "update_step_s", "enqueue_kernel_s")
HEADS = {"bert": "classification", "gpt2": "lm"}


def narrow_model(family: str, num_layers: int, *, hidden_size: int = HIDDEN_SIZE) -> Architecture:
    """Return a model in which hardly anything but launches takes time."""
    return from_sizes(
        family, head=HEADS[family], num_layers=num_layers, hidden_size=hidden_size, num_heads=NUM_HEADS,
        ffn_size=2 * hidden_size, vocab_size=VOCAB_SIZE,
    )  # fmt: skip


def narrow_recipe(precision: str = "fp32") -> Recipe:
    """Return how it is trained."""
    return Recipe(batch_size=BATCH_SIZE, seq_len=SEQ_LEN, precision=precision, optimizer="adamw", steps=1)  # type: ignore[arg-type]


def kernels_and_tensors(architecture: Architecture, recipe: Recipe) -> tuple[float, float]:
    """Count the kernels of the blocks in one micro-step, and the model's weight tensors."""
    work = operations(architecture, recipe, attention="full", head="counted")
    kernels = sum(
        float(one.repeats * (one.forward_kernels + one.backward_kernels + one.recompute_kernels))
        for one in work
        if one.in_block
    )
    return kernels, sum(float(one.repeats * one.tensors) for one in work)


def measure(
    device: torch.device,
    precisions: tuple[str, ...],
    budget_s: float,
    *,
    wait: Callable[[], None],
    depths: tuple[int, ...] = DEPTHS,
) -> dict[str, Figure]:
    """Measure ``launch_kernel_s``, ``launch_step_s``, ``update_tensor_s``, ``update_step_s`` and ``enqueue_kernel_s``.

    The models are measured in turns, so that a disturbance meets all of them and does not tilt the line. A slope or an
    intercept that comes out below zero is left out: the times were too uneven.
    """
    modes = [(family, precision) for family in HEADS for precision in formats(device, precisions)]
    each_s = budget_s / (2 * len(depths) * len(modes) + 2)
    found = []
    for family, precision in modes:
        recipe = narrow_recipe(precision)
        trained = [Trained(narrow_model(family, depth), recipe, device) for depth in depths]
        micro_steps = in_turns([one.micro_step for one in trained], wait=wait, budget_s=each_s * len(depths))
        updates = in_turns([one.optimizer.step for one in trained], wait=wait, budget_s=each_s * len(depths))
        found.append(
            [
                Depth(kernels=one.kernels, tensors=one.tensors, micro_steps_s=steps, updates_s=others)
                for one, steps, others in zip(trained, micro_steps, updates, strict=True)
            ]
        )
    told = f"{' and '.join(HEADS)} of {', '.join(map(str, depths))} layers, width {HIDDEN_SIZE}"
    return {
        **figures_of_lines(found, told),
        "update_step_s": _least_update(device, each_s, wait=wait),
        "enqueue_kernel_s": _enqueue(device, each_s, wait=wait),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """What was timed of one model: its kernels and weight tensors, and samples of its two steps."""

    kernels: float
    tensors: float
    micro_steps_s: Sequence[float]
    updates_s: Sequence[float]


def figures_of_lines(models: Sequence[Sequence[Depth]], told: str) -> dict[str, Figure]:
    """Make figures of the lines through each model's depths; what comes out below zero is left out."""
    steps = [line([(one.kernels, median(one.micro_steps_s)) for one in depths]) for depths in models]
    updates = [line([(one.tensors, median(one.updates_s)) for one in depths]) for depths in models]
    count = sum(len(one.micro_steps_s) + len(one.updates_s) for depths in models for one in depths)
    found = {
        "launch_kernel_s": ([slope for slope, _ in steps], "micro-step over kernels of the blocks, slope"),
        "launch_step_s": ([origin for _, origin in steps], "micro-step over kernels of the blocks, intercept"),
        "update_tensor_s": ([slope for slope, _ in updates], "AdamW step over weight tensors, slope"),
    }
    return {
        name: Figure.of_cases(above, unit="s", method=f"{method}: {told}", num_samples=count)
        for name, (values, method) in found.items()
        if (above := [value for value in values if value > 0])
    }


def formats(device: torch.device, precisions: tuple[str, ...]) -> tuple[str, ...]:
    """fp32 and, where the device has it, autocast, which launches casts as well."""
    halves = [precision for precision in ("bf16", "fp16") if precision in precisions and device.type == "cuda"]
    return ("fp32", *halves[:1])


class Trained:
    """One model, its optimizer, and the kernels and weight tensors that are counted of it."""

    def __init__(self, architecture: Architecture, recipe: Recipe, device: torch.device) -> None:
        import torch

        from wattlaw.measure.sweep.models import build_model

        self.kernels, self.tensors = kernels_and_tensors(architecture, recipe)
        torch.manual_seed(0)
        self._model = build_model(architecture, recipe, device)
        self._batch = _batch(architecture, recipe, device)
        self._precision = recipe.precision
        self._device = device
        self.optimizer = torch.optim.AdamW(self._model.parameters(), lr=1e-5)

    def micro_step(self) -> None:
        """Run forward and backward pass."""
        self.optimizer.zero_grad(set_to_none=True)
        with _cast(self._precision, self._device):
            loss = self._model(**self._batch).loss
        loss.backward()


def _least_update(device: torch.device, budget_s: float, *, wait: Callable[[], None]) -> Figure:
    """Time an optimizer step over a single small tensor, gradients and all: what a step costs whatever it updates."""
    import torch

    weight = torch.nn.Parameter(torch.zeros(HIDDEN_SIZE, device=device))
    weight.grad = torch.ones_like(weight)
    optimizer = torch.optim.AdamW([weight], lr=1e-5)
    times_s = sample_times(optimizer.step, wait=wait, budget_s=budget_s)
    return Figure.of_samples(times_s, unit="s", method=f"AdamW step over one tensor of {HIDDEN_SIZE} numbers")


def _batch(architecture: Architecture, recipe: Recipe, device: torch.device) -> dict[str, Any]:
    import torch

    sequences, length = int(recipe.batch_size), int(recipe.seq_len)
    tokens = torch.randint(0, int(architecture.vocab_size), (sequences, length), device=device)
    labels = tokens if architecture.head == "lm" else torch.zeros(sequences, dtype=torch.long, device=device)
    return {"input_ids": tokens, "labels": labels}


def _cast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    import torch

    low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
    return nullcontext() if low is None else torch.autocast(device.type, dtype=low)


def _enqueue(device: torch.device, budget_s: float, *, wait: Callable[[], None]) -> Figure:
    """Time one call of the smallest kernel there is: what a launch costs without a framework's layers around it."""
    import torch

    number = torch.zeros(1, device=device)
    times_s = sample_times(lambda: number.add_(1), wait=wait, budget_s=budget_s)
    return Figure.of_samples(times_s, unit="s", method="one addition to one number, called again and again")
