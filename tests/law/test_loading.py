"""Laws read from files are checked before they are used."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wattlaw.errors import FileError, UnknownNameError
from wattlaw.law.bundled import bundled
from wattlaw.law.fitting import fit_records
from wattlaw.law.laws import LAWS
from wattlaw.law.loading import load_law


@pytest.mark.parametrize("law_name", LAWS)
def test_what_a_fit_saved_is_loaded_as_it_was(records, tmp_path, law_name):
    """Every law's own files pass."""
    calibration = fit_records(records, law_name=law_name).calibration
    calibration.save(tmp_path / "law.json")
    assert load_law(tmp_path / "law.json") == calibration


def test_a_law_that_was_fitted_to_one_strategy_only_passes(records, tmp_path):
    """It says nothing of an ordinary run on one device, and need not."""
    sharded = [record for record in records if record.spec.layout.strategy == "fsdp"]
    calibration = fit_records(sharded, law_name="additive").calibration
    calibration.save(tmp_path / "law.json")
    assert load_law(tmp_path / "law.json") == calibration


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"law": "stpe"}, UnknownNameError, r"law\.json: law: unknown law"),
        ({"boundary": "moon"}, FileError, r"law\.json: boundary: .*node"),
        ({"domain": {"weights": (2.0, 1.0)}}, FileError, r"domain\.weights"),
        ({"domain": {"nothing": (1.0, 2.0)}}, FileError, "nothing"),
        ({"parameters": {}, "covariance": None}, FileError, r"parameters\.matrix_fraction.*nothing"),
        ({"law": "power", "domain": {}}, FileError, "lacks what the power law needs"),
        ({"law": "additive", "domain": {}}, FileError, "lacks what the additive law needs"),
    ],
)
def test_what_its_law_cannot_use_is_refused(tmp_path, changes, error, words):
    """The file and the field are named."""
    replace(bundled(), **changes).save(tmp_path / "law.json")
    with pytest.raises(error, match=words):
        load_law(tmp_path / "law.json")


@pytest.mark.parametrize(("value", "allowed"), [(-0.1, False), (0.0, False), (1.0, True), (1.01, False)])
def test_shares_stay_within_their_bounds(tmp_path, value, allowed):
    """A share of a peak is above 0 and at most 1."""
    parameters = {**bundled().parameters, "matrix_fraction": value}
    replace(bundled(), parameters=parameters).save(tmp_path / "law.json")
    if allowed:
        assert load_law(tmp_path / "law.json").parameters == parameters
    else:
        with pytest.raises(FileError, match=r"matrix_fraction.*<= 1"):
            load_law(tmp_path / "law.json")


@pytest.mark.parametrize(("law_name", "name"), [("step", "update_step_s"), ("power", None)])
def test_a_parameter_that_nothing_measures_is_refused(records, tmp_path, law_name, name):
    """1e300 seconds per step overflow in every prediction: the file and the parameter are named."""
    calibration = bundled() if law_name == "step" else fit_records(records, law_name=law_name).calibration
    name = name or next(iter(calibration.parameters))
    replace(calibration, parameters={**calibration.parameters, name: 1e300}).save(tmp_path / "law.json")
    with pytest.raises(FileError, match=rf"law\.json: parameters\.{name}"):
        load_law(tmp_path / "law.json")
