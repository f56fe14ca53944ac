"""Column maps: what the columns of a CSV file mean, as a TOML file. ``docs/records.md`` describes the form."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattlaw.errors import ConfigError, WattlawError
from wattlaw.run.fields import expect_list, expect_mapping, expect_text, refuse_unknown
from wattlaw.run.importers.expression import Expression, parse_expression, same_cell
from wattlaw.run.spec_file import HARDWARE_KEYS, LAYOUT_KEYS, MODEL_KEYS, RECIPE_KEYS, TEXT_KEYS, read_toml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wattlaw.run.importers.rows import Row

#: Fields of a record itself that a map may fill, and those of an energy; true where the field is a text.
RECORD_KEYS = {"record_id": True, "status": True, "duration_s": False, "source": True, "notes": True}
ENERGY_KEYS = {"energy_j": False, "boundary": True, "method": True, "source": True}

#: Tables of a group, with the keys they may have; ``None``: any name.
TABLE_KEYS: dict[str, tuple[str, ...] | None] = {
    "model": MODEL_KEYS,
    "recipe": RECIPE_KEYS,
    "hardware": HARDWARE_KEYS,
    "layout": LAYOUT_KEYS,
    "observed": None,
    "environment": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Which rows a part of a map is for: those whose cells hold one of the listed values, or do not (``unless``)."""

    listed: Mapping[str, tuple[str, ...]]
    excluded: Mapping[str, tuple[str, ...]]

    def holds(self, row: Row) -> bool:
        """Tell whether the row has every listed value and no excluded one."""
        return all(_has(row, column, values) for column, values in self.listed.items()) and not any(
            _has(row, column, values) for column, values in self.excluded.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """How rows of one kind become records.

    Attributes:
        condition: which rows.
        fields: rules by table and key; the record's own fields are in the table ``""``.
        energies: rules of each energy.
    """

    condition: Condition
    fields: Mapping[str, Mapping[str, Expression]]
    energies: tuple[Mapping[str, Expression], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMap:
    """What the columns of a file mean.

    Attributes:
        path: of the map.
        source: what every record names as its source, unless a row does.
        skips: rows to leave out, with the reason; asked first.
        groups: the first whose condition holds makes the record.
    """

    path: Path
    source: str
    skips: tuple[tuple[Condition, str], ...]
    groups: tuple[Group, ...]

    def columns(self) -> dict[str, str]:
        """Return every column that the map reads, with the place in the map that names it."""
        places: dict[str, str] = {}
        conditions = [(f"skip[{index}]", condition) for index, (condition, _) in enumerate(self.skips)]
        conditions += [(f"records[{index}]", group.condition) for index, group in enumerate(self.groups)]
        for place, condition in conditions:
            for column in (*condition.listed, *condition.excluded):
                places.setdefault(column, place)
        for index, group in enumerate(self.groups):
            tables = [*group.fields.items(), *((f"energies[{n}]", one) for n, one in enumerate(group.energies))]
            for table, rules in tables:
                for key, rule in rules.items():
                    for column in rule.columns:
                        places.setdefault(column, ".".join(filter(None, (f"records[{index}]", table, key))))
        return places


def read_column_map(path: str | Path) -> ColumnMap:
    """Read a column map.

    Raises:
        FileError, ConfigError, UnknownNameError: the map and the field in it are named.
    """
    path = Path(path)
    tables = read_toml(path)
    try:
        refuse_unknown("key", tables, ("source", "skip", "common", "records"))
        common = expect_mapping("common", tables.get("common", {}))
        groups = expect_list("records", tables.get("records", []))
        if not groups:
            raise ConfigError("a map needs at least one [[records]]", given="none")
        return ColumnMap(
            path=path,
            source=expect_text("source", tables.get("source", "")),
            skips=tuple(
                _within(f"skip[{index}]", _skip, part)
                for index, part in enumerate(expect_list("skip", tables.get("skip", [])))
            ),
            groups=tuple(
                _within(f"records[{index}]", _group, _merged(common, expect_mapping("records", part)))
                for index, part in enumerate(groups)
            ),
        )
    except WattlawError as error:
        error.at(path)
        raise


def _skip(part: object) -> tuple[Condition, str]:
    table = expect_mapping("skip", part)
    refuse_unknown("key", table, ("where", "unless", "reason"))
    return _condition(table), expect_text("reason", table.get("reason"))


def _group(table: Mapping[str, Any]) -> Group:
    refuse_unknown("key", table, ("where", "unless", "energies", *TABLE_KEYS, *RECORD_KEYS))
    own = {key: table[key] for key in RECORD_KEYS if key in table}
    fields = {"": _rules(own, RECORD_KEYS)}
    for name, known in TABLE_KEYS.items():
        part = expect_mapping(name, table.get(name, {}))
        if known is not None:
            _within(name, lambda keys, known=known: refuse_unknown("key", keys, known), part)
        texts = {key: name == "environment" or key in TEXT_KEYS for key in part}
        fields[name] = _within(name, lambda rules, texts=texts: _rules(rules, texts), part)
    return Group(
        condition=_condition(table),
        fields=fields,
        energies=tuple(
            _within(f"energies[{index}]", _energy, part)
            for index, part in enumerate(expect_list("energies", table.get("energies", [])))
        ),
    )


def _energy(part: object) -> dict[str, Expression]:
    table = expect_mapping("energy", part)
    refuse_unknown("key", table, ENERGY_KEYS)
    for key in ("energy_j", "boundary", "method"):
        if key not in table:
            raise ConfigError("a key is missing", allowed=", ".join(ENERGY_KEYS)).at(key)
    return _rules(table, ENERGY_KEYS)


def _rules(table: Mapping[str, Any], texts: Mapping[str, bool]) -> dict[str, Expression]:
    return {
        key: _within(key, lambda one, is_text=texts[key]: parse_expression(one, is_text=is_text), rule)
        for key, rule in table.items()
    }


def _condition(table: Mapping[str, Any]) -> Condition:
    return Condition(listed=_listed("where", table), excluded=_listed("unless", table))


def _listed(name: str, table: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    cells = {}
    for column, value in expect_mapping(name, table.get(name, {})).items():
        values = value if isinstance(value, list) else [value]
        if not values or not all(isinstance(one, (str, int, float)) for one in values):
            raise ConfigError("not a value of a cell", given=value, allowed="a text, a number, or a list").at(
                f"{name}.{column}"
            )
        cells[column] = tuple(str(one) for one in values)
    return cells


def _merged(common: Mapping[str, Any], group: Mapping[str, Any]) -> dict[str, Any]:
    """Lay a group's rules over the common ones, key by key."""
    merged = {**common, **group}
    for name in TABLE_KEYS:
        if isinstance(common.get(name), dict) and isinstance(group.get(name), dict):
            merged[name] = {**common[name], **group[name]}
    return merged


def _has(row: Row, column: str, values: tuple[str, ...]) -> bool:
    cell = row.text(column) or ""
    return any(same_cell(cell, value) for value in values)


def _within(place: str, build: Any, part: Any) -> Any:
    try:
        return build(part)
    except WattlawError as error:
        error.at(place)
        raise
