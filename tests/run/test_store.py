"""The store: whole records are never lost or merged."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace

import pytest

from wattlaw.errors import FileError, WattlawWarning
from wattlaw.run import RunRecord, append_record, append_records, read_records, read_stores, write_atomic
from wattlaw.run.store import records_in


def _named(*names):
    return tuple(RunRecord(record_id=name, notes="ä{}\\n", duration_s=1.5) for name in names)


def test_append_and_read(record, tmp_path):
    """Records are read back as they were written, in that order, over several calls."""
    path = tmp_path / "records.jsonl"
    others = tuple(replace(record, record_id=f"sweep:{index}") for index in range(2, 5))
    append_record(path, record)
    append_records(path, others)
    assert read_records(path) == (record, *others)


def test_one_line_each(record, tmp_path):
    """A record is one line, whatever its texts hold."""
    path = tmp_path / "records.jsonl"
    append_records(path, [record, record])
    assert path.read_bytes().count(b"\n") == 2


def test_every_byte(tmp_path):
    """A store cut at any byte gives exactly the whole records, and an append after that loses and merges none."""
    path = tmp_path / "records.jsonl"
    first = _named("a", "b", "c")
    append_records(path, first)
    whole = path.read_bytes()
    # The newline belongs to no record: one that lacks only it is whole.
    ends = [index for index, byte in enumerate(whole) if byte == ord("\n")]
    late, later = _named("late", "later")
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        kept = first[: sum(end <= size for end in ends)]
        is_torn = size > 0 and size not in ends and size - 1 not in ends
        for expected, added in ((kept, late), ((*kept, late), later), ((*kept, late, later), later)):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                assert read_records(path) == expected
            assert [one.category for one in caught] == [WattlawWarning] * is_torn
            append_record(path, added)
        assert path.read_bytes().startswith(whole[:size])


def test_torn_line_is_named(tmp_path):
    """The warning says which line was cut short."""
    path = tmp_path / "records.jsonl"
    append_records(path, _named("a", "b"))
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.warns(WattlawWarning, match=r"records\.jsonl: line 2: skipped"):
        read_records(path)


_WRITER = """
import itertools, sys
from wattlaw.run import RunRecord, append_record
for index in itertools.count(int(sys.argv[2])):
    append_record(sys.argv[1], RunRecord(record_id=str(index), notes="x" * 2000))
    print(index, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_killed_writers_lose_nothing(tmp_path):
    """A writer that is killed in the middle leaves every record that it reported, and the next one goes on."""
    path = tmp_path / "records.jsonl"
    reported = -1
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path), str(reported + 1)], stdout=subprocess.PIPE, text=True
        ) as writer:
            lines = [int(writer.stdout.readline()) for _ in range(5)]
            time.sleep(0.01)
            writer.send_signal(signal.SIGKILL)
            lines += [int(line) for line in writer.stdout.read().split("\n")[:-1]]
        assert writer.returncode == -signal.SIGKILL
        reported = lines[-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WattlawWarning)
        found = [int(record.record_id) for record in read_records(path)]
    # A record that was written but not reported is written again by the next writer.
    assert sorted(set(found)) == list(range(max(found) + 1))
    assert max(found) >= reported


def test_other_files_are_refused(tmp_path):
    """A file that is no store is an error that names the line, and is not read as an empty store."""
    path = tmp_path / "table.csv"
    path.write_text("gpu,energy\nT4,3\n")
    with pytest.raises(FileError, match=r"table\.csv: line 1: not a run record"):
        read_records(path)


def test_whole_lines_with_bad_fields_are_errors(tmp_path):
    """A line that is whole JSON but no record is an error with line and field, and not skipped."""
    path = tmp_path / "records.jsonl"
    append_records(path, _named("a", "b"))
    path.write_text(path.read_text().replace('"record_id":"b"', '"record_id":5'))
    with pytest.raises(FileError, match=r"records\.jsonl: line 2: record_id: not a text; given 5"):
        read_records(path)


def test_absent_store(tmp_path):
    """Reading a store that is not there says so."""
    with pytest.raises(FileError, match="cannot read records"):
        read_records(tmp_path / "none.jsonl")


def test_unwritable_store(tmp_path):
    """Writing where no file can be says so."""
    with pytest.raises(FileError, match="cannot add records"):
        append_record(tmp_path / "none" / "records.jsonl", RunRecord(record_id="x"))


def test_write_atomic(tmp_path):
    """A file is replaced as a whole, and nothing is left beside it."""
    path = tmp_path / "law.json"
    write_atomic(path, "old")
    write_atomic(path, "new\nä")
    assert path.read_text(encoding="utf-8") == "new\nä"
    assert list(tmp_path.iterdir()) == [path]


def test_write_atomic_keeps_the_old(tmp_path):
    """A write that fails leaves the old content, and nothing beside it."""
    path = tmp_path / "law.json"
    write_atomic(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomic(path, "\ud800")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileError, match="cannot write"):
        write_atomic(tmp_path / "none" / "law.json", "x")


def test_records_need_no_file(tmp_path, record):
    """The content of a store reads as the store does, and errors name the place that is given."""
    append_records(tmp_path / "a.jsonl", [record])
    content = (tmp_path / "a.jsonl").read_bytes()
    assert records_in(content, place="upload") == read_records(tmp_path / "a.jsonl")
    with pytest.raises(FileError, match="upload: line 2"):
        records_in(content + b'{"a": 1}\n', place="upload")


def test_one_indented_json_text_is_no_store(tmp_path):
    """A fitted law, say: one error, and no word about a record cut short before it."""
    path = tmp_path / "law.json"
    path.write_text('{\n  "format": "wattlaw calibration"\n}\n')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(FileError, match="one JSON text, not a record in each line"):
            read_records(path)


def test_a_run_counts_once(record, tmp_path):
    """Equal records of one or several stores are one, and how many were dropped is said."""
    path, other = tmp_path / "records.jsonl", tmp_path / "more.jsonl"
    append_records(path, [record] * 5)
    append_records(other, [record, *_named("b")])
    with pytest.warns(WattlawWarning, match=r"records\.jsonl: dropped records that stood there already, 4 times"):
        assert read_records(path) == (record,)
    with pytest.warns(WattlawWarning, match="5 times"):
        assert read_stores([path, other]) == (record, *_named("b"))
    with pytest.warns(WattlawWarning, match="once"):
        assert len(records_in(other.read_bytes() + other.read_bytes().splitlines(keepends=True)[0], place="x")) == 2


def test_two_records_of_one_name_name_both_lines(record, tmp_path):
    """Nobody knows which of them is the run: both places are told."""
    path, other = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    append_records(path, [*_named("x"), record])
    append_record(other, replace(record, duration_s=9.0))
    with pytest.raises(FileError, match=r"b\.jsonl: line 1: two records of one name.*a\.jsonl: line 2"):
        read_stores([path, other])
