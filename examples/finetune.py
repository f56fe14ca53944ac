"""Train a run spec's model on one device or many: DDP, FSDP (full shard or gradients and states), TP, pipelines.

    python examples/finetune.py examples/bert-base-sst2.toml --steps 10
    torchrun --standalone --nproc-per-node 8 examples/finetune.py run.toml --strategy fsdp --num-gpus 8
    torchrun --standalone --nproc-per-node 8 examples/finetune.py plan/run.toml --weights llama-2-7b --tokens text.npy

`wattlaw plan` prints such a command. Without --weights the weights are random, without --tokens the text is: enough to
time a run and to see that it fits. Everything that a plan may change is an option and replaces what the file says. On
a machine without a GPU the ranks compute on the processor and talk through gloo.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from wattlaw.measure.sweep.data import make_batches, read_tokens
from wattlaw.measure.sweep.models import blocks_of, build_model
from wattlaw.measure.sweep.ranks import Ranks
from wattlaw.measure.sweep.strategies import strategy_of
from wattlaw.run import RunSpec, schedule, spec_from_mapping
from wattlaw.run.spec_file import read_tables
from wattlaw.workload import step_cost

#: Option -> the table and key of the run spec that it replaces, and the type of its value.
PLACES = {
    "gpu": ("hardware", "gpu", str),
    "node": ("hardware", "node", str),
    "strategy": ("layout", "strategy", str),
    "num_gpus": ("layout", "num_devices", int),
    "num_nodes": ("layout", "num_nodes", int),
    "tensor_parallel": ("layout", "tensor_parallel", int),
    "pipeline_parallel": ("layout", "pipeline_parallel", int),
    "batch_size": ("recipe", "batch_size", int),
    "grad_accumulation": ("recipe", "grad_accumulation", int),
    "checkpointing": ("recipe", "checkpointing", str),
    "precision": ("recipe", "precision", str),
    "optimizer": ("recipe", "optimizer", str),
    "attention_kernel": ("recipe", "attention_kernel", str),
    "adapter_rank": ("recipe", "adapter_rank", int),
}
#: Projections with an adapter, by family and by what the recipe targets; each choice has the ones before it too.
TARGETS = {
    "bert": {"query-value": ("query", "value"), "attention": ("key", "attention.output.dense"),
             "all-linear": ("intermediate.dense", "output.dense")},
    "gpt2": {"query-value": ("c_attn",), "attention": ("attn.c_proj",), "all-linear": ("c_fc", "mlp.c_proj")},
    "llama": {"query-value": ("q_proj", "v_proj"), "attention": ("k_proj", "o_proj"),
              "all-linear": ("gate_proj", "up_proj", "down_proj")},
}  # fmt: skip
#: Where a family's models have their embeddings, their rotation if there is one, and what follows the blocks.
ENDS = {
    "bert": ("bert.embeddings", None, ("bert.pooler", "dropout", "classifier")),
    "llama": ("model.embed_tokens", "model.rotary_emb", ("model.norm", "lm_head")),
}
Batch = dict[str, torch.Tensor]
LOW = {"bf16": torch.bfloat16, "fp16": torch.float16}
#: Batches that are prepared; a run that is longer goes round.
NUM_BATCHES = 64
SEED = 0


class Adapted(nn.Module):
    """A frozen projection and its low-rank adapter (Hu et al. 2021, arXiv 2106.09685), which starts at zero."""

    def __init__(self, frozen: nn.Module, rank: int) -> None:
        super().__init__()
        weight = frozen.weight
        # Hugging Face's Conv1D holds its matrix the other way round.
        inner, outer = weight.shape if type(frozen).__name__ == "Conv1D" else weight.shape[::-1]
        self.frozen = frozen
        self.down = nn.Linear(inner, rank, bias=False, device=weight.device)
        self.up = nn.Linear(rank, outer, bias=False, device=weight.device)
        nn.init.zeros_(self.up.weight)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Add what the adapter has learnt."""
        return self.frozen(states) + self.up(self.down(states))


