"""How much work a recipe on a layout makes: micro-steps, optimizer steps, tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wattlaw.parallel.layout import Layout
    from wattlaw.units import Quantity
    from wattlaw.workload.recipe import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The amount of one run. Numbers are columns where the recipe's or the layout's are.

    Attributes:
        micro_steps: forward and backward passes that each data-parallel rank makes.
        optimizer_steps: updates of the weights.
        evaluation_micro_steps: forward passes that each rank makes to evaluate, with the training batch.
        trained_tokens: tokens trained on, over all devices, padding included.
        evaluated_tokens: tokens evaluated, over all devices, padding included.
    """

    micro_steps: Quantity
    optimizer_steps: Quantity
    evaluation_micro_steps: Quantity
    trained_tokens: Quantity
    evaluated_tokens: Quantity


def schedule(recipe: Recipe, layout: Layout) -> Schedule:
    """Count the steps and tokens of a run.

    A batch that is not full is a micro-step all the same, and an accumulation that is not full is a step of the
    optimizer, once per epoch where epochs are known: so the counts are rounded up. Epochs may be a fraction.
    Tokens count one side of an encoder-decoder, the encoder's. Tensor-parallel devices train on the same
    sequences, so only data-parallel ranks divide the data.

    >>> from wattlaw.parallel.layout import Layout
    >>> from wattlaw.workload.recipe import Recipe
    >>> sst2 = Recipe(batch_size=32, seq_len=128, samples=67349, epochs=3)
    >>> schedule(sst2, Layout()).micro_steps
    6315
    """
    tokens_per_micro_step = recipe.batch_size * recipe.computed_len * layout.data_parallel
    if recipe.steps is not None:
        optimizer_steps = recipe.steps
        micro_steps = recipe.steps * recipe.grad_accumulation
        trained_tokens = micro_steps * tokens_per_micro_step
    elif recipe.samples is not None:
        epochs = 1 if recipe.epochs is None else recipe.epochs
        per_epoch = rounded_up(recipe.samples, recipe.batch_size * layout.data_parallel)
        micro_steps = per_epoch * epochs
        optimizer_steps = rounded_up(per_epoch, recipe.grad_accumulation) * epochs
        trained_tokens = recipe.samples * epochs * recipe.computed_len
    else:
        assert recipe.tokens is not None
        trained_tokens = recipe.tokens
        micro_steps = rounded_up(trained_tokens, tokens_per_micro_step)
        optimizer_steps = rounded_up(micro_steps, recipe.grad_accumulation)
    evaluated_tokens = recipe.evaluation_fraction * trained_tokens
    return Schedule(
        micro_steps=micro_steps,
        optimizer_steps=optimizer_steps,
        evaluation_micro_steps=rounded_up(evaluated_tokens, tokens_per_micro_step),
        trained_tokens=trained_tokens,
        evaluated_tokens=evaluated_tokens,
    )


def rounded_up(total: Quantity, size: Quantity) -> Quantity:
    """Count the parts of ``size`` that hold ``total``, the last one perhaps not full.

    >>> rounded_up(7, 2)
    4
    """
    parts = total / size
    # Rounding costs a column a tenth of what a floor division does.
    nearest = round(parts) if isinstance(parts, int | float) else parts.round()
    return nearest + (nearest < parts)
