"""The shipped calibrations are what the measurements say, and say where they come from."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from wattlaw.errors import UnknownNameError
from wattlaw.law.bundled import DEFAULT, bundled, bundled_names
from wattlaw.law.interval import ENOUGH_RESIDUALS
from wattlaw.law.laws import law_named
from wattlaw.law.step import StepLaw
from wattlaw.law.step_terms import DOMAIN_COLUMNS, PARAMETERS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "laws" / "step.md"


def test_the_default_is_shipped():
    """What is used where nothing is named can be read, and is of a law that exists."""
    assert DEFAULT in bundled_names()
    assert bundled() == bundled(DEFAULT)
    assert law_named(bundled().law).name == "step"


@pytest.mark.parametrize("name", bundled_names())
def test_every_shipped_calibration_says_where_it_comes_from(name):
    """Source, number of records and date; a boundary; enough residuals for an interval."""
    found = bundled(name)
    assert {"source", "num_records", "date"} <= set(found.provenance)
    assert found.boundary
    assert len(found.residuals.energy) == int(found.provenance["num_records"])


def test_an_unknown_name_is_answered_with_those_that_are_shipped():
    """The error names the nearest, for a name that is a path, too."""
    with pytest.raises(UnknownNameError, match=r"unknown shipped calibration; given 'setp'; allowed .*step"):
        bundled("setp")
    with pytest.raises(UnknownNameError, match="unknown shipped calibration"):
        bundled("../published/paper-table3")


def test_the_step_calibration_has_all_parameters_within_their_bounds():
    """Common ones and those of the two hosts; none leans on a physical bound."""
    found = bundled()
    assert set(found.machines) == {"a100-sxm4-40gb", "rtx-2080-ti"}
    for values in (found.parameters, *(machine.parameters for machine in found.machines.values())):
        assert set(values) == {parameter.name for parameter in PARAMETERS}
        for parameter in PARAMETERS:
            assert 0 < values[parameter.name] < 0.99 * parameter.upper
    assert found.warnings == ()
    assert set(found.domain) == set(DOMAIN_COLUMNS)


def test_the_step_calibration_knows_how_sure_it_is_of_every_kind_of_run():
    """Residuals of each host, of larger runs and of machines left out, of energy and time, with errors of a few %."""
    found = bundled()
    kinds = [found.outside, found.cold, *(machine.residuals for machine in found.machines.values())]
    for kind in kinds:
        assert len(kind.energy) == len(kind.duration) >= ENOUGH_RESIDUALS
    for machine in found.machines.values():
        for values in (machine.residuals.energy, machine.residuals.duration):
            assert math.sqrt(sum(value**2 for value in values) / len(values)) < 0.1


def test_the_step_calibration_is_the_fit_to_the_measured_runs(shared_table):
    """Fitting again finds the same parameters to a thousandth: the file is not older than the law.

    Of the common ones the pace of the host; those of GPUs and links are from published step times, too.
    """
    shipped, fresh = bundled(), StepLaw(residual=False).fit(shared_table)
    for name, machine in fresh.machines.items():
        assert machine.parameters == pytest.approx(shipped.machines[name].parameters, rel=1e-3)
    for parameter in PARAMETERS:
        if parameter.scope == "pace":
            assert shipped.parameters[parameter.name] == pytest.approx(fresh.parameters[parameter.name], rel=1e-3)
    assert fresh.residuals.energy == pytest.approx(shipped.residuals.energy, abs=1e-3)
    for name, limits in fresh.domain.items():
        assert shipped.domain[name] == pytest.approx(limits, rel=1e-9), name


def test_no_device_draws_more_than_its_limit_for_long():
    """Active and busy with either matrix units or memory, a device of each host stays within a tenth of its limit."""
    for machine in bundled().machines.values():
        values = machine.parameters
        busiest = max(values["compute_fraction"], values["memory_fraction"])
        assert values["active_fraction"] + busiest < 1.1


@pytest.mark.parametrize("parameter", PARAMETERS, ids=lambda parameter: parameter.name)
def test_the_page_of_the_law_lists_each_parameter_as_it_is_shipped(parameter):
    """Scope, prior and fitted values, to two digits; the row below is the one that belongs on the page."""
    found = bundled()
    fits = (found.parameters, *(found.machines[name].parameters for name in ("a100-sxm4-40gb", "rtx-2080-ti")))
    values = " | ".join(f"{values[parameter.name]:.2g}" for values in fits)
    prior = f"{parameter.scope} | {parameter.start:g} | {parameter.spread:g}"
    row = f"| `{parameter.name}` | {prior} | {values} | {parameter.meaning} |"
    assert row in PAGE.read_text().splitlines()
