"""What may vary: every configuration that can be run, and none twice."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattlaw.errors import ConfigError, UnknownNameError
from wattlaw.parallel.layout import Layout
from wattlaw.plan import Space
from wattlaw.plan.layouts import canonical_strategy, divisors, searched_strategies, strategies_of, strategy_names
from wattlaw.plan.space import CHOICE_COLUMNS, caps_w, chunks, global_batch, groups
from wattlaw.run.spec import check_runnable
from wattlaw.workload import preset


def rows(problem, *, size=10**6):
    """All configurations of a problem, as tuples of the group's place and the choices."""
    found = []
    for place, group in enumerate(groups(problem.run, problem.space)):
        for columns, cap_w in itertools.product(chunks(group, problem.space, size=size), caps_w(group)):
            choices = {**columns, "power_cap_w": np.full(len(columns["batch_size"]), cap_w)}
            found += zip(itertools.repeat(place), *(choices[name].tolist() for name in CHOICE_COLUMNS), strict=False)
    return found


def test_every_strategy_and_product_has_a_name():
    """Five kinds of data axis, with and without four others, less the four whose experts have no ranks: 5 x 16 - 4."""
    names = strategy_names()
    assert len(names) == len(set(names)) == 76
    assert {"single", "ddp", "zero1", "fsdp", "fsdp-grad-op", "tp", "pp", "cp", "fsdp-grad-op x tp x pp"} <= set(names)
    assert {"cp x ep", "ddp x ep", "zero1 x tp x pp x cp x ep"} <= set(names)
    assert not {"ep", "tp x ep", "pp x ep", "tp x pp x ep"} & set(names)


@pytest.mark.parametrize("text", ["tp x fsdp", "FSDP*TP", "fsdp + tp", "fsdp×tp"])
def test_a_product_may_be_written_in_any_order(text):
    """The data axis comes first in the name."""
    assert canonical_strategy(text) == "fsdp x tp"


@pytest.mark.parametrize(("text", "name"), [("ep", "ddp x ep"), ("ep x tp", "ddp x tp x ep"), ("ep x cp", "cp x ep")])
def test_experts_alone_are_dealt_out_to_replicas(text, name):
    """Without ranks that hold the same weights there is nobody to deal them out to."""
    assert canonical_strategy(text) == name


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
    asked = problem(also=("zero1", "cp"))
    (group, *_) = groups(asked.run, asked.space)
    (columns,) = chunks(group, asked.space)
    names = strategies_of(columns)
    # Four devices halve along two axes; what shards over the ranks of a divided sequence needs no other ranks.
    parts = {name: set(name.split(" x ")) for name in strategy_names()}
    free = {"zero1", "fsdp", "fsdp-grad-op"}
    assert set(names) == {
        name for name, own in parts.items() if "ep" not in own and len(own - free if "cp" in own else own) <= 2
    }
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


def searched(problem):
    """The strategies of a problem's configurations."""
    (group, *_) = groups(problem.run, problem.space)
    found = {name for columns in chunks(group, problem.space) for name in strategies_of(columns)}
    assert found <= set(searched_strategies(problem.run, problem.space))
    return {part for name in found for part in name.split(" x ")}


def test_sharded_states_are_searched_of_fused_frameworks_and_where_asked_for(problem, run):
    """Megatron shards what the optimizer keeps; beside an eager PyTorch that is another framework."""
    fused = replace(run, recipe=replace(run.recipe, software="fused"))
    own = replace(run, layout=Layout.of("zero1", num_devices=2))
    assert "zero1" not in searched(problem())
    for asked in (problem(model=fused), problem(model=own), problem(also=("zero1",)), problem(strategies=("zero1",))):
        assert "zero1" in searched(asked)
    assert searched(problem(also=("zero1",), strategies=("ddp",))) == {"ddp"}


def test_sequences_are_divided_where_they_are_long_and_causal_or_it_is_asked_for(problem, run):
    """Unasked each device keeps 4,096 tokens, and a model that looks both ways is not divided."""

    def of(name, length, **space):
        recipe = replace(run.recipe, seq_len=length, batch_size=24, grad_accumulation=1, precision="fp16")
        model = replace(run, architecture=replace(preset(name), max_positions=0), recipe=recipe)
        asked = problem(model=model, **space)
        (group, *_) = groups(asked.run, asked.space)
        return {int(degree) for columns in chunks(group, asked.space) for degree in columns["context_parallel"]}

    assert of("llama-2-7b", 4096) == of("llama-2-7b", 8191) == {1}
    assert of("llama-2-7b", 8192) == {1, 2}
    assert of("llama-2-7b", 16384) == {1, 2, 4}
    assert of("bert-base-uncased", 16384) == {1}
    assert of("llama-2-7b", 128, also=("cp",)) == of("llama-2-7b", 128, strategies=("cp", "single")) == {1, 2, 4}
    assert of("llama-2-7b", 128, context_parallel=(1, 2)) == {1, 2}
    assert of("llama-2-7b", 16384, context_parallel=(1,)) == {1}


def test_experts_are_dealt_out_to_their_divisors(problem, run):
    """Eight experts to 1, 2, 4 or 8 ranks, as many as there are; a dense model has none."""
    model = replace(run, architecture=preset("mixtral-8x7b"))
    for space, degrees in (
        ({}, {1, 2, 4}),
        ({"expert_parallel": (2, 3)}, {2}),
        ({"strategies": ("fsdp x ep",)}, {2, 4}),
    ):
        asked = problem(model=model, **space)
        (group, *_) = groups(asked.run, asked.space)
        found = {int(degree) for columns in chunks(group, asked.space) for degree in columns["expert_parallel"]}
        assert found == degrees
    assert "ep" not in searched(problem())


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
    with pytest.raises(UnknownNameError, match="zero1"):
        Space(offers=(offer(),), also=("zero2",))
