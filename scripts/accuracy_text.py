"""What ``accuracy.py`` says in words: which figures it asks for, what peers publish, what to doubt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

INTRODUCTION = """\
How far off wattlaw's predictions are, on runs that the fit had not seen, beside other laws and what others publish.
Written by `make accuracy` from what `make figures` found and from the measured tables; never by hand. A figure that
misses its target stands here as it came. What was tried is in [log.md](log.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Figures that belong together.

    Attributes:
        title: of the section.
        text: what is measured, and on what.
        patterns: names of the figures, with ``*``.
        asked: figures that there must be -> their target.
        peers: figure -> what others reach on the same, or nearly.
    """

    title: str
    text: str
    patterns: tuple[str, ...]
    asked: Mapping[str, str]
    peers: Mapping[str, str] = field(default_factory=dict)


class Peer(NamedTuple):
    """A published figure of others."""

    who: str
    what: str
    figure: str
    source: str


GROUPS = (
    Group(
        title="Energy of fine-tuning, configuration families held out",
        text=(
            "518 fine-tuning runs of BERT and GPT-2 on A100 and RTX 2080 Ti, predicted before the run: 20 random 70/30 "
            "splits by configuration family, medians. Intervals are to hold 95 % of the runs. No held-out row enters a "
            "fit, but the law's form and its priors were found with all of these rows in view. How long padded batches "
            "of SST-2 are, which depends on the data alone, and how many steps a run of GPT-2 made, which is a matter "
            "of settings for most, were read off the tokens that runs saw."
        ),
        patterns=("accuracy.r2.*", "accuracy.coverage*", "accuracy.half_width*"),
        asked={
            "accuracy.r2.pooled": ">= 0.998",
            "accuracy.r2.bert": ">= 0.993",
            "accuracy.r2.gpt": ">= 0.998",
            "accuracy.coverage": "93-97",
            "accuracy.half_width": "<= 1.12",
        },
        peers={
            "accuracy.r2.pooled": "authors' law 0.833, their boosting 0.971",
            "accuracy.r2.bert": "authors' law 0.878, their boosting 0.853",
            "accuracy.r2.gpt": "authors' law 0.834, their boosting 0.980",
            "accuracy.half_width": "authors x1.93",
        },
    ),
    Group(
        title="A GPU model left out",
        text=(
            "The same runs. One of the two GPU models is predicted from the other, from four suggested or sixteen "
            "random runs of its own besides, or cold: from its data sheet and priors alone. R2 of ln(energy)."
        ),
        patterns=(
            "accuracy.suggested*",
            "accuracy.sixteen*",
            "accuracy.random*",
            "accuracy.cold*",
            "accuracy.leave_one*",
        ),
        asked={
            "accuracy.suggested_four.a100": ">= 0.97",
            "accuracy.suggested_four.2080ti": ">= 0.97",
            "accuracy.sixteen.a100": ">= 0.98",
            "accuracy.sixteen.2080ti": ">= 0.98",
            "accuracy.cold.a100": ">= 0.763",
            "accuracy.cold.2080ti": ">= 0.862",
        },
        peers={
            "accuracy.cold.a100": "authors' law with measured efficiency 0.763",
            "accuracy.cold.2080ti": "authors' law with measured efficiency 0.862",
        },
    ),
    Group(
        title="Choosing a strategy and a number of GPUs",
        text="In each configuration family of the same runs, held out: the choice of least energy per token.",
        patterns=("accuracy.choice*",),
        asked={"accuracy.choice.top1": ">= 95", "accuracy.choice.regret": "<= 1"},
    ),
    Group(
        title="Whole nodes at the plug, cold",
        text="MLPerf Training v4.0 with metered nodes: energy of a step, predicted from data sheets. Relative error.",
        patterns=("accuracy.mlperf*",),
        asked={f"accuracy.mlperf.{name}": "-10 to 10" for name in ("bert", "llama2_lora", "gpt3")},
    ),
    Group(
        title="Published trainings, cold",
        text=(
            "Energies and GPU-hours that others published of their trainings. Energies that are hours times rated "
            "power are left out."
        ),
        patterns=("accuracy.published*",),
        asked={
            "accuracy.published.energy": "<= 15",
            "accuracy.published.energy_worst": "<= 1.5",
            "accuracy.published.hours": "<= 20",
        },
    ),
    Group(
        title="Step times",
        text="Iteration times of Megatron on 1 to 512 A100, and of single GPUs of five makes.",
        patterns=("accuracy.megatron*", "accuracy.korthikanti*", "accuracy.single_gpu_time*"),
        asked={
            "accuracy.megatron.one_node": "<= 4.5",
            "accuracy.megatron.64_gpus": "<= 8",
            "accuracy.korthikanti": "<= 3.65",
            "accuracy.single_gpu_time": "<= 8",
        },
        peers={
            "accuracy.megatron.one_node": "vTrain 8.37 %",
            "accuracy.megatron.64_gpus": "vTrain 14.73 %",
            "accuracy.korthikanti": "Calculon 3.65 % (8.9 % at most)",
            "accuracy.single_gpu_time": "NeuSight 10.4 %",
        },
    ),
    Group(
        title="Power caps",
        text="BERT-base on V100 and A40: from two power limits the others, and the limit of least energy.",
        patterns=("accuracy.power_limit*",),
        asked={"accuracy.power_limit.median_ape": "<= 4", "accuracy.power_limit.regret": "<= 1"},
    ),
    Group(
        title="Speed",
        text="On the machine that computed the figures: a fit to the 518 runs, and a prediction with its interval.",
        patterns=("accuracy.fit_s", "accuracy.predict_ms"),
        asked={"accuracy.fit_s": "<= 2", "accuracy.predict_ms": "<= 50"},
    ),
)

FOLLOW_UP = '"System-Aware Energy Prediction for Multi-GPU Transformer Training", follow-up of arXiv 2606.23546'

PEERS = (
    Peer("authors' law, efficiency measured", "held-out families, R2 of ln E: BERT, GPT, pooled",
         "0.937, 0.927, 0.922", FOLLOW_UP),
    Peer("authors' law, before the run", "the same", "0.878, 0.834, 0.833", FOLLOW_UP),
    Peer("authors' gradient boosting, before the run", "the same", "0.853, 0.980, 0.971", FOLLOW_UP),
    Peer("authors' 95 % intervals", "half width: BERT, GPT, pooled", "x1.83, x2.06, x1.93", FOLLOW_UP),
    Peer("authors' law, efficiency measured", "a GPU model left out, R2: A100, 2080 Ti, T4, V100",
         "0.763, 0.862, 0.850, 0.880", FOLLOW_UP),
    Peer("the paper's law", "410 configurations, adjusted R2 in the fit; without efficiency", "0.853; 0.777",
         "arXiv 2606.23546, tables 3 and 4"),
    Peer("vTrain", "Megatron iteration time, mean error: one node; many", "8.37 %; 14.73 %",
         "Bang et al. 2024, MICRO, arXiv 2312.12391"),
    Peer("Calculon", "Korthikanti's rows, mean and largest error", "3.65 %, 8.9 %",
         "Isaev et al. 2023, SC, doi 10.1145/3581784.3607102"),
    Peer("NeuSight", "training step on one GPU, mean error; 4 x H100; 4 x A100", "10.4 %; 6.6 %; 10.5 %",
         "Lee et al. 2025, ASPLOS, arXiv 2407.13853"),
    Peer("rule of thumb", "6 N D over 30 % of the peak, times rated power", "the law `tdp` above",
         "Sevilla et al. 2022, Estimating Training Compute of Deep Learning Models"),
)  # fmt: skip

COVERED = """\
The measured tables, by what their whole runs are. Power caps and published trainings do not state a whole run; the
notes of their figures say what is assumed."""

NOT_COVERED = """\
- Energy was measured on two GPU models in the fine-tuning runs, and on H100 nodes in MLPerf's. On every other
  accelerator (AMD, TPU, Gaudi, Blackwell, consumer cards but the 2080 Ti) it is what data sheet and priors make of
  it.
- DDP, pipelines, experts, context parallelism and several nodes have published times behind them at best, no
  energies.
- Training that waits for data or slow disks, failures and restarts, thermal throttling, shared devices.
- Laptops, CPUs and single-board computers as the device that trains.
- Inference, and the sampling phase of reinforcement learning.
- Embodied emissions and the grid's carbon are declared figures, not measured here: they have no error to show."""

FLATTERING = """\
- The form of the step law was chosen with all 518 fine-tuning runs in view; splits refit its parameters only. The
  medians of its priors were written after both GPU models had been seen, so *cold* and *few runs* on these two are
  kinder than a third would be.
- Both GPU models ran the same models under the same scripts. A held-out family shares machine, scripts and often
  width with runs in training.
- The energies of these runs are CodeCarbon's: the GPUs' sensor, with models of CPU and memory. A law that fits them
  need not fit the wall.
- The times of Megatron on 64 GPUs rest on selective recomputation on one node, which was chosen with these rows in
  view; as the table states it the figure stands beside it.
- A configuration family of Megatron's rows is one number of accumulated micro-batches; its neighbours differ in hardly
  more than that. The figures from a tenth of the rows say more.
- Whole nodes: no parameter saw MLPerf's runs or an H100, but terms of the law were added after these errors had been
  seen (what fused software hides, interleaved stages, adapters' messages), each after what such software documents.
- Published trainings: layout, software, recomputation and goodput are assumed by family, and the assumptions changed
  in view of residuals. The median of energies is better where reported hours stand for predicted ones.
- Choosing strategy and GPUs: always taking the fewest GPUs is right as often in these rows.
- Power caps: the form was chosen with all curves in view; the two limits are the lowest and the highest.
- Medians hide tails: `mean err` and the widths say more about the worst runs, and `small-to-large` about growing.
- Boosting sees the step law's columns, which carry its physics. The paper's laws know no hardware: predicting another
  GPU model is not what they are for.
- `tdp` counts the devices only, the runs' boundary includes the host; `6nd` and `tdp` count 6 N D with embeddings,
  which for small models with a large vocabulary is most of it."""
