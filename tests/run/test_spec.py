"""The run spec and its file."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattlaw.errors import ConfigError, FileError, UnknownNameError, WattlawError
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunSpec, check_runnable, read_spec, spec_from_mapping, spec_to_mapping, write_spec
from wattlaw.run.spec import check_fits
from wattlaw.run.spec_file import read_tables
from wattlaw.workload import FAMILIES, Recipe, from_sizes, preset, presets

EXAMPLES = Path(__file__).parents[2] / "examples"


SPECS = [path for path in sorted(EXAMPLES.glob("*.toml")) if "[layout]" in path.read_text()]


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_examples_can_be_run(path):
    """Every example is a spec, and says in its name what it is."""
    assert read_spec(path).name


def test_a_run_that_ends_before_its_first_step_is_refused(tables):
    """Fractions of an epoch are fine as long as there is one step of the optimizer in them."""
    tables["recipe"] |= {"samples": 1000, "epochs": 0.5}
    tables["recipe"].pop("steps", None)
    tables["recipe"].pop("tokens", None)
    assert spec_from_mapping(tables).recipe.epochs == 0.5
    tables["recipe"]["epochs"] = 1e-9
    with pytest.raises(ConfigError, match="the run ends before its first step"):
        spec_from_mapping(tables)


def test_example_worked():
    """The SST-2 example reads the model from its config.json and shards it over four devices."""
    spec = read_spec(EXAMPLES / "bert-base-sst2.toml")
    assert (spec.architecture.num_layers, spec.architecture.hidden_size, spec.architecture.head) == (
        12,
        768,
        "classification",
    )
    assert spec.layout == Layout(data_parallel=4, zero_stage=3)
    assert spec.accelerator.name == "rtx-2080-ti"
    assert spec.power_limit_w is None


@pytest.mark.parametrize("name", presets())
def test_every_preset_survives_its_file(name, tables, tmp_path):
    """Any architecture, written to a file and read back, is the same: experts, encoder-decoders, windows."""
    tables["model"] = {"preset": name}
    tables["recipe"]["precision"] = "fp32"
    tables["layout"] = {}
    spec = spec_from_mapping(tables)
    write_spec(spec, tmp_path / "run.toml")
    assert read_spec(tmp_path / "run.toml") == spec


@st.composite
def specs(draw):
    """Run specs of any recipe and layout."""
    amount = draw(
        st.sampled_from([{"steps": 10}, {"samples": 100, "epochs": 2.5}, {"samples": 7}, {"tokens": 123456789.0}])
    )
    recipe = Recipe(
        batch_size=draw(st.integers(1, 4096)),
        seq_len=draw(st.integers(64, 512)),
        padded_len=draw(st.none() | st.floats(1, 64)),
        grad_accumulation=draw(st.integers(1, 64)),
        precision=draw(st.sampled_from(["fp32", "tf32", "bf16", "fp16"])),
        optimizer=draw(st.sampled_from(["adamw", "sgd", "adafactor"])),
        checkpointing=draw(st.sampled_from(["none", "selective", "full"])),
        attention_kernel=draw(st.sampled_from(["eager", "fused"])),
        evaluation_fraction=draw(st.floats(0, 1)),
        **amount,
    )
    tensor = draw(st.sampled_from([1, 2, 4]))
    nodes = draw(st.sampled_from([1, 2]))
    stages = draw(st.sampled_from([1, 2, 3]))
    layout = Layout(
        data_parallel=nodes * draw(st.integers(1, 8)),
        tensor_parallel=tensor,
        pipeline_parallel=stages,
        pipeline_interleaving=draw(st.sampled_from([1, 2])) if stages > 1 else 1,
        sequence_parallel=draw(st.sampled_from([0, 1])),
        vocabulary_parallel=draw(st.sampled_from([0, 1])),
        zero_stage=draw(st.sampled_from([0, 1, 2, 3])),
        num_nodes=nodes,
    )
    base = spec_from_mapping(
        {
            "model": {"preset": "bert-base-uncased"},
            "recipe": {"batch_size": 1, "seq_len": 8, "steps": 1},
            "hardware": {"gpu": "a100-sxm4-40gb"},
        }
    )
    return RunSpec(
        architecture=base.architecture,
        recipe=recipe,
        layout=layout,
        accelerator=base.accelerator,
        power_limit_w=draw(st.none() | st.floats(100, 1000)),  # of 400 W
        name=draw(st.text(max_size=10)),
    )


@given(specs())
def test_mapping_round_trip(spec):
    """A spec laid out in tables and built again is equal."""
    assert spec_from_mapping(spec_to_mapping(spec)) == spec


@pytest.mark.parametrize(
    ("table", "key", "value", "says"),
    [
        ("recipe", "batch_sise", 8, ["[recipe]: batch_sise", "batch_size"]),
        ("recipe", "batch_size", "many", ["[recipe]: batch_size", "'many'", "number"]),
        ("recipe", "batch_size", 0, ["[recipe]: batch_size", "given 0", ">= 1"]),
        ("recipe", "batch_size", -4, ["[recipe]: batch_size", "given -4", ">= 1"]),
        ("recipe", "batch_size", 2.5, ["[recipe]: batch_size", "given 2.5", "whole"]),
        ("recipe", "seq_len", math.nan, ["[recipe]: seq_len", "given nan", "finite"]),
        ("recipe", "samples", math.inf, ["[recipe]: samples", "given inf", "finite"]),
        ("recipe", "samples", 10**400, ["[recipe]: samples", "finite"]),
        ("recipe", "samples", True, ["[recipe]: samples", "True", "number"]),
        ("recipe", "steps", 5, ["[recipe]", "exactly once", "steps, samples"]),
        ("recipe", "precision", "fp61", ["[recipe]", "precision", "fp61", "fp16"]),
        ("recipe", "precision", "fp8", ["rtx-2080-ti", "fp8", "fp16"]),
        ("recipe", "seq_len", 1024, ["[recipe] seq_len", "given 1024", "<= 512"]),
        ("model", "config", "elsewhere", ["[model]", "preset, config", "one way"]),
        ("model", "num_layers", 3, ["[model]: num_layers", "does not go with preset"]),
        ("model", "preset", "bert-bse-uncased", ["[model]: preset", "bert-base-uncased"]),
        ("model", "head", "no-head", ["[model]", "no-head"]),
        ("hardware", "gpu", "rtx-2080", ["[hardware]: gpu", "rtx-2080", "try"]),
        ("hardware", "gpu", 2080, ["[hardware]: gpu", "2080", "text"]),
        ("hardware", "node", "dgx-a100", ["[hardware] node", "rtx-2080-ti", "a100"]),
        ("hardware", "power_limit_w", 0, ["[hardware]: power_limit_w", "given 0", "> 0"]),
        ("layout", "strategy", "fsdpp", ["[layout]", "fsdpp", "fsdp"]),
        ("layout", "num_devices", 0, ["[layout]: num_devices", "given 0", ">= 1"]),
        ("layout", "num_nodes", 3, ["[layout]", "4 devices on 3 nodes"]),
        ("layout", "zero_stage", 0, ["[layout]: strategy", "disagrees"]),
        ("layout", "strategy", "single", ["[layout]", "single", "4 devices"]),
    ],
)
def test_errors_name_the_place(tables, table, key, value, says):
    """A bad value is one line that names table and key, what was given and what is allowed."""
    tables[table][key] = value
    with pytest.raises(WattlawError) as caught:
        spec_from_mapping(tables)
    text = str(caught.value)
    assert "\n" not in text
    for part in says:
        assert part in text


@pytest.mark.parametrize("table", ["model", "recipe", "hardware"])
def test_missing_tables_are_named(tables, table):
    """A spec without its model, recipe or hardware says which table is missing."""
    del tables[table]
    with pytest.raises(ConfigError, match=rf"table \[{table}\] is missing"):
        spec_from_mapping(tables)


@pytest.mark.parametrize(("table", "key"), [("recipe", "batch_size"), ("recipe", "seq_len"), ("hardware", "gpu")])
def test_missing_keys_are_named(tables, table, key):
    """A table without a key that has no default says which."""
    del tables[table][key]
    with pytest.raises(ConfigError, match=rf"\[{table}\]: {key}: a key is missing"):
        spec_from_mapping(tables)


def test_missing_sizes_are_named(tables):
    """A model given by its sizes needs all five of them."""
    tables["model"] = {"family": "bert", "num_layers": 2, "num_heads": 2, "ffn_size": 64, "vocab_size": 100}
    with pytest.raises(ConfigError, match=r"\[model\].*hidden_size"):
        spec_from_mapping(tables)


def test_unknown_tables_list_the_nearest(tables):
    """A misspelt table is an error, and not ignored."""
    tables["hardwear"] = tables.pop("hardware")
    with pytest.raises(UnknownNameError, match=r"hardwear.*hardware"):
        spec_from_mapping(tables)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_sizes_of_every_family(tables, family):
    """A model given by sizes is the one that the family builds from them."""
    sizes = {"num_layers": 2, "hidden_size": 64, "num_heads": 4, "ffn_size": 128, "vocab_size": 1000}
    if "moe" in family or family == "mixtral":
        sizes |= {"num_experts": 4, "experts_per_token": 2}
    tables["model"] = {"family": family, **sizes}
    assert spec_from_mapping(tables).architecture == from_sizes(family, **sizes)


def test_heads_must_divide(tables):
    """Twelve heads do not divide over five tensor-parallel devices, and the error says so with the numbers."""
    tables["layout"] = {"strategy": "tp", "num_devices": 5}
    with pytest.raises(ConfigError, match=r"num_heads 12, tensor_parallel 5.*divisor of 12"):
        spec_from_mapping(tables)


def test_key_value_heads_must_divide(tables):
    """Eight key and value heads do not divide over sixteen devices, although 64 query heads do."""
    tables["model"] = {"preset": "llama-2-70b"}
    tables["layout"] = {"strategy": "tp", "num_devices": 16}
    with pytest.raises(ConfigError, match=r"num_kv_heads 8, tensor_parallel 16"):
        spec_from_mapping(tables)


def test_a_run_that_was_made_is_not_checked_against_rules(tables):
    """Somebody did divide such a model, by other rules than ours: what was measured can be described."""
    tables["layout"] = {"strategy": "tp", "num_devices": 5}
    spec = spec_from_mapping(tables, already_run=True)
    assert spec.layout.tensor_parallel == 5
    with pytest.raises(ConfigError):
        check_runnable(spec)


@pytest.mark.parametrize(
    ("layout", "says"),
    [
        ({"strategy": "pp", "num_devices": 5}, "num_layers 12, pipeline_parallel 5; allowed .* a divisor of 12"),
        (
            {"strategy": "pp", "num_devices": 6, "pipeline_interleaving": 3},
            "pipeline_parallel 6, pipeline_interleaving 3",
        ),
    ],
)
def test_layers_must_divide_over_the_stages(tables, layout, says):
    """Twelve blocks are not dealt out to five stages, nor to eighteen runs of blocks on six."""
    tables["layout"] = layout
    with pytest.raises(
        ConfigError, match=rf"\[layout\] pipeline_parallel: num_layers does not divide .*{says}"
    ) as caught:
        spec_from_mapping(tables)
    assert "\n" not in str(caught.value)
    tables["layout"] = {"strategy": "pp", "num_devices": 6, "pipeline_interleaving": 2}
    assert spec_from_mapping(tables).layout == Layout(pipeline_parallel=6, pipeline_interleaving=2)


def test_a_pipeline_by_name_and_by_degrees(tables):
    """Strategy with degrees and flags, or degrees alone: the same layout."""
    tables["layout"] = {
        "strategy": "ddp x tp x pp", "num_devices": 16, "tensor_parallel": 2, "pipeline_parallel": 4,
        "pipeline_interleaving": 3, "sequence_parallel": 1, "vocabulary_parallel": 1,
    }  # fmt: skip
    by_name = spec_from_mapping(tables).layout
    tables["layout"] = {
        "data_parallel": 2, "tensor_parallel": 2, "pipeline_parallel": 4,
        "pipeline_interleaving": 3, "sequence_parallel": 1, "vocabulary_parallel": 1,
    }  # fmt: skip
    assert by_name == spec_from_mapping(tables).layout
    assert by_name.strategy == "ddp x tp x pp"


def test_a_pipeline_makes_a_model_fit_that_one_device_does_not_hold(tables):
    """Llama-2-7B's 16 bytes per weight do not fit 80 GB; an eighth of its blocks and one end do."""
    tables["model"] = {"preset": "llama-2-7b"}
    tables["hardware"] = {"gpu": "a100-sxm4-80gb"}
    tables["recipe"] = {"batch_size": 1, "seq_len": 512, "steps": 1, "grad_accumulation": 8}
    tables["layout"] = {}
    with pytest.raises(ConfigError, match="does not fit into a device's memory"):
        check_fits(spec_from_mapping(tables))
    tables["layout"] = {"strategy": "pp", "num_devices": 8}
    check_fits(spec_from_mapping(tables))


