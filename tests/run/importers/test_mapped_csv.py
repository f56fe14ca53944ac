"""Any CSV file with a column map."""

from __future__ import annotations

import pytest

from wattlaw.errors import FileError, UnknownNameError
from wattlaw.parallel.layout import Layout
from wattlaw.run.importers import import_csv

HEADER = ("gpu", "batch", "layers", "strategy", "gpus", "energy", "seconds", "context", "kind")
GOOD = ("Tesla T4", "8", "2", "FSDP", "2", "0.5", "60", "1", "train")
MAP = """
source = "a table"

[[skip]]
where = { kind = ["eval", "test"] }
reason = "not a training"

[[records]]
unless = { kind = "other" }
duration_s = { column = "seconds", unit = "min" }

[records.model]
family = { value = "bert" }
num_layers = "layers"
hidden_size = { value = 64 }
num_heads = { value = 2 }
ffn_size = { value = 128 }
vocab_size = { value = 1000 }
head = { value = "mlm" }

[records.recipe]
batch_size = "batch"
seq_len = { value = 128 }
grad_accumulation = { value = 1 }
precision = { value = "fp16", assumed = "usual" }
optimizer = { value = "adamw" }
checkpointing = { value = "none" }
attention_kernel = { value = "fused" }
steps = { value = 100 }

[records.hardware]
gpu = "gpu"

[records.layout]
strategy = { column = "strategy", map = { FSDP = "fsdp", Baseline = "single" } }
num_devices = "gpus"
num_nodes = { value = 1 }
context_parallel = "context"

[records.observed]
layers = "layers"

[records.environment]
kind = "kind"

[[records.energies]]
energy_j = { column = "energy", unit = "kWh" }
boundary = { value = "node" }
method = { value = "declared" }
"""


def _with(**cells):
    return tuple(cells.get(name, value) for name, value in zip(HEADER, GOOD, strict=True))


def test_worked_row(write_csv, write_map):
    """A row becomes a record in SI with everything that the map says of it, and what it assumes."""
    found = import_csv(write_csv(HEADER, GOOD), write_map(MAP))
    (record,) = found.records
    assert found.skipped == ()
    assert record.record_id == "table:2"
    assert record.spec.layout == Layout(data_parallel=2, zero_stage=3)
    assert (record.spec.architecture.num_layers, record.spec.recipe.batch_size) == (2, 8)
    assert record.spec.accelerator.name == "t4"
    assert record.duration_s == 3600.0
    assert record.energy("node").energy_j == 1.8e6
    assert record.assumed == ("recipe.precision",)
    assert (record.observed, record.environment, record.source) == ({"layers": 2}, {"kind": "train"}, "a table")


def test_a_pipeline_is_part_of_a_layout(write_csv, write_map):
    """A row that divides the layers over stages is a whole run; a flag of 0 is no missing number."""
    text = MAP.replace("context_parallel = ", "sequence_parallel = { value = 0 }\npipeline_parallel = ")
    text = text.replace('FSDP = "fsdp"', 'FSDP = "fsdp x pp"')
    found = import_csv(write_csv(HEADER, _with(context="2", gpus="4")), write_map(text))
    assert [one.spec.layout for one in found.records] == [Layout(data_parallel=2, pipeline_parallel=2, zero_stage=3)]


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"kind": "eval"}, "not a training"),
        ({"kind": "other"}, "no [[records]]"),
        ({"batch": "nan"}, "recipe.batch_size: column batch: not a finite number; given 'nan'"),
        ({"batch": "1_000"}, "recipe.batch_size: column batch: not a finite number"),
        ({"batch": "-8"}, "[recipe]: batch_size: must be a whole number; given -8"),
        ({"energy": "inf"}, "energies[0].energy_j: column energy: not a finite number"),
        ({"energy": "0"}, "energy_j: must be above zero; given 0"),
        ({"seconds": "0"}, "duration_s: must be above zero"),
        ({"gpu": "T5"}, "[hardware]: gpu: unknown accelerator; given 'T5'"),
        ({"strategy": "DDP"}, "layout.strategy: column strategy: unknown value; given 'DDP'"),
        ({"strategy": "Baseline"}, "[layout]: strategy single runs on one device"),
        ({"context": "4"}, "[layout]: context_parallel is given but the strategy has no cp; given fsdp"),
        ({"layers": "1.5"}, "num_layers must be a whole number; given 1.5"),
    ],
)
def test_rows_that_cannot_be_read(write_csv, write_map, cells, reason):
    """A row that cannot be read is skipped with its line and the reason, and the others are imported."""
    found = import_csv(write_csv(HEADER, GOOD, _with(**cells), GOOD), write_map(MAP))
    assert [record.record_id for record in found.records] == ["table:2", "table:4"]
    (skipped,) = found.skipped
    assert skipped.row == 3
    assert reason in skipped.reason
    assert "\n" not in skipped.reason


