"""The figures of choosing a layout, on a few rows."""

from __future__ import annotations

import choice_figures
import numpy as np
import pytest

from wattlaw.features.table import Table


def test_runs_of_one_layout_are_one_option():
    """Two runs of FSDP on four are one choice; a family with one option is none."""
    table = Table({
        "group": ["a", "a", "a", "b", "b"],
        "strategy": ["single", "fsdp", "fsdp", "tp", "tp"],
        "num_devices": [1.0, 4.0, 4.0, 2.0, 2.0],
    })  # fmt: skip
    assert [[rows.tolist() for rows in options] for options in choice_figures.families_of(table)] == [[[0], [1, 2]]]


def test_choices_by_hand():
    """The option predicted least is right, or costs 4 / sqrt(2 x 4.5) - 1 = 33 % more than the one run twice."""
    families = [[np.array([0]), np.array([1, 2])]]
    measured = np.array([4.0, 2.0, 4.5])
    right, none = choice_figures.choices(families, measured, np.array([2.0, 1.0, 1.0]))
    assert (right.tolist(), none.tolist()) == ([1.0], [0.0])
    wrong, lost = choice_figures.choices(families, measured, np.array([1.0, 2.0, 2.0]))
    assert wrong.tolist() == [0.0]
    assert lost[0] == pytest.approx(100 * (4 / 3 - 1))
