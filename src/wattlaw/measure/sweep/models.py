"""Hugging Face models of an architecture, with random weights: nothing is downloaded.

A model is built from the sizes alone, and its parameters are then counted: a record must not say one architecture
when another one was trained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wattlaw.errors import ConfigError
from wattlaw.workload import Architecture, step_cost

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch import nn

    from wattlaw.workload import Recipe, Stack

#: Of Hugging Face's configurations, where an architecture drops anything at all.
DROPOUT = 0.1
ATTENTION = {"eager": "eager", "fused": "sdpa"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFamily:
    """How the models of one family are built.

    Attributes:
        config_class: name of the configuration in transformers.
        model_classes: head -> name of the model in transformers.
        fields: the configuration's fields for an architecture with one stack.
        blocks: where the list of blocks is, below the model.
    """

    config_class: str
    model_classes: dict[str, str]
    fields: Callable[[Architecture, Stack], dict[str, Any]]
    blocks: str


def check_model(architecture: Architecture) -> ModelFamily:
    """Return how the architecture's model is built, without building it.

    Raises:
        ConfigError: models of this family, or with this head, are not built here.
    """
    family = FAMILIES.get(architecture.family)
    if family is None:
        raise ConfigError("no model of this family is built for a sweep", given=architecture.family,
                          allowed=", ".join(FAMILIES))  # fmt: skip
    if architecture.head not in family.model_classes or (
        architecture.head == "classification" and (architecture.head_per_token)
    ):
        raise ConfigError(f"no {architecture.family} with this head is built for a sweep", given=architecture.head,
                          allowed=", ".join(family.model_classes))  # fmt: skip
    return family


def build_model(architecture: Architecture, recipe: Recipe, device: torch.device) -> nn.Module:
    """Build the model in training mode, fp32 weights, on the device.

    Raises:
        ConfigError: the architecture cannot be built, or what was built has another number of parameters.
    """
    import torch
    import transformers

    family = check_model(architecture)
    (stack,) = architecture.stacks
    config = getattr(transformers, family.config_class)(**family.fields(architecture, stack))
    config.use_cache = False
    config._attn_implementation = ATTENTION[recipe.attention_kernel]  # noqa: SLF001 - the only way without weights
    with torch.device(device):
        model: nn.Module = getattr(transformers, family.model_classes[architecture.head])(config)
    built = sum(parameter.numel() for parameter in model.parameters())
    expected = step_cost(architecture, recipe, attention="full", head="counted").parameters
    if built != expected:
        raise ConfigError("transformers builds another model than the architecture says",
                          given=f"{built} parameters", allowed=f"{expected}")  # fmt: skip
    if recipe.checkpointing == "full":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})  # type: ignore[operator]
    model.train()
    return model


def blocks_of(model: nn.Module, architecture: Architecture) -> nn.ModuleList:
    """Return the model's blocks, first to last."""
    return model.get_submodule(FAMILIES[architecture.family].blocks)  # type: ignore[return-value]


def _bert(architecture: Architecture, stack: Stack) -> dict[str, Any]:
    return {
        "vocab_size": architecture.vocab_size,
        "hidden_size": architecture.hidden_size,
        "num_hidden_layers": stack.num_layers,
        "num_attention_heads": stack.num_heads,
        "intermediate_size": stack.ffn_size,
        "max_position_embeddings": architecture.max_positions,
        "type_vocab_size": architecture.token_types,
        "hidden_dropout_prob": DROPOUT * stack.hidden_dropout,
        "attention_probs_dropout_prob": DROPOUT * stack.attention_dropout,
        "num_labels": architecture.num_labels or 2,
        "tie_word_embeddings": bool(architecture.tied_head),
    }


def _gpt2(architecture: Architecture, stack: Stack) -> dict[str, Any]:
    return {
        "vocab_size": architecture.vocab_size,
        "n_embd": architecture.hidden_size,
        "n_layer": stack.num_layers,
        "n_head": stack.num_heads,
        "n_inner": stack.ffn_size,
        "n_positions": architecture.max_positions,
        "resid_pdrop": DROPOUT * stack.hidden_dropout,
        "attn_pdrop": DROPOUT * stack.attention_dropout,
        "embd_pdrop": DROPOUT * architecture.embedding_dropout,
        "tie_word_embeddings": bool(architecture.tied_head),
        # The defaults are rows of the published vocabulary, which a smaller one lacks.
        "bos_token_id": 0,
        "eos_token_id": 0,
    }


def _llama(architecture: Architecture, stack: Stack) -> dict[str, Any]:
    if stack.qkv_bias != stack.output_bias:
        raise ConfigError("a llama has biases in all projections of the attention or in none",
                          given=f"qkv_bias {stack.qkv_bias}, output_bias {stack.output_bias}")  # fmt: skip
    return {
        "vocab_size": architecture.vocab_size,
        "hidden_size": architecture.hidden_size,
        "num_hidden_layers": stack.num_layers,
        "num_attention_heads": stack.num_heads,
        "num_key_value_heads": stack.num_kv_heads,
        "head_dim": stack.head_size,
        "intermediate_size": stack.ffn_size,
        "attention_bias": bool(stack.qkv_bias),
        "mlp_bias": bool(stack.mlp_bias),
        "attention_dropout": DROPOUT * stack.attention_dropout,
        "tie_word_embeddings": bool(architecture.tied_head),
        "bos_token_id": 0,
        "eos_token_id": 0,
        "pad_token_id": None,
    }


FAMILIES = {
    "bert": ModelFamily(
        config_class="BertConfig",
        model_classes={"classification": "BertForSequenceClassification", "mlm": "BertForMaskedLM"},
        fields=_bert,
        blocks="bert.encoder.layer",
    ),
    "gpt2": ModelFamily(
        config_class="GPT2Config", model_classes={"lm": "GPT2LMHeadModel"}, fields=_gpt2, blocks="transformer.h"
    ),
    "llama": ModelFamily(
        config_class="LlamaConfig", model_classes={"lm": "LlamaForCausalLM"}, fields=_llama, blocks="model.layers"
    ),
}
