"""Options of money and carbon: what they add to ``wattlaw predict``, and what they refuse."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from wattlaw.cli.predict import command
from wattlaw.cli.prices import NAMES, account
from wattlaw.errors import ConfigError
from wattlaw.hardware import embodied, region
from wattlaw.law.bundled import bundled
from wattlaw.law.prediction import predict
from wattlaw.run.spec_file import read_spec

SPEC = Path(__file__).parents[2] / "examples" / "bert-base-sst2.toml"

TARIFF = """
timezone = "Europe/Berlin"
price_per_kwh = 0.31
[[zones]]
from = "22:00"
to = "06:00"
price_per_kwh = 0.19
"""
HEADER = "Datetime (UTC),Zone id,Carbon intensity gCO₂eq/kWh (direct),Carbon intensity gCO₂eq/kWh (Life cycle)"
NOON = "2025-07-01T12:00Z"


@pytest.fixture
def tariff(tmp_path):
    """A file of two prices."""
    path = tmp_path / "tariff.toml"
    path.write_text(TARIFF, encoding="utf-8")
    return path


@pytest.fixture
def carbon(tmp_path):
    """Five days of Electricity Maps' layout, lowest at 02:00 UTC."""
    start = datetime(2025, 7, 1, tzinfo=UTC)
    rows = [HEADER]
    for hour in range(120):
        value = 300 - 200 * math.cos(2 * math.pi * (hour - 2.5) / 24)
        rows.append(f"{start + timedelta(hours=hour):%Y-%m-%d %H:%M:%S},DE,{value / 2:.3f},{value:.3f}")
    path = tmp_path / "carbon.csv"
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


@pytest.fixture
def said(wattlaw, run_options):
    """Predict with some more options, and read the JSON."""

    def run(*options):
        found = wattlaw("predict", *run_options, *options, "--json")
        assert (found.code, found.err) == (0, ""), found.err
        return json.loads(found.out)

    return run


def test_a_region_is_a_figure_with_its_source(said, wattlaw, run_options):
    """The same carbon as its figure typed in; the line says year, scope and publisher."""
    found = said("--region", "de", "--pue", 1.2)
    figure = said("--carbon-g-per-kwh", region("DE").carbon_g_per_kwh, "--pue", 1.2)
    assert found["carbon_g"] == figure["carbon_g"]
    assert found["counted_boundary"] == "facility"
    assert said("--region", "DE")["counted_boundary"] == "node"
    for words in ("Germany", "life-cycle, 2025", "Ember"):
        assert words in found["sources"]["carbon"]
    text = wattlaw("predict", *run_options, "--region", "DE").out
    assert "carbon (node)" in text
    assert "Ember" in text


def test_what_the_hardware_took_to_make_is_a_line_of_its_own(said):
    """Device-hours times the published figure, or the user's; never part of the carbon of electricity."""
    plain = said("--region", "DE")
    found = said("--region", "DE", "--embodied")
    hours = found["duration_s"]["mid"] / 3600
    assert found["carbon_g"] == plain["carbon_g"]
    assert found["embodied_g"]["mid"] == pytest.approx(hours * embodied("a100-sxm4-40gb").g_per_device_hour)
    assert found["assumed"]["device_life_hours"] == 44707
    own = said("--embodied", 300, "--device-life-hours", 30000)
    assert own["embodied_g"]["mid"] == pytest.approx(hours * 10)
    assert "device_life_hours" not in own["assumed"]
    shorter = said("--embodied", "--device-life-hours", 10000)
    assert shorter["embodied_g"]["mid"] == pytest.approx(found["embodied_g"]["mid"] * 4.47066)


def test_rent_and_electricity_add_up(said):
    """The old name of the option means the same."""
    found = said("--price-per-device-hour", 2, "--price-per-kwh", 0.3)
    assert found["money"]["mid"] == pytest.approx(found["device_cost"]["mid"] + found["electricity_cost"]["mid"])
    assert said("--price-per-gpu-hour", 2)["money"] == found["device_cost"]


