"""The store of run records: lines of JSON that are only ever appended, and survive a kill at any byte.

A record is one line, written by one call in append mode and forced to disk. When the writer is killed in the
middle, the file ends in part of a line: reading skips it with a warning, and the next append starts on a fresh
line, so that whole records are neither lost nor merged. Nothing in a store is ever rewritten.
"""

from __future__ import annotations

import json
import os
import warnings
from codecs import BOM_UTF8
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from wattlaw.errors import DataError, FileError, WattlawError, WattlawWarning, encoding_hint
from wattlaw.run.files import sync_folder
from wattlaw.run.record import RunRecord, record_from_mapping, record_to_mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: A record, and the file and line that it stands in.
Placed: TypeAlias = "tuple[str, RunRecord]"

#: How every line starts, as ``record_to_mapping`` puts the schema first: a line that does not parse is a torn
#: record if it starts like this, and otherwise not ours.
LINE_START = b'{"schema":'


def append_record(path: str | Path, record: RunRecord) -> None:
    """Add one record to the store at ``path``, which is made where it is absent, and force it to disk."""
    append_records(path, [record])


def append_records(path: str | Path, records: Iterable[RunRecord]) -> None:
    """Add records to the store at ``path``, one write each, and force them to disk.

    Raises:
        FileError: the file cannot be written, or the disk is full; records written before that are kept.
    """
    path = Path(path)
    lines = [msgspec.json.encode(record_to_mapping(record)) + b"\n" for record in records]
    is_new = not path.exists()
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        try:
            start = b"\n" if _ends_inside_a_line(descriptor) else b""
            for line in lines:
                data = start + line
                if os.write(descriptor, data) != len(data):
                    raise FileError("the record was not written whole, the disk may be full").at(path)
                start = b""
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if is_new:
            sync_folder(path.parent)
    except OSError as error:
        raise FileError("cannot add records", given=error.strerror).at(path) from error


def read_records(path: str | Path) -> tuple[RunRecord, ...]:
    """Read every whole record of the store at ``path``, in the order of writing.

    Warns:
        WattlawWarning: a line was cut short by a kill, and skipped; the line is named. Or a record stands there several
            times, and is taken once.

    Raises:
        FileError: the file cannot be read, a line is whole but no record (line and field are named), or two records
            have one name (both lines are).
    """
    return read_stores([path])


def records_in(content: bytes, *, place: str) -> tuple[RunRecord, ...]:
    """Read the records of a store that is not a file, such as an upload; ``place`` names it in errors.

    Warns, Raises:
        as ``read_records``.
    """
    return _each_once(_records(place, content))


def read_stores(paths: Iterable[str | Path]) -> tuple[RunRecord, ...]:
    """Read the records of several stores, in order; a folder stands for the stores (``*.jsonl``) in it.

    A run counts once, however often its record stands there: an earlier merge, or one file given twice.

    Warns, Raises:
        as ``read_records``; or a folder holds no store.
    """
    found: list[Placed] = []
    for path in map(Path, paths):
        stores = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not stores:
            raise FileError("no records in this folder", given="no *.jsonl file").at(path)
        for store in stores:
            found += _records(store, _content(store))
    return _each_once(found)


def add_new_records(path: str | Path, records: Sequence[RunRecord]) -> int:
    """Add the records that the store does not hold yet, and return how many these are.

    Raises:
        DataError: the store holds another record under the same id; nothing is added.
        FileError: the store cannot be read or written, or the file is none: it is not empty, and starts with no record.
    """
    content = _content(Path(path)).removeprefix(BOM_UTF8) if Path(path).exists() else b""
    if content and not content.startswith(LINE_START):
        raise FileError(
            "not a store of records, and left as it is",
            given=f"it starts with {_start_of(content)!r}",
            allowed="a new or empty file, or one that starts with a record",
        ).at(path)
    known = {record.record_id: record for record in records_in(content, place=str(path))}
    for record in records:
        if known.get(record.record_id, record) != record:
            raise DataError(
                "the store holds another record of the same name",
                given=record.record_id,
                hint="another output file",
            ).at(path)
    fresh = [record for record in records if record.record_id not in known]
    append_records(path, fresh)
    return len(fresh)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileError("cannot read records", given=error.strerror).at(path) from error


def _each_once(found: Iterable[Placed]) -> tuple[RunRecord, ...]:
    """Drop records that stand there already, and say how many; two of one name that differ are an error."""
    places: dict[str, str] = {}
    kept: dict[str, RunRecord] = {}
    num_dropped = 0
    for place, record in found:
        name = record.record_id
        if name not in kept:
            kept[name], places[name] = record, place
        elif kept[name] == record:
            num_dropped += 1
        else:
            raise FileError(
                "two records of one name that differ", given=f"{name} here and in {places[name]}", allowed="one of them"
            ).at(place)
    if num_dropped:
        times = "once" if num_dropped == 1 else f"{num_dropped} times"
        warnings.warn(
            f"{next(iter(places.values())).rpartition(': ')[0]}: dropped records that stood there already, {times}",
            WattlawWarning,
            stacklevel=3,
        )
    return tuple(kept.values())


def _records(path: str | Path, content: bytes) -> Iterator[Placed]:
    content = content.removeprefix(BOM_UTF8)
    if content.startswith((b"{\n ", b"{\r\n ")):  # a torn record is followed by a whole one, not by an indented line
        raise FileError("one JSON text, not a record in each line", hint="'wattlaw import'").at(path)
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        place = f"{path}: line {number}"
        try:
            mapping = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if not (line.startswith(LINE_START) or LINE_START.startswith(line)):
                hint = encoding_hint(content) or "'wattlaw import'"
                raise FileError("not a run record", given=_start_of(line), hint=hint).at(place) from error
            mapping = _whole_but_not_finite(line)
            if mapping is None:
                warnings.warn(
                    f"{place}: skipped a record that was cut short while it was written", WattlawWarning, stacklevel=3
                )
                continue
        try:
            yield place, record_from_mapping(mapping)
        except WattlawError as error:
            error.at(place)
            raise


def _whole_but_not_finite(line: bytes) -> object:
    """Read a line with NaN or a number beyond any float in it, which JSON has not, so that the field can be named."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _ends_inside_a_line(descriptor: int) -> bool:
    if os.lseek(descriptor, 0, os.SEEK_END) == 0:
        return False
    os.lseek(descriptor, -1, os.SEEK_END)
    return os.read(descriptor, 1) != b"\n"


def _start_of(line: bytes) -> str:
    return line[:40].decode("utf-8", errors="replace")
