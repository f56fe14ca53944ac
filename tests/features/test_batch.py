"""Runs that differ in numbers only are one run of columns, and what a law reads of hardware is looked up."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattlaw.errors import ConfigError
from wattlaw.features.batch import Devices, batches, devices_of
from wattlaw.features.physical import physical_columns
from wattlaw.hardware import accelerator, node_type
from wattlaw.law.bundled import bundled
from wattlaw.law.prediction import predict
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunSpec
from wattlaw.workload import Recipe, from_sizes, preset


@pytest.fixture
def spec():
    """GPT-2 on one A100."""
    return RunSpec(
        architecture=preset("gpt2"),
        recipe=Recipe(batch_size=8, seq_len=512, precision="bf16", steps=100),
        layout=Layout(),
        accelerator=accelerator("a100-sxm4-40gb"),
    )


def test_figures_of_an_accelerator_are_those_of_its_data_sheet(spec):
    """A100: 312e12 flop/s in bf16 and 19.5e12 in fp32, 1,555 GB/s, 400 W, 300 GB/s of NVLink each way."""
    assert devices_of(spec) == Devices(
        peak_flop_per_s=312e12,
        unquantised_flop_per_s=312e12,
        bandwidth_bytes_per_s=1555e9,
        power_limit_w=400,
        power_cap_w=400,
        link_bytes_per_s=300e9,
        network_bytes_per_s=300e9,
        node_host_w=0,
    )
    assert devices_of(replace(spec, recipe=replace(spec.recipe, precision="fp32"))).peak_flop_per_s == 19.5e12


def test_fp8_leaves_some_products_in_16_bits(spec):
    """H100: 1,978.9e12 flop/s in fp8, and 989.4e12 for what stays in bf16."""
    eight_bits = replace(spec, recipe=replace(spec.recipe, precision="fp8"), accelerator=accelerator("h100-sxm5-80gb"))
    found = devices_of(eight_bits)
    assert (found.peak_flop_per_s, found.unquantised_flop_per_s) == (1978.9e12, 989.4e12)


@pytest.mark.parametrize(("given_w", "cap_w"), [(None, 400), (250.0, 250), (500.0, 400)])
def test_a_cap_is_the_limit_of_the_run_and_at_most_the_boards(spec, given_w, cap_w):
    """A limit above the board's own changes nothing."""
    assert devices_of(replace(spec, power_limit_w=given_w)).power_cap_w == cap_w


def test_a_named_node_declares_its_host(spec):
    """dgx-a100's own host; none where no node is named, so that the law's counts."""
    assert devices_of(replace(spec, node=node_type("dgx-a100"))).node_host_w == node_type("dgx-a100").host_power_w


def test_a_module_that_holds_its_host_has_no_other(spec):
    """A Jetson's 60 W are of the whole module: it draws no more, but where a machine around it is named."""
    module = replace(spec, accelerator=accelerator("jetson-agx-orin-64gb"))
    assert 0 < devices_of(module).node_host_w < 1e-6
    assert devices_of(replace(module, node=node_type("pcie-box"))).node_host_w == node_type("pcie-box").host_power_w
    (found,) = predict([replace(module, recipe=replace(module.recipe, batch_size=1, precision="fp16"))], bundled())
    assert found.power_w < 60


def test_the_link_is_the_slowest_within_a_node_and_the_network_that_between_nodes(spec):
    """The node's bus where it is slower than the device's link, and its network beside it for two nodes."""
    several = replace(spec, layout=Layout.of("fsdp", num_devices=16, num_nodes=2))
    dgx, box = node_type("dgx-a100"), node_type("pcie-box")
    assert devices_of(replace(spec, node=dgx)).link_bytes_per_s == 300e9
    assert devices_of(replace(spec, node=box)).link_bytes_per_s == 31.5e9
    for one in (dgx, box):
        alone, both = devices_of(replace(spec, node=one)), devices_of(replace(several, node=one))
        assert alone.network_bytes_per_s == alone.link_bytes_per_s == both.link_bytes_per_s
    assert devices_of(replace(several, node=dgx)).network_bytes_per_s == 25e9
    assert devices_of(replace(several, node=box)).network_bytes_per_s == 1.5625e9


def test_several_nodes_need_a_node_type(spec):
    """Nothing is guessed about an unknown network; the error says what to give."""
    with pytest.raises(ConfigError, match=r"several nodes need a node type.*given 2 nodes; try --node dgx-a100"):
        devices_of(replace(spec, layout=Layout.of("fsdp", num_devices=16, num_nodes=2)))