def test_the_best_start(said, wattlaw, run_options, carbon, tariff):
    """From noon UTC with a day to wait: least carbon from 02:00 on, cheapest when night begins in Berlin."""
    options = ("--carbon-series", carbon, "--tariff", tariff, "--start", NOON, "--window", "24h")
    found = said(*options)
    best = found["timing"]["best"]
    assert best["carbon"]["start"].startswith("2025-07-02T02:")
    assert best["electricity"]["start"] == "2025-07-01T20:00Z"
    assert best["electricity"]["saving"] == pytest.approx(12 / 31)
    assert found["carbon_g"]["mid"] == pytest.approx(found["energy_j"]["mid"] / 3.6e6 * best["carbon"]["now_per_kwh"])
    assert found["electricity_cost"]["mid"] == pytest.approx(found["energy_j"]["mid"] / 3.6e6 * 0.31)
    assert found["assumed"]["carbon_scope"] == "life-cycle"
    direct = said(*options, "--carbon-scope", "direct")
    assert direct["carbon_g"]["mid"] == pytest.approx(found["carbon_g"]["mid"] / 2, rel=1e-4)
    text = wattlaw("predict", *run_options, *options).out
    assert "least carbon within 24.0 h" in text.replace("\n", " ") or "least carbon within 1.00 d" in text
    assert "cheapest electricity within" in text


def test_a_start_that_nobody_named_is_now_and_said(said, tariff):
    """Under a tariff, which always holds."""
    found = said("--tariff", tariff)
    assert found["assumed"]["start"] == "now"
    assert set(found["timing"]["best"]) == {"electricity"}


def test_prices_from_a_csv(said, tmp_path):
    """Times and prices in two columns."""
    path = tmp_path / "prices.csv"
    path.write_text("datetime_utc,EUR/MWh\n2025-07-01 12:00,100\n2025-07-01 13:00,300\n", encoding="utf-8")
    found = said("--tariff", path, "--start", NOON)
    assert found["electricity_cost"]["mid"] == pytest.approx(found["energy_j"]["mid"] / 3.6e6 * 0.1)


def test_what_was_assumed_is_said(said, wattlaw, run_options):
    """Names and figures in one line; numbers that mean nothing of it in JSON only; nothing that was given."""
    found = said()["assumed"]
    assert (found["precision"], found["optimizer"], found["strategy"]) == ("bf16", "adamw", "single")
    assert found["grad_accumulation"] == 1
    assert "precision" not in said("--precision", "bf16")["assumed"]
    text = wattlaw("predict", *run_options).out
    assert "assumed: precision bf16, optimizer adamw" in text
    assert "grad accumulation" not in text


def test_a_model_card(wattlaw, run_options):
    """YAML on standard output, as text or as JSON; the place is the region's name, or what was typed."""
    options = ("--region", "FR", "--model-card", "--training-type", "fine-tuning")
    found = wattlaw("predict", *run_options, *options)
    assert found.code == 0
    assert found.out.startswith("co2_eq_emissions:\n  emissions: ")
    for line in ('training_type: "fine-tuning"', 'geographical_location: "France"', "1 x NVIDIA A100"):
        assert line in found.out
    other = wattlaw("predict", *run_options, *options, "--location", "Orsay, France", "--json")
    assert json.loads(other.out)["co2_eq_emissions"]["geographical_location"] == "Orsay, France"
    given = wattlaw("predict", *run_options, "--carbon-g-per-kwh", 50, "--model-card").out
    assert "50 g/kWh, as given" in given
    assert "geographical_location" not in given


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--region", "Germny"], ["--region", "Germany"]),
        (["--region", ""], ["--region"]),
        (["--region", "FR", "--carbon-g-per-kwh", "5"], ["--region", "--carbon-g-per-kwh", "one of"]),
        (["--price-per-kwh", "1", "--tariff", "x.toml"], ["--price-per-kwh", "--tariff"]),
        (["--start", "now"], ["--start", "--tariff"]),
        (["--window", "1h"], ["--window", "--carbon-series"]),
        (["--carbon-scope", "direct"], ["--carbon-scope", "--carbon-series"]),
        (["--carbon-scope", "marginal", "--carbon-series", "x.csv"], ["--carbon-scope", "life-cycle"]),
        (["--device-life-hours", "5"], ["--device-life-hours", "--embodied"]),
        (["--embodied", "0"], ["--embodied", "> 0"]),
        (["--embodied", "300"], ["--embodied", "--device-life-hours"]),
        (["--gpu", "l4", "--embodied"], ["--embodied", "l4", "h100-sxm5-80gb"]),
        (["--tariff", "missing.toml"], ["missing.toml", "cannot read"]),
        (["--carbon-series", "missing.csv"], ["missing.csv", "cannot read"]),
        (["--carbon-series", "."], [".: cannot read"]),
        (["--tariff", "/dev/null"], ["--tariff", "device"]),
        (["--model-card"], ["--model-card", "--region"]),
        (["--training-type", "tuning"], ["--training-type", "fine-tuning"]),
        (["--training-type", "fine-tuning"], ["--training-type", "--model-card"]),
        (["--location", "Oslo"], ["--location", "--model-card"]),
    ],
)
def test_what_cannot_be_is_refused(refused, run_options, options, words):
    """In one line, with the option."""
    refused("predict", *run_options, *options, words=words)


