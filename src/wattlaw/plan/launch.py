"""From a run spec to what starts it: a command of torchrun, and a configuration of Accelerate for other scripts."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wattlaw.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wattlaw.plan.option import Option
    from wattlaw.run.spec import RunSpec

#: The script that the command starts, as seen from the repository's root.
SCRIPT = "examples/finetune.py"
#: Families whose models the script can cut into stages.
PIPED_FAMILIES = ("bert", "llama")
#: Where the ranks of several nodes meet; the port is torchrun's own default.
MEETING = "$HEAD_NODE:29500"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How to start a run.

    Attributes:
        command: for a shell, the same on every node; ``None`` where the script cannot run it.
        before: commands that set the power cap, which need the administrator's rights.
        accelerate: text of a configuration for ``accelerate launch``; ``None`` where Accelerate has no such layout.
        obstacle: why there is no command.
    """

    command: str | None
    before: tuple[str, ...]
    accelerate: str | None
    obstacle: str | None


def launch(spec: RunSpec, *, spec_file: str | Path, options: bool = False, script: str = SCRIPT) -> Launch:
    """Say how to start a run.

    Args:
        spec: of the run.
        spec_file: that the script reads.
        options: whether the command says all that a plan may have changed; not needed where ``spec_file`` is written
            from ``spec``.
        script: that is started.
    """
    obstacle = _obstacle(spec)
    words = [*_torchrun(spec), script, str(spec_file), *(_options(spec) if options else ())]
    command = " ".join(word if word == MEETING else shlex.quote(word) for word in words)
    before = () if spec.power_limit_w is None else (f"sudo nvidia-smi --power-limit {spec.power_limit_w:g}",)
    return Launch(command=None if obstacle else command, before=before, accelerate=_accelerate(spec), obstacle=obstacle)


def first_started(
    options: Sequence[Option], *, spec_file: str | Path, script: str = SCRIPT
) -> tuple[Option, Launch] | None:
    """Find the first option that the script can run, and say how to start it; ``None`` where it can run none."""
    for option in options:
        started = launch(option.spec, spec_file=spec_file, options=True, script=script)
        if started.command is not None:
            return option, started
    return None


def _obstacle(spec: RunSpec) -> str | None:
    """Say what the script cannot run, by the rules of the trainings that wattlaw itself makes."""
    from wattlaw.measure.sweep.training import check_training

    if spec.layout.tensor_parallel > 1 and spec.recipe.adapter_rank > 0:
        return f"{SCRIPT} does not divide adapters by tensor parallelism"
    if spec.layout.tensor_parallel > 1 and spec.layout.data_parallel > 1 and spec.layout.zero_stage == 0:
        return f"{SCRIPT} does not replicate tensor-parallel groups; fsdp x tp shards over them"
    layout = spec.layout
    if layout.pipeline_parallel > 1 and (obstacle := _pipeline_obstacle(spec)):
        return obstacle
    try:
        check_training(replace(spec, layout=replace(layout, num_nodes=1, pipeline_parallel=1)))
    except ConfigError as error:
        return f"{SCRIPT}: {error}"
    return None


def _pipeline_obstacle(spec: RunSpec) -> str | None:
    """Say which pipelines the script cannot run."""
    layout, model = spec.layout, spec.architecture
    if layout.tensor_parallel > 1 or layout.zero_stage > 0 or layout.pipeline_interleaving > 1:
        return f"{SCRIPT} runs pipelines alone or with DDP, one run of blocks per stage"
    if model.family not in PIPED_FAMILIES or model.tied_head:
        return f"{SCRIPT} runs pipelines of {' and '.join(PIPED_FAMILIES)} whose head is not the embedding's"
    if spec.recipe.precision == "fp16":
        return f"{SCRIPT} runs no pipelines in fp16"
    return None


def _torchrun(spec: RunSpec) -> list[str]:
    nodes = int(spec.layout.num_nodes)
    ranks = int(spec.layout.devices_per_node)
    if nodes == 1:
        return ["torchrun", "--standalone", f"--nproc-per-node={ranks}"]
    return [
        "torchrun",
        f"--nnodes={nodes}",
        f"--nproc-per-node={ranks}",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint",
        MEETING,
    ]


def _options(spec: RunSpec) -> list[str]:
    """What a plan may have changed, as options of the script, which are those of ``wattlaw predict``."""
    layout, recipe = spec.layout, spec.recipe
    given = {
        "gpu": spec.accelerator.reference,
        "node": None if spec.node is None else spec.node.reference,
        "strategy": layout.strategy,
        "num-gpus": int(layout.num_devices),
        "tensor-parallel": int(layout.tensor_parallel) if " x tp" in layout.strategy else None,
        "pipeline-parallel": int(layout.pipeline_parallel) if " x pp" in layout.strategy else None,
        "num-nodes": int(layout.num_nodes) if layout.num_nodes > 1 else None,
        "batch-size": int(recipe.batch_size),
        "grad-accumulation": int(recipe.grad_accumulation),
        "checkpointing": recipe.checkpointing,
        "precision": recipe.precision,
        "optimizer": recipe.optimizer,
        "attention-kernel": recipe.attention_kernel,
        "adapter-rank": int(recipe.adapter_rank),
    }
    return [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]


def _accelerate(spec: RunSpec) -> str | None:
    """Write the configuration of Accelerate (1.10 or newer, its FSDP version 2) in YAML.

    Sharded optimizer states are DeepSpeed's first stage, which has to be installed.
    """
    layout, recipe = spec.layout, spec.recipe
    if layout.pipeline_parallel * layout.context_parallel * layout.expert_parallel > 1:
        return None
    if layout.tensor_parallel > 1 and layout.zero_stage < 2:
        return None
    replicated = "DEEPSPEED" if layout.zero_stage == 1 else "MULTI_GPU" if layout.num_devices > 1 else "NO"
    kind = "FSDP" if layout.zero_stage >= 2 else replicated
    lines = [
        "compute_environment: LOCAL_MACHINE",
        f"distributed_type: {kind}",
        f"num_machines: {int(layout.num_nodes)}",
        f"num_processes: {int(layout.num_devices)}",
        "machine_rank: 0",
        "gpu_ids: all",
        f"mixed_precision: {recipe.precision if recipe.precision in ('bf16', 'fp16', 'fp8') else 'no'!r}",
    ]
    if layout.num_nodes > 1:
        lines += ["main_process_ip: HEAD_NODE", "main_process_port: 29500", "rdzv_backend: c10d"]
    if kind == "DEEPSPEED":
        lines += [
            "deepspeed_config:",
            "  zero_stage: 1",
            "  zero3_init_flag: false",
            f"  gradient_accumulation_steps: {int(recipe.grad_accumulation)}",
        ]
    if kind == "FSDP":
        lines += [
            "fsdp_config:",
            "  fsdp_version: 2",
            "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP",
            f"  fsdp_reshard_after_forward: {_yes(layout.zero_stage == 3)}",
            f"  fsdp_activation_checkpointing: {_yes(recipe.checkpointing == 'full')}",
            "  fsdp_cpu_ram_efficient_loading: false",
            "  fsdp_state_dict_type: SHARDED_STATE_DICT",
        ]
    if kind == "FSDP" and layout.tensor_parallel > 1:
        lines += [
            "parallelism_config:",
            f"  parallelism_config_dp_shard_size: {int(layout.data_parallel)}",
            f"  parallelism_config_tp_size: {int(layout.tensor_parallel)}",
        ]
    return "\n".join(lines) + "\n"


def _yes(flag: bool) -> str:
    return "true" if flag else "false"
