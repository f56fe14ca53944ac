"""Scores are those that can be worked out by hand, and nothing that was not scored is dropped in silence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from wattlaw.errors import DataError, FitError, UnknownNameError
from wattlaw.features.table import Table
from wattlaw.law.calibration import Calibration, Estimate, Residuals
from wattlaw.law.evaluation import METRICS, Split, evaluate, splits
from wattlaw.law.evaluation.scores import observed
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
