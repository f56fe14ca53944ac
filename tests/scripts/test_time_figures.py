"""The figures of published step times, on a few rows."""

from __future__ import annotations

import numpy as np
import pytest
import time_figures
from claims import FIELDS
from measured_tables import MEGATRON, STEP_TIMES, timed

from wattlaw.features.records import record_columns


@pytest.fixture(scope="module")
def megatron(shared_data):
    """All whole rows of Megatron's table."""
    return timed(MEGATRON)


@pytest.fixture(scope="module")
def others(shared_data):
    """All whole rows of the other table."""
    return timed(STEP_TIMES)


def test_a_perfect_planner_loses_nothing_and_a_reversed_one_everything():
    """By hand: of 1, 2, 3 and 4 s the reversed order looks at 4, 3 and 2 first and takes four times as long."""
    measured_s, groups = np.array([2.0, 1.0, 4.0, 3.0]), [np.arange(4)]
    assert time_figures.planned(measured_s, measured_s, groups) == (100, 0)
    assert time_figures.planned(-measured_s, measured_s, groups) == (0, 300)
    near = np.array([1.0, 2.0, 4.0, 3.0])  # the fastest is thought the second
    assert time_figures.planned(near, measured_s, [np.arange(4), np.array([1, 0, 3, 2])]) == (100, 100)


def test_a_tenth_is_drawn_from_the_rows_that_may_be_seen():
    """As many as said, none of the others, and the same for the same seed."""
    rows = np.arange(100) < 50
    drawn = time_figures.tenth(rows, 3)
    assert drawn.sum() == 5
    assert not np.any(drawn & ~rows)
    assert np.array_equal(drawn, time_figures.tenth(rows, 3))
    assert not np.array_equal(drawn, time_figures.tenth(rows, 4))


def test_choices_are_between_splits_of_the_same_work(megatron):
    """Every choice is of one model, batch and number of GPUs, among at least four layouts, no two alike."""
    alone = [record for record in megatron if record.spec.layout.num_nodes == 1]
    fixed, free = (time_figures.choices(alone, fixed_micro_batch=flag) for flag in (True, False))
    assert (len(fixed), len(free)) == (120, 120)
    for group in fixed:
        specs = [alone[place].spec for place in group]
        assert len({(spec.architecture, spec.recipe.batch_size, spec.layout.num_devices) for spec in specs}) == 1
        assert len({spec.layout for spec in specs}) == len(specs) >= 4
    assert sum(map(len, free)) > sum(map(len, fixed))


def test_recomputation_is_changed_and_nothing_else(megatron):
    """The map takes selective on one node and full on eight; as the table says, it is full everywhere."""
    assert {(one.spec.layout.num_nodes, one.spec.recipe.checkpointing) for one in megatron} == {
        (1, "selective"),
        (8, "full"),
    }
    alone = next(record for record in megatron if record.spec.layout.num_nodes == 1)
    changed = time_figures.recomputing(alone, "full")
    assert changed.spec.recipe.checkpointing == "full"
    assert time_figures.recomputing(changed, "selective") == alone


def test_a_law_seen_on_one_node_predicts_eight(megatron):
    """One draw of a tenth of the one-node rows: within the targets, on one node and on eight."""
    table = record_columns(megatron)
    one_node = table.numbers("num_nodes") == 1
    seen = time_figures.tenth(one_node, 0)
    found = time_figures.ape(time_figures.predicted(table, seen), table.positive("duration_s"))
    assert np.median(found[one_node & ~seen]) < 4.5
    assert np.median(found[~one_node]) < 8


def test_figures_of_few_rows_have_their_form(megatron, others, monkeypatch):
    """Every figure is there once, a plain number with its target and its note, whatever the rows are."""
    alone, several = ([record for record in megatron if record.spec.layout.num_nodes == count] for count in (1, 8))
    groups = time_figures.choices(alone, fixed_micro_batch=True)[:20]
    few = [alone[place] for group in groups for place in group]
    single = [record for record in others if record.spec.accelerator.name in ("l4", "mi100")]
    selene = [record for record in others if record.source.startswith("Korthikanti")]
    tables = {MEGATRON: [*few, *several[:5]], STEP_TIMES: [*selene[:3], *single]}
    monkeypatch.setattr(time_figures, "timed", tables.__getitem__)
    figures = time_figures.figures(draws=1)
    assert [figure["name"] for figure in figures] == [
        "accuracy.megatron.one_node",
        "accuracy.megatron.64_gpus",
        "accuracy.megatron.64_gpus.as_stated",
        "plan.megatron.top3",
        "plan.megatron.regret",
        "plan.megatron.top3.free_micro_batch",
        "plan.megatron.regret.free_micro_batch",
        "accuracy.korthikanti",
        "accuracy.single_gpu_time",
    ]
    for figure in figures:
        assert tuple(figure) == FIELDS
        assert isinstance(figure["measured"], float)
        assert np.isfinite(figure["measured"])
        assert figure["note"]
        assert "\n" not in figure["note"]
