"""Column maps."""

from __future__ import annotations

import pytest

from wattlaw.errors import WattlawError
from wattlaw.run.importers import shipped_map, shipped_maps
from wattlaw.run.importers.column_map import read_column_map


@pytest.mark.parametrize("name", shipped_maps())
def test_shipped_maps_are_maps(name):
    """Every map that is shipped can be read and names its source."""
    assert read_column_map(shipped_map(name)).source


def test_unknown_shipped_map():
    """The name of a map that is not shipped lists the nearest."""
    with pytest.raises(WattlawError, match="bert_gpt_multi_gpu"):
        shipped_map("bert_gpt")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "at least one [[records]]"),
        ("records = 3", "records: not a list"),
        ("[[record]]", "record: unknown key"),
        ("[[records]]\n[records.recipe]\nbatch_sise = 'b'", "records[0]: recipe: batch_sise: unknown key"),
        ("[[records]]\n[records.recipes]\nbatch_size = 'b'", "records[0]: recipes: unknown key"),
        ("[[records]]\n[records.recipe]\nbatch_size = {unit = 'W'}", "records[0]: recipe: batch_size: a rule is one"),
        ("[[records]]\nduration_s = {column = 'd', unit = 'hours'}", "records[0]: duration_s: unit: unknown unit"),
        ("[[records]]\n[[records.energies]]\nenergy_j = 'e'", "records[0]: energies[0]: boundary: a key is missing"),
        ("[[skip]]\nwhere = {a = 1}\n[[records]]", "skip[0]: reason: not a text"),
        ("[[skip]]\nwhere = {a = []}\nreason = 'x'\n[[records]]", "skip[0]: where.a: not a value"),
        ("[[records]]\n[records.observed]\ntokens = {sum = 'a'}", "records[0]: observed: tokens: sum: not a list"),
        ("[[records", "not a TOML file"),
    ],
)
def test_errors_name_map_and_field(write_map, text, says):
    """An error in a map is one line that names the map and the field in it."""
    path = write_map(text)
    with pytest.raises(WattlawError) as caught:
        read_column_map(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_groups_lie_over_the_common_rules(write_map):
    """A group's rule replaces the common one of the same key, and leaves the other keys of the table."""
    column_map = read_column_map(
        write_map(
            "[common.recipe]\nbatch_size = 'a'\nseq_len = 'b'\n"
            "[[records]]\n[records.recipe]\nseq_len = 'c'\n[[records]]\nduration_s = 'd'"
        )
    )
    first, second = column_map.groups
    assert [rule.columns for rule in first.fields["recipe"].values()] == [("a",), ("c",)]
    assert [rule.columns for rule in second.fields["recipe"].values()] == [("a",), ("b",)]
    assert set(column_map.columns()) == {"a", "b", "c", "d"}
