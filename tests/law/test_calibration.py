"""A calibration's file is whole or refused by name."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from wattlaw.errors import DataError, FileError, UnknownNameError
from wattlaw.law.calibration import Calibration, MachineCalibration, Residuals


@pytest.fixture
def calibration():
    """A calibration with every field filled in."""
    return Calibration(
        law="power",
        parameters={"intercept": 1.5, "ln_compute_proxy": 0.1 + 0.2, "speedup.alpha": 0.005},
        covariance=((4.0, 0.0), (0.0, 1e-300)),
        centres={"ln_compute_proxy": 30.1},
        domain={"compute_proxy": (1.0, 2.0)},
        residuals=Residuals(energy=(0.1, -0.1), duration=(0.2,)),
        diagnostics={"r2": 0.9, "standard_error:speedup.alpha": 0.001},
        options={"effects": ""},
        provenance={"source": "test"},
    )


def test_file_round_trip(calibration, tmp_path):
    """Every number comes back to the last bit, and saving again replaces the file."""
    path = tmp_path / "law.json"
    calibration.save(path)
    calibration.save(path)
    assert Calibration.load(path) == calibration
    assert [entry.name for entry in tmp_path.iterdir()] == ["law.json"]


def test_standard_errors_come_from_the_covariance_or_the_source(calibration):
    """A parameter outside of the covariance has the error that its source states, or none."""
    assert calibration.standard_error("intercept") == 2.0
    assert calibration.standard_error("speedup.alpha") == 0.001
    assert calibration.standard_error("other") is None
    assert calibration.parameter("intercept") == 1.5
    with pytest.raises(UnknownNameError, match="ln_compute_proxy"):
        calibration.parameter("ln_compute")


def test_a_machine_has_its_own_parameters_or_the_common_ones(calibration):
    """What the fit saw has its own; any other name what they have in common."""
    own = MachineCalibration(parameters={"a": 7.0}, residuals=Residuals())
    found = replace(calibration, machines={"seen": own})
    assert found.parameters_on("seen") == {"a": 7.0}
    assert found.parameters_on("other") == calibration.parameters
    assert calibration.parameters_on("seen") == calibration.parameters


def test_every_truncation_is_refused(calibration, tmp_path):
    """A file cut at any byte is refused by name; only its last newline may be missing."""
    path = tmp_path / "law.json"
    calibration.save(path)
    content = path.read_bytes()
    for length in range(len(content) - 2):
        path.write_bytes(content[:length])
        with pytest.raises(FileError, match=r"law\.json: "):
            Calibration.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "not a calibration"),
        ({"format_version": 2}, "another version"),
        ({"parameters": {"a": "x"}}, "a field of the calibration is wrong"),
        ({"parameters": {"a": None}}, "a field of the calibration is wrong"),
        ({"covariance": [[1.0], [1.0, 2.0]]}, "square"),
        ({"parametres": {}}, "allowed parameters"),
        ({"residuals": ...}, "field of the calibration is missing; given residuals"),
    ],
)
def test_wrong_fields_are_refused_by_name(calibration, tmp_path, change, message):
    """A field that is missing, unknown or of the wrong type is named, with the file."""
    path = tmp_path / "law.json"
    calibration.save(path)
    content = json.loads(path.read_text()) | {key: value for key, value in change.items() if value is not ...}
    kept = {key: value for key, value in content.items() if change.get(key) is not ...}
    path.write_text(json.dumps(kept))
    with pytest.raises(FileError, match=message) as caught:
        Calibration.load(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"[1, 2]", b"\xff\xfe", b"null", b"[" * 100_000])
def test_other_files_are_refused(tmp_path, content):
    """What is no JSON object at all is refused, however deep."""
    path = tmp_path / "law.json"
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"law\.json: not "):
        Calibration.load(path)


def test_files_that_cannot_be_reached(calibration, tmp_path):
    """A missing file and a missing folder are errors that name the place; nothing is left behind."""
    with pytest.raises(FileError, match=r"absent\.json"):
        Calibration.load(tmp_path / "absent.json")
    with pytest.raises(FileError, match="cannot write"):
        calibration.save(tmp_path / "absent" / "law.json")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(calibration, tmp_path, monkeypatch):
    """When the disk fails in the middle, the file is what it was and no other file is left."""
    path = tmp_path / "law.json"
    path.write_text("old")

    def fail(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(FileError, match="No space left"):
        calibration.save(path)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["law.json"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"parameters": {"a": float("nan")}},
        {"parameters": {"a": 1.0}, "domain": {"a": (0.0, float("inf"))}},
        {"parameters": {"a": 1.0}, "covariance": ((1.0, 0.0), (0.0, 1.0))},
    ],
)
def test_numbers_that_no_prediction_can_use_are_refused(wrong):
    """NaN, infinity, and a covariance larger than the parameters are refused where the value is made."""
    with pytest.raises(DataError, match=r"calibration|covariance"):
        Calibration(law="power", **wrong)
