"""What is read off torch's objects and accelerate's, without a training."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from wattlaw.measure.callback import _sharding
from wattlaw.measure.description import Adapters
from wattlaw.measure.torch_training import (
    adapters_of,
    device_name,
    optimizer_name,
    unwrapped,
    weights_doubts,
    weights_precision,
)

torch = pytest.importorskip("torch")


def layer(dtype=torch.float32):
    """A model of six weights."""
    return torch.nn.Linear(2, 2, dtype=dtype)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (torch.optim.AdamW, "adamw"),
        (torch.optim.Adam, "adam"),
        (torch.optim.SGD, "sgd"),
        (lambda weights: torch.optim.SGD(weights, momentum=0.9), "momentum"),
        (torch.optim.Adafactor, "adafactor"),
        (torch.optim.RMSprop, None),
    ],
)
def test_an_optimizer_is_told_by_its_class_however_it_is_wrapped(make, name):
    """However deep accelerate wraps it; one whose update costs nobody here knows what is told as unknown."""
    optimizer = make(layer().parameters())
    assert optimizer_name(optimizer) == name
    assert optimizer_name(SimpleNamespace(optimizer=SimpleNamespace(optimizer=optimizer))) == name


def test_eight_bit_states_are_told_by_their_bits():
    """The AdamW of bitsandbytes is called as torch's, and says its bits."""
    made = type("AdamW", (), {"args": SimpleNamespace(optim_bits=8)})()
    assert optimizer_name(made) == "adamw-8bit"


def test_without_mixed_precision_the_weights_tell():
    """bf16 weights compute in bf16, and have no fp32 masters: that is said."""
    assert weights_precision(layer()) == "fp32"
    assert weights_precision(layer(torch.bfloat16)) == "bf16"
    assert weights_precision(layer(torch.float64)) is None
    assert list(weights_doubts("bf16", is_cast=True)) == []
    assert "without fp32 masters" in next(weights_doubts("bf16", is_cast=False))


def test_frozen_weights_are_counted():
    """Of six weights the four of the matrix are frozen: a third is trained, by no adapter."""
    model = layer()
    assert adapters_of(model) is None
    model.weight.requires_grad_(requires_grad=False)
    assert adapters_of(model) == Adapters(rank=None, trained_parameters=2, trained_share=pytest.approx(1 / 3))


def adapted(*ranks):
    """A frozen model with adapters named as PEFT names them."""
    model = torch.nn.ModuleDict({"base": layer().requires_grad_(requires_grad=False)})
    for number, rank in enumerate(ranks):
        matrices = {"lora_A": torch.nn.Linear(2, rank, bias=False), "lora_B": torch.nn.Linear(rank, 2, bias=False)}
        model[f"at{number}"] = torch.nn.ModuleDict(matrices)
    return model


def test_adapters_are_told_by_their_matrices():
    """Two of rank 3 have 24 numbers beside 6 frozen ones; of ranks that differ none is told."""
    assert adapters_of(adapted(3, 3)) == Adapters(rank=3, trained_parameters=24, trained_share=0.8)
    assert adapters_of(adapted(3, 4)).rank is None


def test_a_wrapped_model_is_unwrapped():
    """DDP and compiled models hold the model; the model's own parts are not it."""
    model = layer()
    assert unwrapped(torch.nn.DataParallel(model)) is model
    assert unwrapped(model) is model


def test_a_cpu_is_assumed_and_other_devices_have_no_name():
    """No data sheet says what "a CPU" is; Apple's GPU is none that wattlaw describes."""
    assert device_name("cpu") == ("generic-cpu", ("hardware.gpu",))
    assert device_name("mps") == (None, ())


@pytest.mark.parametrize(("reshard", "stage"), [(True, 3), (False, 2)])
def test_fsdp_is_read_from_accelerates_own_plugin(reshard, stage):
    """Weights that are gathered and freed again are stage 3, weights that stay gathered stage 2."""
    dataclasses = pytest.importorskip("accelerate.utils.dataclasses")
    plugin = dataclasses.FullyShardedDataParallelPlugin(fsdp_version=2, reshard_after_forward=reshard)
    state = SimpleNamespace(distributed_type=dataclasses.DistributedType.FSDP, fsdp_plugin=plugin)
    assert _sharding(state) == (stage, ())


@pytest.mark.parametrize(
    ("strategy", "stage"), [("FULL_SHARD", 3), ("SHARD_GRAD_OP", 2), ("NO_SHARD", 0), ("HYBRID_SHARD", None)]
)
def test_the_older_fsdp_too(strategy, stage):
    """Its strategies have names; a hybrid one is no layout of ours, and is named as missing."""
    dataclasses = pytest.importorskip("accelerate.utils.dataclasses")
    plugin = dataclasses.FullyShardedDataParallelPlugin(fsdp_version=1, reshard_after_forward=strategy)
    found, obstacles = _sharding(SimpleNamespace(distributed_type=dataclasses.DistributedType.FSDP, fsdp_plugin=plugin))
    assert found == stage
    assert bool(obstacles) == (stage is None)


def test_offloading_stands_in_the_way_of_a_spec():
    """Transfers to the host are no part of any law here."""
    dataclasses = pytest.importorskip("accelerate.utils.dataclasses")
    plugin = dataclasses.FullyShardedDataParallelPlugin(fsdp_version=2, reshard_after_forward=True, cpu_offload=True)
    state = SimpleNamespace(distributed_type=dataclasses.DistributedType.FSDP, fsdp_plugin=plugin)
    assert _sharding(state) == (3, ("offloading to the host's memory",))


@pytest.mark.parametrize(("stage", "found"), [(0, 0), (1, 1), (2, 2), (3, 3)])
def test_deepspeed_tells_its_stage(stage, found):
    """What its ranks shard: nothing, the optimizer's states, gradients too, weights too."""
    plugin = SimpleNamespace(zero_stage=stage, offload_optimizer_device="none", offload_param_device=None)
    kind = SimpleNamespace(value="DEEPSPEED")
    assert _sharding(SimpleNamespace(distributed_type=kind, deepspeed_plugin=plugin))[0] == found


def test_other_kinds_of_parallelism_are_named():
    """XLA and Megatron divide a step in ways that are not read here."""
    found, (obstacle,) = _sharding(SimpleNamespace(distributed_type=SimpleNamespace(value="XLA")))
    assert found is None
    assert "XLA" in obstacle
