"""T5: an encoder and a decoder with relative positions, RMSNorm and no biases.

Raffel et al. 2019, arXiv 1910.10683; version 1.1 and Flan-T5 have gated MLPs and an untied head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wattlaw.errors import FileError
from wattlaw.workload.architecture import Architecture, Stack
from wattlaw.workload.families.bert import head_size as undivided_head_size

if TYPE_CHECKING:
    from wattlaw.units import Quantity
    from wattlaw.workload.architecture import Role
    from wattlaw.workload.families.fields import Fields
    from wattlaw.workload.families.task import Task, TaskName

MODEL_TYPES = ("t5",)
DEFAULT_TASK: TaskName = "lm"
TASKS: tuple[TaskName, ...] = ("lm", "none")


def from_config(family: str, fields: Fields, task: Task) -> Architecture:
    """Read the sizes that a T5 configuration states."""
    fields.refuse("is_encoder_decoder", unless=True, why="half a T5 is not counted here")
    num_layers = fields.count("num_layers", "num_hidden_layers")
    projection = fields.text("feed_forward_proj", default="relu")
    if projection.count("-") > 1 or ("-" in projection and not projection.startswith("gated-")):
        raise FileError("the field is not understood", given=projection, allowed="relu, gated-gelu").at(
            "feed_forward_proj"
        )
    return from_sizes(
        family,
        task,
        num_layers=num_layers,
        num_decoder_layers=fields.count("num_decoder_layers", default=num_layers),
        hidden_size=fields.count("d_model", "hidden_size"),
        num_heads=fields.count("num_heads", "num_attention_heads"),
        head_size=fields.count("d_kv", "head_dim", default=64),
        ffn_size=fields.count("d_ff"),
        vocab_size=fields.count("vocab_size"),
        gated=int("-" in projection),
        position_buckets=fields.count("relative_attention_num_buckets", default=32),
        dropout=fields.dropped("dropout_rate", default=0.1),
        # Current classes tie the head of every T5 that they build without weights; the published weights of version
        # 1.1 are not tied, and their files say so.
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
    num_decoder_layers: Quantity | None = None,
    head_size: Quantity | None = None,
    gated: Quantity = 0,
    position_buckets: Quantity = 32,
    dropout: Quantity = 1,
    tied_head: Quantity = 1,
) -> Architecture:
    """Build a T5 of these sizes, ``num_layers`` in the encoder and as many in the decoder where not given."""
    task.among(family, TASKS)
    size = undivided_head_size(hidden_size, num_heads) if head_size is None else head_size

    def stack(role: Role, *, num_layers: Quantity, num_norms: int, cross_attention: int) -> Stack:
        return Stack(
            role=role,
            num_layers=num_layers,
            num_norms=num_norms,
            cross_attention=cross_attention,
            num_heads=num_heads,
            num_kv_heads=num_heads,
            head_size=size,
            ffn_size=ffn_size,
            gated=gated,
            final_norm=1,
            position_buckets=position_buckets,
            hidden_dropout=dropout,
            attention_dropout=dropout,
        )

    return Architecture(
        family=family,
        hidden_size=hidden_size,
        vocab_size=vocab_size,
        stacks=(
            stack("encoder", num_layers=num_layers, num_norms=2, cross_attention=0),
            stack(
                "decoder",
                num_layers=num_layers if num_decoder_layers is None else num_decoder_layers,
                num_norms=3,
                cross_attention=1,
            ),
        ),
        embedding_dropout=dropout,
        head="lm" if task.name == "lm" else "none",
        tied_head=tied_head if task.name == "lm" else 0,
    )
