"""Sweeps for the tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from wattlaw.measure.sweep import Sweep, sweep_from_mapping

FAKE_RANK = (sys.executable, str(Path(__file__).with_name("fake_rank.py")))
DEFAULTS = {
    "family": "bert", "head": "classification", "precision": "fp32", "vocab_size": 100, "num_layers": 1,
    "hidden_size": 32, "num_heads": 4, "ffn_size": 64, "seq_len": 16, "batch_size": 2,
}  # fmt: skip


@pytest.fixture(scope="session")
def defaults() -> dict:
    """One small BERT."""
    return dict(DEFAULTS)


@pytest.fixture(scope="session")
def build_sweep():
    """A function that builds a sweep of grids, with one small BERT as the default of everything."""

    def build(*tables: dict, **top: object) -> Sweep:
        mapping = {"defaults": DEFAULTS, "hardware": {"gpu": "generic-cpu"}, "grid": list(tables), **top}
        return sweep_from_mapping(mapping, name="tested")

    return build


@pytest.fixture
def fake_rank() -> tuple[str, ...]:
    """What starts a rank without torch."""
    return FAKE_RANK
