"""What may vary: every configuration that can be run, and none twice."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattlaw.errors import ConfigError, UnknownNameError
from wattlaw.plan import Space
from wattlaw.plan.space import (
    CHOICE_COLUMNS,
    canonical_strategy,
    chunks,
    divisors,
    global_batch,
    groups,
    strategies_of,
    strategy_names,
)
from wattlaw.run.spec import check_runnable


def rows(problem, *, size=10**6):
    """All configurations of a problem, as tuples of the group's place and the choices."""
    found = []
    for place, group in enumerate(groups(problem.run, problem.space)):
        for columns in chunks(group, problem.space, size=size):
            found += zip(itertools.repeat(place), *(columns[name].tolist() for name in CHOICE_COLUMNS), strict=False)
    return found


def test_every_strategy_and_product_has_a_name():
    """One device, four kinds of data axis, with and without tensor and pipeline parallelism: 4 x 2 x 2."""
    names = strategy_names()
    assert len(names) == len(set(names)) == 16
    assert {"single", "ddp", "fsdp", "fsdp-grad-op", "tp", "pp", "fsdp-grad-op x tp x pp"} <= set(names)


@pytest.mark.parametrize("text", ["tp x fsdp", "FSDP*TP", "fsdp + tp", "fsdp×tp"])
def test_a_product_may_be_written_in_any_order(text):
    """The data axis comes first in the name."""
    assert canonical_strategy(text) == "fsdp x tp"


@pytest.mark.parametrize("text", ["fsdp x ddp", "zero", "single x tp", ""])
def test_an_unknown_strategy_is_refused(text):
    """Also a product of two ways to divide the same axis."""
    with pytest.raises(UnknownNameError, match="strategy"):
        canonical_strategy(text)


@given(st.integers(1, 5000))
def test_divisors_divide(number):
    """All of them, smallest first."""
    assert divisors(number).tolist() == [size for size in range(1, number + 1) if number % size == 0]


def test_the_global_batch_never_changes(problem):
    """Micro-batch times accumulation times data-parallel ranks is that of the run: 6 x 2 x 2."""
    asked = problem()
    assert global_batch(asked.run) == 24
    for group in groups(asked.run, asked.space):
        for columns in chunks(group, asked.space):
            product = columns["batch_size"] * columns["grad_accumulation"] * columns["data_parallel"]
            assert set(product) == {24.0}


