"""Layouts by name and by degree: what they divide, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattlaw.errors import ConfigError, UnknownNameError
from wattlaw.parallel.layout import STRATEGIES, Layout


@pytest.mark.parametrize(
    ("strategy", "num_devices", "tensor_parallel", "expected"),
    [
        ("single", 1, None, (1, 1, 0)),
        ("ddp", 4, None, (4, 1, 0)),
        ("fsdp", 4, None, (4, 1, 3)),
        ("fsdp-grad-op", 4, None, (4, 1, 2)),
        ("tp", 4, None, (1, 4, 0)),
        ("tp", 4, 4, (1, 4, 0)),
        ("ddp x tp", 8, 2, (4, 2, 0)),
        ("fsdp x tp", 8, 4, (2, 4, 3)),
        ("tp x fsdp", 8, 4, (2, 4, 3)),
        ("fsdp*tp", 8, 4, (2, 4, 3)),
        (" FSDP × TP ", 8, 4, (2, 4, 3)),
        ("fsdp+tp", 8, 8, (1, 8, 3)),
    ],
)
def test_degrees_of_a_named_strategy(strategy, num_devices, tensor_parallel, expected):
    """Devices are divided over the axes of the strategy, whatever the case and the sign between its parts."""
    layout = Layout.of(strategy, num_devices=num_devices, tensor_parallel=tensor_parallel)
    assert (layout.data_parallel, layout.tensor_parallel, layout.zero_stage) == expected
    assert layout.num_devices == num_devices


@pytest.mark.parametrize(
    ("strategy", "degrees", "expected"),
    [
        ("pp", {"num_devices": 4}, (1, 1, 4, 0)),
        ("pp", {"num_devices": 4, "pipeline_parallel": 4}, (1, 1, 4, 0)),
        ("ddp x pp", {"num_devices": 8, "pipeline_parallel": 2}, (4, 1, 2, 0)),
        ("pp x fsdp", {"num_devices": 8, "pipeline_parallel": 2}, (4, 1, 2, 3)),
        ("tp x pp", {"num_devices": 8, "pipeline_parallel": 4}, (1, 2, 4, 0)),
        ("tp x pp", {"num_devices": 8, "tensor_parallel": 8}, (1, 8, 1, 0)),
        ("tp x pp", {"num_devices": 8, "tensor_parallel": 2, "pipeline_parallel": 4}, (1, 2, 4, 0)),
        ("fsdp x tp x pp", {"num_devices": 64, "tensor_parallel": 8, "pipeline_parallel": 4}, (2, 8, 4, 3)),
        ("ddp x tp x pp", {"num_devices": 8, "tensor_parallel": 2, "pipeline_parallel": 4}, (1, 2, 4, 0)),
    ],
)
def test_degrees_of_a_pipeline(strategy, degrees, expected):
    """What is not given is the rest: data-parallel where the product has such an axis, else the axis left open."""
    layout = Layout.of(strategy, **degrees)
    found = (layout.data_parallel, layout.tensor_parallel, layout.pipeline_parallel, layout.zero_stage)
    assert found == expected
    assert layout.num_devices == degrees["num_devices"]


@given(
    data=st.integers(1, 8),
    tensor=st.integers(1, 8),
    stages=st.integers(1, 8),
    context=st.integers(1, 4),
    experts=st.integers(1, 4),
    zero_stage=st.sampled_from([0, 1, 2, 3]),
)
def test_a_layout_of_degrees_is_the_layout_of_its_name(data, tensor, stages, context, experts, zero_stage):
    """Name, devices and degrees make the same layout again, whatever its axes are."""
    degrees = {
        "tensor_parallel": tensor,
        "pipeline_parallel": stages,
        "context_parallel": context,
        "expert_parallel": experts if data * context % experts == 0 else 1,
    }
    layout = Layout(data_parallel=data, zero_stage=zero_stage, **degrees)
    assert Layout.of(layout.strategy, num_devices=data * tensor * stages * context, **degrees) == layout


@pytest.mark.parametrize(
    ("strategy", "degrees", "expected"),
    [
        ("cp", {"num_devices": 4}, (1, 4, 1, 0)),
        ("fsdp x cp", {"num_devices": 8, "context_parallel": 2}, (4, 2, 1, 3)),
        ("tp x cp", {"num_devices": 8, "tensor_parallel": 2}, (1, 4, 1, 0)),
        ("ep", {"num_devices": 8}, (8, 1, 8, 0)),
        ("ddp x ep", {"num_devices": 8, "expert_parallel": 4}, (8, 1, 4, 0)),
        ("zero1 x ep", {"num_devices": 8}, (8, 1, 8, 1)),
        ("fsdp x cp x ep", {"num_devices": 8, "context_parallel": 2}, (4, 2, 8, 3)),
        ("zero1", {"num_devices": 4}, (4, 1, 1, 1)),
    ],
)
def test_degrees_of_context_and_experts(strategy, degrees, expected):
    """Context parallelism multiplies the devices; experts are dealt out to ranks that are there without them."""
    layout = Layout.of(strategy, **degrees)
    found = (layout.data_parallel, layout.context_parallel, layout.expert_parallel, layout.zero_stage)
    assert found == expected
    assert layout.num_devices == degrees["num_devices"]


def test_experts_need_ranks_that_share_weights():
    """Eight ranks hold experts of their own only if each such group has as many."""
    with pytest.raises(ConfigError, match=r"expert_parallel does not divide the ranks.*expert_parallel 3, 8 ranks"):
        Layout(data_parallel=8, expert_parallel=3)
    with pytest.raises(ConfigError, match="expert_parallel is given but the strategy has no ep; given ddp"):
        Layout.of("ddp", num_devices=8, expert_parallel=2)


def test_shards_are_over_all_ranks_that_hold_the_same_weights():
    """Data- and context-parallel ranks together; each ZeRO stage shards one part more."""
    for stage, expected in ((0, (1, 1, 1)), (1, (1, 1, 8)), (2, (1, 8, 8)), (3, (8, 8, 8))):
        layout = Layout(data_parallel=4, context_parallel=2, zero_stage=stage)
        assert (layout.weight_shards, layout.gradient_shards, layout.state_shards) == expected


def test_devices_stand_in_nodes_along_the_tensor_axis_first():
    """64 devices on 8 nodes: tensor-parallel groups fill a node before replicas do, and these before stages."""
    layout = Layout(tensor_parallel=4, data_parallel=4, pipeline_parallel=4, num_nodes=8)
    assert (layout.tensor_ranks_per_node, layout.replicas_per_node, layout.stages_per_node) == (4, 2, 1)
    alone = Layout(tensor_parallel=4, data_parallel=4, pipeline_parallel=4)
    assert (alone.tensor_ranks_per_node, alone.replicas_per_node, alone.stages_per_node) == (4, 4, 4)
    wide = Layout(tensor_parallel=16, pipeline_parallel=2, num_nodes=4)
    assert (wide.tensor_ranks_per_node, wide.replicas_per_node, wide.stages_per_node) == (8, 1, 1)
    long = Layout(tensor_parallel=2, context_parallel=8, data_parallel=2, expert_parallel=16, num_nodes=4)
    assert (long.context_ranks_per_node, long.replicas_per_node, long.expert_ranks_per_node) == (4, 4, 4)


@pytest.mark.parametrize("field", ["sequence_parallel", "vocabulary_parallel"])
@pytest.mark.parametrize("value", [2, -1, 0.5, math.nan])
def test_flags_are_zero_or_one(field, value):
    """Sequences are divided or they are not."""
    with pytest.raises(ConfigError, match=rf"{field} must be 0 or 1; given {value}; allowed 0, 1"):
        Layout(**{field: value})


def test_runs_of_blocks_need_a_pipeline():
    """One stage that holds two runs of blocks holds one."""
    with pytest.raises(ConfigError, match="pipeline_interleaving needs a pipeline; given 2; allowed 1"):
        Layout(pipeline_interleaving=2)
    assert Layout(pipeline_interleaving=2, pipeline_parallel=2).num_devices == 2


@given(
    strategy=st.sampled_from(["ddp", "fsdp", "fsdp-grad-op", "tp", "ddp x tp", "fsdp x tp", "fsdp-grad-op x tp"]),
    data=st.integers(2, 64),
    tensor=st.integers(2, 8),
    num_nodes=st.integers(1, 4),
)
def test_a_layout_keeps_the_name_that_it_was_made_of(strategy, data, tensor, num_nodes):
    """The name and the devices of a layout make the same layout again."""
    product = " x " in strategy
    num_devices = num_nodes * (data * tensor if product else data)
    layout = Layout.of(
        strategy, num_devices=num_devices, tensor_parallel=tensor if product else None, num_nodes=num_nodes
    )
    assert layout.strategy == strategy
    assert layout.devices_per_node * num_nodes == num_devices == layout.data_parallel * layout.tensor_parallel


@pytest.mark.parametrize("strategy", ["single", "ddp", "tp"])
def test_one_device_divides_nothing(strategy):
    """Replicas or parts on one device are the single layout."""
    assert Layout.of(strategy, num_devices=1) == Layout() == Layout.of("single")
    assert Layout.of(strategy, num_devices=1).strategy == "single"


def test_degrees_may_be_columns():
    """Numbers of devices are products entry by entry, and one wrong entry is refused."""
    layout = Layout(data_parallel=np.array([1.0, 2.0, 4.0]), tensor_parallel=2.0)
    assert layout.num_devices.tolist() == [2, 4, 8]
    with pytest.raises(ConfigError, match="data_parallel must be a whole number"):
        Layout(data_parallel=np.array([1.0, 0.0]))
    with pytest.raises(ConfigError, match="do not divide over the nodes"):
        Layout(data_parallel=np.array([4.0, 3.0]), num_nodes=2)


@pytest.mark.parametrize(
    "field", ["data_parallel", "tensor_parallel", "pipeline_parallel", "pipeline_interleaving", "num_nodes"]
)
@pytest.mark.parametrize("value", [0, -1, 1.5, math.nan, math.inf])
def test_degrees_are_whole_numbers_from_one(field, value):
    """Nothing is divided over no device, half of one, or a number that is none."""
    with pytest.raises(ConfigError, match=f"{field} must be a whole number of at least 1"):
        Layout(**{field: value})


@pytest.mark.parametrize("stage", [4, -1, 2.5, math.nan])
def test_sharding_stages_are_those_of_zero(stage):
    """Rajbhandari et al. 2020 has three, and none."""
    with pytest.raises(ConfigError, match=r"unknown zero_stage.*allowed 0, 1, 2, 3"):
        Layout(zero_stage=stage)


@pytest.mark.parametrize("num_devices", [0, -4, 2.5, math.nan])
@pytest.mark.parametrize("strategy", ["single", "ddp", "fsdp", "tp"])
def test_devices_are_whole_numbers_from_one(strategy, num_devices):
    """Two and a half devices are not rounded to two."""
    with pytest.raises(ConfigError, match="num_devices must be a whole number of at least 1"):
        Layout.of(strategy, num_devices=num_devices)


@pytest.mark.parametrize(
    ("strategy", "options", "message"),
    [
        ("single", {"num_devices": 2}, r"single runs on one device; given 2 devices; allowed 1; try strategies ddp"),
        ("ddp", {"num_devices": 4, "tensor_parallel": 2}, r"strategy has no tp; given ddp; try 'ddp x tp'"),
        ("tp", {"num_devices": 4, "tensor_parallel": 2}, r"tp uses every device; given tensor_parallel 2; allowed 4"),
        ("ddp x tp", {"num_devices": 4}, r"needs tensor_parallel; given none; allowed a divisor of 4"),
        ("ddp x tp", {"num_devices": 4, "tensor_parallel": 3}, r"do not divide by tensor_parallel; given 4 devices"),
        ("ddp x tp", {"num_devices": 4, "tensor_parallel": 0}, r"do not divide by tensor_parallel"),
        ("ddp x fsdp", {"num_devices": 4}, r"divides along different axes; given ddp x fsdp"),
        ("tp x tp", {"num_devices": 4}, r"divides along different axes"),
        (
            "pp",
            {"num_devices": 4, "pipeline_parallel": 2},
            r"pp uses every device; given pipeline_parallel 2; allowed 4",
        ),
        ("tp", {"num_devices": 4, "pipeline_parallel": 2}, r"the strategy has no pp; given tp; try 'tp x pp'"),
        ("tp x pp", {"num_devices": 4}, r"tp x pp needs tensor_parallel; given none; allowed a divisor of 4"),
        ("ddp x tp x pp", {"num_devices": 8, "tensor_parallel": 2}, r"needs pipeline_parallel; given none"),
        (
            "tp x pp",
            {"num_devices": 8, "tensor_parallel": 2, "pipeline_parallel": 2},
            r"do not divide by tensor_parallel x pipeline_parallel; given 8 .*allowed degrees whose product is 8",
        ),
        (
            "ddp x pp",
            {"num_devices": 8, "pipeline_parallel": 3},
            r"do not divide by pipeline_parallel; given 8 devices",
        ),
        ("ddp x pp", {"num_devices": 8, "pipeline_parallel": 0}, r"do not divide by pipeline_parallel"),
        ("pp x pp", {"num_devices": 4}, r"divides along different axes"),
        ("single x tp", {"num_devices": 4, "tensor_parallel": 2}, r"divides along different axes; given single x tp"),
        ("ddp", {"num_devices": 4, "num_nodes": 3}, r"do not divide over the nodes; given 4 devices on 3 nodes"),
        ("ddp", {"num_devices": 1, "num_nodes": 2}, r"do not divide over the nodes"),
    ],
)
def test_what_cannot_be_laid_out_is_refused(strategy, options, message):
    """Each error tells what was given and what is allowed."""
    with pytest.raises(ConfigError, match=message):
        Layout.of(strategy, **options)


@pytest.mark.parametrize("strategy", ["fdsp", "zero3", "fsdp x pt", "", "x", "pppp", "fsdp x", "x tp", "tp x x pp"])
def test_an_unknown_strategy_is_answered_with_known_ones(strategy):
    """The known strategies are listed, the nearest first, and products are explained."""
    with pytest.raises(UnknownNameError, match=r"unknown strategy.*try a product such as 'fsdp x tp'"):
        Layout.of(strategy, num_devices=4)
    with pytest.raises(UnknownNameError, match="given 'fdsp'; allowed fsdp"):
        Layout.of("fdsp", num_devices=4)


def test_every_strategy_can_be_asked_for():
    """All names of the table make a layout on two devices, but for single; experts are those of a data-parallel one."""
    found = {name: Layout.of(name, num_devices=1 + (name != "single")).strategy for name in STRATEGIES}
    assert found == {name: name for name in STRATEGIES} | {"ep": "ddp x ep"}