def adapt(model: nn.Module, spec: RunSpec) -> None:
    """Freeze a model and put adapters beside the projections that the recipe targets; a new head is trained whole."""
    names: list[str] = []
    for choice, added in TARGETS[spec.architecture.family].items():
        names += added
        if choice == spec.recipe.adapter_targets:
            break
    for name, weight in model.named_parameters():
        weight.requires_grad = spec.architecture.head == "classification" and name.startswith("classifier")
    projections = [
        name for name, module in model.named_modules()
        if hasattr(module, "weight") and any(f".{name}".endswith(f".{ending}") for ending in names)
    ]  # fmt: skip
    for name in projections:
        place, _, own = name.rpartition(".")
        setattr(model.get_submodule(place), own, Adapted(model.get_submodule(name), int(spec.recipe.adapter_rank)))
    built = sum(weight.numel() for weight in model.parameters())
    planned = step_cost(spec.architecture, spec.recipe, attention="full", head="counted").parameters
    if built != planned:
        raise SystemExit(f"finetune: {built} parameters with adapters, planned with {planned:g}")


class Stage(nn.Module):
    """Consecutive blocks of a model, the first of them behind the embeddings and the last before the head."""

    def __init__(self, model: nn.Module, spec: RunSpec, place: int) -> None:
        super().__init__()
        embeddings, rotary, end = ENDS[spec.architecture.family]
        blocks, stages = list(blocks_of(model, spec.architecture)), int(spec.layout.pipeline_parallel)
        share = len(blocks) // stages
        self.embeddings = model.get_submodule(embeddings) if place == 0 else None
        self.rotary = model.get_submodule(rotary) if rotary else None
        self.blocks = nn.ModuleList(blocks[place * share : (place + 1) * share])
        self.end = nn.Sequential(*map(model.get_submodule, end)) if place == stages - 1 else None

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Take tokens, or the states of the stage before, and return states, or what the head makes of them."""
        if self.embeddings is not None:
            states = self.embeddings(states)
        more = {}
        if self.rotary is not None:
            more["position_embeddings"] = self.rotary(states, torch.arange(states.shape[1], device=states.device)[None])
        for block in self.blocks:
            found = block(states, **more)
            states = found[0] if isinstance(found, tuple) else found
        return states if self.end is None else self.end(states)


def ranks_of(spec: RunSpec) -> Ranks:
    """Join the other ranks, as torchrun tells of them; alone where nothing started this process as a rank."""
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if world != spec.layout.num_devices:
        message = f"{world} ranks were started, the run has {spec.layout.num_devices} devices"
        raise SystemExit(f"finetune: {message}; torchrun --nproc-per-node, or --num-gpus")
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    if world == 1:
        return Ranks(rank=0, device=device)
    dist.init_process_group("nccl" if cuda else "gloo")
    layout = spec.layout
    # Devices are dealt out along the tensor axis first, then data, then pipeline.
    degrees = tuple(int(one) for one in (layout.pipeline_parallel, layout.data_parallel, layout.tensor_parallel))
    mesh = dist.device_mesh.init_device_mesh(device.type, degrees, mesh_dim_names=("pipeline", "data", "tensor"))
    return Ranks(
        rank=rank,
        device=device,
        data_parallel=degrees[1],
        tensor_parallel=degrees[2],
        mesh=mesh,
        group=dist.group.WORLD,
    )


def data_rank(spec: RunSpec, ranks: Ranks) -> int:
    """Which part of each batch this rank trains on."""
    return ranks.rank // int(spec.layout.tensor_parallel) % int(spec.layout.data_parallel)


def optimizer_of(spec: RunSpec, model: nn.Module, learning_rate: float) -> torch.optim.Optimizer:
    """Build the optimizer of the weights that are trained."""
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    if spec.recipe.optimizer == "adamw":
        return torch.optim.AdamW(trained, lr=learning_rate)
    if spec.recipe.optimizer == "adam":
        return torch.optim.Adam(trained, lr=learning_rate)
    return torch.optim.SGD(trained, lr=learning_rate, momentum=0.9 if spec.recipe.optimizer == "momentum" else 0.0)


def loaded(model: nn.Module, folder: Path | None) -> nn.Module:
    """Fill a model with the weights of a checkpoint; a head that the checkpoint lacks stays as it is."""
    if folder is not None:
        stored = type(model).from_pretrained(folder, config=model.config, dtype=torch.float32)
        model.load_state_dict(stored.state_dict())
    return model


def whole_steps(
    spec: RunSpec, model: nn.Module, ranks: Ranks, scaler: torch.amp.GradScaler
) -> tuple[nn.Module, Callable[[Sequence[Batch]], torch.Tensor]]:
    """Divide a model, and return it with what computes the gradients of one optimizer step and its mean loss."""
    divided = strategy_of(spec).divide(model, ranks, spec)
    low = None if divided.casts else LOW.get(spec.recipe.precision)

    def gradients(batches: Sequence[Batch]) -> torch.Tensor:
        total = torch.zeros((), device=ranks.device)
        for number, batch in enumerate(batches):
            with divided.micro_step(number == len(batches) - 1):
                with torch.autocast(ranks.device.type, dtype=low, enabled=low is not None):
                    loss = divided.model(**batch).loss / len(batches)
                scaler.scale(loss).backward()
            total = total + loss.detach()
        return total

    return divided.model, gradients


def piped_steps(
    spec: RunSpec, model: nn.Module, ranks: Ranks
) -> tuple[nn.Module, Callable[[Sequence[Batch]], torch.Tensor]]:
    """Take one stage of a model, and return it with what computes its gradients; the last stage knows the loss.

    One forward, one backward; with fewer micro-batches than stages all forward passes come first.
    """
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    stages, count = int(spec.layout.pipeline_parallel), int(spec.recipe.grad_accumulation)
    place = ranks.rank // int(spec.layout.data_parallel)
    stage, low = Stage(model, spec, place), LOW.get(spec.recipe.precision)

    def loss_of(found: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if spec.architecture.head == "lm":
            found, labels = found[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        return nn.functional.cross_entropy(found.float(), labels)

    part = PipelineStage(stage, place, stages, ranks.device, group=ranks.axis("pipeline").get_group())
    kind = Schedule1F1B if count >= stages else ScheduleGPipe
    piped, data = kind(part, count, loss_fn=loss_of), ranks.axis("data").get_group()

    def gradients(batches: Sequence[Batch]) -> torch.Tensor:
        ids, labels = (torch.cat([batch[name] for batch in batches]) for name in ("input_ids", "labels"))
        losses: list[torch.Tensor] = []
        given = (ids,) if place == 0 else ()
        ends = {"target": labels, "losses": losses} if place == stages - 1 else {}
        with torch.autocast(ranks.device.type, dtype=low, enabled=low is not None):
            piped.step(*given, **ends, return_outputs=False)
        for weight in stage.parameters():
            if weight.grad is not None and ranks.data_parallel > 1:
                dist.all_reduce(weight.grad, group=data)
                weight.grad /= ranks.data_parallel
        return torch.stack(losses).mean().detach() if losses else torch.zeros((), device=ranks.device)

    return stage, gradients


def train(spec: RunSpec, options: argparse.Namespace) -> float:
    """Train, and return the last loss."""
    ranks = ranks_of(spec)
    torch.set_float32_matmul_precision("high" if spec.recipe.precision == "tf32" else "highest")
    torch.manual_seed(SEED)
    plain = replace(spec.recipe, adapter_rank=0)
    model = loaded(build_model(spec.architecture, plain, ranks.device), options.weights)
    if spec.recipe.adapter_rank:
        adapt(model, spec)
    scaler = torch.amp.GradScaler(ranks.device.type, enabled=spec.recipe.precision == "fp16")
    piped = spec.layout.pipeline_parallel > 1
    own, gradients = piped_steps(spec, model, ranks) if piped else whole_steps(spec, model, ranks, scaler)
    part = data_rank(spec, ranks)
    torch.manual_seed(SEED + 1 + part)  # ranks of one tensor-parallel group drop the same
    tokens = None if options.tokens is None else read_tokens(options.tokens)
    batches = cycle(
        make_batches(spec, data_rank=part, count=NUM_BATCHES, device=ranks.device, seed=SEED, tokens=tokens)
    )
    optimizer = optimizer_of(spec, own, options.learning_rate)
    steps = options.steps or int(schedule(spec.recipe, spec.layout).optimizer_steps)
    warm = max(1, steps // 20)
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, max(0.0, (steps - step) / max(1, steps - warm)))
    )
    accumulation, loss = int(spec.recipe.grad_accumulation), torch.zeros(())
    speaks = ranks.rank == (int(spec.layout.num_devices) - 1 if piped else 0)
    start_s = time.perf_counter()
    for step in range(steps):
        loss = gradients(list(islice(batches, accumulation)))
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        rate.step()
        if speaks and (step + 1) % max(1, steps // 10) == 0:
            passed_s = time.perf_counter() - start_s
            print(f"step {step + 1}/{steps}: loss {float(loss):.4f}, {passed_s / (step + 1):.3g} s/step", flush=True)
    last = ranks.mean(float(loss))  # of a pipeline, the stages before the last add nothing
    if options.save is not None and piped:
        options.save.mkdir(parents=True, exist_ok=True)
        torch.save(own.state_dict(), options.save / f"stage-{ranks.rank}.pt")
    elif options.save is not None:
        save(own, ranks, options.save, only_trained=spec.recipe.adapter_rank > 0)
    return last


def save(model: nn.Module, ranks: Ranks, folder: Path, *, only_trained: bool) -> None:
    """Gather the weights on the first rank and write them; of adapters, only what was trained."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    found: dict[str, Any] = get_model_state_dict(
        model, options=StateDictOptions(full_state_dict=True, cpu_offload=True, ignore_frozen_params=only_trained)
    )
    if ranks.rank == 0:
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(found, folder / "weights.pt")