def test_numbers_become_columns_and_names_stay(spec):
    """Two sizes of one family on two GPUs are one batch; a number that all share is not repeated."""
    other = replace(spec, architecture=preset("gpt2-xl"), accelerator=accelerator("h100-sxm5-80gb"))
    ((positions, batch),) = batches([spec, other])
    assert positions.tolist() == [0, 1]
    assert batch.architecture.hidden_size.tolist() == [768, 1600]
    assert batch.architecture.stacks[0].num_layers.tolist() == [12, 48]
    assert batch.devices.peak_flop_per_s.tolist() == [312e12, accelerator("h100-sxm5-80gb").peak_flop_per_s("bf16")]
    assert (batch.recipe.batch_size, batch.recipe.precision, batch.recipe.padded_len) == (8, "bf16", None)
    assert batch.architecture.vocab_size == 50257


@pytest.mark.parametrize(
    "change",
    [
        {"precision": "fp16"},
        {"optimizer": "sgd"},
        {"checkpointing": "full"},
        {"attention_kernel": "eager"},
        {"software": "fused"},
        {"adapter_targets": "all-linear"},
        {"steps": None, "samples": 100},
        {"padded_len": 40.0},
    ],
)
def test_names_and_what_is_not_given_keep_runs_apart(spec, change):
    """A batch has one precision, one optimizer, one way to state the amount."""
    other = replace(spec, recipe=replace(spec.recipe, **change))
    assert [positions.tolist() for positions, _ in batches([spec, other, spec])] == [[0, 2], [1]]


def test_models_of_another_shape_are_batches_of_their_own(spec):
    """Encoder and decoder, or another head, are other operations; Llama and GPT-2 are the same ones."""
    bert, llama = preset("bert-base-uncased"), preset("llama-2-7b")
    labelled = preset("bert-base-uncased", head="classification")
    models = (preset("gpt2"), bert, llama, preset("t5-small"), labelled, bert)
    kinds = [replace(spec, architecture=model) for model in models]
    assert [positions.tolist() for positions, _ in batches(kinds)] == [[0, 2], [1, 5], [3], [4]]


def test_no_runs_are_no_batches():
    """Nothing comes of nothing."""
    assert list(batches([])) == []


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_batch_says_of_each_run_exactly_what_the_run_alone_says(data, run_specs):
    """To the last bit, in any company and any order: a prediction does not depend on its neighbours."""
    specs = data.draw(st.lists(run_specs, min_size=1, max_size=8))
    shuffled = data.draw(st.permutations(specs))
    together = physical_columns(shuffled)
    assert sorted(row for positions, _ in batches(shuffled) for row in positions.tolist()) == list(range(len(specs)))
    for row, each in enumerate(shuffled):
        alone = physical_columns([each])
        assert {name: alone[name][0] for name in alone.columns} == {
            name: together[name][row] for name in together.columns
        }


def test_a_column_of_many_sizes_is_the_sizes_one_by_one(spec):
    """Two hundred models that differ in every size: one batch, the numbers of each alone."""
    random = np.random.default_rng(0)
    specs = [
        replace(
            spec,
            architecture=from_sizes(
                "llama",
                num_layers=int(random.integers(1, 40)),
                hidden_size=int(64 * heads),
                num_heads=int(heads),
                num_kv_heads=2,
                ffn_size=int(random.integers(64, 9999)),
                vocab_size=int(random.integers(1000, 200_000)),
            ),
            recipe=replace(spec.recipe, batch_size=int(random.integers(1, 99)), steps=int(random.integers(1, 10**6))),
        )
        for heads in random.choice([2, 4, 8, 16, 32], 200)
    ]
    assert len(list(batches(specs))) == 1
    together = physical_columns(specs)
    for row in (0, 77, 199):
        alone = physical_columns([specs[row]])
        assert all(alone[name][0] == together[name][row] for name in together.columns)


def test_every_figure_of_the_devices_can_be_a_column(spec):
    """Runs on different GPUs differ in each figure that a law reads."""
    names = ("a100-sxm4-40gb", "h100-sxm5-80gb", "l4")
    nodes = (None, node_type("dgx-h100"), node_type("pcie-box"))
    specs = [replace(spec, accelerator=accelerator(name), node=node) for name, node in zip(names, nodes, strict=True)]
    ((_, batch),) = batches(specs)
    for field in fields(Devices):
        assert getattr(batch.devices, field.name).shape == (3,)
