"""Regions: figures typed here a second time, exact names, and a data file that says where each figure comes from."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattlaw.errors import ConfigError, FileError, UnknownNameError
from wattlaw.hardware import Region, Source, region, regions
from wattlaw.hardware.files import read_regions
from wattlaw.hardware.lookup import normalised

ALL = regions()
#: Grams in a pound per megawatt-hour, per kilowatt-hour.
POUNDS_PER_MWH = 0.45359237

# Ember, Yearly Electricity Data 2026, as Our World in Data shows it: grams per kWh, year.
EMBER = {
    "AU": (525.18, 2025),
    "BR": (109.95, 2025),
    "CA": (190.72, 2025),
    "CN": (525.34, 2025),
    "DE": (329.65, 2025),
    "FR": (41.44, 2025),
    "GB": (217.41, 2025),
    "IN": (670.13, 2025),
    "IS": (27.82, 2024),
    "JP": (477.26, 2025),
    "KR": (417.06, 2025),
    "NO": (28.11, 2025),
    "PL": (588.6, 2025),
    "SE": (35.26, 2025),
    "US": (384.4, 2025),
    "ZA": (699.29, 2025),
}
# EPA, eGRID2023: pounds per MWh.
EGRID = {"US-CA": 394.769, "US-OR": 364.963, "US-TX": 771.179, "US-VA": 539.599, "US-WA": 266.585, "US-WV": 1968.869}


@pytest.mark.parametrize("code", EMBER)
def test_figures_of_countries(code):
    """Ember's, with building the plants and getting the fuel."""
    found = region(code)
    assert (found.carbon_g_per_kwh, found.year) == EMBER[code]
    assert (found.scope, found.source.publisher) == ("life-cycle", "Ember")


@pytest.mark.parametrize("code", EGRID)
def test_figures_of_states(code):
    """EPA's, in pounds: what leaves the chimneys."""
    found = region(code)
    assert found.carbon_g_per_kwh == pytest.approx(EGRID[code] * POUNDS_PER_MWH, abs=0.005)
    assert (found.scope, found.year, found.source.basis) == ("direct", 2023, "derived")


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("de", "DE"),
        ("Germany", "DE"),
        ("  united   kingdom ", "GB"),
        ("UK", "GB"),
        ("us_ca", "US-CA"),
        ("California", "US-CA"),
        ("Türkiye", "TR"),
        ("european union", "EU"),
        ("US-DE", "US-DE"),
    ],
)
def test_codes_and_names(written, code):
    """In any case, with spaces or hyphens."""
    assert region(written).code == code


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("Georgia", ["GE (Georgia)", "US-GA (Georgia)"]),
        ("Germny", ["Germany"]),
        ("us-east-1", ["hardware list"]),
        ("North", ["North Carolina"]),
        ("", ["AE"]),
        ("XX", ["unknown region"]),
        ("world", ["unknown region"]),
    ],
)
def test_what_is_no_region_lists_the_nearest(written, words):
    """A name of two lists both; none is guessed."""
    with pytest.raises(UnknownNameError) as refused:
        region(written)
    for word in words:
        assert word in str(refused.value)


@given(st.text(max_size=20))
def test_any_text_is_a_region_or_an_error(text):
    """Of one line."""
    line = ""
    try:
        region(text)
    except UnknownNameError as error:
        line = str(error)
    assert "\n" not in line


def test_there_are_enough_regions():
    """Sixty countries and more, and every state of the United States."""
    assert sum(len(one.code) == 2 for one in ALL) > 120
    assert sum(one.code.startswith("US-") for one in ALL) == 51
    assert [one.code for one in ALL] == sorted({one.code for one in ALL})


@pytest.mark.parametrize("found", ALL, ids=lambda one: one.code)
def test_every_region_is_a_fact(found):
    """A code of ISO 3166, a figure that a grid can have, a recent year, a source with publisher and date."""
    assert re.fullmatch(r"[A-Z]{2}(-[A-Z]{2})?", found.code)
    assert 20 <= found.carbon_g_per_kwh <= 1000
    assert 2022 <= found.year <= 2025
    assert found.source.publisher
    assert found.source.date
    assert region(found.code) is found


def test_names_belong_to_one_region_but_for_georgia():
    """So that a name is as good as a code."""
    names = [normalised(name) for one in ALL for name in (one.name, *one.aliases)]
    assert {name for name in names if names.count(name) > 1} == {"georgia"}


def test_a_region_cannot_be_without_intensity():
    """No grid emits nothing over its life cycle, and a scope has two names."""
    source = Source(key="s", title="t")
    for changed in ({"carbon_g_per_kwh": 0}, {"carbon_g_per_kwh": float("nan")}, {"scope": "marginal"}):
        with pytest.raises(ConfigError):
            Region(
                **{"code": "AA", "name": "A", "carbon_g_per_kwh": 1.0, "year": 2025, "scope": "direct", **changed},
                source=source,
            )


FILE = """
[regions]
AA = { name = "A", year = 2025, scope = "direct", carbon_g_per_kwh = { value = 300, source = "me" } }
[sources.me]
title = "my contract"
"""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"me" }', '"you" }', ["regions.AA.carbon_g_per_kwh.source", "you", "me"]),
        ("300", "0", ["carbon_g_per_kwh.value"]),
        ('"direct"', '"marginal"', ["scope", "marginal"]),
        ("year = 2025, ", "", ["year"]),
        ("scope", "basis", ["basis"]),
        ("title", "name", ["sources.me", "name"]),
        ("[regions]", "[region]", ["region"]),
    ],
)
def test_bad_fields_are_named(tmp_path, old, new, words):
    """With the file."""
    path = tmp_path / "regions.toml"
    path.write_text(FILE, encoding="utf-8")
    assert read_regions(path)["AA"].carbon_g_per_kwh == 300
    path.write_text(FILE.replace(old, new), encoding="utf-8")
    with pytest.raises(FileError) as refused:
        read_regions(path)
    for word in (str(path), *words):
        assert word in str(refused.value)
