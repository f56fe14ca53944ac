"""The sweep file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from wattlaw.errors import ConfigError, FileError, UnknownNameError, WattlawError
from wattlaw.measure.sweep import Measuring, configuration_id, read_sweep, sweep_from_mapping

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
BOTH = {"strategy": ["single", "ddp", "tp"], "num_devices": [1, 2]}


def test_a_grid_is_every_combination(build_sweep) -> None:
    """Three depths times two widths are six runs, each once."""
    sweep = build_sweep({"num_layers": [1, 2, 3], "hidden_size": [32, 64], "strategy": "single"})
    sizes = {(run.spec.architecture.num_layers, run.spec.architecture.hidden_size) for run in sweep.runs}
    assert len(sweep.runs) == 6
    assert sizes == {(layers, hidden) for layers in (1, 2, 3) for hidden in (32, 64)}


def test_a_list_is_side_by_side(build_sweep) -> None:
    """Two lists of two make two runs; what is no list is the same in both."""
    sweep = build_sweep(list=[{"num_layers": [1, 2], "hidden_size": [64, 32], "strategy": "single"}])
    sizes = {(run.spec.architecture.num_layers, run.spec.architecture.hidden_size) for run in sweep.runs}
    assert sizes == {(1, 64), (2, 32)}


def test_a_grid_leaves_out_and_counts_what_cannot_run(build_sweep) -> None:
    """Single on two devices, DDP and TP on one: left out with the reason, the rest is there."""
    sweep = build_sweep(BOTH)
    assert {run.spec.layout.strategy for run in sweep.runs} == {"single", "ddp", "tp"}
    assert len(sweep.runs) == 3
    assert sum(sweep.left_out.values()) == 3


def test_heads_that_do_not_divide_are_left_out_of_a_grid_and_refused_in_a_list(build_sweep) -> None:
    """Three heads on two tensor-parallel devices: a grid counts them, a list is an error that names the field."""
    odd = {"num_heads": [3, 4], "hidden_size": 48, "strategy": "tp", "num_devices": 2}
    sweep = build_sweep(odd)
    assert [run.spec.architecture.stacks[0].num_heads for run in sweep.runs] == [4]
    assert any("num_heads" in reason for reason in sweep.left_out)
    with pytest.raises(ConfigError, match="num_heads does not divide by tensor_parallel"):
        build_sweep(list=[odd])


def test_a_grid_of_which_nothing_can_run_is_an_error(build_sweep) -> None:
    """Where every combination is left out, the first reason is the error."""
    with pytest.raises(ConfigError, match=r"\[grid\] number 1.*num_heads does not divide"):
        build_sweep({"num_heads": 3, "hidden_size": 48, "strategy": "tp", "num_devices": 2})


def test_repeats_and_controls(build_sweep) -> None:
    """Two repeats of four configurations are eight runs; a control comes first, after every three, and last."""
    control = {"strategy": "single", "num_layers": 5}
    sweep = build_sweep({"num_layers": [1, 2, 3, 4], "strategy": "single"}, repeats=2, control=control, control_every=3)
    roles = [run.role for run in sweep.runs]
    assert roles == ["control", *["sample"] * 3, "control", *["sample"] * 3, "control", *["sample"] * 2, "control"]
    assert len({run.record_id for run in sweep.runs}) == len(sweep.runs)


def test_the_order_is_random_and_the_seed_s(build_sweep) -> None:
    """One seed gives one order, another seed another, and neither is the order of the file."""
    grid = {"num_layers": list(range(1, 13)), "strategy": "single"}

    def depths(seed: int) -> list[float]:
        return [run.spec.architecture.num_layers for run in build_sweep(grid, seed=seed).runs]

    assert depths(1) == depths(1)
    assert depths(1) != depths(2)
    assert sorted(depths(1)) == sorted(depths(2)) != depths(1)


def test_a_sample_of_a_grid(build_sweep) -> None:
    """A sample has the size that is asked for and only points of the grid."""
    sweep = build_sweep({"num_layers": list(range(1, 13)), "seq_len": [8, 16], "strategy": "single", "sample": 7})
    assert len(sweep.runs) == 7
    assert len({run.configuration for run in sweep.runs}) == 7


def test_a_sample_has_every_layout(build_sweep) -> None:
    """What is drawn is run in all ways, so that the ways can be compared."""
    layouts = [{"strategy": "single"}, {"strategy": "ddp", "num_devices": 2}, {"strategy": "fsdp", "num_devices": 4}]
    sweep = build_sweep({"num_layers": list(range(1, 13)), "layouts": layouts, "sample": 4})
    drawn = {run.spec.architecture.num_layers for run in sweep.runs}
    found = {(run.spec.architecture.num_layers, run.spec.layout.strategy) for run in sweep.runs}
    assert len(drawn) == 4
    assert found == {(layers, strategy) for layers in drawn for strategy in ("single", "ddp", "fsdp")}
    assert sweep.world_size == 4


def test_the_same_configuration_twice_is_one_run(build_sweep) -> None:
    """Two grids that overlap do not measure the overlap twice, unless it is repeated."""
    grid = {"num_layers": [1, 2], "strategy": "single"}
    assert len(build_sweep(grid, {"num_layers": [2, 3], "strategy": "single"}).runs) == 3


def test_ratios_follow_the_hidden_size(build_sweep, defaults) -> None:
    """Four hidden sizes of MLP, and a head for every 16 of width."""
    bare = {key: value for key, value in defaults.items() if key not in ("ffn_size", "num_heads")}
    grid = {"hidden_size": [32, 64], "ffn_per_hidden": 4, "hidden_per_head": 16, "strategy": "single"}
    sweep = build_sweep(grid, defaults=bare)
    found = {(run.spec.architecture.hidden_size, run.spec.architecture.stacks[0].ffn_size,
              run.spec.architecture.stacks[0].num_heads) for run in sweep.runs}  # fmt: skip
    assert found == {(32, 128, 2), (64, 256, 4)}


def test_an_id_is_the_configuration_s_alone(build_sweep) -> None:
    """Names and the number of measured steps do not change an id; sizes, layout and threads do."""
    spec = build_sweep({"strategy": "single"}).runs[0].spec
    measuring = Measuring()
    same = replace(spec, name="other", recipe=replace(spec.recipe, steps=99))
    larger = replace(spec, recipe=replace(spec.recipe, batch_size=3))
    assert configuration_id(spec, measuring) == configuration_id(same, measuring)
    assert configuration_id(spec, measuring) != configuration_id(larger, measuring)
    assert configuration_id(spec, measuring) != configuration_id(spec, Measuring(threads=2))


@pytest.mark.parametrize(
    ("grid", "top", "error", "told"),
    [
        ({"strategy": "single", "num_layer": 2}, {}, UnknownNameError, "num_layers"),
        ({"strategy": "fdsp"}, {}, UnknownNameError, "fsdp"),
        ({"strategy": "single", "layouts": [{"strategy": "single"}]}, {}, ConfigError, "layouts"),
        ({"layouts": [{"strategy": "single", "devices": 2}]}, {}, UnknownNameError, "num_devices"),
        ({"layouts": [{"strategy": "dpd", "num_devices": 2}]}, {}, UnknownNameError, "ddp"),
        ({"strategy": "single", "family": "berd"}, {}, UnknownNameError, "bert"),
        ({"strategy": "single", "family": "t5"}, {}, UnknownNameError, "family"),
        ({"strategy": "single", "num_layers": [1, 0]}, {}, ConfigError, "num_layers"),
        ({"strategy": "single", "batch_size": "8"}, {}, FileError, "batch_size"),
        ({"strategy": "single", "seq_len": []}, {}, FileError, "seq_len"),
        ({"strategy": "single", "seq_len": 4096}, {}, ConfigError, "seq_len exceeds"),
        ({"strategy": "single", "precision": "bf16"}, {}, WattlawError, "bf16"),
        ({"strategy": "single", "optimizer": "adafactor"}, {}, ConfigError, "optimizer"),
        ({"strategy": "single", "head": "token_classification"}, {}, ConfigError, "head"),
        ({"strategy": "single", "power_limit_w": 100}, {}, ConfigError, "power_limit_w"),
        ({}, {}, ConfigError, "strategy"),
        ({"strategy": "single"}, {"hardware": {}}, ConfigError, "gpu"),
        ({"strategy": "single"}, {"hardware": {"gpu": "generic-gpu"}}, UnknownNameError, "generic-cpu"),
        ({"strategy": "single"}, {"measuring": {"step": 3}}, UnknownNameError, "steps"),
        ({"strategy": "single"}, {"measuring": {"timeout_s": 0}}, ConfigError, "timeout_s"),
        ({"strategy": "single"}, {"measuring": {"min_warmup_steps": 20}}, ConfigError, "min_warmup_steps exceeds"),
        ({"strategy": "single"}, {"control_every": 3}, ConfigError, "control"),
        ({"strategy": "single"}, {"name": "../elsewhere"}, ConfigError, "name"),
        ({"strategy": "single"}, {"grids": []}, UnknownNameError, "grid"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(build_sweep, grid, top, error, told) -> None:
    """Bad input is refused with one line that names the field or the nearest name."""
    with pytest.raises(error) as caught:
        build_sweep(grid, **top)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_lists_of_different_lengths_are_refused(build_sweep) -> None:
    """Places of a list cannot be paired if one list is longer."""
    with pytest.raises(ConfigError, match="num_layers 2, seq_len 3"):
        build_sweep(list=[{"num_layers": [1, 2], "seq_len": [8, 9, 10], "strategy": "single"}])


def test_a_family_without_a_plan_is_refused(build_sweep) -> None:
    """Tensor parallelism of a model without a plan of ours is an error, not a try."""
    from wattlaw.measure.sweep.strategies import tp

    spec = build_sweep({"strategy": "tp", "num_devices": 2}).runs[0].spec
    other = replace(spec, architecture=replace(spec.architecture, family="gpt_neox"))
    with pytest.raises(ConfigError, match="no tensor-parallel plan"):
        tp.check(other)


def test_tensor_parallelism_in_fp16_is_left_out(build_sweep) -> None:
    """Torch's gradient scaler refuses divided gradients beside whole ones, so a grid counts them and goes on."""
    grid = {"precision": ["fp16", "bf16"], "strategy": "tp", "num_devices": 2}
    sweep = build_sweep(grid, hardware={"gpu": "a100-sxm4-40gb"})
    assert [run.spec.recipe.precision for run in sweep.runs] == ["bf16"]
    assert sweep.device == "cuda"
    assert sum(sweep.left_out.values()) == 1


