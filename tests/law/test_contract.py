"""What every law promises, whatever its formula."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from wattlaw.errors import DataError
from wattlaw.law.baselines import BoostingLaw, FlopCountLaw, RatedPowerLaw
from wattlaw.law.calibration import Calibration
from wattlaw.law.paper import AdditiveLaw, PaperLaw, PowerLaw
from wattlaw.law.step import StepLaw

LAWS = [
    pytest.param(PowerLaw(), id="power"),
    pytest.param(PaperLaw(efficiency="measured"), id="paper-measured"),
    pytest.param(PaperLaw(efficiency="speedup"), id="paper-speedup"),
    pytest.param(PaperLaw(efficiency="none", fixed_effects=("strategy", "architecture")), id="paper-none"),
    pytest.param(AdditiveLaw(), id="additive"),
    pytest.param(AdditiveLaw(weighting="relative"), id="additive-relative"),
    pytest.param(StepLaw(), id="step"),
    pytest.param(BoostingLaw(), id="boosting"),
    pytest.param(FlopCountLaw(), id="6nd"),
    pytest.param(RatedPowerLaw(), id="tdp"),
]
#: Priors decide where data do not, so the step law is fitted to few or collinear rows, and its energies have a scale;
#: TDP x time has nothing to fit.
WITHOUT_PRIORS = [each for each in LAWS if each.id not in ("step", "tdp")]
#: Laws with one coefficient per column.
LINEAR = [each for each in LAWS if isinstance(each.values[0], PowerLaw | PaperLaw | AdditiveLaw)]
RELATIVE = 1e-6


@pytest.fixture(scope="session")
def table(step_specs, measured):
    """Sixty runs on two machines, with the columns of every law."""
    return measured(step_specs(num_configurations=12, seed=1), noise=0.05, seed=1)


@pytest.fixture(scope="session")
def fitted(table):
    """The function that fits a law to the runs, once for all tests that change nothing about them."""
    return cache(lambda law: law.fit(table))


@pytest.mark.parametrize("law", LAWS)
def test_estimate_has_one_energy_per_run_and_terms_that_sum_to_it(law, table, fitted):
    """Energies and terms have one entry per run; energies are positive and the terms add up to them."""
    calibration = fitted(law)
    estimate = law.estimate(calibration, table)
    assert estimate.energy_j.shape == (len(table),)
    assert np.all(estimate.energy_j > 0)
    assert estimate.terms_j
    np.testing.assert_allclose(sum(estimate.terms_j.values()), estimate.energy_j, rtol=1e-12)
    assert estimate.duration_s is None or estimate.duration_s.shape == (len(table),)


@pytest.mark.parametrize("law", LAWS)
def test_calibration_survives_its_file(law, table, fitted, tmp_path):
    """A calibration read back equals the one written, and predicts the same to the last bit."""
    calibration = fitted(law)
    calibration.save(tmp_path / "law.json")
    loaded = Calibration.load(tmp_path / "law.json")
    assert loaded == calibration
    assert list(loaded.parameters) == list(calibration.parameters)
    np.testing.assert_array_equal(law.estimate(loaded, table).energy_j, law.estimate(calibration, table).energy_j)


@pytest.mark.parametrize("law", LAWS)
def test_calibration_says_what_it_is(law, table, fitted):
    """A calibration names its law, the range of what it reads, one residual per run and how many runs it saw."""
    calibration = fitted(law)
    assert calibration.law == law.name
    assert len(calibration.residuals.energy) == len(table)
    assert calibration.domain
    assert set(calibration.domain) <= set(law.columns)
    for name, limits in calibration.domain.items():
        assert limits == (table[name].min(), table[name].max())
    assert calibration.diagnostics["num_records"] == len(table)
    assert calibration.provenance["state"] == "warm"
    assert calibration.boundary == "node"


@pytest.mark.parametrize("law", LAWS)
def test_order_of_the_rows_does_not_matter(law, table, fitted):
    """Rows in another order give the same parameters, as far as a search converges."""
    shuffled = table.take(np.random.default_rng(0).permutation(len(table)))
    expected = fitted(law).parameters
    found = law.fit(shuffled).parameters
    assert list(found) == list(expected)
    within = 1e-3 if law.name == "step" else RELATIVE  # its search stops where the loss changes by 1e-8
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=within, abs=1e-12), name


@pytest.mark.parametrize("law", WITHOUT_PRIORS)
def test_energy_in_another_unit_gives_the_same_law(law, table, fitted):
    """A thousand times the energy of every run predicts a thousand times the energy of every run."""
    scaled = table.with_columns(energy_j=1000 * table["energy_j"])
    before = law.estimate(fitted(law), table).energy_j
    after = law.estimate(law.fit(scaled), table).energy_j
    np.testing.assert_allclose(after, 1000 * before, rtol=RELATIVE)


@pytest.mark.parametrize("law", LAWS)
def test_estimates_need_the_columns_that_the_law_names(law, table, fitted):
    """An estimate reads no column but the law's own, and a missing one is refused by name."""
    calibration = fitted(law)
    only = table.without(*(set(table.columns) - set(law.columns)))
    np.testing.assert_array_equal(law.estimate(calibration, only).energy_j, law.estimate(calibration, table).energy_j)
    for name in law.columns:
        with pytest.raises(DataError, match=name):
            law.estimate(calibration, only.without(name))


