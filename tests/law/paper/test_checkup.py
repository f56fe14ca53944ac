"""The diagnosis of a fit to records says what its parts say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wattlaw.errors import ConfigError
from wattlaw.features.records import record_columns
from wattlaw.law.paper import PowerLaw
from wattlaw.law.paper.checkup import checkup
from wattlaw.law.paper.diagnostics import check_lemma


def test_figures_are_those_of_the_fit(records):
    """Coefficients with HC3 errors, intervals around them, and the runs in the order of Cook's distance."""
    found = checkup(records, law_name="power", level=0.9)
    fit = PowerLaw().least_squares(record_columns(records))
    assert list(found.coefficients) == ["intercept", "ln_compute_proxy", "ln_memory_proxy"]
    for place, one in enumerate(found.coefficients.values()):
        assert one.value == fit.coefficients[place]
        assert one.standard_error == fit.standard_errors[place]
        assert one.low < one.value < one.high
        assert one.high - one.value == pytest.approx(1.687 * one.standard_error, rel=1e-3)  # Student's, 37 degrees
    assert found.coefficients["intercept"].variance_inflation is None
    assert found.coefficients["ln_memory_proxy"].variance_inflation > 1
    distances = [one.cooks_distance for one in found.influential]
    assert distances == sorted(fit.cooks_distance, reverse=True)[:5]
    assert found.influential[0].record_id == f"run {int(np.argmax(fit.cooks_distance))}"
    assert (found.num_records, found.r2, found.level) == (40, fit.r2, 0.9)


def test_a_run_that_is_off_is_named(records):
    """A run with thirty times its energy has the largest distance and a studentized residual of several."""
    spoiled = [
        replace(one, energies=(replace(one.energies[0], energy_j=30 * one.energies[0].energy_j),))
        if one.record_id == "run 11"
        else one
        for one in records
    ]
    first = checkup(spoiled, law_name="power").influential[0]
    assert first.record_id == "run 11"
    assert first.studentized > 3


def test_the_lemma_is_checked_where_runs_can_tell(records):
    """On runs of one device there is nothing to check."""
    found = checkup(records, law_name="paper")
    assert dict(found.lemma) == check_lemma(record_columns(records))
    alone = [one for one in records if one.spec.layout.num_devices == 1]
    assert checkup(alone, law_name="power").lemma == {}


def test_laws_that_are_no_regression_are_refused(records):
    """With those that are."""
    for name in ("step", "additive", "boosting"):
        with pytest.raises(ConfigError, match="allowed paper, power"):
            checkup(records, law_name=name)