def test_no_configuration_is_an_error() -> None:
    """A file without grids and lists asks for nothing."""
    with pytest.raises(ConfigError, match="no configurations"):
        sweep_from_mapping({"hardware": {"gpu": "generic-cpu"}})


def test_the_file_is_named_in_its_errors(tmp_path) -> None:
    """An error says which file, and a file that is no TOML is not read half."""
    broken = tmp_path / "broken.toml"
    broken.write_text("seed = = 1")
    with pytest.raises(FileError, match=r"broken\.toml"):
        read_sweep(broken)
    with pytest.raises(FileError, match=r"absent\.toml"):
        read_sweep(tmp_path / "absent.toml")


def test_the_examples_are_read() -> None:
    """The first sweep is small; the sample has at least 320 configurations of both families and four strategies."""
    assert len(read_sweep(EXAMPLES / "cpu_sweep.toml").runs) < 80
    sample = read_sweep(EXAMPLES / "cpu_sample.toml")
    samples = [run for run in sample.runs if run.role == "sample"]
    kinds = {(run.spec.architecture.family, run.spec.layout.strategy) for run in samples}
    assert len({run.configuration for run in samples}) >= 320
    assert kinds == {(family, strategy) for family in ("bert", "gpt2") for strategy in ("single", "ddp", "fsdp", "tp")}
    assert sample.world_size == 2
