"""One training in one rank: the model as the strategy divides it, its optimizer, and a step."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from itertools import cycle
from typing import TYPE_CHECKING, Any

from wattlaw.errors import ConfigError
from wattlaw.measure.sweep.models import build_model, check_model
from wattlaw.measure.sweep.strategies import strategy_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from wattlaw.measure.sweep.ranks import Ranks
    from wattlaw.run import RunSpec

OPTIMIZERS = ("adamw", "adam", "sgd", "momentum")
CHECKPOINTINGS = ("none", "full")
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
#: Small enough that random tokens do not blow the loss up in a few steps.
LEARNING_RATE = 1e-4


def check_training(spec: RunSpec) -> None:
    """Refuse what is not trained in a sweep; needs no torch.

    Raises:
        ConfigError: the model, the strategy or a field of the recipe.
    """
    check_model(spec.architecture)
    strategy_of(spec).check(spec)
    for field, allowed in (("optimizer", OPTIMIZERS), ("checkpointing", CHECKPOINTINGS), ("precision", PRECISIONS)):
        value = getattr(spec.recipe, field)
        if value not in allowed:
            raise ConfigError(f"this {field} is not run in a sweep", given=value, allowed=", ".join(allowed))
    if spec.layout.num_nodes != 1:
        raise ConfigError("a sweep runs on one machine", given=f"{spec.layout.num_nodes} nodes", allowed="1")


class Training:
    """A model that is being trained; every rank that takes part has one.

    Args:
        spec: what is trained.
        ranks: who takes part.
        batches: of this rank, used round and round.
        seed: of the weights, the same on all ranks, and of the dropout.
        learning_rate: of the optimizer.
    """

    def __init__(
        self,
        spec: RunSpec,
        ranks: Ranks,
        batches: Sequence[dict[str, torch.Tensor]],
        *,
        seed: int = 0,
        learning_rate: float = LEARNING_RATE,
    ) -> None:
        import torch

        torch.set_float32_matmul_precision("high" if spec.recipe.precision == "tf32" else "highest")
        torch.manual_seed(seed)
        model = build_model(spec.architecture, spec.recipe, ranks.device)
        self._divided = strategy_of(spec).divide(model, ranks, spec)
        # Ranks of one tensor-parallel group hold the same hidden states and must drop the same of them.
        torch.manual_seed(seed + 1 + ranks.data_rank)
        self._ranks = ranks
        self._precision = spec.recipe.precision
        self._accumulation = int(spec.recipe.grad_accumulation)
        self._batches = cycle(batches)
        self._optimizer = _optimizer(spec.recipe.optimizer, self._divided.model, learning_rate)
        scaled = self._precision == "fp16"
        self._scaler = torch.amp.GradScaler(ranks.device.type, enabled=scaled)

    def step(self) -> torch.Tensor:
        """Make one optimizer step; return this rank's mean loss over its micro-steps, not yet waited for."""
        import torch

        total: Any = torch.zeros((), device=self._ranks.device)
        for number in range(self._accumulation):
            with self._divided.micro_step(number == self._accumulation - 1):
                with self._cast():
                    loss = self._divided.model(**next(self._batches)).loss / self._accumulation
                self._scaler.scale(loss).backward()
            total = total + loss.detach()
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._optimizer.zero_grad(set_to_none=True)
        return total  # type: ignore[no-any-return]

    def _cast(self) -> AbstractContextManager[Any]:
        import torch

        low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self._precision)
        if low is None or self._divided.casts:
            return nullcontext()
        return torch.autocast(self._ranks.device.type, dtype=low)


def _optimizer(name: str, model: torch.nn.Module, learning_rate: float) -> torch.optim.Optimizer:
    import torch

    parameters = model.parameters()
    if name == "adamw":
        return torch.optim.AdamW(parameters, lr=learning_rate)
    if name == "adam":
        return torch.optim.Adam(parameters, lr=learning_rate)
    return torch.optim.SGD(parameters, lr=learning_rate, momentum=0.9 if name == "momentum" else 0.0)