def spec_of(options: argparse.Namespace) -> RunSpec:
    """Read the run spec, and lay the options over it."""
    tables = read_tables(options.spec)
    layout = tables.get("layout", {})
    if options.strategy is not None:  # another strategy leaves nothing of the file's degrees
        tables["layout"] = {key: layout[key] for key in ("sequence_parallel", "vocabulary_parallel") if key in layout}
    for name, (table, key, _) in PLACES.items():
        value = getattr(options, name)
        if value is not None:
            tables.setdefault(table, {})[key] = value
    spec = spec_from_mapping(tables)
    # Sequence and vocabulary parallelism are Megatron's; the plans here divide the blocks only.
    return replace(spec, layout=replace(spec.layout, sequence_parallel=0, vocabulary_parallel=0))


def main() -> None:
    """Train what the options say, and print the loss."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").split("\n", 1)[0], epilog="See the top of the file for examples."
    )
    parser.add_argument("spec", type=Path, help="Run spec (TOML).")
    for name, (table, key, kind) in PLACES.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, help=f"Replaces {key} of [{table}].")
    parser.add_argument("--steps", type=int, help="Optimizer steps, in place of the run's amount.")
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--weights", type=Path, help="Folder of a Hugging Face checkpoint to start from.")
    parser.add_argument("--tokens", type=Path, help="Tokenised text: a .npy file, or numbers between blanks.")
    parser.add_argument("--save", type=Path, help="Folder for the trained weights.")
    options = parser.parse_args()
    spec = spec_of(options)
    loss = train(spec, options)
    if int(os.environ.get("RANK", "0")) == 0:
        print(f"done: {spec.layout.strategy} on {spec.layout.num_devices} devices, loss {loss:.4f}")
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
