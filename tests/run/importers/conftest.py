"""Files that the tests of importers write."""

from __future__ import annotations

import csv

import pytest


@pytest.fixture
def write_csv(tmp_path):
    """Write a CSV file of a header and rows, and return its path."""

    def write(header, *rows, name="table.csv"):
        path = tmp_path / name
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([header, *rows])
        return path

    return write


@pytest.fixture
def write_map(tmp_path):
    """Write a column map, and return its path."""

    def write(text):
        path = tmp_path / "map.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write
