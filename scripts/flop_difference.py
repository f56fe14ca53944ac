"""Compare wattlaw's operations and parameters with PyTorch's own count, model by model.

The models are built on the meta device: shapes without numbers, so that 70 billion parameters need no memory. What
``torch.utils.flop_counter.FlopCounterMode`` sees is the reference, under three conditions without which it leaves
operations out in silence: the meta device (on a CPU the fused attention kernel is not in its list), a mask of four
dimensions for causal models (without one the model reads its mask's numbers, which meta tensors do not have), and
experts as batched products (the grouped kernel is not in its list either).

Usage: python scripts/flop_difference.py [MODEL ...] prints JSON {model: {ours, torch, difference}}.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wattlaw.workload import Recipe, from_mapping, step_cost
from wattlaw.workload.presets import preset_config

if TYPE_CHECKING:
    from collections.abc import Iterable

BATCH_SIZE = 2
SEQ_LEN = 128
TARGET_LEN = 96

#: Class of the task beside the published one, for models that are fine-tuned on labels.
CLASSES = {
    "bert-base-uncased": "BertForSequenceClassification",
    "bert-large-uncased": "BertForSequenceClassification",
}
#: Fields that state a depth.
DEPTHS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers")
MODELS = (
    "bert-base-uncased",
    "bert-large-uncased",
    "roberta-base",
    "distilbert-base-uncased",
    "gpt2",
    "gpt2-xl",
    "llama-2-7b",
    "llama-2-70b",
    "qwen2.5-0.5b",
    "qwen3-8b",
    "gemma-2-9b",
    "gemma-3-1b",
    "t5-base",
    "mixtral-8x7b",
    "qwen1.5-moe-a2.7b",
    "qwen3-30b-a3b",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What PyTorch says of a model.

    Attributes:
        parameters: numbers with a gradient.
        forward_flop: operations of the forward pass.
        training_flop: operations of forward and backward pass.
    """

    parameters: int
    forward_flop: int
    training_flop: int


def published_config(name: str, num_layers: int | None = None) -> dict[str, Any]:
    """Fields of a preset, with the class that is compared here, and other than its own depth where one is given."""
    config = dict(preset_config(name))
    depths = [key for key in DEPTHS if key in config] if num_layers is not None else []
    classes = [CLASSES.get(name, config["architectures"][0])]
    return {**config, **dict.fromkeys(depths, num_layers), "architectures": classes}


def meta_model(config: dict[str, Any]) -> Any:
    """Build a model without numbers from the fields of its ``config.json``."""
    import torch
    import transformers

    fields = {key: value for key, value in config.items() if key not in ("model_type", "architectures")}
    settings = transformers.AutoConfig.for_model(config["model_type"], **fields)
    with torch.device("meta"):
        model = getattr(transformers, config["architectures"][0])._from_config(settings)  # noqa: SLF001
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("batched_mm")
    return model.train()


def meta_inputs(model: Any, *, batch_size: int, seq_len: int, target_len: int) -> dict[str, Any]:
    """Build the inputs of one micro-step, with labels, without numbers."""
    import torch

    name = type(model).__name__
    inputs = {"input_ids": torch.zeros(batch_size, seq_len, dtype=torch.long, device="meta")}
    if name.endswith("ForConditionalGeneration"):
        labels = torch.zeros(batch_size, target_len, dtype=torch.long, device="meta")
        return {**inputs, "labels": labels, "decoder_input_ids": labels}
    if name.endswith(("ForCausalLM", "LMHeadModel")):
        mask = torch.ones(batch_size, 1, seq_len, seq_len, dtype=torch.bool, device="meta")
        return {**inputs, "attention_mask": mask, "labels": inputs["input_ids"], "use_cache": False}
    if name.endswith("ForMaskedLM"):
        return {**inputs, "labels": inputs["input_ids"]}
    return {**inputs, "labels": torch.zeros(batch_size, dtype=torch.long, device="meta")}


def count(model: Any, inputs: dict[str, Any]) -> Counted:
    """Count one training step of a model on the meta device."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        loss = model(**inputs).loss
        forward_flop = counter.get_total_flops()
        loss.backward()
    return Counted(
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        forward_flop=forward_flop,
        training_flop=counter.get_total_flops(),
    )


def counted_by_torch(name: str, num_layers: int | None = None) -> Counted:
    """Build and count one preset."""
    model = meta_model(published_config(name, num_layers))
    inputs = meta_inputs(model, batch_size=BATCH_SIZE, seq_len=SEQ_LEN, target_len=TARGET_LEN)
    return count(model, inputs)


def counted_by_wattlaw(name: str, num_layers: int | None = None) -> Counted:
    """Count the same step in closed form."""
    architecture = from_mapping(published_config(name, num_layers))
    target_len = TARGET_LEN if architecture.is_encoder_decoder else None
    recipe = Recipe(batch_size=BATCH_SIZE, seq_len=SEQ_LEN, target_len=target_len, steps=1)
    cost = step_cost(architecture, recipe, attention="full", head="counted")
    return Counted(
        parameters=int(cost.parameters),
        forward_flop=int(cost.forward_flop),
        training_flop=int(cost.forward_flop + cost.backward_flop),
    )


def differences(names: Iterable[str] = MODELS) -> dict[str, dict[str, int]]:
    """Compare the operations of a training step for each model."""
    rows = {}
    for name in names:
        ours = counted_by_wattlaw(name).training_flop
        reference = counted_by_torch(name).training_flop
        rows[name] = {"ours": ours, "torch": reference, "difference": ours - reference}
    return rows


if __name__ == "__main__":
    print(json.dumps(differences(sys.argv[1:] or MODELS), indent=2))
