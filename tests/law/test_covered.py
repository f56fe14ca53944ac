"""What the rows of a fit cover."""

from __future__ import annotations

import pytest

from wattlaw.errors import DataError
from wattlaw.features.table import Table
from wattlaw.law.covered import boundary, domain, require_one_boundary, widened


def test_a_boundary_is_told_where_all_rows_share_it():
    """Two boundaries are none, and so is a table that does not say."""
    assert boundary(Table({"boundary": ["node", "node"]})) == "node"
    assert boundary(Table({"boundary": ["node", "accelerators"]})) == ""
    assert boundary(Table({"energy_j": [1.0]})) == ""


def test_a_domain_is_the_range_of_columns_that_hold_numbers():
    """By hand; a column of words has none, and one that is not asked for is not told."""
    table = Table({"num_devices": [4.0, 1.0, 2.0], "strategy": ["tp", "single", "fsdp"], "energy_j": [1.0, 2.0, 3.0]})
    assert domain(table, ("num_devices", "strategy")) == {"num_devices": (1.0, 4.0)}


def test_several_boundaries_are_refused_where_there_must_be_one():
    """The error names them; one boundary, or a table that does not say, is no error."""
    require_one_boundary(Table({"boundary": ["node", "node"]}))
    require_one_boundary(Table({"energy_j": [1.0]}))
    with pytest.raises(DataError, match="given accelerators, node"):
        require_one_boundary(Table({"boundary": ["node", "accelerators"]}))


def test_an_earlier_fit_widens_the_ranges_of_its_own_columns():
    """By hand; a column that only the earlier fit had is not added."""
    found = widened({"a": (2.0, 5.0), "b": (0.0, 1.0)}, {"a": (1.0, 3.0), "c": (7.0, 8.0)})
    assert found == {"a": (1.0, 5.0), "b": (0.0, 1.0)}
