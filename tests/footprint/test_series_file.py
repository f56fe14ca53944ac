"""Series from files: Electricity Maps' layouts, two columns, and what is wrong with files that people have."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wattlaw.errors import ConfigError, DataError, FileError, WattlawError
from wattlaw.footprint import read_carbon_series, read_price_series

NEW = (
    "Datetime (UTC),Country,Zone name,Zone id,Carbon intensity gCO₂eq/kWh (direct),"
    "Carbon intensity gCO₂eq/kWh (Life cycle),Carbon-free energy percentage (CFE%),"
    "Renewable energy percentage (RE%),Data source,Data estimated,Data estimation method"
)
OLD = (
    "Datetime (UTC),Country,Zone Name,Zone Id,Carbon Intensity gCO₂eq/kWh (direct),"
    "Carbon Intensity gCO₂eq/kWh (LCA),Low Carbon Percentage,Renewable Percentage,Data Source,Data Estimated,"
    "Data Estimation Method"
)


def maps_row(time, direct, cycle, *, zone="DE", estimated="false"):
    """One row in Electricity Maps' layout."""
    return f"{time},Germany,Germany,{zone},{direct},{cycle},60.1,50.2,ENTSO-E,{estimated},"


@pytest.fixture
def write(tmp_path):
    """Write a file of some lines."""

    def written(*lines, name="series.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes("\n".join(lines).encode(encoding))
        return path

    return written


@pytest.mark.parametrize("header", [NEW, OLD, "\ufeff" + NEW])
def test_electricity_maps(write, header):
    """The layouts of all years, with a mark at the beginning or without; each of the two intensities."""
    path = write(
        header,
        maps_row("2024-01-01 00:00:00", 300.5, 350, estimated="true"),
        maps_row("2024-01-01 01:00:00", 200, 250.25),
        "",
    )
    found = read_carbon_series(path)
    assert found.start_s == datetime(2024, 1, 1, tzinfo=UTC).timestamp()
    assert found.step_s == 3600
    assert list(found.per_kwh) == [350, 250.25]
    assert (found.name, found.estimated) == ("life-cycle carbon of DE", 0.5)
    assert list(read_carbon_series(path, scope="direct").per_kwh) == [300.5, 200]


@pytest.mark.parametrize(
    ("heading", "factor"),
    [
        ("gCO2eq/kWh", 1),
        ("carbon_g_per_kwh", 1),
        ("intensity (g CO2 / kWh)", 1),
        ("kgCO₂/kWh", 1000),
        ("kg/MWh", 1),
        ("tCO2e/MWh", 1000),
        ("lbs/MWh", 0.45359237),
    ],
)
def test_two_columns_in_the_unit_of_the_heading(write, heading, factor):
    """Times with their offset, in any order; 15-minute steps."""
    path = write(f"time,{heading}", "2024-01-01T01:15+01:00,0.5", "2024-01-01T00:00Z,0.25", "2024-01-01T00:30Z,0.125")
    found = read_carbon_series(path)
    assert found.step_s == 900
    assert list(found.per_kwh) == pytest.approx([0.25 * factor, 0.5 * factor, 0.125 * factor])


@pytest.mark.parametrize(("heading", "factor"), [("EUR/kWh", 1), ("price_per_kwh", 1), ("Price [EUR/MWh]", 1e-3)])
def test_prices(write, heading, factor):
    """May be negative, as they are at noon in May."""
    found = read_price_series(write(f"datetime_utc,{heading}", "2024-05-01 12:00,-50", "2024-05-01 13:00,80"))
    assert list(found.per_kwh) == pytest.approx([-50 * factor, 80 * factor])
    assert found.name == "price of electricity"


def test_what_is_missing_stays_missing(write):
    """A row that is not there and a cell that is empty."""
    path = write("utc,g/kWh", "2024-01-01 00:00,1", "2024-01-01 01:00,", "2024-01-01 03:00,4")
    assert np.array_equal(read_carbon_series(path).per_kwh, [1, np.nan, np.nan, 4], equal_nan=True)


HOURS = ("2024-01-01T00:00Z,1", "2024-01-01T01:00Z,2")


@pytest.mark.parametrize(
    ("lines", "error", "words"),
    [
        ([], FileError, ["no row"]),
        (["time,g/kWh"], FileError, ["no row"]),
        (["time", "2024-01-01T00:00Z"], FileError, ["Datetime (UTC)"]),
        (["time,g/kWh,more", "2024-01-01T00:00Z,1,2"], FileError, ["two columns"]),
        (["time,intensity", *HOURS], FileError, ["unit", "intensity", "gCO2eq/kWh"]),
        (["time,g/kWh", "2024-01-01T00:00Z,1,2"], FileError, ["line 2", "columns"]),
        (["time,g/kWh", "yesterday,1"], FileError, ["line 2", "'yesterday'"]),
        (["time,g/kWh", "2024-01-01 00:00,1"], FileError, ["line 2", "offset from UTC"]),
        (["time,g/kWh", "2024-01-01T00:00Z,much"], FileError, ["line 2", "'much'"]),
        (["time,g/kWh", "2024-01-01T00:00Z,nan"], FileError, ["line 2", "'nan'"]),
        (["time,g/kWh", "2024-01-01T00:00Z,inf"], FileError, ["line 2"]),
        (["time,g/kWh", "2024-01-01T00:00Z,1"], DataError, ["one time"]),
        (["time,g/kWh", *HOURS, HOURS[0]], DataError, ["twice", "lines 2 and 4", "2024-01-01T00:00Z"]),
        (["time,g/kWh", *HOURS, "2024-01-01T02:30Z,3"], DataError, ["even steps", "2024-01-01T02:30Z"]),
        (["time,g/kWh", HOURS[0], "2024-01-01T01:00Z,-1"], DataError, ["no grid", "-1 g/kWh", "01:00Z"]),
        (["time,kg/kWh", HOURS[0], "2024-01-01T01:00Z,350"], DataError, ["350000 g/kWh", "unit"]),
        (
            [NEW, maps_row("2024-01-01 00:00", 1, 2), maps_row("2024-01-01 01:00", 1, 2, zone="FR")],
            DataError,
            ["DE, FR"],
        ),
        (
            [NEW.replace("(Life cycle)", "(else)"), maps_row("2024-01-01 00:00", 1, 2)],
            FileError,
            ["life-cycle", "direct"],
        ),
        (['time,g/kWh\n"2024-01-01T00:00Z,1'], FileError, ["CSV"]),
    ],
)
def test_a_bad_file_is_refused_in_one_line(write, lines, error, words):
    """With the file, the line or the time, and what is allowed."""
    path = write(*lines)
    with pytest.raises(error) as refused:
        read_carbon_series(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)
    for word in words:
        assert word in str(refused.value)


def test_local_time_when_summer_ends(write):
    """The hour that happens twice is told apart by its offset, and refused without one."""
    with_offset = ["2024-10-27T02:00+02:00,1", "2024-10-27T02:00+01:00,2", "2024-10-27T03:00+01:00,3"]
    assert list(read_carbon_series(write("time,g/kWh", *with_offset)).per_kwh) == [1, 2, 3]
    with pytest.raises(DataError, match="twice"):
        read_carbon_series(write("Datetime (UTC),g/kWh", "2024-10-27 02:00,1", "2024-10-27 02:00,2"))


def test_files_that_cannot_be_read(tmp_path, write):
    """Missing, a folder, another encoding; a scope that is none."""
    binary = tmp_path / "binary.csv"
    binary.write_bytes(bytes(range(256)))
    for path in (tmp_path / "missing.csv", tmp_path, binary):
        for read in (read_carbon_series, read_price_series):
            with pytest.raises(FileError, match=r"cannot read|UTF-8"):
                read(path)
    with pytest.raises(ConfigError, match="life-cycle, direct"):
        read_carbon_series(write("time,g/kWh", *HOURS), scope="marginal")
    with pytest.raises(FileError, match="EUR/MWh"):
        read_price_series(write("time,g/kg", *HOURS))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=60), head=st.sampled_from(["time,g/kWh\n", ""]))
def test_any_text_is_a_series_or_one_line(tmp_path, text, head):
    """No text of a file crashes it."""
    path = tmp_path / "any.csv"
    path.write_text(head + text, encoding="utf-8")
    line = ""
    try:
        read_carbon_series(path)
    except WattlawError as error:
        line = str(error)
    assert "\n" not in line
