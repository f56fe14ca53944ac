"""Fitting the speedup laws gives known laws back."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from wattlaw.errors import DataError, FitError
from wattlaw.features.table import Table
from wattlaw.law.speedup import fit_speedup, speedup_efficiency
from wattlaw.parallel.speedup import PUBLISHED, SpeedupParameters

TRUE = SpeedupParameters(alpha=0.3, beta=0.8, s_max=2.5, rate=0.4)


def runs(tensor, data) -> Table:
    """Runs on these degrees whose efficiency is that of the true laws."""
    table = Table({"tensor_parallel": tensor, "data_parallel": data})
    return table.with_columns(efficiency=speedup_efficiency(table, TRUE))


def test_recovers_both_laws():
    """Recovery: four degrees on each axis, and both together, give the parameters back to six digits."""
    fit = fit_speedup(runs([1, 1, 1, 1, 2, 4, 8, 16, 2], [1, 2, 4, 8, 1, 1, 1, 1, 2]))
    for name in ("alpha", "beta", "s_max", "rate"):
        assert getattr(fit.parameters, name) == pytest.approx(getattr(TRUE, name), rel=1e-5), name
    assert fit.fitted == ("alpha", "beta", "s_max", "rate")
    assert fit.on_bound == ()
    assert fit.rmse_ln_efficiency < 1e-6
    assert fit.num_records == 8


def test_what_the_records_do_not_determine_stays_published():
    """One data-parallel degree fits alpha and keeps beta; no tensor-parallel run keeps that law as it is."""
    table = runs([1, 1], [1, 4])
    fit = fit_speedup(table)
    assert fit.fitted == ("alpha",)
    assert (fit.parameters.beta, fit.parameters.s_max, fit.parameters.rate) == pytest.approx(
        (PUBLISHED.beta, PUBLISHED.s_max, PUBLISHED.rate)
    )
    np.testing.assert_allclose(speedup_efficiency(table, fit.parameters), table["efficiency"], rtol=1e-6)


def test_perfect_speedup_leans_on_the_bound_and_says_so():
    """Efficiency of 1 and more drives the parameters to their bounds, which is reported."""
    table = Table({"tensor_parallel": [1, 1], "data_parallel": [2, 4], "efficiency": [1.0, 1.02]})
    fit = fit_speedup(table)
    assert fit.on_bound
    np.testing.assert_allclose(speedup_efficiency(table, fit.parameters), 1, atol=0.01)


def test_measured_rows_are_far_below_the_published_law(bert_2080ti):
    """The rows' tensor parallelism gives a fifth of a device on two: the published law promises 3.8."""
    fit = fit_speedup(bert_2080ti)
    two = Table({"tensor_parallel": [2.0], "data_parallel": [1.0]})
    assert speedup_efficiency(two, fit.parameters)[0] < 0.4
    assert speedup_efficiency(two, PUBLISHED)[0] > 3


def test_runs_on_one_device_have_no_speedup():
    """Without a divided run there is nothing to fit."""
    with pytest.raises(DataError, match="no run is divided"):
        fit_speedup(runs([1, 1], [1, 1]))


def test_a_solver_that_gives_up_carries_what_it_reached(monkeypatch):
    """Where the least squares does not converge the error carries the parameters so far."""

    def give_up(_function, start, **_options):
        return SimpleNamespace(success=False, message="out of steps", x=start)

    monkeypatch.setattr("scipy.optimize.least_squares", give_up)
    with pytest.raises(FitError, match="did not converge; given out of steps") as caught:
        fit_speedup(runs([1, 1], [2, 4]))
    assert caught.value.partial.alpha == pytest.approx(PUBLISHED.alpha)
