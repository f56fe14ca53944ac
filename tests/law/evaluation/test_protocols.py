"""Protocols keep apart what belongs together."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattlaw.errors import ConfigError, DataError, UnknownNameError
from wattlaw.features.table import Table
from wattlaw.law.evaluation import PROTOCOLS, splits


def rows(count, **columns):
    """A table of runs, each its own family, on two machines, each with more work than the one before."""
    return Table({
        "group": np.array([f"family {number}" for number in range(count)]),
        "machine": np.array(["one"] * (count // 2) + ["two"] * (count - count // 2)),
        "compute_proxy": np.arange(1.0, count + 1),
        **columns,
    })  # fmt: skip


@st.composite
def tables(draw):
    """Runs of several families on several machines, with different amounts of work."""
    count = draw(st.integers(12, 60))
    groups = draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    machines = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    return rows(
        count,
        group=np.array([f"family {each}" for each in groups]),
        machine=np.array([f"machine {each}" for each in machines]),
        compute_proxy=np.array(draw(st.lists(st.floats(1, 1e9), min_size=count, max_size=count))),
    )


def apart(split, table):
    """Whether every row is on one side, and on one only."""
    return sorted([*split.train.tolist(), *split.test.tolist()]) == list(range(len(table)))


@given(table=tables(), test_fraction=st.floats(0.1, 0.9), seed=st.integers(0, 99))
def test_grouped_splits_never_split_a_family(table, test_fraction, seed):
    """Families stand whole on one side; the share of them in the test is the one asked for, to the nearest."""
    names = np.unique(table.text("group"))
    num_test = round(test_fraction * len(names))
    if not 0 < num_test < len(names):
        with pytest.raises(DataError, match="too few configuration families to split"):
            splits(table, "grouped", test_fraction=test_fraction)
        return
    found = splits(table, "grouped", num_splits=5, test_fraction=test_fraction, seed=seed)
    assert len(found) == 5
    for split in found:
        train, test = (set(table.text("group")[side]) for side in (split.train, split.test))
        assert apart(split, table)
        assert not train & test
        assert len(test) == num_test


def test_grouped_splits_come_from_their_seed():
    """The same seed gives the same splits, another gives others, and the splits of one seed differ."""
    table = rows(40)
    first, again, other = ([split.test.tolist() for split in splits(table, "grouped", seed=seed)] for seed in (1, 1, 2))
    assert first == again != other
    assert len({tuple(test) for test in first}) == 20


@given(table=tables())
def test_leaving_out_machines_is_a_partition(table):
    """Each machine is the test once, whole, and all the others are its training."""
    names = np.unique(table.text("machine"))
    if len(names) < 2:
        with pytest.raises(DataError, match="one GPU model only: none can be left out"):
            splits(table, "leave-one-gpu-out")
        return
    found = splits(table, "leave-one-gpu-out")
    assert [split.name for split in found] == names.tolist()
    assert sorted(np.concatenate([split.test for split in found]).tolist()) == list(range(len(table)))
    for split in found:
        assert apart(split, table)
        assert set(table.text("machine")[split.test]) == {split.name}
        assert split.name not in table.text("machine")[split.train]


@given(num_runs=st.integers(0, 8), seed=st.integers(0, 99))
def test_few_runs_are_so_many_of_the_machine_and_all_of_the_others(num_runs, seed):
    """Training has exactly ``num_runs`` of the machine that is tested; draws differ."""
    table = rows(24)
    found = splits(table, "few-runs", num_splits=6, num_runs=num_runs, seed=seed)
    assert len(found) == 2 * 6
    for split in found:
        machine = split.name.split(",")[0]
        assert apart(split, table)
        assert np.sum(table.text("machine")[split.train] == machine) == num_runs
        assert set(table.text("machine")[split.test]) == {machine}
    if num_runs:
        assert len({tuple(sorted(split.train)) for split in found}) > 2


@given(table=tables())
def test_small_to_large_tests_on_no_run_that_is_smaller_than_one_of_training(table):
    """The median of the work parts the rows."""
    if len(np.unique(table["compute_proxy"])) == 1:
        with pytest.raises(DataError, match="every run does the same work"):
            splits(table, "small-to-large")
        return
    (split,) = splits(table, "small-to-large")
    work = table["compute_proxy"]
    assert apart(split, table)
    assert work[split.train].max() < work[split.test].min()


def test_small_to_large_parts_rows_of_which_most_are_the_smallest():
    """Five runs of the least work and one of more: the one is predicted from the five."""
    (split,) = splits(rows(6, compute_proxy=np.array([1.0, 1, 1, 9, 1, 1])), "small-to-large")
    assert (split.train.tolist(), split.test.tolist()) == ([0, 1, 2, 4, 5], [3])


def test_an_unknown_protocol_is_answered_with_the_nearest():
    """All that exist can be asked for."""
    with pytest.raises(UnknownNameError, match=r"unknown protocol; given 'leave-one-out'; allowed leave-one-gpu-out"):
        splits(rows(8), "leave-one-out")
    for name in set(PROTOCOLS) - {"suggested"}:  # that one asks the step law, which reads more columns
        assert splits(rows(24), name)


@pytest.mark.parametrize(
    "options",
    [{"num_splits": 0}, {"test_fraction": 0.0}, {"test_fraction": 1.0}, {"test_fraction": math.nan}, {"num_runs": -1}],
)
def test_numbers_that_make_no_split_are_refused(options):
    """No split, nothing to test on, nothing to train on."""
    with pytest.raises(ConfigError, match="a protocol needs splits"):
        splits(rows(8), "grouped", **options)


def test_a_machine_with_too_few_runs_is_named():
    """Four of four runs in training would leave nothing to predict."""
    with pytest.raises(DataError, match="too few runs on one; given 4; allowed more than 4"):
        splits(rows(8), "few-runs", num_runs=4)
