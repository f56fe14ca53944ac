"""Data files: TOML tables to checked values.

Every figure is a table of its ``value`` and the key of its ``source``; a figure that names no source of the file, or an
unknown key anywhere, is an error that says where. ``tables`` has the layout.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeVar, get_args, get_type_hints

import msgspec

from wattlaw.errors import ConfigError, FileError, UnknownNameError, encoding_hint
from wattlaw.hardware.accelerator import Accelerator, Peak, Unit
from wattlaw.hardware.embodied import HOURS_PER_YEAR, Embodied
from wattlaw.hardware.link import Link
from wattlaw.hardware.node import NodeType
from wattlaw.hardware.region import Region
from wattlaw.hardware.source import Source
from wattlaw.hardware.tables import (
    AcceleratorTable,
    EmbodiedTable,
    Figure,
    FileTable,
    LinksTable,
    LinkTable,
    NodeTable,
    PeakTable,
    RatesTable,
    RegionsTable,
    SourceTable,
)

if TYPE_CHECKING:
    from pathlib import Path

FileT = TypeVar("FileT", bound=FileTable)


def read_accelerator(path: Path, kinds: dict[str, Link], *, shipped: bool = False) -> Accelerator:
    """Read the data file of one accelerator, named by the file's stem.

    Args:
        path: of the TOML file.
        kinds: known links by kind, from ``read_links``.
        shipped: whether the file is part of wattlaw; the path of others is kept.

    Raises:
        FileError: not readable, not TOML, or not such a file; names the file and the field.
    """
    table = _read(path, AcceleratorTable)
    bridge = table.bridge
    with _about(path):
        return Accelerator(
            name=path.stem,
            peaks=_peaks(table.peak),
            memory_bytes=table.memory.capacity_bytes.value,
            bandwidth_bytes_per_s=table.memory.bandwidth_bytes_per_s.value,
            power_limit_w=table.power.limit_w.value,
            includes_host=table.power.includes_host,
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
            cited=_cited(table),
            sources=_sources(table.sources),
            file="" if shipped else str(path),
        )


def read_node_type(path: Path, kinds: dict[str, Link], *, shipped: bool = False) -> NodeType:
    """Read the data file of one node type, named by the file's stem.

    Args:
        path: of the TOML file.
        kinds: known links by kind, from ``read_links``.
        shipped: whether the file is part of wattlaw; the path of others is kept.

    Raises:
        FileError: not readable, not TOML, or not such a file; names the file and the field.
    """
    table = _read(path, NodeTable)
    inside, rated = table.intra_node_link, table.power.rated_w
    with _about(path):
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


def read_links(path: Path) -> dict[str, Link]:
    """Read the file of link kinds: one link or port of each, by kind.

    Raises:
        FileError: not readable, not TOML, or not such a file; names the file and the field.
    """
    table = _read(path, LinksTable)
    _cited_sources(table, path)
    return {
        kind: Link(kind=kind, bytes_per_s=row.bytes_per_s.value, latency_s=row.latency_s.value, full_name=row.full_name)
        for kind, row in table.links.items()
    }


def read_regions(path: Path) -> dict[str, Region]:
    """Read the file of regions, by code.

    Raises:
        FileError: not readable, not TOML, or not such a file; names the file and the field.
    """
    table = _read(path, RegionsTable)
    sources = _cited_sources(table, path)
    return {
        code: Region(
            code=code,
            name=row.name,
            carbon_g_per_kwh=row.carbon_g_per_kwh.value,
            year=row.year,
            scope=row.scope,
            source=sources[row.carbon_g_per_kwh.source],
            aliases=row.aliases,
        )
        for code, row in table.regions.items()
    }


def read_embodied(path: Path) -> dict[str, Embodied]:
    """Read the file of embodied emissions, by the name of the device.

    Raises:
        FileError: not readable, not TOML, or not such a file; names the file and the field.
    """
    table = _read(path, EmbodiedTable)
    sources = _cited_sources(table, path)
    common = [table.host.carbon_kg, table.life.years, table.life.busy_share]
    return {
        name: Embodied(
            device_kg=row.carbon_kg.value,
            host_kg=table.host.carbon_kg.value / table.host.devices,
            life_h=table.life.years.value * HOURS_PER_YEAR * table.life.busy_share.value,
            sources=tuple(sources[key] for key in dict.fromkeys(one.source for one in (row.carbon_kg, *common))),
        )
        for name, row in table.boards.items()
    }


def _cited_sources(table: FileTable, path: Path) -> dict[str, Source]:
    """The sources of a file by key, once every figure is known to name one."""
    with _about(path):
        _cited(table)
        return {source.key: source for source in _sources(table.sources)}


def read_aliases(path: Path) -> tuple[str, ...]:
    """The aliases in a shipped data file, without reading its figures.

    They stand before the first table, which is all that is parsed: an index over all files costs a tenth of
    reading them.
    """
    head, _, _ = path.read_text(encoding="utf-8").partition("\n[")
    return tuple(tomllib.loads(head).get("aliases", ()))


def _read(path: Path, kind: type[FileT]) -> FileT:
    content = b""
    try:
        content = path.read_bytes()
        raw = tomllib.loads(content.decode("utf-8-sig"))
    except OSError as error:
        raise FileError("cannot be read", given=error.strerror or error, hint="the path of a TOML file").at(
            path
        ) from error
    except (ValueError, RecursionError) as error:  # of the decoder, of the TOML, or of a name that is no path
        raise FileError("is not TOML", given=error, hint=encoding_hint(content)).at(path) from error
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


@contextmanager
def _about(path: Path) -> Iterator[None]:
    """Make what goes wrong an error of the file: what a value refuses is, here, a file to repair."""
    try:
        yield
    except (ConfigError, FileError, UnknownNameError) as error:
        raise FileError(
            error.attempted, given=error.given, allowed=error.allowed, hint=error.hint, place=error.place
        ).at(path) from error


def _peaks(table: PeakTable) -> tuple[Peak, ...]:
    peaks = []
    units: tuple[tuple[Unit, RatesTable], ...] = (("matrix", table.matrix), ("vector", table.vector))
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


def _link(table: LinkTable, kinds: dict[str, Link], field: str) -> Link:
    if table.kind not in kinds:
        raise UnknownNameError.among("kind of link", table.kind, kinds).at(f"{field}.kind")
    kind = kinds[table.kind]
    return Link(kind=kind.kind, bytes_per_s=table.bytes_per_s.value, latency_s=kind.latency_s, full_name=kind.full_name)


def _sources(tables: dict[str, dict[str, object]]) -> tuple[Source, ...]:
    sources = []
    for key, table in tables.items():
        try:
            row = msgspec.convert(table, SourceTable)
        except msgspec.ValidationError as error:
            raise _schema_error(str(error), table, SourceTable).at(f"sources.{key}") from error
        sources.append(
            Source(key=key, title=row.title, publisher=row.publisher, date=row.date, url=row.url, basis=row.basis)
        )
    return tuple(sources)


def _cited(table: FileTable) -> tuple[tuple[str, str], ...]:
    """Each figure's field and source key; a key that the file does not describe is an error."""
    cited = tuple(_figures(table, ""))
    for field, key in cited:
        if key not in table.sources:
            raise FileError(
                "unknown source", given=key, allowed=", ".join(sorted(table.sources)) or None, hint=f"[sources.{key}]"
            ).at(f"{field}.source")
    return cited


def _figures(value: object, prefix: str) -> list[tuple[str, str]]:
    if isinstance(value, Figure):
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