def test_devices_must_fit_the_node(tables):
    """A node of eight holds no sixteen; two of them do."""
    tables["hardware"] = {"gpu": "a100-sxm4-40gb", "node": "dgx-a100"}
    tables["layout"] = {"strategy": "ddp", "num_devices": 16}
    with pytest.raises(ConfigError, match=r"more devices per node than a dgx-a100 holds; given 16.*<= 8"):
        spec_from_mapping(tables)
    tables["layout"]["num_nodes"] = 2
    assert spec_from_mapping(tables).layout.devices_per_node == 8


def test_layout_by_degrees(tables):
    """A layout may be given by its degrees instead of a strategy's name."""
    tables["layout"] = {"data_parallel": 2, "tensor_parallel": 2, "zero_stage": 3}
    by_degrees = spec_from_mapping(tables)
    tables["layout"] = {"strategy": "fsdp x tp", "num_devices": 4, "tensor_parallel": 2}
    assert by_degrees == spec_from_mapping(tables)


def test_hardware_and_config_are_relative_to_the_spec(tmp_path, monkeypatch):
    """Files that a spec names are found beside it, wherever the reader stands."""
    folder = tmp_path / "models"
    folder.mkdir()
    source = EXAMPLES / "bert-base-uncased" / "config.json"
    (folder / "config.json").write_bytes(source.read_bytes())
    (tmp_path / "run.toml").write_text(
        '[model]\nconfig = "models"\n[recipe]\nbatch_size = 1\nseq_len = 8\nsteps = 1\nprecision = "fp16"\n'
        '[hardware]\ngpu = "t4"\n'
    )
    monkeypatch.chdir("/")
    assert read_spec(tmp_path / "run.toml").architecture.num_layers == 12
    assert read_tables(tmp_path / "run.toml")["model"]["config"] == str(folder.resolve())
    (folder / "config.json").write_text("{")
    with pytest.raises(FileError, match=r"run\.toml: \[model\]: config: .*config\.json"):
        read_spec(tmp_path / "run.toml")