@pytest.mark.parametrize("law", WITHOUT_PRIORS)
@pytest.mark.parametrize("num_rows", [1, 2])
def test_too_few_rows_are_refused(law, table, num_rows):
    """A law without priors is not fitted to fewer rows than it has parameters."""
    with pytest.raises(DataError, match="row"):
        law.fit(table.take(np.arange(num_rows)))


@pytest.mark.parametrize("law", LAWS)
def test_no_rows_are_refused(law, table):
    """Nothing can be fitted to nothing."""
    with pytest.raises(DataError, match="row"):
        law.fit(table.take(np.arange(0)))


@pytest.mark.parametrize("law", LINEAR)
def test_collinear_columns_are_refused_by_name(law, table):
    """Memory traffic that follows compute exactly leaves neither exponent known; the error names both."""
    if isinstance(law, AdditiveLaw):
        doubled = table.with_columns(memory_proxy=2 * table["compute_proxy"] / table["num_steps"])
        names = ("compute_j", "memory_j")
    else:
        doubled = table.with_columns(memory_proxy=3 * table["compute_proxy"] ** 2)
        names = ("ln_compute_proxy", "ln_memory_proxy")
    with pytest.raises(DataError, match="repeat each other") as caught:
        law.fit(doubled)
    assert all(name in str(caught.value) for name in names)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("value", [0.0, -1.0])
def test_energies_must_be_above_zero(law, table, value):
    """An energy of zero is no measurement: it is refused with its row."""
    energy_j = table["energy_j"].copy()
    energy_j[7] = value
    with pytest.raises(DataError, match=r"energy_j must be above zero.*row 7"):
        law.fit(table.with_columns(energy_j=energy_j))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_never_reach_a_law(law, table, value):
    """NaN or infinity in a column is refused with the column and the row."""
    energy_j = table["energy_j"].copy()
    energy_j[3] = value
    with pytest.raises(DataError, match=r"energy_j.*not finite.*row 3"):
        law.fit(table.with_columns(energy_j=energy_j))


@pytest.mark.parametrize("law", [each for each in LINEAR if each.id != "power"])
def test_a_strategy_that_the_fit_did_not_see_is_refused(law, table):
    """Nothing is guessed about an unknown strategy: it is refused, with the known ones, and ``covers`` says so."""
    calibration = law.fit(table.take(table["strategy"] != "tp"))
    assert law.covers(calibration, table).tolist() == (table["strategy"] != "tp").tolist()
    with pytest.raises(DataError, match=r"strategy; given tp; allowed single, fsdp"):
        law.estimate(calibration, table)
