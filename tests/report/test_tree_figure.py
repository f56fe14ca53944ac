"""The icicle: its rectangles tile the whole, its table and words say the same."""

from __future__ import annotations

from itertools import pairwise

import pytest

from wattlaw.explain import explain
from wattlaw.hardware import accelerator
from wattlaw.law.bundled import bundled
from wattlaw.parallel.layout import Layout
from wattlaw.report.tree_figure import tree_figure
from wattlaw.run import RunSpec
from wattlaw.workload import Recipe, preset

pytest.importorskip("vl_convert")


@pytest.fixture(scope="module")
def drawn():
    """BERT-base on four devices."""
    spec = RunSpec(
        architecture=preset("bert-base-uncased", head="classification"),
        recipe=Recipe(batch_size=32, seq_len=128, precision="fp16", steps=1000),
        layout=Layout.of("fsdp", num_devices=4),
        accelerator=accelerator("rtx-2080-ti"),
        name="BERT",
    )
    return tree_figure(explain(spec, bundled()))


def rectangles(drawn):
    """The rows of the boxes."""
    return drawn.spec["datasets"][drawn.spec["layer"][0]["data"]["name"]]


def test_rows_tile_the_energy(drawn):
    """From 0 to 100 % at the root; below, parts side by side without overlap, as wide as their shares."""
    rows = rectangles(drawn)
    assert (rows[0]["level"], rows[0]["from"], round(rows[0]["to"], 9)) == (0, 0, 100)
    for level in range(1, 1 + max(row["level"] for row in rows)):
        own = sorted((row for row in rows if row["level"] == level), key=lambda row: row["from"])
        for left, right in pairwise(own):
            assert left["to"] <= right["from"] + 1e-9
        assert sum(row["share of energy, %"] for row in own) <= 100 + 1e-9
    first = [row for row in rows if row["level"] == 1]
    assert sum(row["share of energy, %"] for row in first) == pytest.approx(100, abs=0.5)


def test_the_table_and_the_words_tell_what_is_drawn(drawn):
    """A row per rectangle with its numbers, and the largest parts in a sentence."""
    assert len(drawn.table.rows) == len(rectangles(drawn))
    assert {"part", "energy J", "share of time, %", "bound by"} <= set(drawn.table.columns)
    assert "12 blocks" in drawn.alt
    assert any(row[0] == "12 blocks / MLP" for row in drawn.table.rows)
