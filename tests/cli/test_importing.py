"""``wattlaw import``: what becomes of every row."""

from __future__ import annotations

import json

import pytest

from wattlaw.run.importers import shipped_map
from wattlaw.run.store import read_records

HEAD = (
    "source_row,gpu_model,family,strategy,num_gpus,num_layers,hidden_size,num_heads,ffn_size,batch_size,max_seq_len,"
    "observed_seq_len,grad_accum,task,precision,num_epochs,num_source_runs,tokens_seen,duration_s,energy_kwh,"
    "single_gpu_duration_s,memory_proxy"
)
ROWS = [
    f"{row},NVIDIA A100-SXM4-40GB,gpt,single,1,10,640,10,2560,8,64,64,8,wikitext,fp16,3.0,1,1970304.0,{row}.5,0.0038,"
    f"{row}.5,3276800"
    for row in range(20, 24)
]


@pytest.fixture
def table(tmp_path):
    """Write a CSV file of the public table's columns."""

    def write(*rows, head=HEAD):
        path = tmp_path / "table.csv"
        path.write_text("\n".join([head, *rows]) + "\n")
        return path

    return write


def test_rows_become_records_and_the_rest_is_counted(wattlaw, table, tmp_path):
    """Rows that cannot be read are skipped with the reason, and an import can be repeated."""
    store = tmp_path / "records.jsonl"
    path = table(*ROWS, ROWS[0].replace("20.5", "nan"), ROWS[1][:-30])
    command = ("import", "csv", path, "--columns", shipped_map("bert_gpt_multi_gpu"), "-o", store, "--json")
    said = json.loads(wattlaw(*command).out)
    assert (said["records"], said["added"], said["skipped"], said["without_spec"]) == (4, 4, 2, 0)
    assert any("nan" in reason["reason"] for reason in said["reasons"])
    assert len(read_records(store)) == 4
    before = store.read_bytes()
    again = wattlaw("import", "csv", path, "--columns", "bert_gpt_multi_gpu", "-o", store)
    assert "0 records added, 4 already there" in again.out
    assert "2 rows skipped" in again.out
    assert store.read_bytes() == before


def test_what_keeps_records_from_a_law_is_named(wattlaw, table, tmp_path):
    """A map that leaves fields out says which, so that they can be added to it."""
    columns = tmp_path / "columns.toml"
    columns.write_text(
        'source = "a table"\n[[records]]\nrecord_id = "source_row"\n[records.recipe]\nbatch_size = "batch_size"\n'
    )
    command = ("import", "csv", table(*ROWS), "--columns", columns, "-o", tmp_path / "records.jsonl")
    said = wattlaw(*command)
    assert "4 do not state a whole run" in said.out
    assert "missing: recipe.seq_len, recipe.grad_accumulation" in said.out
    assert {"rows": 4, "field": "hardware.gpu"} in json.loads(wattlaw(*command, "--json").out)["missing"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["empty file"]),
        (bytes(range(256)), ["not a CSV file"]),
        (HEAD.encode(), ["a header and no row"]),
        (b"a,a\n1,2\n", ["same name"]),
        (b"a,b\n1,2\n", ["table.csv", "'family'"]),
        (b'a,b\n"1,2\n', ["not a CSV file"]),
        ((HEAD + "\n" + ROWS[0].replace("A100-SXM4", "A1000")).encode(), ["line 2", "A1000"]),
    ],
)
def test_a_file_of_which_nothing_can_be_read_is_refused(refused, tmp_path, content, words):
    """The file is named, and no store is made."""
    path, store = tmp_path / "table.csv", tmp_path / "records.jsonl"
    path.write_bytes(content)
    refused("import", "csv", path, "--columns", "bert_gpt_multi_gpu", "-o", store, words=["table.csv", *words])
    assert not store.exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["[[records]]"]),
        ("[[records]]\nx = 1", ["records[0]", "x"]),
        ("source = 'x", ["TOML"]),
        ("[[records]]\nduraton_s = 'duration_s'", ["duraton_s", "duration_s"]),
    ],
)
def test_a_bad_map_is_named_with_its_field(refused, table, tmp_path, content, words):
    """Whether its name ends in .toml or not."""
    for name in ("map.toml", "columns"):
        path = tmp_path / name
        path.write_text(content)
        line = refused("import", "csv", table(*ROWS), "--columns", path, "-o", tmp_path / "x.jsonl", words=words)
        assert str(path) in line


