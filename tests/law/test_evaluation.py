"""Protocols keep apart what belongs together, and scores are those that can be worked out by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattlaw.errors import ConfigError, DataError, FitError, UnknownNameError
from wattlaw.features.table import Table
from wattlaw.law.calibration import Calibration, Estimate, Residuals
from wattlaw.law.evaluation import METRICS, PROTOCOLS, Split, evaluate, observed, residuals, splits
from wattlaw.law.step import StepLaw


def rows(energies, **columns):
    """A table of runs with these energies, each its own family."""
    count = len(energies)
    return Table({
        "energy_j": np.array(energies, dtype=np.float64),
        "duration_s": np.full(count, 10.0),
        "group": np.array([f"family {number}" for number in range(count)]),
        "machine": np.array(["one"] * (count // 2) + ["two"] * (count - count // 2)),
        "compute_proxy": np.arange(1.0, count + 1),
        **columns,
    })  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyLaw:
    """Predicts the measured energy times a factor, and a fixed time; says nothing about some strategies."""

    name: ClassVar[str] = "toy"
    columns: ClassVar[tuple[str, ...]] = ("energy_j",)

    factor: float = 1.0
    duration_s: float | None = None
    uncovered: tuple[str, ...] = ()
    least_rows: int = 0
    residuals: tuple[float, ...] = ()
    error: type[Exception] = DataError

    def fit(self, table):
        """Refuse fewer rows than are wanted."""
        if len(table) < self.least_rows:
            raise self.error("too few rows", given=len(table))
        found = Residuals(energy=self.residuals, duration=self.residuals)
        return Calibration(law=self.name, parameters={"num_rows": float(len(table))}, residuals=found)

    def estimate(self, calibration, table):
        """Know the answer."""
        energy_j = self.factor * table["energy_j"]
        duration_s = None if self.duration_s is None else np.full(len(table), self.duration_s)
        return Estimate(energy_j=energy_j, duration_s=duration_s, terms_j={"all": energy_j})

    def covers(self, calibration, table):
        """Leave out the strategies that it says nothing about."""
        if not self.uncovered:
            return np.ones(len(table), dtype=bool)
        return ~np.isin(table.text("strategy"), self.uncovered)


def one_split(table, num_train=2):
    """Train on the first rows, test on the others."""
    return [Split(name="the split", train=np.arange(num_train), test=np.arange(num_train, len(table)))]


def score(law, table, **options):
    """Evaluate on one split; return the pooled verdict."""
    return evaluate(law, table, one_split(table), protocol="toy", **options)[0]


# Protocols


@st.composite
def tables(draw):
    """Runs of several families on several machines, with different amounts of work."""
    count = draw(st.integers(12, 60))
    groups = draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    machines = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    return rows(
        np.ones(count),
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
    table = rows(np.ones(40))
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
    table = rows(np.ones(24))
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
    (split,) = splits(rows(np.ones(6), compute_proxy=np.array([1.0, 1, 1, 9, 1, 1])), "small-to-large")
    assert (split.train.tolist(), split.test.tolist()) == ([0, 1, 2, 4, 5], [3])


def test_an_unknown_protocol_is_answered_with_the_nearest():
    """All that exist can be asked for."""
    with pytest.raises(UnknownNameError, match=r"unknown protocol; given 'leave-one-out'; allowed leave-one-gpu-out"):
        splits(rows(np.ones(8)), "leave-one-out")
    assert all(splits(rows(np.ones(24)), name) for name in PROTOCOLS)


@pytest.mark.parametrize(
    "options",
    [{"num_splits": 0}, {"test_fraction": 0.0}, {"test_fraction": 1.0}, {"test_fraction": math.nan}, {"num_runs": -1}],
)
def test_numbers_that_make_no_split_are_refused(options):
    """No split, nothing to test on, nothing to train on."""
    with pytest.raises(ConfigError, match="a protocol needs splits"):
        splits(rows(np.ones(8)), "grouped", **options)


def test_a_machine_with_too_few_runs_is_named():
    """Four of four runs in training would leave nothing to predict."""
    with pytest.raises(DataError, match="too few runs on one; given 4; allowed more than 4"):
        splits(rows(np.ones(8)), "few-runs", num_runs=4)


# Scores


def test_scores_of_a_perfect_law():
    """No error, all of the variance."""
    metrics = score(ToyLaw(), rows([1, 2, 4, 8, 16])).metrics
    assert {name: metrics[name].median for name in ("r2_log", "median_ape", "mean_ape", "bias")} == pytest.approx({
        "r2_log": 1,
        "median_ape": 0,
        "mean_ape": 0,
        "bias": 0,
    })  # fmt: skip


@pytest.mark.parametrize("factor", [1.25, 0.5])
def test_scores_of_a_law_that_is_always_off_by_a_factor(factor):
    """Errors and bias are the factor less 1; of the spread of ln 4, ln 8, ln 16 the squares of its logarithm miss."""
    metrics = score(ToyLaw(factor=factor), rows([1, 2, 4, 8, 16])).metrics
    spread = 2 * math.log(2) ** 2
    assert metrics["r2_log"].median == pytest.approx(1 - 3 * math.log(factor) ** 2 / spread)
    assert metrics["median_ape"].median == pytest.approx(100 * abs(factor - 1))
    assert metrics["mean_ape"].median == pytest.approx(100 * abs(factor - 1))
    assert metrics["bias"].median == pytest.approx(100 * (factor - 1))


def test_coverage_and_half_width_by_hand():
    """Residuals of ln 1.1 and ln 1/1.1 hold a law that is 5 % too low and not one that is 20 % too low."""
    table, ends = rows([1, 2, 4, 8, 16]), math.log(1.1)
    for factor, coverage in ((1 / 1.05, 100), (1 / 1.2, 0)):
        law = ToyLaw(factor=factor, residuals=(-ends, -ends, ends, ends))
        metrics = score(law, table, level=0.9).metrics
        assert metrics["coverage"].median == coverage
        assert metrics["half_width"].median == pytest.approx(1.1)


def test_a_law_without_residuals_has_no_coverage():
    """What cannot be computed is left out, never 0."""
    assert set(score(ToyLaw(), rows([1, 2, 4, 8])).metrics) == set(METRICS) - {"coverage", "half_width"}


def test_one_test_row_has_no_r2():
    """A single run has no spread to explain."""
    metrics = score(ToyLaw(), rows([1, 2, 4])).metrics
    assert "r2_log" not in metrics
    assert metrics["median_ape"].median == pytest.approx(0)


def test_summaries_are_quartiles_over_the_splits():
    """Five splits whose training has 1, 2, 3, 4 and 5 rows, and a law that is off by as many percent."""

    class Drifting(ToyLaw):
        def estimate(self, calibration, table):
            energy_j = (1 + calibration.parameters["num_rows"] / 100) * table["energy_j"]
            return Estimate(energy_j=energy_j, duration_s=None, terms_j={"all": energy_j})

    table = rows([1, 2, 4, 8, 16, 32, 64])
    cuts = [one_split(table, count)[0] for count in (5, 3, 1, 4, 2)]
    (verdict,) = evaluate(Drifting(), table, cuts, protocol="toy")
    found = verdict.metrics["bias"]
    assert (found.lower_quartile, found.median, found.upper_quartile) == pytest.approx((2, 3, 4))
    assert found.count == 5
    assert (verdict.law, verdict.protocol, verdict.target, verdict.num_rows) == ("toy", "toy", "energy", 7)


@pytest.mark.parametrize(("target", "expected"), [("energy", 1.5), ("time", 20 / 10), ("power", 1.5 / (20 / 10))])
def test_each_target_is_scored_as_what_it_is(target, expected):
    """Energy half too high and time twice too long make the power three quarters."""
    law = ToyLaw(factor=1.5, duration_s=20.0, residuals=(-1.0, 0.0, 0.0, 1.0))
    metrics = score(law, rows([1, 2, 4, 8]), target=target).metrics
    assert metrics["bias"].median == pytest.approx(100 * (expected - 1))
    assert ("coverage" in metrics) == (target != "power")


def test_observed_power_is_energy_over_time():
    """Watts are joules per second."""
    assert observed(rows([10, 20]), "power").tolist() == [1, 2]
    assert residuals(ToyLaw(factor=0.5), ToyLaw().fit(rows([1])), rows([10, 20]), "energy").tolist() == pytest.approx(
        [math.log(2)] * 2
    )


def test_a_law_that_knows_no_time_is_not_scored_on_it():
    """The error says what it can be scored on."""
    with pytest.raises(DataError, match=r"the toy law predicts no time; given target time; allowed energy"):
        score(ToyLaw(), rows([1, 2, 4, 8]), target="time")
    with pytest.raises(UnknownNameError, match="unknown target; given 'enrgy'; allowed energy"):
        score(ToyLaw(), rows([1, 2, 4, 8]), target="enrgy")


def test_rows_are_scored_together_and_apart():
    """Beside all rows, those that share a value of the column."""
    table = rows([1, 2, 4, 8, 16, 32], family=np.array(["a", "a", "a", "a", "b", "b"]))
    verdicts = evaluate(ToyLaw(factor=2.0), table, one_split(table), protocol="toy", by="family")
    assert [verdict.part for verdict in verdicts] == ["pooled", "a", "b"]
    assert all(verdict.metrics["bias"].median == pytest.approx(100) for verdict in verdicts)


def test_rows_that_a_law_says_nothing_about_are_counted():
    """They are not scored, and the number of them over all splits is told."""
    table = rows([1, 2, 4, 8, 16], strategy=np.array(["single", "single", "single", "tp", "tp"]))
    cuts = one_split(table) * 3
    (verdict,) = evaluate(ToyLaw(uncovered=("tp",)), table, cuts, protocol="toy")
    assert verdict.num_uncovered == 3 * 2
    assert verdict.num_failed == 0
    assert verdict.metrics["median_ape"].count == 3


def test_a_split_without_any_row_that_is_covered_has_failed():
    """There is nothing to score: it is counted, and the others go on."""
    table = rows([1, 2, 4, 8, 16], strategy=np.array(["single", "single", "single", "tp", "tp"]))
    cuts = [*one_split(table), *one_split(table, 3)]
    (verdict,) = evaluate(ToyLaw(uncovered=("tp",)), table, cuts, protocol="toy")
    assert (verdict.num_failed, verdict.num_uncovered) == (1, 2 + 2)
    assert verdict.failure == "the split: the law says nothing about any of the runs that it was to be tested on"


@pytest.mark.parametrize("error", [DataError, FitError])
def test_a_split_on_which_the_law_cannot_be_fitted_is_counted(error):
    """The reason of the first is told; too few rows and a search without an end alike."""
    table = rows([1, 2, 4, 8, 16])
    cuts = [*one_split(table, 3), *one_split(table, 1), *one_split(table, 2)]
    (verdict,) = evaluate(ToyLaw(least_rows=3, error=error), table, cuts, protocol="toy")
    assert verdict.num_failed == 2
    assert verdict.failure == "the split: too few rows; given 1"
    assert verdict.metrics["bias"].count == 1


def test_a_law_that_cannot_be_fitted_on_any_split_is_an_error():
    """No verdict is made of nothing."""
    table = rows([1, 2, 4])
    with pytest.raises(DataError, match=r"the toy law could not be fitted on any split; given the split: too few rows"):
        evaluate(ToyLaw(least_rows=99), table, one_split(table), protocol="toy")


def test_the_step_law_explains_the_measured_runs(shared_table):
    """Configuration families that were held out, four splits of all 518 rows: R2 of ln(energy) above 0.99."""
    cuts = splits(shared_table, "grouped", num_splits=4)
    verdicts = evaluate(StepLaw(), shared_table, cuts, protocol="grouped", by="architecture")
    medians = {verdict.part: verdict.metrics["r2_log"].median for verdict in verdicts}
    assert medians["pooled"] > 0.99
    assert verdicts[0].metrics["median_ape"].median < 5
    assert verdicts[0].num_failed == 0
    assert min(medians.values()) > 0.98
