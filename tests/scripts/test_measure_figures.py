"""The figures of measuring that need no measuring: the sweep that is shipped, and what the law makes of it."""

from __future__ import annotations

from collections import Counter

import measure_figures
import pytest

from wattlaw.run import read_records


@pytest.fixture(scope="module")
def sample():
    """The records of the shipped sweep."""
    return read_records(measure_figures.SAMPLE)


def test_the_sample_is_whole(sample):
    """More than 300 configurations that all ended well, each in all four ways, of two families; no energy claimed."""
    runs = [record for record in sample if record.environment["role"] == "sample"]
    assert len({record.environment["configuration"] for record in runs}) == len(runs) >= 300
    assert all(record.status == "ok" and record.duration_s > 0 and not record.energies for record in sample)
    ways = Counter(record.require_spec().layout.strategy for record in runs)
    assert set(ways) == {"single", "ddp", "fsdp", "tp"}
    assert len(set(ways.values())) == 1
    assert {record.require_spec().architecture.family for record in runs} == {"bert", "gpt2"}


def test_the_machine_was_steady_while_the_sample_was_measured(sample):
    """The control configuration's steps stay within 10 % of their median from the first to the last."""
    controls = [record.observed["step_s"] for record in sample if record.environment["role"] == "control"]
    middle = sorted(controls)[len(controls) // 2]
    assert len(controls) >= 10
    assert all(abs(step_s / middle - 1) < 0.1 for step_s in controls)


def test_the_sample_names_no_machine(sample):
    """What is published says what kind of machine measured, and not which."""
    assert all("host" not in key and "measured_by" not in key for record in sample for key in record.environment)


def test_the_law_explains_times_it_has_not_seen(monkeypatch):
    """On three splits the step law's median error is what is claimed for twenty."""
    monkeypatch.setattr(measure_figures, "NUM_SPLITS", 3)
    figure = measure_figures.cpu_time()
    assert 0 < figure["measured"] <= figure["target"]
