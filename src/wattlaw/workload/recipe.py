"""The recipe: how an architecture is trained, apart from where.

An architecture and a recipe together are the workload.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from wattlaw.errors import ConfigError
from wattlaw.units import Quantity, every
from wattlaw.workload.architecture import LARGEST_COUNT, is_whole, require_number

Precision = Literal["fp32", "tf32", "bf16", "fp16", "fp8"]
Optimizer = Literal["adamw", "adam", "sgd", "momentum", "adafactor", "adamw-8bit", "none"]
Checkpointing = Literal["none", "selective", "full"]
AttentionKernel = Literal["eager", "fused"]
Software = Literal["eager", "fused", "graphs"]
AdapterTargets = Literal["query-value", "attention", "all-linear"]

PRECISIONS: tuple[Precision, ...] = get_args(Precision)
OPTIMIZERS: tuple[Optimizer, ...] = get_args(Optimizer)
CHECKPOINTINGS: tuple[Checkpointing, ...] = get_args(Checkpointing)
ATTENTION_KERNELS: tuple[AttentionKernel, ...] = get_args(AttentionKernel)
SOFTWARES: tuple[Software, ...] = get_args(Software)
ADAPTER_TARGETS: tuple[AdapterTargets, ...] = get_args(AdapterTargets)

#: More than any training, and small enough that products with sizes of models stay finite in floats.
LARGEST_AMOUNT = 1e24
#: More micro-steps than anybody sums gradients of: a step of a million sequences, one at a time.
MOST_ACCUMULATION = 2**20
#: Who evaluates a thousand tokens for each that is trained on does not train.
MOST_EVALUATION = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One way of training: batch, length, precision, optimizer, and how much of it.

    Exactly one amount is given: ``steps`` (optimizer steps), ``samples`` (sequences per epoch)
    or ``tokens`` (of the whole run). A number may also be a column of numbers, one per run.

    Attributes:
        batch_size: sequences per data-parallel rank and micro-step.
        seq_len: longest sequence, in tokens; what positions and memory are sized for.
        padded_len: mean length that the device computes, after padding each batch to its longest sequence;
            ``None`` means that every sequence is ``seq_len`` long (packed, or padded to the maximum).
        target_len: length of the decoder's sequence in an encoder-decoder; ``None`` means ``seq_len``.
        grad_accumulation: micro-steps per optimizer step.
        precision: of the matrix products; fp16, bf16 and fp8 are mixed precision with fp32 master weights.
        optimizer: whose states are kept and whose update is applied; ``none`` where only the forward and backward
            passes are timed.
        checkpointing: which activations are recomputed in the backward pass.
        attention_kernel: ``eager`` writes the score matrix to memory, ``fused`` does not.
        software: how kernels come about. ``eager`` launches one for each operation of the framework (PyTorch,
            Transformers, Accelerate), ``fused`` has normalisation, bias, activation, dropout and casts in few
            (Megatron-Core, Transformer Engine, NeMo, ``torch.compile``), ``graphs`` also replays them without the
            host (CUDA graphs).
        predicted_fraction: share of the positions that a vocabulary head computes; 1 but for masked language models
            that gather what they have to predict first, about 0.15 in BERT's pre-training.
        packed_sequences: sequences in one row of ``seq_len`` tokens, which do not attend to each other. ``batch_size``
            and ``samples`` then count rows.
        adapter_rank: rank of low-rank adapters beside projections whose weights, as all others of the model but a new
            classification head, are frozen (Hu et al. 2021, arXiv 2106.09685); 0 trains every weight.
        adapter_targets: the projections that have an adapter: ``query-value``, all of the ``attention``, or those of
            attention and MLP (``all-linear``).
        steps: optimizer steps of the run.
        samples: sequences in one epoch.
        epochs: passes over the data, each with its evaluation and set-up; it multiplies ``samples``, while ``steps``
            and ``tokens`` are of the whole run. ``None`` means one; for ``steps`` a window of a
            training, in which no epoch begins.
        tokens: training tokens of the whole run, over all devices.
        evaluation_fraction: tokens evaluated (forward pass only) per token trained on.
    """

    batch_size: Quantity
    seq_len: Quantity
    padded_len: Quantity | None = None
    target_len: Quantity | None = None
    grad_accumulation: Quantity = 1
    precision: Precision = "bf16"
    optimizer: Optimizer = "adamw"
    checkpointing: Checkpointing = "none"
    attention_kernel: AttentionKernel = "fused"
    software: Software = "eager"
    predicted_fraction: Quantity = 1.0
    packed_sequences: Quantity = 1
    adapter_rank: Quantity = 0
    adapter_targets: AdapterTargets = "attention"
    steps: Quantity | None = None
    samples: Quantity | None = None
    epochs: Quantity | None = None
    tokens: Quantity | None = None
    evaluation_fraction: Quantity = 0.0

    def __post_init__(self) -> None:
        """Refuse what cannot be trained."""
        sizes = ("batch_size", "seq_len", "padded_len", "target_len", "grad_accumulation")
        for field in (*sizes, "steps", "samples", "epochs", "tokens"):
            value = getattr(self, field)
            if value is None:
                continue
            require_number(field, value)
            if not every((value > 0) & (value <= LARGEST_AMOUNT)):
                wrong = "is more than any training has" if every(value > 0) else "must be above zero"
                raise ConfigError(f"{field} {wrong}", given=value, allowed=f"> 0, <= {LARGEST_AMOUNT:g}")
        if not every(self.grad_accumulation <= MOST_ACCUMULATION):
            raise ConfigError(
                "more micro-steps than a step of an optimizer has",
                given=self.grad_accumulation,
                allowed=f"<= {MOST_ACCUMULATION}",
            ).at("grad_accumulation")
        self._check_shares_and_counts()
        for field, names in (
            ("precision", PRECISIONS),
            ("optimizer", OPTIMIZERS),
            ("checkpointing", CHECKPOINTINGS),
            ("attention_kernel", ATTENTION_KERNELS),
            ("software", SOFTWARES),
            ("adapter_targets", ADAPTER_TARGETS),
        ):
            if getattr(self, field) not in names:
                raise ConfigError(f"unknown {field}", given=getattr(self, field), allowed=", ".join(names))
        if self.padded_len is not None and not every(self.padded_len <= self.seq_len):
            raise ConfigError("padded_len exceeds seq_len", given=self.padded_len, allowed=f"<= {self.seq_len}")
        amounts = [name for name in ("steps", "samples", "tokens") if getattr(self, name) is not None]
        if len(amounts) != 1:
            raise ConfigError(
                "the amount of training must be given exactly once",
                given=", ".join(amounts) or "none",
                allowed="one of steps, samples, tokens",
            )

    def _check_shares_and_counts(self) -> None:
        """Refuse what is no share, no number of sequences in a row, no rank."""
        for field in ("evaluation_fraction", "predicted_fraction", "packed_sequences", "adapter_rank"):
            require_number(field, getattr(self, field))
        if not every((self.evaluation_fraction >= 0) & (self.evaluation_fraction <= MOST_EVALUATION)):
            raise ConfigError(
                "evaluation_fraction is no ratio of tokens",
                given=self.evaluation_fraction,
                allowed=f">= 0, <= {MOST_EVALUATION:g}",
                hint="tokens evaluated over tokens trained on: 0.1 where a tenth is evaluated",
            )
        if not every((self.predicted_fraction > 0) & (self.predicted_fraction <= 1)):
            raise ConfigError("predicted_fraction is a share", given=self.predicted_fraction, allowed="> 0, <= 1")
        if not every((self.packed_sequences >= 1) & (self.packed_sequences <= self.seq_len)):
            raise ConfigError(
                "packed_sequences do not go into a row", given=self.packed_sequences, allowed=f"1 to {self.seq_len}"
            )
        if not (every((self.adapter_rank >= 0) & (self.adapter_rank <= LARGEST_COUNT)) and is_whole(self.adapter_rank)):
            raise ConfigError(
                "adapter_rank must be a whole number",
                given=self.adapter_rank,
                allowed=f"0 (every weight is trained) to {LARGEST_COUNT}",
            )

    @property
    def computed_len(self) -> Quantity:
        """Tokens per sequence that the device computes, padding included."""
        return self.seq_len if self.padded_len is None else self.padded_len

    @property
    def decoder_len(self) -> Quantity:
        """Tokens per sequence on the decoder's side of an encoder-decoder."""
        return self.computed_len if self.target_len is None else self.target_len