@pytest.mark.parametrize(
    "content", [b"[recipe", b"name = 1 2", b"\xff\xfe", b"a = " + b"[" * 100000, b"n = " + b"1" * 5000, b"a = 1\na = 2"]
)
def test_files_that_are_no_toml(tmp_path, content):
    """A file that is no TOML is one line that names it."""
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    with pytest.raises(FileError) as caught:
        read_spec(path)
    assert str(caught.value).startswith(f"{path}: not a TOML file")
    assert "\n" not in str(caught.value)


def test_file_that_is_not_there(tmp_path):
    """A missing file is said to be missing."""
    with pytest.raises(FileError, match=r"none\.toml: cannot read the file"):
        read_spec(tmp_path / "none.toml")


def test_architecture_in_full_is_checked(tables, spec):
    """A slip in an architecture written out in full is named, in the model and in its stacks."""
    whole = spec_to_mapping(spec)["model"]["architecture"]
    for place, value in (("hiden_size", 768), ("hidden_size", "wide"), ("stacks", []), ("stacks", 3)):
        tables["model"] = {"architecture": {**whole, place: value}}
        with pytest.raises(WattlawError, match="architecture"):
            spec_from_mapping(tables)
    tables["model"] = {"architecture": {**whole, "stacks": [{**whole["stacks"][0], "num_layer": 3}]}}
    with pytest.raises(UnknownNameError, match=r"stacks\[0\].num_layer.*num_layers"):
        spec_from_mapping(tables)


_junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["single", "tp"]),
    lambda part: st.lists(part, max_size=2) | st.dictionaries(st.text(max_size=4), part, max_size=2),
    max_leaves=4,
)
_keys = st.sampled_from(
    [
        ("recipe", "batch_size"), ("recipe", "seq_len"), ("recipe", "padded_len"), ("recipe", "samples"),
        ("recipe", "epochs"), ("recipe", "precision"), ("recipe", "evaluation_fraction"), ("recipe", "new"),
        ("model", "preset"), ("model", "head"), ("model", "num_labels"), ("model", "architecture"),
        ("model", "family"), ("hardware", "gpu"), ("hardware", "node"), ("hardware", "power_limit_w"),
        ("layout", "strategy"), ("layout", "num_devices"), ("layout", "tensor_parallel"), ("layout", "zero_stage"),
        ("layout", "num_nodes"), ("layout", "data_parallel"), ("layout", "pipeline_parallel"),
        ("layout", "pipeline_interleaving"), ("layout", "sequence_parallel"),
    ]
)  # fmt: skip
_TABLES = {
    "model": {"preset": "bert-base-uncased"},
    "recipe": {"batch_size": 32, "seq_len": 128, "precision": "fp16", "samples": 67349},
    "hardware": {"gpu": "rtx-2080-ti"},
    "layout": {"strategy": "fsdp", "num_devices": 4},
}


