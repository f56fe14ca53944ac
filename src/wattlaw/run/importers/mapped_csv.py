"""Any CSV file with a column map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wattlaw.errors import DataError, UnknownNameError, WattlawError
from wattlaw.hardware import accelerator
from wattlaw.hardware.lookup import normalised
from wattlaw.run.importers.build import build_record, check_filled
from wattlaw.run.importers.column_map import ColumnMap, Group, read_column_map
from wattlaw.run.importers.result import Import, Skipped
from wattlaw.run.importers.rows import Row, Rows, read_rows

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wattlaw.run.importers.expression import Expression


def import_csv(
    path: str | Path,
    columns: str | Path,
    *,
    assumed: Mapping[str, Any] | None = None,
    gpus: Mapping[str, str] | None = None,
) -> Import:
    """Turn the rows of a CSV file into records.

    Args:
        path: the file, with a header.
        columns: its column map; ``docs/records.md`` describes the form.
        assumed: tables of a spec that fill in what the file does not state; a row that states something else is
            skipped.
        gpus: accelerators by what the file calls them, where that name says too little (``V100``) or the map gives
            it up; the record then names ``hardware.gpu`` among what is assumed.

    Returns:
        One record or one skipped row for each row. A row that does not state a whole run keeps what it states.

    Raises:
        FileError: one of the files cannot be read.
        ConfigError, UnknownNameError: the map has an error, or names a column that the file does not have; ``gpus``
            has a name that no row has, or an accelerator that is not known.
    """
    column_map = read_column_map(columns)
    table = read_rows(path)
    for column, place in column_map.columns().items():
        if column not in table.columns:
            raise UnknownNameError.among(f"column of {table.path}", column, table.columns).at(place).at(column_map.path)
    filled = check_filled(assumed or {})
    meant = _meant(gpus or {}, table, column_map)
    records, skipped = [], list(table.skipped)
    for row in table.rows:
        try:
            records.append(_record(row, column_map, f"{table.path.stem}:{row.line}", filled, meant))
        except WattlawError as error:
            skipped.append(Skipped(row=row.line, reason=str(error)))
    return Import(records=tuple(records), skipped=tuple(sorted(skipped, key=lambda one: one.row)))


def _meant(gpus: Mapping[str, str], table: Rows, column_map: ColumnMap) -> dict[str, str]:
    """Check what the user says that names mean, and return the accelerators by the names as they are compared."""
    found = {}
    columns = {column for group in column_map.groups for column in _gpu_columns(group)}
    written = {text for row in table.rows for column in columns if (text := row.text(column))}
    for name, means in gpus.items():
        if normalised(name) not in {normalised(text) for text in written}:
            raise UnknownNameError.among(f"GPU of {table.path}", name, written)
        found[normalised(name)] = accelerator(means).reference
    return found


def _gpu_columns(group: Group) -> tuple[str, ...]:
    rule = group.fields["hardware"].get("gpu")
    return () if rule is None else rule.columns


def _record(
    row: Row, column_map: ColumnMap, record_id: str, assumed: Mapping[str, Any], gpus: Mapping[str, str]
) -> Any:
    for condition, reason in column_map.skips:
        if condition.holds(row):
            raise DataError(reason)
    group = next((group for group in column_map.groups if group.condition.holds(row)), None)
    if group is None:
        raise DataError("no [[records]] of the map is for this row")
    fields, said = group.fields, _said(row, group, gpus)
    if said is not None:  # the map's own rule may refuse the name, or give it up
        fields = {**fields, "hardware": {key: rule for key, rule in fields["hardware"].items() if key != "gpu"}}
    values = {table: _evaluated(row, table, rules) for table, rules in fields.items()}
    if said is not None:
        values["hardware"]["gpu"] = said
    own = values.pop("")
    return build_record(
        tables={name: values[name] for name in ("model", "recipe", "hardware", "layout")},
        filled=assumed,
        assumed_fields=(*_assumed(row, fields), *(() if said is None else ("hardware.gpu",))),
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


def _said(row: Row, group: Group, gpus: Mapping[str, str]) -> str | None:
    """Return the accelerator that the user says a row's name means, where they say one."""
    names = [normalised(text) for column in _gpu_columns(group) if (text := row.text(column))]
    return next((gpus[name] for name in names if name in gpus), None)


def _assumed(row: Row, fields: Mapping[str, Mapping[str, Expression]]) -> tuple[str, ...]:
    return tuple(
        f"{table}.{key}"
        for table, rules in fields.items()
        for key, rule in rules.items()
        if rule.assumed and rule.evaluate(row) is not None
    )