def test_every_configuration_can_be_run_and_stands_once(problem, offer):
    """None is refused by the rules for run specs, and none is listed twice."""
    asked = problem(
        offers=(offer(count=12, node="pcie-box", power_caps_w=(150.0,)), offer("a100-sxm4-40gb", 3)),
        pipeline_interleavings=(1, 3),
        adapter_ranks=(0, 4),
    )
    found = rows(asked)
    assert len(found) == len(set(found)) > 1000
    every = groups(asked.run, asked.space)
    for place, *choices in found[:: len(found) // 300]:
        spec = every[place].spec(dict(zip(CHOICE_COLUMNS, choices, strict=True)))
        assert check_runnable(spec) is spec
        assert spec.layout.num_devices <= {"rtx-2080-ti": 12, "a100-sxm4-40gb": 3}[spec.accelerator.name]


def test_strategies_of_columns_are_those_of_their_layouts(problem):
    """The name that the columns get is that of the layout built from a row."""
    asked = problem()
    (group, *_) = groups(asked.run, asked.space)
    (columns,) = chunks(group, asked.space)
    names = strategies_of(columns)
    assert set(names) == set(strategy_names()) - {name for name in strategy_names() if name.count("x") == 2}
    for place in range(len(names)):
        spec = group.spec({name: values[place] for name, values in columns.items()})
        assert spec.layout.strategy == names[place]


@pytest.mark.parametrize("size", [1, 7, 100, 10**6])
def test_the_size_of_chunks_changes_nothing(problem, size):
    """The same configurations in the same order, and no chunk is much larger than asked for."""
    asked = problem(micro_batches=(1, 2, 3))
    assert rows(asked, size=size) == rows(asked)
    for group in groups(asked.run, asked.space):
        sizes = [len(columns["batch_size"]) for columns in chunks(group, asked.space, size=size)]
        assert max(sizes) <= max(size, 3)


def test_choices_that_are_named_are_kept_to(problem):
    """Strategies, counts, degrees, micro-batches."""
    asked = problem(strategies=("tp", "fsdp x tp"), device_counts=(2, 4), tensor_parallel=(2,), micro_batches=(3,))
    (group, *_) = groups(asked.run, asked.space)
    (columns,) = chunks(group, asked.space)
    assert sorted(zip(strategies_of(columns), columns["batch_size"], strict=True)) == [("fsdp x tp", 3), ("tp", 3)]


def test_the_order_of_the_inputs_is_not_that_of_the_groups(problem, offer):
    """Offers, precisions and checkpointings may be named in any order."""
    offers = (offer(), offer("a100-sxm4-40gb"))
    found = [
        [group.key for group in groups(asked.run, asked.space)]
        for asked in (
            problem(offers=offers, precisions=("fp16", "fp32"), checkpointings=("none", "full")),
            problem(offers=offers[::-1], precisions=("fp32", "fp16"), checkpointings=("full", "none")),
        )
    ]
    assert found[0] == found[1]
    assert len(found[0]) == 8


def test_devices_without_a_precision_are_left_out(problem, offer):
    """The RTX 2080 Ti has no bf16, the A100 has."""
    asked = problem(offers=(offer(), offer("a100-sxm4-40gb")), precisions=("bf16",))
    assert {group.offer.accelerator.name for group in groups(asked.run, asked.space)} == {"a100-sxm4-40gb"}
    with pytest.raises(ConfigError, match="precision"):
        groups(asked.run, problem(precisions=("bf16",)).space)


def test_selective_recomputation_under_a_fused_kernel_is_not_counted_twice(problem):
    """It drops what a fused kernel never wrote."""
    asked = problem(checkpointings=("none", "selective", "full"))
    assert [group.recipe.checkpointing for group in groups(asked.run, asked.space)] == ["full", "none"]
    eager = problem(checkpointings=("none", "selective", "full"), attention_kernels=("eager",))
    assert len(groups(eager.run, eager.space)) == 3


def test_devices_fill_the_fewest_nodes_evenly(problem, offer):
    """Of nodes with eight, nine devices would need two halves of nine: left out; ten stand five and five."""
    asked = problem(offers=(offer(count=12, node="pcie-box"),), strategies=("ddp",), micro_batches=(1,))
    (group, *_) = groups(asked.run, asked.space)
    (columns,) = chunks(group, asked.space)
    stand = dict(zip(columns["data_parallel"].tolist(), columns["num_nodes"].tolist(), strict=True))
    assert stand == {2: 1, 3: 1, 4: 1, 6: 1, 8: 1, 12: 2}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"count": 0}, "whole"),
        ({"count": 64}, "node type"),
        ({"power_caps_w": (900.0,)}, "power cap"),
        ({"power_caps_w": (0.0,)}, "power cap"),
        ({"node": "dgx-a100"}, "has no rtx-2080-ti"),
    ],
)
def test_offers_that_cannot_be_are_refused(offer, changes, words):
    """No device, more than one machine holds without saying which machines, caps that are none, a foreign node."""
    with pytest.raises(ConfigError, match=words):
        offer(**changes)


def test_spaces_that_cannot_be_are_refused(offer):
    """Without devices, with one kind twice, with counts that are none."""
    with pytest.raises(ConfigError, match="nothing to run on"):
        Space(offers=())
    with pytest.raises(ConfigError, match="twice"):
        Space(offers=(offer(), offer(count=2)))
    with pytest.raises(ConfigError, match="device_counts"):
        Space(offers=(offer(),), device_counts=(0,))
