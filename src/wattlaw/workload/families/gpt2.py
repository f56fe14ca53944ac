"""GPT-2 and the GPT-3 sizes: decoders with LayerNorm before each part, fused projections and learned positions.

Radford et al. 2019, "Language Models are Unsupervised Multitask Learners"; Brown et al. 2020, arXiv 2005.14165.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wattlaw.workload.architecture import Architecture, Stack
from wattlaw.workload.families.bert import head_size
from wattlaw.workload.families.task import decoder_head

if TYPE_CHECKING:
    from wattlaw.units import Quantity
    from wattlaw.workload.families.fields import Fields
    from wattlaw.workload.families.task import Task, TaskName

MODEL_TYPES = ("gpt2",)
DEFAULT_TASK: TaskName = "lm"
TASKS: tuple[TaskName, ...] = ("lm", "classification", "token_classification", "question_answering", "none")


def from_config(family: str, fields: Fields, task: Task) -> Architecture:
    """Read the sizes that a GPT-2 configuration states; the MLP is four hidden sizes wide where it does not say."""
    fields.refuse("add_cross_attention", unless=False, why="a GPT-2 with cross-attention is not counted here")
    hidden_size = fields.count("n_embd", "hidden_size")
    residual = fields.dropped("resid_pdrop", default=0.1)
    return from_sizes(
        family,
        task,
        num_layers=fields.count("n_layer", "num_hidden_layers"),
        hidden_size=hidden_size,
        num_heads=fields.count("n_head", "num_attention_heads"),
        ffn_size=fields.count("n_inner", default=4 * hidden_size),
        vocab_size=fields.count("vocab_size"),
        max_positions=fields.count("n_positions", "max_position_embeddings", default=1024),
        activation_kernels=8 if fields.text("activation_function", default="gelu_new") == "gelu_new" else 1,
        hidden_dropout=residual,
        attention_dropout=fields.dropped("attn_pdrop", default=0.1),
        embedding_dropout=fields.dropped("embd_pdrop", default=0.1),
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
    max_positions: Quantity = 1024,
    activation_kernels: Quantity = 8,
    hidden_dropout: Quantity = 1,
    attention_dropout: Quantity = 1,
    embedding_dropout: Quantity | None = None,
    tied_head: Quantity = 1,
) -> Architecture:
    """Build a GPT-2 of these sizes; its GELU is written out in eight elementary steps unless said otherwise."""
    task.among(family, TASKS)
    stack = Stack(
        role="decoder",
        num_layers=num_layers,
        num_heads=num_heads,
        num_kv_heads=num_heads,
        head_size=head_size(hidden_size, num_heads),
        ffn_size=ffn_size,
        fused_qkv=1,
        activation_kernels=activation_kernels,
        qkv_bias=1,
        output_bias=1,
        mlp_bias=1,
        norm_bias=1,
        final_norm=1,
        hidden_dropout=hidden_dropout,
        attention_dropout=attention_dropout,
    )
    return Architecture(
        family=family,
        hidden_size=hidden_size,
        vocab_size=vocab_size,
        stacks=(stack,),
        max_positions=max_positions,
        embedding_dropout=hidden_dropout if embedding_dropout is None else embedding_dropout,
        **decoder_head(task, tied_head=tied_head),
    )
