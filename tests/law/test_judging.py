"""Laws side by side on the same splits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wattlaw.errors import ConfigError, DataError, UnknownNameError
from wattlaw.law.judging import judge


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
        judge(untimed, law_names=["step"], target="time")
    with pytest.raises(DataError, match="needs an energy"):
        judge(unmetered, law_names=["step"], target="energy")
    assert judge(unmetered, law_names=["step"], target="time", num_splits=2).num_records == 40


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
        ({"target": "enrgy"}, UnknownNameError, "energy"),
        ({"law_names": ["stpe"]}, UnknownNameError, "step"),
        ({"num_splits": 0}, ConfigError, "splits"),
        ({"test_fraction": 1.0}, ConfigError, "test fraction"),
    ],
)
def test_options_that_are_none_are_refused(records, options, error, words):
    """With what is allowed."""
    with pytest.raises(error, match=words):
        judge(records, **{"law_names": ["power"], **options})