@pytest.mark.parametrize("start", ["2025-07-01T12:00", "noon", "", "2025-13-01T00:00Z"])
def test_a_start_has_its_offset(refused, run_options, tariff, start):
    """A local time could be two times."""
    refused("predict", *run_options, "--tariff", tariff, f"--start={start}", words=["--start", "offset from UTC"])


@pytest.mark.parametrize("window", ["24", "h", "-1h", "nanh", "1y", "", "1e400d"])
def test_a_time_span_has_its_unit(refused, run_options, tariff, window):
    """Seconds, minutes, hours or days."""
    refused("predict", *run_options, "--tariff", tariff, f"--window={window}", words=["--window"])


def test_a_series_that_does_not_reach_is_named(refused, run_options, carbon):
    """With its file's range: a window past its end, a start before it, and now."""
    for options in (("--start", NOON, "--window", "10d"), ("--start", "2024-07-01T12:00Z"), ()):
        refused(
            "predict",
            *run_options,
            "--carbon-series",
            carbon,
            *options,
            words=["2025-07-01T00:00Z to 2025-07-06T00:00Z"],
        )


@pytest.mark.parametrize("options", [["--price-per-device-hour=1"], ["--embodied"], ["--tariff=x.toml"]])
def test_a_law_without_time_prices_no_hours(options):
    """Rent, wear and hourly prices need a time; a law that has none is refused, and not counted as 0."""
    spec = read_spec(SPEC)
    (prediction,) = predict([spec], bundled())
    typed = command.make_context("predict", [str(SPEC), *options]).params
    given = {name: typed[name] for name in NAMES}
    with pytest.raises(ConfigError, match=f"{options[0].partition('=')[0]}: needs to know how long"):
        account(given, spec, replace(prediction, duration_s=None, power_w=None))


@pytest.mark.parametrize(
    "option", ["--price-per-kwh", "--price-per-device-hour", "--carbon-g-per-kwh", "--pue", "--device-life-hours"]
)
def test_a_figure_whose_products_are_not_finite_is_refused(refused, run_options, option):
    """JSON has no infinity, and no currency has such a price."""
    extra = ("--embodied", "1") if option == "--device-life-hours" else ()
    most = "<= 10" if option == "--pue" else "<= 1e+12"
    refused("predict", *run_options, *extra, option, "1e308", "--json", words=(option, "1e308", most))


@pytest.mark.parametrize("start", ["9999-12-31T23:59Z", "0001-01-01T00:00+02:00"])
def test_a_start_beyond_the_calendar_is_refused(refused, run_options, tmp_path, start):
    """The last minute of 9999 has no tomorrow in any time zone."""
    tariff = tmp_path / "tariff.toml"
    tariff.write_text('timezone = "Europe/Berlin"\nprice_per_kwh = 0.3\n')
    refused("predict", *run_options, "--tariff", tariff, "--start", start, words=["--start", start, "1900 to 8999"])