def test_rows_of_another_length(write_csv, write_map):
    """A row with too few or too many cells is skipped, because its cells cannot be told apart."""
    found = import_csv(write_csv(HEADER, GOOD[:-1], GOOD, (*GOOD, "x")), write_map(MAP))
    assert len(found.records) == 1
    assert [(one.row, one.reason.split(";")[0]) for one in found.skipped] == [(2, "8 cells"), (4, "10 cells")]


def test_what_a_row_lacks_stays_unknown(write_csv, write_map):
    """Empty cells leave the spec open, name what is missing, and keep what is stated; no energy is not 0."""
    found = import_csv(write_csv(HEADER, _with(batch="", energy="", seconds="", strategy="")), write_map(MAP))
    (record,) = found.records
    assert record.spec is None
    assert record.missing == ("recipe.batch_size", "layout.strategy")
    assert record.stated["hardware"] == {"gpu": "t4"}
    assert "batch_size" not in record.stated["recipe"]
    assert (record.duration_s, record.energies) == (None, ())


def test_the_user_may_fill_in(write_csv, write_map):
    """What a row does not state, the user may; it is marked as assumed, and may not contradict a row."""
    path = write_csv(HEADER, _with(batch=""), GOOD)
    found = import_csv(path, write_map(MAP), assumed={"recipe": {"batch_size": 16}})
    (record,) = found.records
    assert record.spec.recipe.batch_size == 16
    assert set(record.assumed) == {"recipe.precision", "recipe.batch_size"}
    (skipped,) = found.skipped
    assert (skipped.row, skipped.reason) == (3, "recipe.batch_size: the row and the spec disagree; given 8; allowed 16")


def test_missing_columns_are_found_first(write_csv, write_map):
    """A column that the file lacks is an error that names the map, the field in it and the nearest columns."""
    path, table = write_map(MAP), write_csv(HEADER[1:], GOOD[1:])
    with pytest.raises(UnknownNameError) as caught:
        import_csv(table, path)
    text = str(caught.value)
    assert text.startswith(f"{path}: records[0].hardware.gpu: unknown column of {table}; given 'gpu'")
    assert "gpus" in text


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "an empty file"),
        (b"\xff\xfe\x00", "not a CSV file"),
        (b'a,b\n"x', "not a CSV file"),
        (b"a,a\n1,2\n", "two columns have the same name"),
    ],
)
def test_files_that_are_no_tables(tmp_path, write_map, content, says):
    """A file that is no table is one line that names it."""
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(FileError, match=says) as caught:
        import_csv(path, write_map(MAP))
    assert str(caught.value).startswith(str(path))


def test_file_that_is_not_there(tmp_path, write_map):
    """A missing file is said to be missing."""
    with pytest.raises(FileError, match=r"none\.csv: cannot read the file"):
        import_csv(tmp_path / "none.csv", write_map(MAP))


def test_a_header_alone_is_no_error(write_csv, write_map):
    """A table without rows has no records."""
    found = import_csv(write_csv(HEADER), write_map(MAP))
    assert (found.records, found.skipped) == ((), ())


def test_energy_needs_its_boundary(write_csv, write_map):
    """An energy whose boundary a row does not state is an error: joules of nothing in particular say nothing."""
    text = MAP.replace('boundary = { value = "node" }', 'boundary = "kind"')
    found = import_csv(write_csv(HEADER, _with(kind=""), _with(kind="node")), write_map(text))
    assert [record.energy("node") is None for record in found.records] == [False]
    assert "without its boundary" in found.skipped[0].reason


@pytest.mark.parametrize(
    ("assumed", "says"),
    [({"recipes": {}}, "unknown table; given 'recipes'"), ({"recipe": {"seq_leng": 8}}, "seq_leng: unknown key")],
)
def test_unknown_names_of_the_user(write_csv, write_map, assumed, says):
    """A misspelt name among the user's values is an error of the whole import, and not ignored."""
    with pytest.raises(UnknownNameError, match=says):
        import_csv(write_csv(HEADER, GOOD), write_map(MAP), assumed=assumed)


def test_parts_are_checked(write_csv, write_map):
    """A row that does not state a whole run is not read with impossible numbers or unknown devices either."""
    rows = (_with(strategy="", batch="-1"), _with(strategy="", gpu="T5"))
    found = import_csv(write_csv(HEADER, *rows), write_map(MAP))
    assert found.records == ()
    assert "[recipe]: batch_size: must be above zero" in found.skipped[0].reason
    assert "unknown accelerator" in found.skipped[1].reason
