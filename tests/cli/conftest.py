"""The command line in this process, and small files for it."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

import pytest

from wattlaw.cli import main
from wattlaw.run import append_records


@dataclass(frozen=True)
class Result:
    """What a command line left: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


@pytest.fixture
def wattlaw(monkeypatch, capsys):
    """Run ``wattlaw`` with some arguments."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["wattlaw", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as leaving:
            main()
        found = capsys.readouterr()
        return Result(code=leaving.value.code, out=found.out, err=found.err)

    return run


@pytest.fixture
def refused(wattlaw):
    """Run ``wattlaw`` with bad input: exit code 2, nothing on standard output, one line that holds all the words."""

    def run(*arguments, words=()):
        found = wattlaw(*arguments)
        assert (found.code, found.out) == (2, ""), found
        assert found.err.startswith("wattlaw: "), found.err
        assert found.err.count("\n") == 1, found.err
        assert "Traceback" not in found.err
        for word in words:
            assert word in found.err, f"{word} is not in {found.err}"
        return found.err

    return run


@pytest.fixture
def run_options():
    """Options that describe a run."""
    return (
        "--model=bert-base-uncased",
        "--gpu=a100-sxm4-40gb",
        "--batch-size=32",
        "--seq-len=128",
        "--steps=100",
    )


@pytest.fixture
def store(tmp_path, records):
    """The forty runs in a store."""
    path = tmp_path / "records.jsonl"
    append_records(path, records)
    return path


@pytest.fixture
def store_of(tmp_path, records):
    """Write a store of records that are changed by a function; ``None`` leaves one out."""

    def write(change, name="changed.jsonl"):
        path = tmp_path / name
        append_records(path, [changed for record in records if (changed := change(record)) is not None])
        return path

    return write


@pytest.fixture
def change():
    """Change fields of a record."""
    return replace
