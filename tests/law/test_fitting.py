"""From records to a law: which records are used, what the fit starts from, what it remembers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wattlaw.errors import ConfigError, DataError, FileError, UnknownNameError, WattlawWarning
from wattlaw.law.bundled import bundled
from wattlaw.law.evaluation import judge
from wattlaw.law.fitting import fit_records, law_with_prior, measured, refuse_seen
from wattlaw.law.laws import LAWS, law_named
from wattlaw.run.importers import shipped_map
from wattlaw.run.importers.column_map import read_column_map

STEP = [law_named("step")]


@pytest.mark.parametrize("law_name", LAWS)
def test_a_fit_remembers_where_it_comes_from(records, law_name):
    """How many records, of which source, when, with which version."""
    named = [replace(record, source=("b", "a")[number % 2]) for number, record in enumerate(records)]
    fitted = fit_records(named, law_name=law_name)
    assert (fitted.num_records, fitted.num_left_out) == (40, 0)
    assert fitted.calibration.law == law_name
    assert fitted.calibration.boundary == "node"
    assert {"source": "a; b", "num_records": "40", "state": "warm"}.items() <= fitted.calibration.provenance.items()


def test_records_without_an_energy_take_nothing_from_the_others(records):
    """They are left out; where none has one, durations alone are enough for the step law."""
    some = [replace(record, energies=()) if number < 5 else record for number, record in enumerate(records)]
    assert measured(some, laws=STEP, boundary=None).records == tuple(records[5:])
    none = [replace(record, energies=()) for record in records]
    kept = measured(none, laws=STEP, boundary=None)
    assert (len(kept.records), "energy_j" in kept.table, "duration_s" in kept.table) == (40, False, True)


def test_records_without_a_duration_are_left_out_where_durations_matter(records):
    """The step law keeps those with both; the power law reads no duration and keeps all."""
    some = [replace(record, duration_s=None) if number < 5 else record for number, record in enumerate(records)]
    assert len(measured(some, laws=STEP, boundary=None).records) == 35
    assert len(measured(some, laws=[law_named("power")], boundary=None).records) == 40
    none = [replace(record, duration_s=None) for record in records]
    assert "duration_s" not in measured(none, laws=STEP, boundary=None).table


@pytest.mark.parametrize("law_name", ["paper", "power", "additive"])
def test_laws_of_energy_need_energies(records, law_name):
    """The message says what is needed, not which column."""
    none = [replace(record, energies=()) for record in records]
    with pytest.raises(DataError, match="needs an energy of each run"):
        fit_records(none, law_name=law_name)


def test_a_boundary_is_not_replaced_by_another(records):
    """Not even by durations; the boundaries that there are are named."""
    with pytest.raises(DataError, match=r"within the boundary facility.*boundary node"):
        fit_records(records, law_name="step", boundary="facility")
    with pytest.raises(ConfigError, match="moon"):
        fit_records(records, law_name="step", boundary="moon")


def test_nothing_usable_is_refused(records):
    """No record at all, or only failed ones."""
    for given in ([], [replace(record, status="failed") for record in records]):
        with pytest.raises(DataError, match=f"given {len(given)} records"):
            fit_records(given, law_name="step")


def test_the_prior_is_the_shipped_law_a_file_or_none(tmp_path):
    """Only the step law has one, and it is of the same law."""
    bundled().save(tmp_path / "prior.json")
    assert law_with_prior("step", "bundled").prior == bundled()
    assert law_with_prior("step", str(tmp_path / "prior.json")).prior == bundled()
    assert law_with_prior("step", "none").prior is None
    assert law_with_prior("power", "bundled") == law_named("power")
    with pytest.raises(UnknownNameError, match="step"):
        law_with_prior("stpe", "none")
    with pytest.raises(FileError, match=r"missing\.json"):
        law_with_prior("step", "missing.json")


def test_a_prior_of_another_law_is_refused(records, tmp_path):
    """The file is named."""
    path = tmp_path / "power.json"
    fit_records(records, law_name="power").calibration.save(path)
    with pytest.raises(ConfigError, match=r"power\.json: the prior is of another law; given power; allowed step"):
        law_with_prior("step", str(path))


def test_times_alone_leave_the_boundary_to_the_prior(records):
    """What is then predicted are the prior's energies: of the node, with the bundled one."""
    none = [replace(record, energies=()) for record in records]
    assert fit_records(none, law_name="step").calibration.boundary == bundled().boundary == "node"
    assert fit_records(none, law_name="step", prior_name="none").calibration.boundary == ""


def test_no_law_is_judged_on_what_its_prior_has_seen(records):
    """The bundled prior is refused on its own source; a user's warns; other records and other laws are left alone."""
    source = read_column_map(shipped_map("bert_gpt_multi_gpu")).source
    seen = [replace(record, source=source) for record in records]
    law = law_with_prior("step", "bundled")
    with pytest.raises(ConfigError, match="--prior: the bundled prior was fitted on records of this source"):
        judge(seen, law_names=["step"], prior_name="bundled", num_splits=1)
    refuse_seen(law, [replace(record, source="somewhere else") for record in records])
    refuse_seen(law_with_prior("step", "none"), seen)
    refuse_seen(law_named("power"), seen)
    own = replace(bundled(), provenance={"source": f"mine; {source}"})
    with pytest.warns(WattlawWarning, match="of what it has seen"):
        refuse_seen(replace(law, prior=own), seen)
