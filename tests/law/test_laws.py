"""The laws by name."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import get_args

import numpy as np
import pytest

from wattlaw.errors import UnknownNameError
from wattlaw.law.calibration import Calibration
from wattlaw.law.laws import LAWS, law_named
from wattlaw.law.protocol import Law, PriorLaw, Times
from wattlaw.law.step import StepLaw


@pytest.mark.parametrize("name", LAWS)
def test_a_law_is_found_by_the_name_that_it_gives_itself(name):
    """The word of the option is the word of the calibration."""
    assert law_named(name).name == name


@pytest.mark.parametrize("name", LAWS)
def test_every_law_offers_what_the_protocol_says(name):
    """Methods with the protocol's arguments, the columns that it reads, and no state that a fit could leave."""
    law = law_named(name)
    for method in ("fit", "estimate", "covers"):
        expected = list(inspect.signature(getattr(Law, method)).parameters)[1:]
        assert list(inspect.signature(getattr(law, method)).parameters) == expected
    assert law.columns
    assert all(isinstance(column, str) for column in law.columns)
    assert law.times in get_args(Times)
    assert law == law_named(name)
    assert hash(law) == hash(law_named(name))


@pytest.mark.parametrize("name", [name for name in LAWS if isinstance(law_named(name), PriorLaw)])
def test_a_law_with_priors_knows_every_parameter_of_a_machine_that_was_not_seen(name):
    """Within its limits, with how far machines differ; started from a calibration, it knows that one's."""
    law = law_named(name)
    assert law.common.keys() == law.limits.keys()
    assert all(0 < value <= law.limits[parameter] for parameter, value in law.common.items())
    assert law.between.shape == (len(law.limits),) * 2
    assert np.all(np.linalg.eigvalsh(law.between) > 0)
    prior = Calibration(law=name, parameters={parameter: 0.9 * value for parameter, value in law.common.items()})
    assert law.starting_from(prior).common == prior.parameters
    assert law.starting_from(prior).starting_from(None) == law


def test_the_step_law_alone_knows_machines_before_it_has_seen_them():
    """The others are fitted or say nothing."""
    assert [name for name in LAWS if isinstance(law_named(name), PriorLaw)] == ["step"]


def test_the_laws_of_the_paper_and_the_step_law_are_there():
    """What the documentation has a page of can be named, the yardsticks too."""
    assert {"step", "paper", "additive", "power", "boosting", "6nd", "tdp"} <= set(LAWS)
    assert law_named("step") == StepLaw()


def test_a_law_brings_no_other_along():
    """A prediction with the step law pays for no regression and no trees."""
    code = "import sys; from wattlaw.law.laws import law_named; law_named('step'); print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "wattlaw.law.step" in found
    assert not {"wattlaw.law.paper", "wattlaw.law.baselines"} & set(found)


@pytest.mark.parametrize(("name", "nearest"), [("stpe", "step"), ("papr", "paper"), ("STEP", "step")])
def test_an_unknown_law_is_answered_with_the_nearest(name, nearest):
    """Exact names only; the error shows what was meant."""
    with pytest.raises(UnknownNameError, match=rf"unknown law; given '{name}'; allowed {nearest}"):
        law_named(name)