def test_files_that_are_not_there_are_named(refused, table, tmp_path):
    """The table, the map, the spec, the folder of the store."""
    good, store = table(*ROWS), tmp_path / "x.jsonl"
    refused("import", "csv", "missing.csv", "--columns", "bert_gpt_multi_gpu", "-o", store, words=["missing.csv"])
    refused("import", "csv", good, "--columns", "bert_gpt", "-o", store, words=["bert_gpt_multi_gpu"])
    refused("import", "csv", good, "--columns", "missing.toml", "-o", store, words=["missing.toml"])
    refused("import", "csv", good, "--columns", "step_times", "-o", "nowhere/x.jsonl", words=["mkdir nowhere"])
    refused("import", "codecarbon", good, "--spec", "missing.toml", "-o", store, words=["missing.toml"])
    refused("import", "zeus", good, "-o", store, words=["table.csv", "not a trace of Zeus"])
    refused("import", "authors", good, "-o", store, words=["table.csv"])


@pytest.mark.parametrize("content", ["hello\n", "{", '{"format": "wattlaw calibration"}\n', "\n"])
def test_records_are_not_added_to_a_file_that_is_no_store(refused, table, tmp_path, content):
    """It stays as it is, also where it begins as a record would."""
    other = tmp_path / "notes.txt"
    other.write_text(content)
    command = ("import", "csv", table(*ROWS), "--columns", "bert_gpt_multi_gpu", "-o", other)
    refused(*command, words=["notes.txt", "starts with a record"])
    assert other.read_text() == content


def test_an_ambiguous_name_means_what_the_user_says(wattlaw, refused, table, tmp_path):
    """A row whose GPU could be several is skipped; with --gpu it is a record that says what was assumed."""
    store = tmp_path / "records.jsonl"
    rows = [row.replace("NVIDIA A100-SXM4-40GB", "V100") for row in ROWS]
    command = ("import", "csv", table(ROWS[0], *rows[1:]), "--columns", "bert_gpt_multi_gpu", "-o", store)
    assert "3 rows skipped" in wattlaw(*command).out
    wattlaw(*command, "--gpu", "v100=v100-sxm2-32gb")
    first, *others = read_records(store)
    assert (first.spec.accelerator.name, "hardware.gpu" in first.assumed) == ("a100-sxm4-40gb", False)
    assert {one.spec.accelerator.name for one in others} == {"v100-sxm2-32gb"}
    assert all("hardware.gpu" in one.assumed for one in others)
    refused(*command, "--gpu", "P100=p100-pcie-16gb", words=["unknown GPU", "'P100'", "V100"])
    refused(*command, "--gpu", "V100=a1000", words=["unknown accelerator", "a1000"])
    refused(*command, "--gpu", "V100", words=["--gpu", "NAME=ACCELERATOR"])
    refused(*command, "--gpu", "V100=t4", "--gpu", "V100=l4", words=["--gpu", "two meanings"])


def test_the_commands_of_the_readme_from_table_to_verdict(wattlaw, shared_data, tmp_path):
    """Import the public table, fit, predict with the law, judge it: each line as it is written."""
    records, law = tmp_path / "records.jsonl", tmp_path / "law.json"
    columns = shipped_map("bert_gpt_multi_gpu")
    table = shared_data / "bert_gpt_multi_gpu.csv"
    assert wattlaw("import", "csv", table, "--columns", columns, "-o", records).code == 0
    lines = records.read_text().splitlines(keepends=True)
    assert len(lines) == 518
    records.write_text("".join(lines[::6]))
    assert wattlaw("fit", records, "--law", "step", "-o", law).code == 0
    run = "examples/bert-base-sst2.toml"
    spec = next(folder / run for folder in columns.parents if (folder / run).exists())
    assert wattlaw("predict", spec, "--law", law).code == 0
    found = wattlaw("evaluate", records, *["--law", "step", "--protocol", "grouped", "--splits", "2", "--json"])
    assert json.loads(found.out)["metrics"]["r2_log"]["median"] > 0.97
