"""Least squares agrees with its textbook formulas, computed here by another route."""

from __future__ import annotations

import builtins
import math

import numpy as np
import pytest

from wattlaw.errors import ConfigError, DataError, MissingExtraError
from wattlaw.law.paper.least_squares import (
    hc3_covariance,
    leverages,
    likelihood_ratio,
    ordinary_least_squares,
)

NAMES = ("intercept", "x", "z")


@pytest.fixture
def data():
    """Forty rows with errors that grow with x and come in eight groups."""
    random = np.random.default_rng(3)
    x, z = random.uniform(0, 5, 40), random.standard_normal(40)
    groups = np.array([f"g{number}" for number in np.arange(40) % 8])
    shared = random.standard_normal(8)[np.arange(40) % 8]
    response = 1 + 2 * x - z + (0.1 + 0.3 * x) * random.standard_normal(40) + shared
    return np.column_stack([np.ones(40), x, z]), response, groups


def test_coefficients_and_hc3_by_hand(data):
    """Coefficients are those of numpy's solver; HC3 is (X'X)^-1 X' diag(e^2/(1-h)^2) X (X'X)^-1."""
    design, response, _ = data
    fit = ordinary_least_squares(design, response, names=NAMES)
    expected = np.linalg.lstsq(design, response, rcond=None)[0]
    np.testing.assert_allclose(fit.coefficients, expected, rtol=1e-10)
    inverse = np.linalg.inv(design.T @ design)
    hat = design @ inverse @ design.T
    residuals = response - design @ expected
    meat = design.T @ np.diag((residuals / (1 - np.diag(hat))) ** 2) @ design
    np.testing.assert_allclose(fit.covariance, inverse @ meat @ inverse, rtol=1e-9)
    np.testing.assert_allclose(fit.leverage, np.diag(hat), rtol=1e-9)
    np.testing.assert_allclose(hc3_covariance(design, residuals), fit.covariance, rtol=1e-9)
    np.testing.assert_allclose(leverages(design), np.diag(hat), rtol=1e-9)


def test_hc3_of_columns_of_very_different_size(data):
    """Columns 1e14 times larger have errors 1e14 times smaller, to nine digits."""
    design, response, _ = data
    scale = np.array([1.0, 1e14, 1e-6])
    residuals = response - design @ np.linalg.lstsq(design, response, rcond=None)[0]
    found = hc3_covariance(design * scale, residuals)
    np.testing.assert_allclose(found * np.outer(scale, scale), hc3_covariance(design, residuals), rtol=1e-9)


def test_cluster_covariance_by_hand(data):
    """The cluster sandwich sums X'e within groups, times G/(G-1) (n-1)/(n-p)."""
    design, response, groups = data
    fit = ordinary_least_squares(design, response, names=NAMES, covariance="cluster", groups=groups)
    inverse = np.linalg.inv(design.T @ design)
    scores = np.array([design[groups == g].T @ fit.residuals[groups == g] for g in np.unique(groups)])
    expected = inverse @ (scores.T @ scores) @ inverse * (8 / 7) * (39 / 37)
    np.testing.assert_allclose(fit.covariance, expected, rtol=1e-9)
    assert fit.error_dof == 7


def test_influence_by_leaving_rows_out(data):
    """Left-out residuals and Cook's distances are those of forty fits without one row each."""
    design, response, _ = data
    fit = ordinary_least_squares(design, response, names=NAMES, covariance="classical")
    variance = fit.residuals @ fit.residuals / 37
    for row in range(40):
        kept = np.arange(40) != row
        others = np.linalg.lstsq(design[kept], response[kept], rcond=None)[0]
        assert fit.left_out_residuals[row] == pytest.approx(response[row] - design[row] @ others, rel=1e-8)
        moved = design @ (others - fit.coefficients)
        assert fit.cooks_distance[row] == pytest.approx(moved @ moved / (3 * variance), rel=1e-8)


