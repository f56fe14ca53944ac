"""Figures and probes as values and as files."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattlaw.errors import DataError, FileError
from wattlaw.measure.probe import Figure, Probe

POSITIVE = st.floats(1e-9, 1e15)


@pytest.fixture
def probe() -> Probe:
    """A probe with one figure, and one that was not measured."""
    return Probe(
        accelerator="generic-cpu",
        device="cpu",
        num_devices=2,
        threads=1,
        measured={
            "copy_bytes_per_s": Figure(value=1e10, unit="B/s", method="copy", spread=0.1, num_samples=9),
            "node_idle_power_w": None,
        },
        unavailable={"node_idle_power_w": "no sensor"},
        warnings=("busy",),
        environment={"torch": "2"},
        date="2026-11-30",
        duration_s=59.0,
    )


def test_the_spread_of_repeats_is_that_of_a_normal_distribution() -> None:
    """Of normal repeats the spread is their standard deviation over the mean: here 2 of 100."""
    # The 19 inner 5 % quantiles of the normal distribution with mean 100 and standard deviation 2.
    from statistics import NormalDist

    samples = [NormalDist(100, 2).inv_cdf(place / 20) for place in range(1, 20)]
    figure = Figure.of_samples(samples, unit="s", method="")
    assert figure.value == pytest.approx(100)
    assert figure.spread == pytest.approx(0.02, rel=0.05)


@given(st.lists(POSITIVE, min_size=2, max_size=9), st.floats(1e-3, 1e3))
def test_a_unit_changes_values_and_not_spreads(values: list[float], factor: float) -> None:
    """Figures scale with their unit: the value by the factor, spread and error not at all."""
    plain = Figure.of_cases(values, unit="s", method="", num_samples=1)
    scaled = Figure.of_cases([value * factor for value in values], unit="s", method="", num_samples=1)
    assert scaled.value == pytest.approx(plain.value * factor)
    assert scaled.spread == pytest.approx(plain.spread, abs=1e-7)
    assert plain.error == pytest.approx(plain.spread / math.sqrt(len(values)))


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_what_no_measurement_gives_is_refused(value: float) -> None:
    """A rate or a time of zero is a measurement that went wrong."""
    with pytest.raises(DataError, match="above zero"):
        Figure(value=value, unit="s", method="")


def test_a_probe_comes_back_from_its_file(probe: Probe, tmp_path) -> None:
    """Saving and loading changes nothing, and what was not measured is null in the file."""
    path = tmp_path / "host.probe.json"
    probe.save(path)
    assert Probe.load(path) == probe
    assert json.loads(path.read_text())["measured"]["node_idle_power_w"] is None
    assert probe.figures.keys() == {"copy_bytes_per_s"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda _: "{", "not valid JSON"),
        (lambda _: "[]", "not a probe"),
        (lambda document: json.dumps({**document, "format": "wattlaw calibration"}), "not a probe"),
        (lambda document: json.dumps({**document, "format_version": 2}), "another version"),
        (lambda document: json.dumps({**document, "threads": "two"}), r"\$\.threads"),
        (
            lambda document: json.dumps({**document, "measured": {"a": {"value": -1, "unit": "s", "method": ""}}}),
            "zero",
        ),
    ],
)
def test_a_wrong_file_is_told_in_one_line(probe: Probe, tmp_path, change, told: str) -> None:
    """The error names the file and the field."""
    path = tmp_path / "host.probe.json"
    probe.save(path)
    path.write_text(change(json.loads(path.read_text())))
    with pytest.raises(FileError, match=told) as caught:
        Probe.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_told(tmp_path) -> None:
    """The reason is the system's."""
    with pytest.raises(FileError, match="No such file"):
        Probe.load(tmp_path / "absent.json")
