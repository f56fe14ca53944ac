"""The paper's law reproduces the published coefficients and recovers itself."""

from __future__ import annotations

import numpy as np
import pytest

from wattlaw.errors import ConfigError, DataError
from wattlaw.features.table import Table
from wattlaw.law.paper import PaperLaw
from wattlaw.law.paper.least_squares import likelihood_ratio
from wattlaw.law.paper.log_linear import Form, fit_least_squares
from wattlaw.law.paper.published import published
from wattlaw.parallel.speedup import PUBLISHED, combined_efficiency
from wattlaw.units import JOULES_PER_KWH

TRUE = {
    "strategy:fsdp": 0.5,
    "strategy:tp": 0.9,
    "ln_compute_proxy": 0.3,
    "ln_memory_proxy": 0.2,
    "ln_efficiency": -1.1,
}


def test_published_coefficients_to_four_digits(bert_2080ti):
    """Worked numbers: the authors' coefficients on the 116 RTX 2080 Ti BERT rows, to four decimals."""
    parameters = PaperLaw(efficiency="measured").fit(bert_2080ti).parameters
    found = {name: round(value, 4) for name, value in parameters.items() if name != "intercept"}
    assert len(bert_2080ti) == 116
    assert found == {
        "strategy:fsdp": -0.2720,
        "strategy:tp": -0.5377,
        "ln_compute_proxy": 0.0507,
        "ln_memory_proxy": 0.4089,
        "ln_efficiency": -1.1115,
    }


def test_efficiency_explains_much(bert_2080ti):
    """On these rows, as in table 4, the law with eta_h beats the one without beyond any doubt."""
    full = PaperLaw(efficiency="measured").least_squares(bert_2080ti)
    restricted = PaperLaw(efficiency="none").least_squares(bert_2080ti)
    ratio = likelihood_ratio(full, restricted)
    assert full.adjusted_r2 > restricted.adjusted_r2 + 0.05
    assert ratio.dof == 1
    assert ratio.log10_p_value < -20


def test_centring_changes_the_intercept_only(bert_2080ti):
    """Reference: numpy's solver without centring finds the same slopes, and the same predictions."""
    law = PaperLaw(efficiency="measured")
    calibration = law.fit(bert_2080ti)
    design = np.column_stack([
        np.ones(116),
        bert_2080ti["strategy"] == "fsdp",
        bert_2080ti["strategy"] == "tp",
        *(np.log(bert_2080ti[name]) for name in ("compute_proxy", "memory_proxy", "efficiency")),
    ])  # fmt: skip
    expected, *_ = np.linalg.lstsq(design, np.log(bert_2080ti["energy_j"] / JOULES_PER_KWH), rcond=None)
    np.testing.assert_allclose(list(calibration.parameters.values())[1:], expected[1:], rtol=1e-8)
    predicted = law.estimate(calibration, bert_2080ti).energy_j / JOULES_PER_KWH
    np.testing.assert_allclose(np.log(predicted), design @ expected, rtol=1e-8)


def test_energies_in_another_unit_change_the_intercept_only(bert_2080ti):
    """ln(kWh) and ln(J) differ by ln(3.6e6), and so do the intercepts; nothing else does."""
    law = PaperLaw(efficiency="measured")
    joules = law.fit(bert_2080ti)
    kwh = law.fit(bert_2080ti.with_columns(energy_j=bert_2080ti["energy_j"] / JOULES_PER_KWH))
    difference = {name: value - kwh.parameters[name] for name, value in joules.parameters.items()}
    assert difference.pop("intercept") == pytest.approx(np.log(JOULES_PER_KWH), rel=1e-9)
    np.testing.assert_allclose(list(difference.values()), 0, atol=1e-9)


@pytest.mark.parametrize("covariance", ["HC3", "cluster"])
def test_recovers_a_known_law_with_covering_intervals(simulated, covariance):
    """Recovery: over 80 simulated samples, 95 % intervals hold each true coefficient at about that rate."""
    covered = dict.fromkeys(TRUE, 0)
    for seed in range(80):
        fit = PaperLaw(efficiency="measured", covariance=covariance).least_squares(simulated(num_runs=90, seed=seed))
        for name, value in TRUE.items():
            low, high = fit.confidence_interval(name)
            covered[name] += low <= value <= high
    rates = {name: count / 80 for name, count in covered.items()}
    assert 0.90 <= np.mean(list(rates.values())) <= 0.99, rates
    assert min(rates.values()) >= 0.83, rates


def test_standard_errors_by_cluster_are_those_of_the_fit(simulated):
    """The calibration carries the covariance that was asked for, and which it is."""
    table = simulated(num_runs=90, seed=0)
    robust = PaperLaw(efficiency="measured").fit(table)
    clustered = PaperLaw(efficiency="measured", covariance="cluster").fit(table)
    assert robust.options["covariance"] == "HC3"
    assert clustered.options["covariance"] == "cluster"
    assert robust.parameters == clustered.parameters
    assert robust.standard_error("ln_efficiency") != clustered.standard_error("ln_efficiency")


def test_before_the_run_the_measured_efficiency_is_not_read(simulated):
    """With ``speedup``, a prediction reads the degrees only: another measured efficiency changes nothing."""
    law, table = PaperLaw(efficiency="speedup"), simulated(num_runs=90, seed=2)
    calibration = law.fit(table)
    other = table.with_columns(efficiency=np.full(90, 0.123))
    np.testing.assert_array_equal(law.estimate(calibration, table).energy_j, law.estimate(calibration, other).energy_j)
    assert {"speedup.alpha", "speedup.beta", "speedup.s_max", "speedup.rate"} < set(calibration.parameters)
    assert len(calibration.covariance) == len(calibration.parameters) - 4


