"""Data files: TOML tables to checked values.

The layout of a file is written down once, as the classes below. Every figure is a table of its ``value`` and the
key of its ``source``; a figure that names no source of the file, or an unknown key anywhere, is an error that says
where.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar, get_args, get_type_hints

import msgspec

from wattlaw.errors import ConfigError, FileError, UnknownNameError
from wattlaw.hardware.accelerator import Accelerator, Peak, Unit
from wattlaw.hardware.link import Link
from wattlaw.hardware.node import NodeType
from wattlaw.hardware.source import Basis, Source

if TYPE_CHECKING:
    from pathlib import Path

# The upper bound is there to refuse infinity, which TOML can write.
_Positive = Annotated[float, msgspec.Meta(gt=0, lt=1e30)]
_Count = Annotated[int, msgspec.Meta(ge=1)]
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    pass


class _Figure(_Table):
    value: _Positive
    source: _Text


class _SourceTable(_Table):
    title: _Text
    publisher: str = ""
    date: str = ""
    url: str = ""
    basis: Basis = "document"


class _RatesTable(_Table):
    fp32_flop_per_s: _Figure | None = None
    tf32_flop_per_s: _Figure | None = None
    bf16_flop_per_s: _Figure | None = None
    fp16_flop_per_s: _Figure | None = None
    fp8_flop_per_s: _Figure | None = None
    fp16_accumulate_fp16_flop_per_s: _Figure | None = None


class _PeakTable(_Table):
    matrix: _RatesTable = msgspec.field(default_factory=_RatesTable)
    vector: _RatesTable = msgspec.field(default_factory=_RatesTable)


class _MemoryTable(_Table):
    capacity_bytes: _Figure
    bandwidth_bytes_per_s: _Figure


class _PowerTable(_Table):
    limit_w: _Figure


class _LinkTable(_Table):
    kind: _Text
    bytes_per_s: _Figure


class _BridgeTable(_LinkTable):
    num_devices: _Count


class _AcceleratorTable(_Table):
    full_name: _Text
    vendor: _Text
    peak: _PeakTable
    memory: _MemoryTable
    power: _PowerTable
    link: _LinkTable
    sources: dict[str, dict[str, object]]
    bridge: _BridgeTable | None = None
    architecture: str = ""
    form_factor: str = ""
    year: int = 0
    aliases: tuple[_Text, ...] = ()
    notes: str = ""


class _HostPowerTable(_Table):
    host_w: _Figure
    host_idle_w: _Figure
    rated_w: _Figure | None = None


class _NodeTable(_Table):
    full_name: _Text
    accelerators_per_node: _Count
    power: _HostPowerTable
    inter_node_link: _LinkTable
    sources: dict[str, dict[str, object]]
    intra_node_link: _LinkTable | None = None
    accelerators: tuple[_Text, ...] = ()
    aliases: tuple[_Text, ...] = ()
    notes: str = ""


class _LinkKindTable(_Table):
    full_name: _Text
    bytes_per_s: _Figure
    latency_s: _Figure


class _LinksTable(_Table):
    links: dict[str, _LinkKindTable]
    sources: dict[str, dict[str, object]]


_FileT = TypeVar("_FileT", _AcceleratorTable, _NodeTable, _LinksTable)


def read_accelerator(path: Path, kinds: dict[str, Link], *, shipped: bool = False) -> Accelerator:
    """Read the data file of one accelerator, named by the file's stem.

    Args:
        path: of the TOML file.
        kinds: known links by kind, from ``read_links``.
        shipped: whether the file is part of wattlaw; the path of others is kept.

    Raises:
        FileError: not readable, not TOML, or not such a file; names the file and the field.
    """
    table = _read(path, _AcceleratorTable)
    try:
        cited = _cited(table)
        bridge = table.bridge
        return Accelerator(
            name=path.stem,
            peaks=_peaks(table.peak),
            memory_bytes=table.memory.capacity_bytes.value,
            bandwidth_bytes_per_s=table.memory.bandwidth_bytes_per_s.value,
            power_limit_w=table.power.limit_w.value,
            link=_link(table.link, kinds, "link"),
            bridge=_link(bridge, kinds, "bridge") if bridge else None,
            bridge_num_devices=bridge.num_devices if bridge else None,
            full_name=table.full_name,
            vendor=table.vendor,
            architecture=table.architecture,
            form_factor=table.form_factor,
            year=table.year,
            aliases=table.aliases,
            notes=table.notes,
            cited=cited,
            sources=_sources(table.sources),
            file="" if shipped else str(path),
        )
    except (ConfigError, FileError, UnknownNameError) as error:
        raise _file_error(error, path) from error


def read_node_type(path: Path, kinds: dict[str, Link], *, shipped: bool = False) -> NodeType:
    """Read the data file of one node type, named by the file's stem.

    Args:
        path: of the TOML file.
        kinds: known links by kind, from ``read_links``.
        shipped: whether the file is part of wattlaw; the path of others is kept.

    Raises:
        FileError: not readable, not TOML, or not such a file; names the file and the field.
    """
    table = _read(path, _NodeTable)
    try:
        inside, rated = table.intra_node_link, table.power.rated_w
        return NodeType(
            name=path.stem,
            accelerators_per_node=table.accelerators_per_node,
            inter_node_link=_link(table.inter_node_link, kinds, "inter_node_link"),
            host_power_w=table.power.host_w.value,
            host_idle_power_w=table.power.host_idle_w.value,
            rated_power_w=rated.value if rated else None,
            intra_node_link=_link(inside, kinds, "intra_node_link") if inside else None,
            accelerators=table.accelerators,
            full_name=table.full_name,
            aliases=table.aliases,
            notes=table.notes,
            cited=_cited(table),
            sources=_sources(table.sources),
            file="" if shipped else str(path),
        )
    except (ConfigError, FileError, UnknownNameError) as error:
        raise _file_error(error, path) from error


def read_links(path: Path) -> dict[str, Link]:
    """Read the file of link kinds: one link or port of each, by kind.

    Raises:
        FileError: not readable, not TOML, or not such a file; names the file and the field.
    """
    table = _read(path, _LinksTable)
    try:
        _cited(table)
        _sources(table.sources)
    except FileError as error:
        raise error.at(path) from error
    return {
        kind: Link(kind=kind, bytes_per_s=row.bytes_per_s.value, latency_s=row.latency_s.value, full_name=row.full_name)
        for kind, row in table.links.items()
    }


def read_aliases(path: Path) -> tuple[str, ...]:
    """The aliases in a shipped data file, without reading its figures.

    They stand before the first table, which is all that is parsed: an index over all files costs a tenth of
    reading them.
    """
    head, _, _ = path.read_text(encoding="utf-8").partition("\n[")
    return tuple(tomllib.loads(head).get("aliases", ()))


def _read(path: Path, kind: type[_FileT]) -> _FileT:
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError("cannot be read", given=error.strerror or error, hint="the path of a TOML file").at(
            path
        ) from error
    except (ValueError, RecursionError) as error:  # of the decoder, of the TOML, or of a name that is no path
        raise FileError("is not TOML", given=error).at(path) from error
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise _schema_error(str(error), raw, kind).at(path) from error


def _schema_error(message: str, raw: object, kind: type[msgspec.Struct]) -> FileError:
    """Turn ``Object ... - at `$.place` `` into an error there, with the keys that are allowed for an unknown one."""
    what, _, place = message.partition(" - at `$")
    field = place.rstrip("`").lstrip(".")
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", what):
        keys = _keys_at(field, kind)
        nearest = difflib.get_close_matches(unknown[1], keys, n=3, cutoff=0.6)
        result = FileError("unknown key", given=unknown[1], allowed=", ".join(nearest or keys))
    elif missing := re.fullmatch(r"Object missing required field `(.*)`", what):
        result = FileError("key is missing", allowed=missing[1])
    else:
        result = FileError(what[:1].lower() + what[1:], given=_value_at(field, raw))
    return result.at(field) if field else result


def _value_at(field: str, raw: object) -> object:
    for part in filter(None, field.split(".")):
        raw = raw.get(part) if isinstance(raw, dict) else None
    return raw


def _keys_at(field: str, kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """The keys of the table at ``field`` in a file of this kind."""
    for part in filter(None, field.split(".")):
        annotation = get_type_hints(kind).get(part)
        tables = [each for each in (annotation, *get_args(annotation)) if isinstance(each, type)]
        kind = next((table for table in tables if issubclass(table, msgspec.Struct)), kind)
    return kind.__struct_fields__


def _file_error(error: ConfigError | FileError | UnknownNameError, path: Path) -> FileError:
    """The same message as the error of a file: what a value refuses is, here, a file to repair."""
    return FileError(error.attempted, given=error.given, allowed=error.allowed, hint=error.hint, place=error.place).at(
        path
    )


def _peaks(table: _PeakTable) -> tuple[Peak, ...]:
    peaks = []
    units: tuple[tuple[Unit, _RatesTable], ...] = (("matrix", table.matrix), ("vector", table.vector))
    for unit, rates in units:
        for field in rates.__struct_fields__:
            figure = getattr(rates, field)
            if figure is not None:
                precision, accumulate_fp16, _ = re.split(r"(_accumulate_fp16)?_flop_per_s", field)
                accumulation: Literal["fp32", "fp16"] = "fp16" if accumulate_fp16 else "fp32"
                peaks.append(Peak(unit=unit, precision=precision, flop_per_s=figure.value, accumulation=accumulation))
    if not peaks:
        raise FileError("no rate is given", allowed="peak.matrix.fp16_flop_per_s and others").at("peak")
    return tuple(peaks)


def _link(table: _LinkTable, kinds: dict[str, Link], field: str) -> Link:
    if table.kind not in kinds:
        raise UnknownNameError.among("kind of link", table.kind, kinds).at(f"{field}.kind")
    kind = kinds[table.kind]
    return Link(kind=kind.kind, bytes_per_s=table.bytes_per_s.value, latency_s=kind.latency_s, full_name=kind.full_name)


def _sources(tables: dict[str, dict[str, object]]) -> tuple[Source, ...]:
    sources = []
    for key, table in tables.items():
        try:
            row = msgspec.convert(table, _SourceTable)
        except msgspec.ValidationError as error:
            raise _schema_error(str(error), table, _SourceTable).at(f"sources.{key}") from error
        sources.append(
            Source(key=key, title=row.title, publisher=row.publisher, date=row.date, url=row.url, basis=row.basis)
        )
    return tuple(sources)


def _cited(table: _AcceleratorTable | _NodeTable | _LinksTable) -> tuple[tuple[str, str], ...]:
    """Each figure's field and source key; a key that the file does not describe is an error."""
    cited = tuple(_figures(table, ""))
    for field, key in cited:
        if key not in table.sources:
            raise FileError(
                "unknown source", given=key, allowed=", ".join(sorted(table.sources)) or None, hint=f"[sources.{key}]"
            ).at(f"{field}.source")
    return cited


def _figures(value: object, prefix: str) -> list[tuple[str, str]]:
    if isinstance(value, _Figure):
        return [(prefix, value.source)]
    if isinstance(value, msgspec.Struct):
        items = [(field, getattr(value, field)) for field in value.__struct_fields__]
    elif isinstance(value, dict):
        items = list(value.items())
    else:
        return []
    return [
        figure for field, inner in items for figure in _figures(inner, f"{prefix}.{field}" if prefix else str(field))
    ]
