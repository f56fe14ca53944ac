"""The diagnostic suite says what is wrong with a fit, and the lemma's assumptions are measured."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from wattlaw.errors import DataError, MissingExtraError
from wattlaw.features.table import Table
from wattlaw.law.paper import PaperLaw
from wattlaw.law.paper.diagnostics import check_lemma, diagnose
from wattlaw.law.paper.least_squares import ordinary_least_squares


def fit_line(response, x):
    """Fit a straight line to a response."""
    return ordinary_least_squares(np.column_stack([np.ones(x.size), x]), response, names=("intercept", "x"))


def test_suite_of_a_good_fit():
    """Normal errors: the trend is flat, quantiles follow the line, tails are not heavy."""
    random = np.random.default_rng(0)
    x = random.uniform(0, 10, 400)
    suite = diagnose(fit_line(1 + 2 * x + random.standard_normal(400), x), np.where(x > 5, "high", "low"))
    assert np.max(np.abs(suite.trend_residuals)) < 0.4
    assert np.corrcoef(suite.normal_quantiles, suite.sample_quantiles)[0, 1] > 0.99
    assert abs(suite.excess_kurtosis) < 0.8
    assert 1.7 < suite.durbin_watson < 2.3
    assert {level: values.size for level, values in suite.by_level.items()} == {
        "high": int(np.sum(x > 5)),
        "low": int(np.sum(x <= 5)),
    }


def test_suite_shows_a_curve_and_heavy_tails():
    """A parabola bends the trend into a U; Student errors with two degrees of freedom have heavy tails."""
    random = np.random.default_rng(1)
    x = np.linspace(-3, 3, 300)
    levels = np.full(300, "one")
    curved = diagnose(fit_line(x + x**2 + 0.1 * random.standard_normal(300), x), levels)
    middle = curved.trend_residuals[150]
    assert middle < curved.trend_residuals[0] - 2
    assert middle < curved.trend_residuals[-1] - 2
    heavy = diagnose(fit_line(x + random.standard_t(2, 300), x), levels)
    assert heavy.excess_kurtosis > 2


def test_suite_of_the_paper_law(bert_2080ti):
    """On the measured BERT rows Cook's distances stay small, and there is one box per strategy."""
    suite = diagnose(PaperLaw(efficiency="measured").least_squares(bert_2080ti), bert_2080ti["strategy"])
    assert set(suite.by_level) == {"single", "fsdp", "tp"}
    assert 0 < suite.cooks_distance.max() < 1
    assert set(suite.variance_inflation) >= {"ln_compute_proxy", "ln_memory_proxy", "ln_efficiency"}


def test_levels_must_be_of_the_rows():
    """One level per row of the fit, or an error."""
    x = np.arange(10.0)
    with pytest.raises(DataError, match="given 3; allowed 10"):
        diagnose(fit_line(x**2, x), np.array(["a", "b", "c"]))


def sweep(power_slope: float, duration_slope: float, *, work_slope: float = 0.0) -> Table:
    """Five families on 1, 2, 4 devices whose power and time are powers of the number of devices."""
    family = np.repeat(np.arange(5.0), 3)
    devices = np.tile([1.0, 2.0, 4.0], 5)
    power_w, duration_s = 200 * (1 + family) * devices**power_slope, 50 * (1 + family) * devices**duration_slope
    return Table({
        "energy_j": power_w * duration_s,
        "duration_s": duration_s,
        "num_devices": devices,
        "compute_proxy": 1e15 * devices**work_slope,
        "strategy": np.where(devices == 1, "single", "fsdp"),
        "group": np.array([f"family {number:g}" for number in family]),
    })  # fmt: skip


def test_lemma_elasticities_are_recovered():
    """Known powers of N come back, whatever the level of each family, and add up to the energy's."""
    check = check_lemma(sweep(0.1, -0.8))["fsdp"]
    assert check.power_elasticity == pytest.approx(0.1)
    assert check.duration_elasticity == pytest.approx(-0.8)
    assert check.energy_elasticity == pytest.approx(-0.7)
    assert check.workload_is_fixed
    assert check.power_is_flat
    assert check.time_dominates
    assert (check.num_families, check.num_records) == (5, 15)


def test_lemma_fails_where_it_should():
    """Power that doubles with the devices breaks A2 and A3; work that grows breaks A1."""
    check = check_lemma(sweep(1.0, 0.5, work_slope=1.0))["fsdp"]
    assert not check.power_is_flat
    assert not check.time_dominates
    assert check.duration_elasticity == pytest.approx(-0.5)  # the work doubled too
    assert not check.workload_is_fixed
    assert check.workload_spread == pytest.approx(4.0)


def test_lemma_on_the_measured_rows(paper_rows):
    """The elasticity of energy is the sum of the others, for both strategies that divide the work."""
    checks = check_lemma(paper_rows)
    assert set(checks) == {"fsdp", "tp"}
    for check in checks.values():
        assert check.energy_elasticity == pytest.approx(check.power_elasticity + check.duration_elasticity)
        assert check.num_families >= 10


def test_lemma_needs_several_device_counts():
    """Without a family on several device counts there is nothing to check."""
    with pytest.raises(DataError, match="several device counts"):
        check_lemma(sweep(0.1, -0.8).take([0, 4, 8]))


def test_without_statsmodels_the_extra_is_named(monkeypatch):
    """Where statsmodels is not installed the error says what to install."""
    x = np.arange(10.0)
    fit = fit_line(x**2, x)
    monkeypatch.setitem(sys.modules, "statsmodels.nonparametric.smoothers_lowess", None)
    with pytest.raises(MissingExtraError, match=r"wattlaw\[stats\]"):
        diagnose(fit, np.full(10, "one"))
