"""The diagnosis of a fit to records says what its parts say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wattlaw.errors import ConfigError, DataError
from wattlaw.features.records import record_columns
from wattlaw.law.paper import PaperLaw, PowerLaw
from wattlaw.law.paper.checkup import checkup
from wattlaw.law.paper.diagnostics import check_lemma
from wattlaw.law.paper.options import PaperOptions


def test_figures_are_those_of_the_fit(records):
    """Coefficients with HC3 errors, intervals around them, and the runs in the order of Cook's distance."""
    found = checkup(records, law_name="power", level=0.9)
    table = record_columns(records)
    fit, clustered = (PowerLaw(covariance=kind).least_squares(table) for kind in ("HC3", "cluster"))
    assert (found.num_families, found.covariance) == (len(np.unique(table["group"])), "cluster")
    assert list(found.coefficients) == ["intercept", "ln_compute_proxy", "ln_memory_proxy"]
    for place, one in enumerate(found.coefficients.values()):
        assert one.value == fit.coefficients[place]
        assert one.standard_error == fit.standard_errors[place]
        assert one.family_error == clustered.standard_errors[place]
        assert one.low < one.value < one.high
        assert one.high - one.value == pytest.approx(1.729 * one.family_error, rel=1e-3)  # Student's, 19 degrees
    assert found.coefficients["intercept"].variance_inflation is None
    assert found.coefficients["ln_memory_proxy"].variance_inflation > 1
    distances = [one.cooks_distance for one in found.influential]
    assert distances == sorted(fit.cooks_distance, reverse=True)[:5]
    assert found.influential[0].record_id == f"run {int(np.argmax(fit.cooks_distance))}"
    assert (found.num_records, found.r2, found.level) == (40, fit.r2, 0.9)


def test_a_named_covariance_makes_the_intervals(records):
    """HC3, as the paper has it: 1.687 standard errors on either side at 90 % and 37 degrees of freedom."""
    found = checkup(records, law_name="power", level=0.9, options=PaperOptions(covariance="HC3"))
    one = found.coefficients["ln_compute_proxy"]
    assert found.covariance == "HC3"
    assert one.high - one.value == pytest.approx(1.687 * one.standard_error, rel=1e-3)


def test_one_family_has_no_errors_by_family(records):
    """Nothing is told by a single cluster: HC3 then, and residuals drawn by run."""
    first = records[0].spec
    alike = [
        replace(one, spec=replace(first, recipe=replace(first.recipe, steps=500 + 10 * number)))
        for number, one in enumerate(records[:20:5])
    ]
    with pytest.raises(DataError, match="memory_proxy"):
        checkup(alike, law_name="power")
    found = checkup(records, law_name="power")
    assert found.half_width > 1
    assert found.half_width_independent > 1


def test_what_efficiency_adds(records):
    """Table 4 on any records: the same law with and without eta_h, and twice the difference of log-likelihoods."""
    options = PaperOptions(efficiency="measured")
    test = checkup(records, law_name="paper", options=options).efficiency_test
    table = record_columns(records)
    full, without = (PaperLaw(efficiency=kind).least_squares(table) for kind in ("measured", "none"))
    assert (test.r2, test.r2_without) == (full.r2, without.r2)
    assert (test.rmse, test.rmse_without) == (full.rmse, without.rmse)
    assert test.likelihood_ratio.statistic == pytest.approx(2 * (full.log_likelihood - without.log_likelihood))
    assert checkup(records, law_name="paper", options=PaperOptions(efficiency="none")).efficiency_test is None
    assert checkup(records, law_name="power").efficiency_test is None


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
