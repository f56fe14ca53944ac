"""Diagnostics of a fit from its slopes."""

from __future__ import annotations

import numpy as np
import pytest

from wattlaw.errors import DataError
from wattlaw.law.bundled import bundled
from wattlaw.law.fit_diagnostics import LEVELS, diagnose_fit
from wattlaw.law.fitting import measured
from wattlaw.law.laws import law_named


@pytest.fixture(scope="module")
def table(records):
    """The columns of forty runs."""
    return measured(records, laws=[law_named("step"), law_named("paper")], boundary=None).table


def test_a_law_in_logarithms_has_the_leverage_of_least_squares(table):
    """Leverage, residuals and inflation are those of ordinary least squares by another route."""
    pytest.importorskip("statsmodels")
    law = law_named("paper")
    fit = law.least_squares(table)
    found = diagnose_fit(law.fit(table), table)
    assert found.leverage == pytest.approx(fit.leverage, abs=1e-4)
    assert found.residuals == pytest.approx(fit.residuals, abs=1e-6)
    assert found.cooks_distance == pytest.approx(fit.cooks_distance, rel=1e-2, abs=1e-5)
    assert found.durbin_watson == pytest.approx(fit.durbin_watson, rel=1e-6)
    for name, value in fit.variance_inflation.items():
        assert found.variance_inflation[name] == pytest.approx(value, rel=1e-3)


def test_leverages_of_the_step_law_are_shares(table):
    """Each is between 0 and 1, and together they are fewer parameters than there are."""
    found = diagnose_fit(bundled(), table)
    assert np.all((found.leverage >= 0) & (found.leverage <= 1))
    machines = len(np.unique(table.text("machine")))
    assert 1 < found.leverage.sum() < machines * len(bundled().parameters)
    assert all(value >= 0 for value in found.variance_inflation.values())
    assert len(found.variance_inflation) % machines == 0


def test_coverage_rises_with_the_level(table):
    """Wider intervals hold more runs, and runs like those of the fit are held at about the level."""
    found = diagnose_fit(bundled(), table)
    assert list(found.coverage) == list(LEVELS)
    shares = list(found.coverage.values())
    assert shares == sorted(shares)
    assert shares[-1] > 0.8


def test_a_run_that_is_odd_stands_out(table):
    """One energy that is doubled has the largest residual, ln 2 more than it had."""
    plain = diagnose_fit(bundled(), table)
    energy = table.numbers("energy_j").copy()
    energy[7] *= 2
    found = diagnose_fit(bundled(), table.with_columns(energy_j=energy))
    assert found.residuals[7] - plain.residuals[7] == pytest.approx(np.log(2))
    assert np.argmax(np.abs(found.residuals)) == 7


def test_no_run_is_nothing_to_diagnose(table):
    """An empty table is refused."""
    with pytest.raises(DataError, match="knows nothing"):
        diagnose_fit(bundled(), table.take(np.zeros(len(table), dtype=bool)))
