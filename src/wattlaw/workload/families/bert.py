"""BERT, RoBERTa and DistilBERT: bidirectional encoders with LayerNorm behind each part.

Devlin et al. 2018, arXiv 1810.04805; Liu et al. 2019, arXiv 1907.11692; Sanh et al. 2019, arXiv 1910.01108.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wattlaw.errors import ConfigError
from wattlaw.units import every
from wattlaw.workload.architecture import Architecture, Stack, is_whole

if TYPE_CHECKING:
    from wattlaw.units import Quantity
    from wattlaw.workload.families.fields import Fields
    from wattlaw.workload.families.task import Task, TaskName

DEFAULT_TASK: TaskName = "mlm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What tells the three apart.

    Attributes:
        max_positions: rows of the position table by default.
        token_types: rows of the segment table by default.
        bare_pooler: 1 where the model without a head has a dense layer for the first token, too. With a
            classification head all have one: BERT's pooler, RoBERTa's head, DistilBERT's pre-classifier.
        tasks: with a head.
    """

    max_positions: int
    token_types: int
    bare_pooler: int
    tasks: tuple[TaskName, ...]


_TASKS: tuple[TaskName, ...] = ("mlm", "classification", "token_classification", "question_answering", "none")
TRAITS = {
    "bert": Traits(max_positions=512, token_types=2, bare_pooler=1, tasks=("pretraining", *_TASKS)),
    "roberta": Traits(max_positions=514, token_types=1, bare_pooler=1, tasks=_TASKS),
    "distilbert": Traits(max_positions=512, token_types=0, bare_pooler=0, tasks=_TASKS),
}
MODEL_TYPES = tuple(TRAITS)


def from_config(family: str, fields: Fields, task: Task) -> Architecture:
    """Read the sizes that a BERT-like configuration states."""
    fields.refuse("is_decoder", unless=False, why="a BERT that is a decoder is not counted here")
    fields.refuse("add_cross_attention", unless=False, why="a BERT with cross-attention is not counted here")
    fields.refuse("position_embedding_type", unless="absolute", why="relative positions of BERT are not counted here")
    distilled = family == "distilbert"
    traits = TRAITS[family]
    return from_sizes(
        family,
        task,
        num_layers=fields.count(*(("n_layers",) if distilled else ()), "num_hidden_layers"),
        hidden_size=fields.count(*(("dim",) if distilled else ()), "hidden_size"),
        num_heads=fields.count(*(("n_heads",) if distilled else ()), "num_attention_heads"),
        ffn_size=fields.count("hidden_dim" if distilled else "intermediate_size"),
        vocab_size=fields.count("vocab_size"),
        max_positions=fields.count("max_position_embeddings", default=traits.max_positions),
        token_types=0 if distilled else fields.count("type_vocab_size", default=2),
        hidden_dropout=fields.dropped("dropout" if distilled else "hidden_dropout_prob", default=0.1),
        attention_dropout=fields.dropped(
            "attention_dropout" if distilled else "attention_probs_dropout_prob", default=0.1
        ),
        tied_head=fields.flag("tie_word_embeddings", default=True),
    )


def from_sizes(
    family: str,
    task: Task,
    *,
    num_layers: Quantity,
    hidden_size: Quantity,
    num_heads: Quantity,
    ffn_size: Quantity,
    vocab_size: Quantity,
    max_positions: Quantity | None = None,
    token_types: Quantity | None = None,
    hidden_dropout: Quantity = 1,
    attention_dropout: Quantity = 1,
    tied_head: Quantity = 1,
) -> Architecture:
    """Build a BERT-like model of these sizes."""
    traits = TRAITS[family]
    task.among(family, traits.tasks)
    labelled = task.name in ("pretraining", "classification", "token_classification", "question_answering")
    pooled = {"pretraining": 1, "classification": 1, "none": traits.bare_pooler}.get(task.name, 0)
    stack = Stack(
        role="encoder",
        num_layers=num_layers,
        num_heads=num_heads,
        num_kv_heads=num_heads,
        head_size=head_size(hidden_size, num_heads),
        ffn_size=ffn_size,
        qkv_bias=1,
        output_bias=1,
        mlp_bias=1,
        norm_bias=1,
        hidden_dropout=hidden_dropout,
        attention_dropout=attention_dropout,
    )
    vocabulary = task.name in ("mlm", "pretraining")
    return Architecture(
        family=family,
        hidden_size=hidden_size,
        vocab_size=vocab_size,
        stacks=(stack,),
        max_positions=traits.max_positions if max_positions is None else max_positions,
        token_types=traits.token_types if token_types is None else token_types,
        embedding_norm=1,
        embedding_dropout=hidden_dropout,
        head="mlm" if vocabulary else "none" if task.name == "none" else "classification",
        num_labels=2 if task.name == "pretraining" else task.num_labels if labelled else 0,
        pooler=pooled,
        head_bias=1,
        head_per_token=0 if task.name == "classification" else 1,
        tied_head=tied_head if vocabulary else 0,
    )


def head_size(hidden_size: Quantity, num_heads: Quantity) -> Quantity:
    """Size of one head where all heads together are as wide as the hidden state."""
    if not every(num_heads >= 1) or not is_whole(size := hidden_size / num_heads):
        raise ConfigError(
            "the number of heads does not divide the hidden size",
            given=f"num_heads {num_heads}, hidden_size {hidden_size}",
            allowed="a divisor",
        ).at("num_heads")
    return size if hasattr(size, "dtype") else int(size)