def test_figures_by_their_formulas(data):
    """Adjusted R2, likelihood, Durbin-Watson, condition number and variance inflation by definition."""
    design, response, _ = data
    fit = ordinary_least_squares(design, response, names=NAMES)
    squares = fit.residuals @ fit.residuals
    r2 = 1 - squares / np.sum((response - response.mean()) ** 2)
    assert fit.r2 == pytest.approx(r2)
    assert fit.adjusted_r2 == pytest.approx(1 - (1 - r2) * 39 / 37)
    assert fit.rmse == pytest.approx(math.sqrt(squares / 40))
    assert fit.log_likelihood == pytest.approx(-20 * (math.log(2 * math.pi * squares / 40) + 1))
    assert fit.durbin_watson == pytest.approx(np.sum(np.diff(fit.residuals) ** 2) / squares)
    singular = np.linalg.svd(design, compute_uv=False)
    assert fit.condition_number == pytest.approx(singular[0] / singular[-1])
    correlation = np.corrcoef(design[:, 1], design[:, 2])[0, 1]
    assert fit.variance_inflation == pytest.approx({"x": 1 / (1 - correlation**2), "z": 1 / (1 - correlation**2)})
    assert fit.num_records == 40


def test_classical_intervals_cover_at_their_level():
    """Recovery: over 400 simulated samples, 95 % intervals hold the true slope in 95 % of them."""
    random = np.random.default_rng(11)
    covered = 0
    for _ in range(400):
        x = random.standard_normal(15)
        design = np.column_stack([np.ones(15), x])
        fit = ordinary_least_squares(
            design, 1 + 2 * x + random.standard_normal(15), names=("intercept", "x"), covariance="classical"
        )
        low, high = fit.confidence_interval("x", 0.95)
        covered += low <= 2 <= high
    assert 0.92 <= covered / 400 <= 0.98


def test_likelihood_ratio_of_a_column_that_matters(data):
    """The statistic is n ln(SSR restricted / SSR full), on one degree of freedom."""
    design, response, _ = data
    full = ordinary_least_squares(design, response, names=NAMES)
    restricted = ordinary_least_squares(design[:, :2], response, names=NAMES[:2])
    ratio = likelihood_ratio(full, restricted)
    expected = 40 * math.log((restricted.residuals @ restricted.residuals) / (full.residuals @ full.residuals))
    assert ratio.statistic == pytest.approx(expected)
    assert ratio.dof == 1
    assert ratio.p_value == pytest.approx(math.erfc(math.sqrt(expected / 2)))
    assert ratio.log10_p_value == pytest.approx(math.log10(ratio.p_value))
    with pytest.raises(ConfigError, match="fewer of the same columns"):
        likelihood_ratio(restricted, full)
    with pytest.raises(ConfigError, match="different rows"):
        likelihood_ratio(full, ordinary_least_squares(design[:-1, :2], response[:-1], names=NAMES[:2]))


def test_published_likelihood_ratio():
    """Worked number, table 4: a statistic of 174.90 on one degree of freedom has p = 6.3e-40."""
    assert math.erfc(math.sqrt(174.90 / 2)) == pytest.approx(6.3e-40, rel=0.01)


def test_redundant_columns_are_named(data):
    """Only the columns that repeat each other are named."""
    design, response, _ = data
    doubled = np.column_stack([design, 3 * design[:, 1] - design[:, 0]])
    with pytest.raises(DataError, match=r"given intercept, x, sum;"):
        ordinary_least_squares(doubled, response, names=(*NAMES, "sum"))
    with pytest.raises(DataError, match=r"never varies.*empty"):
        ordinary_least_squares(np.column_stack([design, np.zeros(40)]), response, names=(*NAMES, "empty"))


def test_bad_data_is_refused(data):
    """Not finite, as many coefficients as rows, one cluster, no clusters, an unknown covariance."""
    design, response, _ = data
    broken = design.copy()
    broken[4, 2] = np.nan
    with pytest.raises(DataError, match="z is not finite; given nan in row 4"):
        ordinary_least_squares(broken, response, names=NAMES)
    with pytest.raises(DataError, match="3 rows for 3 coefficients"):
        ordinary_least_squares(design[:3], response[:3], names=NAMES)
    with pytest.raises(DataError, match="several groups"):
        ordinary_least_squares(design, response, names=NAMES, covariance="cluster", groups=np.full(40, "a"))
    with pytest.raises(ConfigError, match="group of each row"):
        ordinary_least_squares(design, response, names=NAMES, covariance="cluster")
    with pytest.raises(ConfigError, match="unknown covariance; given HC9; allowed classical, HC3, cluster"):
        ordinary_least_squares(design, response, names=NAMES, covariance="HC9")


def test_without_statsmodels_the_extra_is_named(data, monkeypatch):
    """Where statsmodels is not installed the error says what to install."""
    original = builtins.__import__

    def refuse(name, *arguments, **keywords):
        if name.startswith("statsmodels"):
            raise ImportError(name)
        return original(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r"wattlaw\[stats\]"):
        ordinary_least_squares(data[0], data[1], names=NAMES)
