"""Expressions of a column map: how one field of a record follows from the cells of a row.

An expression is the name of a column, or a table with exactly one of ``value``, ``column``, ``log2``, ``sum``,
``ratio``, ``least`` and ``first``. Every expression is ``None`` where a cell that it needs is empty: unknown stays
unknown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from wattlaw.errors import ConfigError, DataError, UnknownNameError, WattlawError
from wattlaw.run.fields import expect_list, expect_mapping, expect_number, expect_text, refuse_unknown
from wattlaw.units import SI_PER_UNIT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wattlaw.run.importers.rows import Row

KINDS = ("value", "column", "log2", "sum", "ratio", "least", "first")
#: Keys beside a kind that say more.
OPTIONS = {"column": ("unit", "scale", "map"), "log2": ("scale",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """One field's rule.

    Attributes:
        columns: the columns that it reads.
        evaluate: from a row to a number, a text, or ``None`` where a cell is empty.
        assumed: why the value is assumed where the source does not state it; empty where the source does.
    """

    columns: tuple[str, ...]
    evaluate: Callable[[Row], Any]
    assumed: str = ""


def parse_expression(rule: object, *, is_text: bool) -> Expression:
    """Build the expression that a rule of a column map describes.

    Args:
        rule: a column's name or a table.
        is_text: whether the field holds a text; otherwise its cells are read as numbers.

    Raises:
        ConfigError, UnknownNameError: the rule has no meaning; what is allowed is said.
    """
    if isinstance(rule, str):
        return _column({"column": rule}, is_text=is_text)
    table = expect_mapping("rule", rule)
    kinds = [kind for kind in KINDS if kind in table]
    if len(kinds) != 1:
        raise ConfigError("a rule is one of these", given=", ".join(table) or "nothing", allowed=", ".join(KINDS))
    (kind,) = kinds
    refuse_unknown("key of a rule", table, (kind, "assumed", *OPTIONS.get(kind, ())))
    expression = _BUILDERS[kind](table, is_text=is_text)
    return replace(expression, assumed=expect_text("assumed", table.get("assumed", "")))


def _value(table: Mapping[str, Any], *, is_text: bool) -> Expression:
    value = expect_text("value", table["value"]) if is_text else expect_number("value", table["value"])
    return Expression(columns=(), evaluate=lambda _row: value)


def _column(table: Mapping[str, Any], *, is_text: bool) -> Expression:
    column = expect_text("column", table["column"])
    translation = None if "map" not in table else _translation(table["map"], is_text=is_text)
    if is_text and ("unit" in table or "scale" in table):
        raise ConfigError("a text has no unit or scale", given=", ".join(table), allowed="column, map")
    factor = expect_number("scale", table.get("scale", 1)) * _si(table.get("unit"))

    def evaluate(row: Row) -> Any:
        if translation is not None:
            cell = row.text(column)
            value = None if cell is None else _translated(cell, translation, column)
        else:
            value = row.text(column) if is_text else row.number(column)
        # A factor of 1 leaves whole numbers whole.
        return value if value is None or factor == 1 else value * factor

    return Expression(columns=(column,), evaluate=evaluate)


def _log2(table: Mapping[str, Any], *, is_text: bool) -> Expression:
    (part,) = _numbers("log2", [table["log2"]], is_text=is_text)
    factor = expect_number("scale", table.get("scale", 1))

    def evaluate(row: Row) -> Any:
        value = part.evaluate(row)
        if value is not None and value <= 0:
            raise DataError("a logarithm of nothing", given=value, allowed="> 0")
        return None if value is None else factor * math.log2(value)

    return Expression(columns=part.columns, evaluate=evaluate)


def _sum(table: Mapping[str, Any], *, is_text: bool) -> Expression:
    parts = _numbers("sum", table["sum"], is_text=is_text)

    def evaluate(row: Row) -> Any:
        values = [part.evaluate(row) for part in parts]
        return None if None in values else sum(values)

    return Expression(columns=_columns(parts), evaluate=evaluate)


def _ratio(table: Mapping[str, Any], *, is_text: bool) -> Expression:
    parts = _numbers("ratio", table["ratio"], is_text=is_text)
    if len(parts) != 2:
        raise ConfigError("a ratio has two parts", given=len(parts), allowed="[numerator, denominator]").at("ratio")
    above, below = parts

    def evaluate(row: Row) -> Any:
        numerator, denominator = above.evaluate(row), below.evaluate(row)
        if numerator is None or denominator is None:
            return None
        if denominator == 0:
            raise DataError("a ratio to zero", given=f"{numerator} / {denominator}", allowed="another row")
        return numerator / denominator

    return Expression(columns=_columns(parts), evaluate=evaluate)


def _least(table: Mapping[str, Any], *, is_text: bool) -> Expression:
    parts = _numbers("least", table["least"], is_text=is_text)

    def evaluate(row: Row) -> Any:
        values = [part.evaluate(row) for part in parts]
        return None if None in values else min(values)

    return Expression(columns=_columns(parts), evaluate=evaluate)


def _first(table: Mapping[str, Any], *, is_text: bool) -> Expression:
    parts = _parts("first", table["first"], is_text=is_text)

    def evaluate(row: Row) -> Any:
        return next((value for part in parts if (value := part.evaluate(row)) is not None), None)

    return Expression(columns=_columns(parts), evaluate=evaluate)


_BUILDERS = {
    "value": _value,
    "column": _column,
    "log2": _log2,
    "sum": _sum,
    "ratio": _ratio,
    "least": _least,
    "first": _first,
}


def _numbers(kind: str, rules: object, *, is_text: bool) -> tuple[Expression, ...]:
    if is_text:
        raise ConfigError(f"a {kind} is a number, and this field is a text", allowed="value, column, first").at(kind)
    return _parts(kind, rules, is_text=False)


def _parts(kind: str, rules: object, *, is_text: bool) -> tuple[Expression, ...]:
    parts = []
    for index, rule in enumerate(expect_list(kind, rules)):
        try:
            parts.append(parse_expression(rule, is_text=is_text))
        except WattlawError as error:
            error.at(f"{kind}[{index}]")
            raise
    if not parts:
        raise ConfigError("no parts", allowed="a list of rules").at(kind)
    return tuple(parts)


def _columns(parts: tuple[Expression, ...]) -> tuple[str, ...]:
    return tuple(column for part in parts for column in part.columns)


def _si(unit: object) -> float:
    if unit is None:
        return 1.0
    name = expect_text("unit", unit)
    if name not in SI_PER_UNIT:
        raise UnknownNameError.among("unit", name, SI_PER_UNIT).at("unit")
    return SI_PER_UNIT[name]


def _translation(rule: object, *, is_text: bool) -> dict[str, Any]:
    """Check the values of a map; the empty text stands for unknown, as an empty cell does."""
    translation = {}
    for cell, value in expect_mapping("map", rule).items():
        check = expect_text if is_text or value == "" else expect_number
        translation[cell] = check(f"map.{cell}", value)
    return translation


def _translated(cell: str, translation: Mapping[str, Any], column: str) -> Any:
    found = [value for listed, value in translation.items() if same_cell(cell, listed)]
    if not found:
        raise UnknownNameError.among("value", cell, translation).at(f"column {column}")
    return None if found[0] == "" else found[0]


def same_cell(cell: str, listed: str) -> bool:
    """Tell whether a cell holds what a map lists: the same text, or the same number written otherwise (8 and 8.0)."""
    if cell == listed:
        return True
    try:
        return float(cell) == float(listed)
    except ValueError:
        return False
