"""The page about specs, records and maps shows what can be read."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from wattlaw.run import spec_from_mapping
from wattlaw.run.importers import shipped_maps
from wattlaw.run.importers.column_map import TABLE_KEYS, read_column_map
from wattlaw.run.importers.expression import KINDS
from wattlaw.run.spec_file import RECIPE_KEYS
from wattlaw.units import SI_PER_UNIT

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "records.md").read_text(encoding="utf-8")
SPEC, MAP = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)


def test_spec_of_the_page():
    """The spec on the page can be run as it stands."""
    assert spec_from_mapping(tomllib.loads(SPEC), ROOT / "examples").layout.num_devices == 4


def test_map_of_the_page(tmp_path):
    """The column map on the page can be read as it stands."""
    path = tmp_path / "map.toml"
    path.write_text(MAP, encoding="utf-8")
    assert len(read_column_map(path).groups) == 1


def test_page_names_everything():
    """The page names every key of a recipe, every table, rule and unit of a map, and every map that is for a table."""
    shown = set(re.findall(r"[\w-]+", PAGE))
    assert {*RECIPE_KEYS, *TABLE_KEYS, *KINDS, *SI_PER_UNIT} - {"1"} <= shown
    assert set(shipped_maps()) - {"authors_configurations"} <= shown
