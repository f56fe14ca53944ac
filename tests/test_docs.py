"""The pages are easy to read in an editor, and to compare line by line."""

from __future__ import annotations

from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[1]
GENERATED = {"cli.md"}
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name not in GENERATED)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_prose_keeps_to_120_columns(page):
    """Paragraphs and list items; tables and code are as wide as they must be."""
    text = page.read_text(encoding="utf-8")
    lines = text.splitlines()
    blocks = MarkdownIt().enable("table").parse(text)
    prose = [number for block in blocks if block.type == "paragraph_open" for number in range(*block.map)]
    assert prose
    assert [f"line {number + 1}: {lines[number]}" for number in prose if len(lines[number]) > 120] == []
