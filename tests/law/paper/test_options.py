"""The choices that the paper leaves open reach their laws, and come back from a calibration."""

from __future__ import annotations

import pytest

from wattlaw.errors import ConfigError, DataError
from wattlaw.features.records import record_columns
from wattlaw.law.fitting import fit_records
from wattlaw.law.laws import law_named
from wattlaw.law.paper import AdditiveLaw, PaperLaw, PowerLaw
from wattlaw.law.paper.options import PaperOptions, law_of
from wattlaw.law.paper.published import published
from wattlaw.law.prediction import columns_of, predict


def test_each_law_takes_its_own():
    """The others leave them alone."""
    options = PaperOptions(efficiency="none", covariance="cluster", effects=("architecture",), weighting="relative")
    expected = PaperLaw(efficiency="none", covariance="cluster", fixed_effects=("architecture",))
    assert options.applied(PaperLaw()) == expected
    assert options.applied(PowerLaw()) == PowerLaw(covariance="cluster")
    assert options.applied(AdditiveLaw()) == AdditiveLaw(weighting="relative")
    assert options.applied(law_named("step")) == law_named("step")


def test_as_the_paper_states_them():
    """Equation (2) and HC3 are the defaults, and the laws are those that have no options."""
    assert PaperOptions().compute == "eq2"
    for name in ("paper", "power", "additive"):
        assert PaperOptions().applied(law_named(name)) == law_named(name)


def test_a_calibration_keeps_them(records):
    """What was chosen for a fit is what its runs are counted by later."""
    options = PaperOptions(compute="artifact", proxies="observed", efficiency="none", effects=("strategy", "machine"))
    calibration = fit_records(records, law_name="paper", options=options).calibration
    assert PaperOptions.of(calibration) == PaperOptions(
        compute="artifact", proxies="observed", efficiency="none", effects=("strategy", "machine"), covariance="HC3"
    )
    assert law_of(calibration) == options.applied(PaperLaw())
    assert law_of(published("paper-table3")) == PaperLaw(efficiency="published")
    assert any("observed C and M" in warning for warning in calibration.warnings)


@pytest.mark.parametrize("law_name", ["paper", "power", "additive"])
def test_a_fit_reads_what_its_prediction_reads(records, law_name):
    """By default a run that was measured is predicted from its spec by the very columns that it was fitted by."""
    calibration = fit_records(records, law_name=law_name).calibration
    fitted = record_columns(records)
    spec_alone = columns_of([record.spec for record in records], calibration)
    for name in ("compute_proxy", "memory_proxy", "num_steps"):
        assert (fitted[name] == spec_alone[name]).all()
    assert calibration.options["compute"] == "eq2"
    assert calibration.options["proxies"] == "spec"


def test_a_measured_efficiency_predicts_no_run_over_several_devices(records):
    """It is known after the run; on one device it is 1 by definition."""
    calibration = fit_records(records, law_name="paper", options=PaperOptions(efficiency="measured")).calibration
    single, several = (
        next(one.spec for one in records if (one.spec.layout.num_devices == 1) == alone) for alone in (True, False)
    )
    assert predict([single], calibration)[0].energy_j.mid > 0
    with pytest.raises(DataError, match="--efficiency speedup"):
        predict([several], calibration)


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"compute": "eq1"}, "eq2, artifact"),
        ({"proxies": "guessed"}, "spec, observed"),
        ({"covariance": "HC9"}, "HC3"),
        ({"effects": ("moon",)}, "strategy, architecture, machine"),
    ],
)
def test_what_is_no_choice_is_refused(choice, words):
    """With those that are."""
    with pytest.raises(ConfigError, match=words):
        PaperOptions(**choice)
