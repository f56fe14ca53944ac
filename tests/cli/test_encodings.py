"""Files as other editors save them: with a mark of the byte order, other line ends, another encoding."""

from __future__ import annotations

from codecs import BOM_UTF8
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFIG = (ROOT / "examples" / "bert-base-uncased" / "config.json").read_bytes()
LAW = (ROOT / "src" / "wattlaw" / "law" / "data" / "bundled" / "step.json").read_bytes()
SPEC = (
    b'[model]\nconfig = "config.json"\nhead = "classification"\n'
    b'[recipe]\nbatch_size = 8\nseq_len = 128\nprecision = "fp16"\nsteps = 10\n'
    b'[hardware]\ngpu = "t4"\n[layout]\nstrategy = "single"\n'
)
SAVED = {
    "mark": lambda content: BOM_UTF8 + content,
    "line ends": lambda content: content.replace(b"\n", b"\r\n"),
    "UTF-16": lambda content: content.decode().encode("utf-16"),
}


@pytest.fixture
def predicted(wattlaw, tmp_path):
    """Predict with the spec, the model's configuration and the law saved in some ways."""

    def run(*, spec=bytes, config=bytes, law=bytes):
        for name, content in (("run.toml", spec(SPEC)), ("config.json", config(CONFIG)), ("law.json", law(LAW))):
            (tmp_path / name).write_bytes(content)
        return wattlaw("predict", tmp_path / "run.toml", "--law", tmp_path / "law.json", "--json")

    return run


@pytest.mark.parametrize("file", ["spec", "config", "law"])
@pytest.mark.parametrize("saved", ["mark", "line ends"])
def test_a_mark_and_other_line_ends_change_nothing(predicted, file, saved):
    """What Windows editors add is not part of the text."""
    found = predicted(**{file: SAVED[saved]})
    assert (found.code, found.err) == (0, "")
    assert found.out == predicted().out


@pytest.mark.parametrize("file", ["spec", "config", "law"])
def test_another_encoding_is_named(predicted, file):
    """UTF-16 is refused in one line that says what to do."""
    found = predicted(**{file: SAVED["UTF-16"]})
    assert (found.code, found.out) == (2, "")
    assert "try saving it as UTF-8" in found.err


def test_records_with_a_mark_are_records(wattlaw, refused, tmp_path):
    """A store is read with the mark, and is named where it is of another encoding."""
    sample = (ROOT / "examples" / "cpu_sample" / "records.jsonl").read_bytes().split(b"\n")[:4]
    for name, saved in (("marked", "mark"), ("windows", "line ends"), ("other", "UTF-16")):
        (tmp_path / f"{name}.jsonl").write_bytes(SAVED[saved](b"\n".join(sample)))
    for name in ("marked", "windows"):
        assert wattlaw("fit", tmp_path / f"{name}.jsonl", "-o", tmp_path / f"{name}.json").code == 0
    refused("fit", tmp_path / "other.jsonl", "-o", tmp_path / "law.json", words=("line 1", "try saving it as UTF-8"))
