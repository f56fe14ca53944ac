"""Any CSV file with a column map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wattlaw.errors import DataError, UnknownNameError, WattlawError
from wattlaw.run.importers.build import build_record, check_filled
from wattlaw.run.importers.column_map import ColumnMap, Group, read_column_map
from wattlaw.run.importers.result import Import, Skipped
from wattlaw.run.importers.rows import Row, read_rows

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wattlaw.run.importers.expression import Expression


def import_csv(path: str | Path, columns: str | Path, *, assumed: Mapping[str, Any] | None = None) -> Import:
    """Turn the rows of a CSV file into records.

    Args:
        path: the file, with a header.
        columns: its column map; ``docs/records.md`` describes the form.
        assumed: tables of a spec that fill in what the file does not state; a row that states something else is
            skipped.

    Returns:
        One record or one skipped row for each row. A row that does not state a whole run keeps what it states.

    Raises:
        FileError: one of the files cannot be read.
        ConfigError, UnknownNameError: the map has an error, or names a column that the file does not have.
    """
    column_map = read_column_map(columns)
    table = read_rows(path)
    for column, place in column_map.columns().items():
        if column not in table.columns:
            raise UnknownNameError.among(f"column of {table.path}", column, table.columns).at(place).at(column_map.path)
    filled = check_filled(assumed or {})
    records, skipped = [], list(table.skipped)
    for row in table.rows:
        try:
            records.append(_record(row, column_map, f"{table.path.stem}:{row.line}", filled))
        except WattlawError as error:
            skipped.append(Skipped(row=row.line, reason=str(error)))
    return Import(records=tuple(records), skipped=tuple(sorted(skipped, key=lambda one: one.row)))


def _record(row: Row, column_map: ColumnMap, record_id: str, assumed: Mapping[str, Any]) -> Any:
    for condition, reason in column_map.skips:
        if condition.holds(row):
            raise DataError(reason)
    group = next((group for group in column_map.groups if group.condition.holds(row)), None)
    if group is None:
        raise DataError("no [[records]] of the map is for this row")
    values = {table: _evaluated(row, table, rules) for table, rules in group.fields.items()}
    own = values.pop("")
    return build_record(
        tables={name: values[name] for name in ("model", "recipe", "hardware", "layout")},
        filled=assumed,
        assumed_fields=_assumed(row, group),
        record_id=own.pop("record_id", record_id),
        source=own.pop("source", column_map.source),
        energies=tuple(_evaluated(row, f"energies[{index}]", rules) for index, rules in enumerate(group.energies)),
        observed=values["observed"],
        environment=values["environment"],
        **own,
    )


def _evaluated(row: Row, table: str, rules: Mapping[str, Expression]) -> dict[str, Any]:
    values = {}
    for key, rule in rules.items():
        try:
            value = rule.evaluate(row)
        except WattlawError as error:
            error.at(f"{table}.{key}" if table else key)
            raise
        if value is not None:
            values[key] = value
    return values


def _assumed(row: Row, group: Group) -> tuple[str, ...]:
    return tuple(
        f"{table}.{key}"
        for table, rules in group.fields.items()
        for key, rule in rules.items()
        if rule.assumed and rule.evaluate(row) is not None
    )
