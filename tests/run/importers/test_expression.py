"""Expressions of a column map."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattlaw.errors import DataError, UnknownNameError, WattlawError
from wattlaw.run.importers.expression import parse_expression
from wattlaw.run.importers.rows import Row
from wattlaw.units import SI_PER_UNIT

ROW = Row(
    line=2, cells={"a": "8.0", "b": " 2.5 ", "none": " ", "bad": "8 GB", "nan": "nan", "name": "FSDP", "zero": "0"}
)


def _number(rule):
    return parse_expression(rule, is_text=False).evaluate(ROW)


def _text(rule):
    return parse_expression(rule, is_text=True).evaluate(ROW)


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("a", 8),
        ({"value": 3}, 3),
        ({"column": "b"}, 2.5),
        ({"column": "b", "unit": "kWh"}, 9e6),
        ({"column": "b", "scale": -2}, -5.0),
        ({"column": "b", "unit": "ms", "scale": 2}, 0.005),
        ({"column": "name", "map": {"FSDP": 3, "DDP": 0}}, 3),
        ({"column": "a", "map": {"8": 16}}, 16),
        ({"column": "a", "map": {"8": ""}}, None),
        ({"sum": ["a", {"column": "b", "scale": -2}]}, 3.0),
        ({"ratio": ["a", "b"]}, 3.2),
        ({"log2": "a"}, 3.0),
        ({"log2": "a", "scale": 5}, 15.0),
        ({"sum": [{"value": 15.2}, {"log2": "a", "scale": 5}]}, 30.2),
        ({"log2": "none"}, None),
        ({"first": ["none", "b"]}, 2.5),
        ({"first": ["none", {"value": 1}], "assumed": "why"}, 1),
        ("none", None),
        ({"sum": ["a", "none"]}, None),
        ({"ratio": ["none", "zero"]}, None),
        ({"first": ["none"]}, None),
    ],
)
def test_numbers_worked(rule, value):
    """Each kind of rule gives the number it stands for, and is unknown where a cell that it needs is empty."""
    assert _number(rule) == value


def test_whole_numbers_stay_whole():
    """A cell of 8.0 is the integer 8, because sizes are whole; a unit or scale makes it a float."""
    assert isinstance(_number("a"), int)
    assert isinstance(_number({"column": "a", "unit": "kWh"}), float)


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("name", "FSDP"),
        ({"value": "tp"}, "tp"),
        ({"column": "name", "map": {"FSDP": "fsdp"}}, "fsdp"),
        ({"first": [{"column": "name", "map": {"FSDP": ""}}, {"value": "single"}]}, "single"),
        ("none", None),
    ],
)
def test_texts_worked(rule, value):
    """So do rules of fields that are texts."""
    assert _text(rule) == value


@pytest.mark.parametrize("rule", ["bad", "nan", {"sum": ["a", "nan"]}])
def test_cells_that_are_no_numbers(rule):
    """A cell that is no finite number is an error that names its column: NaN is not unknown, and not a number."""
    with pytest.raises(DataError, match=r"column (bad|nan): not a finite number"):
        _number(rule)


def test_values_that_a_map_does_not_list():
    """A cell that a map does not list is an error that lists the nearest, and not unknown."""
    with pytest.raises(UnknownNameError, match=r"column name: unknown value; given 'FSDP'; allowed FSDP2"):
        _text({"column": "name", "map": {"FSDP2": "fsdp"}})


def test_ratio_to_zero():
    """A ratio to zero is an error, and not infinite."""
    with pytest.raises(DataError, match="ratio to zero"):
        _number({"ratio": ["a", "zero"]})


@pytest.mark.parametrize(
    ("rule", "is_text", "says"),
    [
        ({}, False, "one of these; given nothing; allowed value, column, log2, sum, ratio, least, first"),
        ({"value": 1, "column": "a"}, False, "one of these"),
        ({"column": "a", "units": "kWh"}, False, "units"),
        ({"column": "a", "unit": "kwh"}, False, "kWh"),
        ({"column": "a", "scale": "two"}, False, "scale: not a number"),
        ({"column": "a", "unit": "kWh"}, True, "a text has no unit"),
        ({"column": 3}, False, "column: not a text"),
        ({"value": "3"}, False, "value: not a number"),
        ({"value": float("nan")}, False, "value: not a finite number"),
        ({"value": 3}, True, "value: not a text"),
        ({"sum": []}, False, "sum: no parts"),
        ({"sum": ["a", {"unit": "kWh"}]}, False, r"sum[1]: a rule is one of these"),
        ({"sum": ["a"]}, True, "sum: a sum is a number"),
        ({"ratio": ["a"]}, False, "ratio: a ratio has two parts"),
        ({"column": "a", "map": {"8": "x"}}, False, "map.8: not a number"),
        (7, False, "rule: not a table"),
        ({"value": 1, "assumed": True}, False, "assumed: not a text"),
    ],
)
def test_rules_that_have_no_meaning(rule, is_text, says):
    """A rule with a slip is refused with what is allowed."""
    with pytest.raises(WattlawError) as caught:
        parse_expression(rule, is_text=is_text)
    assert says in str(caught.value)


def test_columns_that_a_rule_reads():
    """A rule knows every column that it reads, so that a missing one is found before the first row."""
    rule = {"ratio": [{"sum": ["a", {"column": "b"}]}, {"first": ["none", {"value": 1}]}]}
    assert parse_expression(rule, is_text=False).columns == ("a", "b", "none")


@given(number=st.floats(1e-9, 1e12), unit=st.sampled_from(sorted(SI_PER_UNIT)))
def test_units_round_trip(number, unit):
    """A number written in a unit is that number of SI units."""
    row = Row(line=2, cells={"x": repr(number)})
    found = parse_expression({"column": "x", "unit": unit}, is_text=False).evaluate(row)
    assert found / SI_PER_UNIT[unit] == pytest.approx(number)
