"""Laws side by side on the same splits."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from wattlaw.errors import ConfigError, DataError, MissingExtraError, UnknownNameError
from wattlaw.features.records import record_columns
from wattlaw.law.baselines import RatedPowerLaw
from wattlaw.law.evaluation import judge, splits


def test_every_law_is_judged_on_the_same_splits(records):
    """The order of the laws and who else is judged change nothing."""
    both = judge(records, law_names=["power", "additive"], num_splits=4, seed=3)
    alone = judge(records, law_names=["additive"], num_splits=4, seed=3)
    assert [one.law for one in both.evaluations] == ["power", "additive"]
    assert both.evaluations[1] == alone.evaluations[0]
    assert (both.num_records, both.num_left_out, both.num_splits, both.level) == (40, 0, 4, 0.95)


def test_another_seed_is_other_splits(records):
    """And the same seed the same figures."""
    first, again, other = (judge(records, law_names=["power"], num_splits=4, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_whoever_watches_sees_each_law_go_through_all_splits(records):
    """With the law's name and the number of splits, which is what a progress bar needs."""
    seen = []

    def watch(cuts, label, total):
        for cut in cuts:
            seen.append((label, total, cut.name))
            yield cut

    judge(records, law_names=["power", "additive"], num_splits=2, watch=watch)
    assert seen == [(law, 2, f"split {number}") for law in ("power", "additive") for number in (0, 1)]


def test_parts_are_scored_apart(records):
    """By strategy, machine or architecture."""
    verdict = judge(records, law_names=["power"], num_splits=2, by="machine")
    assert {one.part for one in verdict.evaluations} == {"pooled", "a100-sxm4-40gb", "rtx-2080-ti"}


def test_the_target_must_have_been_measured(records):
    """Energies are not judged from records of time, nor time from records of energy."""
    untimed = [replace(record, duration_s=None) for record in records]
    unmetered = [replace(record, energies=()) for record in records]
    with pytest.raises(DataError, match="needs a duration"):
        judge(untimed, law_names=["step"], targets=["time"])
    with pytest.raises(DataError, match="needs an energy"):
        judge(unmetered, law_names=["step"], targets=["energy"])
    assert judge(unmetered, law_names=["step"], targets=["time"], num_splits=2).num_records == 40


def test_records_that_cannot_be_used_are_counted(records):
    """Failed ones, and those without an energy."""
    some = [replace(record, status="failed") if number < 3 else record for number, record in enumerate(records)]
    verdict = judge(some, law_names=["power"], num_splits=2)
    assert (verdict.num_records, verdict.num_left_out) == (37, 3)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"level": 1.0}, ConfigError, "level"),
        ({"by": "gpu"}, ConfigError, "machine"),
        ({"boundary": "moon"}, ConfigError, "node"),
        ({"protocol": "groupd"}, UnknownNameError, "grouped"),
        ({"targets": ["enrgy"]}, UnknownNameError, "energy"),
        ({"law_names": ["stpe"]}, UnknownNameError, "step"),
        ({"num_splits": 0}, ConfigError, "splits"),
        ({"test_fraction": 1.0}, ConfigError, "test fraction"),
    ],
)
def test_options_that_are_none_are_refused(records, options, error, words):
    """With what is allowed."""
    with pytest.raises(error, match=words):
        judge(records, **{"law_names": ["power"], **options})


def test_several_targets_are_judged_from_the_same_fits(records):
    """Each law goes through the splits once; the verdict on each target is that of judging it alone."""
    seen = []

    def watch(cuts, label, total):
        seen.append(label)
        return cuts

    both = judge(records, law_names=["6nd"], targets=["energy", "power"], num_splits=3, watch=watch)
    assert seen == ["6nd"]
    alone = [judge(records, law_names=["6nd"], targets=[target], num_splits=3) for target in ("energy", "power")]
    assert both.evaluations == tuple(one for verdict in alone for one in verdict.evaluations)


def test_a_law_that_cannot_be_judged_does_not_stop_the_others(records):
    """It is named with its reason; where it is the only one, that is the error."""
    verdict = judge(records, law_names=["power", "tdp"], targets=["energy", "time"], num_splits=2)
    assert [(one.law, one.target) for one in verdict.evaluations] == [
        ("power", "energy"),
        ("tdp", "energy"),
        ("tdp", "time"),
    ]
    (unjudged,) = verdict.unjudged
    assert (unjudged.law, unjudged.target) == ("power", "time")
    assert "predicts no time" in unjudged.reason
    with pytest.raises(DataError, match="predicts no time"):
        judge(records, law_names=["power"], targets=["time"], num_splits=2)


def test_records_may_serve_some_laws_only(records):
    """Without the time on one device the paper's law has no efficiency, and the others go on."""
    some = [replace(one, observed={}) for one in records if one.spec.layout.num_devices > 1]
    verdict = judge(some, law_names=["paper", "tdp"], num_splits=2)
    assert {one.law for one in verdict.evaluations} == {"tdp"}
    assert "observed.single_device_duration_s" in verdict.unjudged[0].reason


def test_a_missing_library_takes_its_law_only(records, monkeypatch):
    """Boosting is not judged, with what to install; asked for alone, that is the error."""
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    verdict = judge(records, law_names=["boosting", "tdp"], num_splits=2)
    assert {one.law for one in verdict.evaluations} == {"tdp"}
    assert "pip install 'wattlaw[stats]'" in verdict.unjudged[0].reason
    with pytest.raises(MissingExtraError):
        judge(records, law_names=["boosting"], num_splits=2)


def test_points_are_the_held_out_runs(records):
    """Each run that a split held out, once: what was measured, and the geometric mean of what was predicted."""
    verdict = judge(records, law_names=["tdp"], num_splits=8)
    table = record_columns(records)
    held_out = np.unique(np.concatenate([cut.test for cut in splits(table, "grouped", num_splits=8)]))
    assert [point.measured for point in verdict.points] == table["energy_j"][held_out].tolist()
    law = RatedPowerLaw()
    expected = law.estimate(law.fit(table), table).energy_j[held_out]  # the same from every split
    np.testing.assert_allclose([point.predicted for point in verdict.points], expected)
    assert [point.machine for point in verdict.points] == table["machine"][held_out].tolist()


def test_cold_asks_priors_and_other_machines(records):
    """One split per machine, the step law without a fit: the simulated runs are those of other parameters."""
    verdict = judge(records, law_names=["step", "6nd"], protocol="cold", by="machine")
    assert verdict.num_splits == 2
    assert all(one.num_failed == 0 for one in verdict.evaluations)
    again = judge([replace(one, duration_s=2 * one.duration_s) for one in records], law_names=["step"], protocol="cold")
    assert again.evaluations[0].metrics["median_ape"] == verdict.evaluations[0].metrics["median_ape"]


def test_laws_of_energies_alone_say_so_of_times(records):
    """Beside laws that know time they are named with the reason; alone, that is the error."""
    timed = [replace(record, energies=()) for record in records]
    found = judge(timed, law_names=("step", "additive", "power"), targets=("time",), num_splits=1)
    assert {one.law: one.reason for one in found.unjudged} == {
        name: f"the {name} law knows energies alone, and no time" for name in ("additive", "power")
    }
    with pytest.raises(DataError, match="the power law knows energies alone"):
        judge(timed, law_names=("power",), targets=("time",), num_splits=1)