def test_published_speedups_are_those_of_the_paper(simulated):
    """With ``published`` the efficiency is phi(t, d) at the paper's parameters."""
    table = simulated(num_runs=90, seed=4)
    promised = combined_efficiency(
        tensor_parallel=table["tensor_parallel"], data_parallel=table["data_parallel"], parameters=PUBLISHED
    )
    by_hand = PaperLaw(efficiency="measured").fit(table.with_columns(efficiency=promised))
    found = PaperLaw(efficiency="published").fit(table)
    for name, value in by_hand.parameters.items():
        assert found.parameters[name] == pytest.approx(value, rel=1e-12)


def test_doubts_about_the_speedup_laws_are_kept(simulated, bert_2080ti):
    """A speedup parameter on its bound and an efficiency above 1 are warnings of the calibration."""
    assert "beta of the speedup laws is on its bound" in PaperLaw(efficiency="speedup").fit(bert_2080ti).warnings
    table = simulated(num_runs=90, seed=4)
    assert PaperLaw(efficiency="speedup").fit(table).warnings == ()
    assert PaperLaw(efficiency="published").fit(table).warnings == (
        "the published speedup laws promise an efficiency above 1",
    )


def test_boundary_of_the_energies_is_kept(simulated):
    """What the energies include goes into the calibration where the rows agree on it, and nothing otherwise."""
    law, table = PaperLaw(efficiency="measured"), simulated(num_runs=60, seed=3)
    assert law.fit(table).boundary == ""
    assert law.fit(table.with_columns(boundary=np.full(60, "node"))).boundary == "node"
    mixed = np.where(np.arange(60) % 2, "node", "accelerators")
    assert law.fit(table.with_columns(boundary=mixed)).boundary == ""


def test_elasticities_in_words():
    """Worked numbers, section 5: 10 % more compute 2 % more energy, and so on, with the published exponents."""
    parameters = published("paper-table3").parameters
    compute, memory, efficiency = (parameters[f"ln_{name}"] for name in ("compute_proxy", "memory_proxy", "efficiency"))
    assert round(100 * (1.1**compute - 1)) == 2
    assert round(100 * (2**compute - 1)) == 15  # printed as 15 %; 14.5 by the unrounded exponent
    assert round(100 * (2**memory - 1)) == 7
    assert round(100 * (1.1**efficiency - 1)) == -10
    assert round(100 * (2**efficiency - 1)) == -52


def test_energy_splits_at_full_efficiency(simulated):
    """The first term is the energy at efficiency 1, and on one device there is no other."""
    law, table = PaperLaw(efficiency="measured"), simulated(num_runs=60, seed=5)
    calibration = law.fit(table)
    terms_j = law.estimate(calibration, table).terms_j
    ideal = law.estimate(calibration, table.with_columns(efficiency=np.ones(60))).energy_j
    np.testing.assert_allclose(terms_j["at_full_efficiency"], ideal, rtol=1e-10)
    np.testing.assert_allclose(terms_j["efficiency_loss"][table["strategy"] == "single"], 0, atol=1e-6)


def test_single_is_the_reference_where_it_was_run(simulated):
    """One device has no effect of its own; without such runs the first strategy takes its place."""
    law, table = PaperLaw(efficiency="measured"), simulated(num_runs=60, seed=6)
    assert law.fit(table).options["reference:strategy"] == "single"
    others = law.fit(table.take(table["strategy"] != "single"))
    assert others.options["reference:strategy"] == "fsdp"
    assert "strategy:tp" in others.parameters


def test_efficiency_that_never_varies_is_refused(simulated):
    """On one device the efficiency is 1 in every run and its exponent cannot be told."""
    table = simulated(num_runs=60, seed=7)
    single = table.take(table["strategy"] == "single")
    with pytest.raises(DataError, match=r"same in every row.*efficiency"):
        PaperLaw(efficiency="measured").fit(single)
    with pytest.raises(DataError, match="no run is divided"):
        PaperLaw(efficiency="speedup").fit(single)


def test_one_degree_cannot_tell_efficiency_from_strategy(simulated):
    """Where each strategy ran on one number of devices, its efficiency before the run repeats its effect."""
    table = simulated(num_runs=60, seed=8)
    two = table.take((table["num_devices"] == 1) | (table["num_devices"] == 2))
    with pytest.raises(DataError, match=r"repeat each other.*strategy:fsdp, strategy:tp, ln_efficiency"):
        PaperLaw(efficiency="speedup").fit(two)


def test_unknown_choices_are_refused():
    """An unknown source of the efficiency lists the known ones."""
    with pytest.raises(ConfigError, match="given guessed; allowed measured, speedup, published, none"):
        PaperLaw(efficiency="guessed")


def test_left_out_residuals_are_those_of_refits(simulated):
    """The residuals that intervals are made of are what refitting without each row leaves."""
    law, table = PaperLaw(efficiency="measured"), simulated(num_runs=40, seed=9)
    calibration = law.fit(table)
    for row in (0, 17, 39):
        kept = np.arange(40) != row
        one = table.take([row])
        predicted = law.estimate(law.fit(table.take(kept)), one).energy_j
        assert calibration.residuals.energy[row] == pytest.approx(
            float(np.log(one["energy_j"] / predicted)[0]), rel=1e-7
        )


def test_form_needs_rows():
    """A table without rows is refused before anything is computed."""
    empty = Table({"energy_j": [], "x": []})
    with pytest.raises(DataError, match="no rows"):
        fit_least_squares(empty, Form.of_table(empty, regressors=("x",), effects=()))