@settings(max_examples=300)
@given(st.lists(st.tuples(_keys, _junk), min_size=1, max_size=3))
def test_any_value_builds_or_is_refused(changes):
    """Whatever a key holds, a spec is built or a ``WattlawError`` of one line is raised, and nothing else."""
    tables = copy.deepcopy(_TABLES)
    for (table, key), value in changes:
        tables[table][key] = value
    try:
        outcome = spec_from_mapping(tables)
    except WattlawError as error:
        outcome = str(error)
    assert isinstance(outcome, RunSpec) or "\n" not in outcome


@given(st.dictionaries(st.sampled_from(["name", "model", "recipe", "hardware", "layout", "x"]), _junk, max_size=5))
def test_any_tables_build_or_are_refused(mapping):
    """Whatever stands in place of tables is refused with a ``WattlawError``."""
    with pytest.raises(WattlawError):
        spec_from_mapping(mapping)


def test_family_defaults_are_the_preset(tables):
    """BERT-base by its sizes costs what BERT-base by its name does: only the name differs."""
    tables["model"] = {
        "family": "bert", "num_layers": 12, "hidden_size": 768, "num_heads": 12, "ffn_size": 3072,
        "vocab_size": 30522, "head": "classification",
    }  # fmt: skip
    by_sizes = spec_from_mapping(tables).architecture
    by_name = preset("bert-base-uncased", head="classification")
    assert (by_sizes.stacks, by_sizes.max_positions, by_sizes.pooler) == (
        by_name.stacks,
        by_name.max_positions,
        by_name.pooler,
    )


def test_tables_that_need_not_be_whole(tmp_path):
    """A file of some tables of a spec is read as it stands; a table that no spec has is an error."""
    path = tmp_path / "part.toml"
    path.write_text("[recipe]\nseq_len = 384\n", encoding="utf-8")
    assert read_tables(path) == {"recipe": {"seq_len": 384}}
    path.write_text("[recipes]\nseq_len = 384\n", encoding="utf-8")
    with pytest.raises(UnknownNameError, match=r"part\.toml: recipes: unknown table"):
        read_tables(path)


def test_zero_stage_must_be_one(tables):
    """A sharding stage that does not exist is refused, a fraction of one too."""
    for stage in (4, -1, 2.5):
        tables["layout"] = {"data_parallel": 4, "zero_stage": stage}
        with pytest.raises(ConfigError, match=rf"\[layout\].*zero_stage; given {stage}; allowed 0, 1, 2, 3"):
            spec_from_mapping(tables)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"layout": {"strategy": "ddp", "num_devices": 1e9, "num_nodes": 1.25e8}}, r"num_devices: more.*<= 10000000"),
        ({"hardware": {"gpu": "v100-pcie-16gb", "power_limit_w": 1.5}}, r"power_limit_w: a cap.*62\.5 to 250 W"),
        ({"recipe": {"batch_size": 1, "seq_len": 8, "steps": 1, "evaluation_fraction": 1e9}}, "evaluation_fraction"),
        ({"recipe": {"batch_size": 1, "seq_len": 8, "steps": 1, "grad_accumulation": 1e9}}, "grad_accumulation"),
    ],
)
def test_what_no_machine_room_holds_is_refused(changes, words):
    """Counts, caps and shares have bounds, with the field and what is allowed."""
    usual = {
        "model": {"preset": "bert-base-uncased"},
        "recipe": {"batch_size": 1, "seq_len": 8, "steps": 1, "precision": "fp16"},
        "hardware": {"gpu": "v100-pcie-16gb", "power_limit_w": 62.5},
        "layout": {"strategy": "ddp", "num_devices": 16},
    }
    assert spec_from_mapping(usual).layout.num_devices == 16
    changed = {**usual, **changes}
    changed["recipe"] = {"precision": "fp16", **changed["recipe"]}
    with pytest.raises(ConfigError, match=words):
        spec_from_mapping(changed)
