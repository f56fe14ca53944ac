"""From specs and budgets to suggested runs: what they cost, what they are worth, and what is refused."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from wattlaw.errors import ConfigError, DataError
from wattlaw.features.physical import physical_columns
from wattlaw.hardware import accelerator
from wattlaw.law.bundled import bundled
from wattlaw.law.calibration import Calibration
from wattlaw.law.step import StepLaw
from wattlaw.law.suggestion import suggest


@pytest.fixture(scope="module")
def candidates(step_specs):
    """A hundred runs on a GPU that no fit has seen."""
    return step_specs(num_configurations=20, seed=50, machines=("v100-sxm2-32gb",))


def test_a_suggestion_says_what_it_costs_and_is_worth(candidates):
    """Costs are the law's predictions, spreads come down with every run, and the machine is cold."""
    found = suggest(candidates, bundled(), num_runs=3)
    assert (found.machine, found.cold, found.num_candidates) == ("v100-sxm2-32gb", True, 100)
    table = physical_columns([run.spec for run in found.runs])
    expected = StepLaw().estimate(bundled(), table)
    assert [run.duration_s for run in found.runs] == pytest.approx(expected.duration_s.tolist())
    assert found.energy_j == pytest.approx(expected.energy_j.sum())
    worth = [found.spread_before, *(run.spread_after for run in found.runs)]
    assert all(after["duration"] <= before["duration"] for before, after in itertools.pairwise(worth))
    assert worth[-1] == found.spread_after
    assert [candidates[run.place] for run in found.runs] == [run.spec for run in found.runs]


def test_the_runs_to_predict_decide_what_is_measured(candidates):
    """For runs on one GPU nothing that is divided need be measured; for divided ones something is."""
    single = [spec for spec in candidates if spec.layout.num_devices == 1]
    fsdp = [spec for spec in candidates if spec.layout.strategy == "fsdp"]
    alone = suggest(candidates, bundled(), num_runs=3, targets=single)
    divided = suggest(candidates, bundled(), num_runs=3, targets=fsdp)
    assert any(run.spec.layout.strategy == "fsdp" for run in divided.runs)
    fractions = [np.mean([run.spec.layout.num_devices == 1 for run in found.runs]) for found in (alone, divided)]
    assert fractions[0] > fractions[1]


def test_budgets_of_time_and_energy_hold(candidates):
    """Fewer or cheaper runs; candidates that alone exceed the budget are counted."""
    whole = suggest(candidates, bundled(), num_runs=4)
    half = suggest(
        candidates, bundled(), num_runs=4, max_duration_s=whole.duration_s / 2, max_energy_j=whole.energy_j / 2
    )
    assert half.duration_s <= whole.duration_s / 2
    assert half.energy_j <= whole.energy_j / 2
    assert half.spread_after["energy"] >= 0.98 * whole.spread_after["energy"]
    cheapest_s = StepLaw().estimate(bundled(), physical_columns(candidates)).duration_s.min()
    tiny = suggest(candidates, bundled(), num_runs=4, max_duration_s=1.5 * cheapest_s)
    assert tiny.num_too_dear > 0


def test_what_does_not_fit_into_memory_is_not_chosen(candidates):
    """A batch of a million sequences is counted and left out; where nothing fits, the reason is the error."""
    large = [replace(spec, recipe=replace(spec.recipe, batch_size=1_000_000)) for spec in candidates[:6]]
    found = suggest([*candidates[:6], *large], bundled(), num_runs=6)
    assert found.num_too_large == 6
    assert all(run.place < 6 for run in found.runs)
    with pytest.raises(ConfigError, match="does not fit into a device's memory"):
        suggest(large, bundled(), num_runs=1)


def test_a_window_that_must_last_costs_its_time(candidates):
    """A second at least, and a rest of two: three seconds each, however short a step is."""
    short = [replace(spec, recipe=replace(spec.recipe, tokens=None, steps=1)) for spec in candidates[:10]]
    found = suggest(short, bundled(), num_runs=2, min_window_s=1e6, rest_s=2.0)
    assert [run.duration_s for run in found.runs] == pytest.approx([1e6 + 2, 1e6 + 2])


def test_a_known_machine_has_less_to_learn(candidates):
    """On a host of the shipped fit the expected error is small from the start."""
    own = [replace(spec, accelerator=accelerator("rtx-2080-ti")) for spec in candidates[:20]]
    known, unknown = (suggest(specs, bundled(), num_runs=1) for specs in (own, candidates[:20]))
    assert not known.cold
    assert known.spread_before["energy"] < 0.3 * unknown.spread_before["energy"]


def test_what_cannot_be_chosen_from_is_refused(candidates):
    """Nothing, two accelerators, no run, a budget for none, a law that does not know how sure it is."""
    mixed = [candidates[0], replace(candidates[1], accelerator=accelerator("l4"))]
    for specs, options, words in (
        ([], {}, "no candidate to choose from"),
        (mixed, {}, "several accelerators"),
        (candidates, {"num_runs": 0}, "a suggestion needs runs"),
        (candidates, {"max_energy_j": 1e-9}, "no candidate is within the budget; given the cheapest takes"),
    ):
        with pytest.raises(ConfigError, match=words):
            suggest(specs, bundled(), **{"num_runs": 1, **options})
    blind = Calibration(law="step", parameters=bundled().parameters)
    with pytest.raises(DataError, match="does not say how sure it is"):
        suggest(candidates, blind, num_runs=1)
