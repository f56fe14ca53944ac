"""Suggested runs are of the machine, chosen without a look at what they took."""

from __future__ import annotations

import numpy as np
import pytest

from wattlaw.errors import DataError
from wattlaw.law.evaluation import evaluate, splits
from wattlaw.law.evaluation.suggested import suggested_rows
from wattlaw.law.step import StepLaw


@pytest.fixture(scope="module")
def table(step_specs, measured):
    """Runs on two machines."""
    return measured(step_specs(num_configurations=8, seed=7), noise=0.03, seed=7)


def test_each_machine_is_a_split_with_its_suggested_runs(table):
    """Training has so many of the machine and all of the other; the test is the rest of the machine."""
    cuts = splits(table, "suggested", num_runs=3)
    machines = table.text("machine")
    assert [cut.name for cut in cuts] == [f"{name}, suggested" for name in sorted(set(machines))]
    for cut in cuts:
        (machine,) = set(machines[cut.test])
        assert np.sum(machines[cut.train] == machine) == 3
        assert sorted([*cut.train, *cut.test]) == list(range(len(table)))


def test_what_the_runs_took_is_not_looked_at(table):
    """Other energies and times of the machine's runs change nothing."""
    machine = str(table["machine"][0])
    own = table["machine"] == machine
    first = suggested_rows(table, machine, 2)
    assert first.tolist() == suggested_rows(
        table.with_columns(
            energy_j=np.where(own, 1.0, table["energy_j"]), duration_s=np.where(own, 9.0, table["duration_s"])
        ),
        machine,
        2,
    ).tolist()  # fmt: skip
    assert own[first].all()


def test_they_teach_something(table):
    """Three suggested runs on each machine bring the error of the energies down."""
    after, before = (
        evaluate(StepLaw(), table, splits(table, protocol, num_runs=3), protocol=protocol)[0].metrics["median_ape"]
        for protocol in ("suggested", "leave-one-gpu-out")
    )
    assert after.median < 0.7 * before.median


def test_there_must_be_more_runs_than_are_suggested(table):
    """Otherwise nothing is left to predict; nor are none a suggestion."""
    for num_runs in (0, 1000):
        with pytest.raises(DataError, match="more than are suggested"):
            splits(table, "suggested", num_runs=num_runs)
