"""How well a run spends its time and energy: utilisation, tokens per second, joules per token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wattlaw.features.batch import batches
from wattlaw.run.amount import schedule
from wattlaw.units import JOULES_PER_KWH
from wattlaw.workload import operations

if TYPE_CHECKING:
    from wattlaw.law.prediction import Prediction
    from wattlaw.run.spec import RunSpec

#: Parts of a run's time in which it does not train.
NOT_TRAINING = ("evaluation", "setup")
TOKENS_PER_BILLION = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """Figures of merit of a predicted run.

    Attributes:
        mfu_fraction: model FLOP utilisation: the forward and backward operations of the undivided model, with nothing
            that is repeated or computed again, over the training time, the devices and their dense peak
            (Chowdhery et al. 2022, arXiv 2204.02311, appendix B). Causal attention is counted in full, unless the
            attention kernel is fused and skips what the mask leaves out.
        hfu_fraction: hardware FLOP utilisation: the same with what is computed again.
        model_flop: of the whole run's training, as in ``mfu_fraction``.
        tokens: trained on, padding included; of an encoder-decoder the encoder's.
        tokens_per_s: over the whole run, evaluation and set-up included.
        tokens_per_device_s: of these, per device.
        energy_per_token_j: the run's energy over the tokens.
        kwh_per_billion_tokens: the same in kWh per 10^9 tokens.
    """

    mfu_fraction: float
    hfu_fraction: float
    model_flop: float
    tokens: float
    tokens_per_s: float
    tokens_per_device_s: float
    energy_per_token_j: float
    kwh_per_billion_tokens: float


def efficiency(spec: RunSpec, prediction: Prediction) -> Efficiency:
    """Compute the figures of merit of a prediction by a law that knows time."""
    ((_, batch),) = batches([spec])
    recipe, layout = batch.recipe, batch.layout
    assert prediction.duration_s is not None
    duration_s = prediction.duration_s.mid
    training_s = duration_s - sum(prediction.terms_s.get(name, 0.0) for name in NOT_TRAINING)
    amount = schedule(recipe, layout)
    work = operations(
        batch.architecture,
        recipe,
        attention="causal" if recipe.attention_kernel == "fused" else "full",
        head="counted",
    )
    passes = float(amount.micro_steps * layout.data_parallel)
    model_flop = passes * sum(float(one.repeats * (one.forward_flop + one.backward_flop)) for one in work)
    again_flop = passes * sum(float(one.repeats * one.recompute_flop) for one in work)
    possible_flop = training_s * float(layout.num_devices * batch.devices.peak_flop_per_s)
    tokens = float(amount.trained_tokens)
    energy_per_token_j = prediction.energy_j.mid / tokens
    return Efficiency(
        mfu_fraction=model_flop / possible_flop,
        hfu_fraction=(model_flop + again_flop) / possible_flop,
        model_flop=model_flop,
        tokens=tokens,
        tokens_per_s=tokens / duration_s,
        tokens_per_device_s=tokens / duration_s / float(layout.num_devices),
        energy_per_token_j=energy_per_token_j,
        kwh_per_billion_tokens=energy_per_token_j * TOKENS_PER_BILLION / JOULES_PER_KWH,
    )
