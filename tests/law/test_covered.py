"""What the rows of a fit cover."""

from __future__ import annotations

from wattlaw.features.table import Table
from wattlaw.law.covered import boundary, domain


def test_a_boundary_is_told_where_all_rows_share_it():
    """Two boundaries are none, and so is a table that does not say."""
    assert boundary(Table({"boundary": ["node", "node"]})) == "node"
    assert boundary(Table({"boundary": ["node", "accelerators"]})) == ""
    assert boundary(Table({"energy_j": [1.0]})) == ""


def test_a_domain_is_the_range_of_columns_that_hold_numbers():
    """By hand; a column of words has none, and one that is not asked for is not told."""
    table = Table({"num_devices": [4.0, 1.0, 2.0], "strategy": ["tp", "single", "fsdp"], "energy_j": [1.0, 2.0, 3.0]})
    assert domain(table, ("num_devices", "strategy")) == {"num_devices": (1.0, 4.0)}
