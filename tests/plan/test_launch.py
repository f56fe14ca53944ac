"""From a run spec to what starts it, and that it does start."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from wattlaw.hardware import accelerator, node_type
from wattlaw.parallel.layout import Layout
from wattlaw.plan.launch import launch
from wattlaw.run.spec_file import write_spec
from wattlaw.workload import preset

ROOT = Path(__file__).parents[2]


@pytest.fixture
def llama(run):
    """A Llama on a layout that a test names."""

    def build(strategy, *, node=None, recipe=None, power_limit_w=None, **layout):
        return replace(
            run,
            architecture=preset("llama-2-7b"),
            recipe=replace(run.recipe, **{"precision": "bf16", **(recipe or {})}),
            layout=Layout.of(strategy, **layout),
            accelerator=accelerator("a100-sxm4-80gb"),
            node=node and node_type(node),
            power_limit_w=power_limit_w,
        )

    return build


def test_one_node_needs_no_meeting_point(llama):
    """The launcher stands alone, with a rank per device."""
    found = launch(llama("fsdp", num_devices=8), spec_file="plan/run.toml")
    assert found.command == "torchrun --standalone --nproc-per-node=8 examples/finetune.py plan/run.toml"
    assert (found.obstacle, found.before) == (None, ())


def test_several_nodes_meet_at_one_of_them(llama):
    """The same command on every node, with the number of nodes and the ranks of one."""
    found = launch(llama("fsdp", num_devices=16, num_nodes=2, node="dgx-a100"), spec_file="run.toml")
    words = shlex.split(found.command)
    assert {"--nnodes=2", "--nproc-per-node=8", "$HEAD_NODE:29500"} <= set(words)
    assert "num_machines: 2\n" in found.accelerate


def test_options_say_all_that_a_plan_may_have_changed(llama):
    """So that the user's own file can stay as it is."""
    spec = llama("fsdp x tp", num_devices=8, tensor_parallel=2, recipe={"checkpointing": "full"})
    words = shlex.split(launch(spec, spec_file="my run.toml", options=True).command)
    given = dict(zip(words[5::2], words[6::2], strict=True))
    assert words[4] == "my run.toml"
    assert given == {
        "--gpu": "a100-sxm4-80gb", "--strategy": "fsdp x tp", "--num-gpus": "8", "--tensor-parallel": "2",
        "--batch-size": "6", "--grad-accumulation": "2", "--checkpointing": "full", "--precision": "bf16",
        "--optimizer": "adamw", "--attention-kernel": "fused", "--adapter-rank": "0",
    }  # fmt: skip


def test_a_power_cap_is_set_before(llama):
    """By the vendor's tool, which needs rights that a training does not."""
    found = launch(llama("single", power_limit_w=250.0), spec_file="run.toml")
    assert found.before == ("sudo nvidia-smi --power-limit 250",)


@pytest.mark.parametrize(
    ("strategy", "degrees", "recipe", "words"),
    [
        ("tp x pp", {"num_devices": 4, "tensor_parallel": 2}, {}, "pipelines"),
        ("fsdp x pp", {"num_devices": 4, "pipeline_parallel": 2}, {}, "pipelines"),
        ("pp", {"num_devices": 4}, {"precision": "fp16"}, "fp16"),
        ("ddp x tp", {"num_devices": 4, "tensor_parallel": 2}, {}, "fsdp x tp"),
        ("zero1", {"num_devices": 4}, {}, "zero1"),
        ("cp", {"num_devices": 4}, {}, "cp"),
        ("fsdp x cp", {"num_devices": 4, "context_parallel": 2}, {}, "fsdp x cp"),
        ("ddp x ep", {"num_devices": 4}, {}, "ddp x ep"),
        ("tp", {"num_devices": 2}, {"adapter_rank": 8}, "adapters"),
        ("single", {}, {"optimizer": "adafactor"}, "adafactor"),
    ],
)
def test_what_the_script_cannot_run_has_no_command(llama, strategy, degrees, recipe, words):
    """And says why."""
    found = launch(llama(strategy, recipe=recipe, **degrees), spec_file="run.toml")
    assert found.command is None
    assert words in found.obstacle


