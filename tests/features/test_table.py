"""Tables refuse what no law can use, and never change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattlaw.errors import DataError
from wattlaw.features.table import Table


@pytest.fixture
def table():
    """Three runs."""
    return Table({"energy_j": [1, 2, 3], "strategy": ["single", "fsdp", "tp"]})


def test_numbers_become_floats_and_text_stays_text(table):
    """Integers are held as float64, names as text."""
    assert len(table) == 3
    assert table["energy_j"].dtype == np.float64
    assert table.text("strategy").tolist() == ["single", "fsdp", "tp"]
    assert "energy_j" in table
    assert "power_w" not in table


def test_a_missing_column_is_refused_with_those_that_are_there(table):
    """The error names the column asked for and lists the others."""
    with pytest.raises(DataError, match=r"given duration_s; allowed energy_j, strategy"):
        table["duration_s"]


def test_columns_cannot_be_changed(table):
    """Neither a value nor the set of columns can be replaced, and the source array stays apart."""
    source = np.array([1.0, 2.0])
    held = Table({"energy_j": source})
    source[0] = 9.0
    assert held["energy_j"][0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        held["energy_j"][0] = 5.0
    with pytest.raises(TypeError):
        table.columns["other"] = source


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a_j": [1.0, 2.0], "b_j": [1.0]}, "differ in length; given a_j 2, b_j 1"),
        ({"a_j": [[1.0], [2.0]]}, "a_j must have one dimension"),
        ({"a_j": [1.0, float("nan")]}, "a_j has a value that is not finite; given nan in row 1"),
        ({"a_j": [1.0, None]}, "a_j has a value that is not finite"),
        ({"a_j": [1.0, "x", None]}, "a_j holds something that is neither a number nor text"),
    ],
)
def test_columns_that_no_law_can_use_are_refused(columns, message):
    """Lengths, dimensions and values are checked where the table is made."""
    with pytest.raises(DataError, match=message):
        Table({name: np.array(values, dtype=object) for name, values in columns.items()})


def test_text_and_numbers_are_not_confused(table):
    """Asking for text in a column of numbers, or the other way round, is an error that names the column."""
    with pytest.raises(DataError, match="strategy holds text"):
        table.numbers("strategy")
    with pytest.raises(DataError, match="energy_j holds numbers"):
        table.text("energy_j")
    with pytest.raises(DataError, match="energy_j must be above zero; given -1 in row 0"):
        Table({"energy_j": [-1.0]}).positive("energy_j")


@given(st.lists(st.floats(-1e30, 1e30), max_size=20), st.randoms(use_true_random=False))
def test_taking_and_stacking_give_the_table_back(values, random):
    """The parts of a table, stacked, are the table; a mask and the positions that it marks take the same rows."""
    table = Table({"x": np.array(values, dtype=np.float64), "name": np.array([str(v) for v in values], dtype=np.str_)})
    cut = random.randint(0, len(values))
    first, second = table.take(np.arange(cut)), table.take(np.arange(cut, len(values)))
    assert Table.concat([first, second])["x"].tolist() == values
    mask = np.arange(len(values)) < cut
    assert table.take(mask)["name"].tolist() == first["name"].tolist()


def test_stacking_needs_the_same_columns(table):
    """Tables with different columns are not stacked; the error names the ones that differ."""
    with pytest.raises(DataError, match="given strategy"):
        Table.concat([table, table.without("strategy")])
    with pytest.raises(DataError, match="no table"):
        Table.concat([])


def test_with_columns_adds_and_replaces(table):
    """A column added or replaced is in the new table only."""
    changed = table.with_columns(energy_j=[4.0, 5.0, 6.0], duration_s=[1.0, 1.0, 1.0])
    assert changed["energy_j"].tolist() == [4.0, 5.0, 6.0]
    assert table["energy_j"].tolist() == [1.0, 2.0, 3.0]
    assert "duration_s" not in table
    assert repr(table) == "Table(3 rows: energy_j, strategy)"
