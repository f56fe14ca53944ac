"""Trees as tables and mappings."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from wattlaw.explain import explain
from wattlaw.hardware import accelerator
from wattlaw.law.bundled import bundled
from wattlaw.parallel.layout import Layout
from wattlaw.report import quantities
from wattlaw.report.explain import tree_mapping, tree_table
from wattlaw.run import RunSpec
from wattlaw.workload import Recipe, preset


@pytest.fixture(scope="module")
def tree():
    """GPT-2 on one device."""
    spec = RunSpec(
        architecture=preset("gpt2"),
        recipe=Recipe(batch_size=4, seq_len=512, precision="fp16", steps=100),
        layout=Layout(),
        accelerator=accelerator("rtx-2080-ti"),
        name="GPT-2",
    )
    return explain(spec, bundled())


def test_a_mapping_holds_every_field_down_to_a_depth(tree):
    """Names as in the value, children nested, nothing of what lies deeper."""
    found = tree_mapping(tree, depth=1)
    assert found["energy_j"] == tree.energy_j
    assert found["interval"]["mid"] == pytest.approx(tree.energy_j)
    assert [child["name"] for child in found["children"]] == [child.name for child in tree.children]
    assert all(child["children"] == [] for child in found["children"])
    whole = tree_mapping(tree)
    blocks = next(child for child in whole["children"] if child["name"] == "blocks")
    assert len(blocks["children"]) == 12
    assert blocks["children"][11]["children"][0]["children"]


def test_a_table_shows_blocks_together_and_bars_of_shares(tree):
    """One line for twelve blocks; a full bar for the whole; a line per level that is asked for."""
    names = list(tree_table(tree, depth=2).columns[0].cells)
    texts = [cell.plain for cell in names]
    assert texts[0] == "GPT-2"
    assert "  12 blocks" in texts
    assert "    attention" in texts
    bars = [cell.plain for cell in tree_table(tree, depth=1).columns[1].cells]
    assert bars[0] == "█" * 10
    assert all(len(bar) <= 10 for bar in bars)
    assert len(list(tree_table(tree, depth=0).columns[0].cells)) == 1
    assert len(texts) > len(list(tree_table(tree, depth=1).columns[0].cells))


def test_on_a_narrow_terminal_no_number_loses_its_end(tree):
    """Names fold and bars are cut; energies keep their units and shares their signs."""
    console = Console(width=60, record=True, file=io.StringIO())
    console.print(tree_table(tree, depth=2))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 60
    assert "\u2026" not in "".join(lines)
    assert any("100.0%" in line and quantities.energy(tree.energy_j) in line for line in lines)