@pytest.mark.parametrize(
    ("strategy", "degrees", "lines"),
    [
        ("single", {}, {"distributed_type: NO", "num_processes: 1"}),
        ("ddp", {"num_devices": 4}, {"distributed_type: MULTI_GPU", "num_processes: 4"}),
        ("zero1", {"num_devices": 4}, {"distributed_type: DEEPSPEED", "  zero_stage: 1"}),
        ("fsdp", {"num_devices": 4}, {"distributed_type: FSDP", "  fsdp_reshard_after_forward: true"}),
        ("fsdp-grad-op", {"num_devices": 4}, {"distributed_type: FSDP", "  fsdp_reshard_after_forward: false"}),
        (
            "fsdp x tp",
            {"num_devices": 8, "tensor_parallel": 2},
            {"  parallelism_config_dp_shard_size: 4", "  parallelism_config_tp_size: 2"},
        ),
    ],
)
def test_accelerate_reads_its_configuration(llama, tmp_path, strategy, degrees, lines):
    """Each layout's own lines are there, and Accelerate's own reader knows every key."""
    config = pytest.importorskip("accelerate.commands.config.config_args")
    text = launch(llama(strategy, **degrees), spec_file="run.toml").accelerate
    assert lines <= set(text.splitlines())
    path = tmp_path / "accelerate.yaml"
    path.write_text(text)
    found = config.load_config_from_file(str(path))
    assert found.num_processes == degrees.get("num_devices", 1)
    assert found.mixed_precision == "bf16"


@pytest.mark.parametrize("strategy", ["tp", "pp", "ddp x tp", "zero1 x tp", "cp", "ddp x ep"])
def test_accelerate_has_no_configuration_for_other_layouts(llama, strategy):
    """Its tensor parallelism goes with FSDP only."""
    degrees = {"num_devices": 4} | ({"tensor_parallel": 2} if " x tp" in strategy else {})
    assert launch(llama(strategy, **degrees), spec_file="run.toml").accelerate is None


def start(command, folder):
    """Run a command line from the repository's root, with this environment's programs, and return what it printed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    found = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=ROOT,
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert found.returncode == 0, found.stderr[-2000:]
    return found.stdout


@pytest.fixture
def tiny(run, tmp_path):
    """A Llama of two small blocks on two ranks of this processor, for three steps, in a file."""
    pytest.importorskip("torch")
    spec = replace(
        run,
        architecture=replace(
            preset("llama-2-7b"),
            hidden_size=32,
            vocab_size=100,
            stacks=(
                replace(
                    preset("llama-2-7b").stacks[0], num_layers=2, num_heads=2, num_kv_heads=2, head_size=16, ffn_size=64
                ),
            ),
        ),
        recipe=replace(run.recipe, batch_size=2, grad_accumulation=2, seq_len=16, precision="fp32", steps=3),
        layout=Layout.of("fsdp", num_devices=2),
        accelerator=accelerator("generic-cpu"),
    )
    path = tmp_path / "run.toml"
    write_spec(spec, path)
    return spec, path


def test_the_command_starts(tiny):
    """Two stages of a pipeline train three steps, and the loss is that of a language model that knows nothing yet."""
    spec, path = tiny
    piped = replace(spec, layout=Layout.of("pp", num_devices=2))
    printed = start(launch(piped, spec_file=path, options=True).command, path.parent)
    assert "step 3/3: loss 4." in printed  # the logarithm of 100 words is 4.6
    assert "done: pp on 2 devices, loss 4." in printed


def test_accelerate_starts_the_script_with_the_configuration(tiny):
    """Two ranks share a sharded model with adapters."""
    pytest.importorskip("accelerate")
    spec, path = tiny
    adapted = replace(spec, recipe=replace(spec.recipe, adapter_rank=2))
    write_spec(adapted, path)
    config = path.with_name("accelerate.yaml")
    config.write_text(launch(adapted, spec_file=path).accelerate)
    command = f"accelerate launch --config_file {config} examples/finetune.py {path} --steps 1"
    assert "done: fsdp on 2 devices, loss 4." in start(command, path.parent)
