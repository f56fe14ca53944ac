"""A spec and records that the tests of runs share."""

from __future__ import annotations

import pytest

from wattlaw.run import Energy, RunRecord, RunSpec, spec_from_mapping


@pytest.fixture
def tables() -> dict:
    """The tables of a spec that can be run; a test changes what it is about."""
    return {
        "name": "a run",
        "model": {"preset": "bert-base-uncased", "head": "classification", "num_labels": 2},
        "recipe": {"batch_size": 32, "seq_len": 128, "precision": "fp16", "samples": 67349, "epochs": 3},
        "hardware": {"gpu": "rtx-2080-ti"},
        "layout": {"strategy": "fsdp", "num_devices": 4},
    }


@pytest.fixture
def spec(tables) -> RunSpec:
    """A run spec."""
    return spec_from_mapping(tables)


@pytest.fixture
def record(spec) -> RunRecord:
    """A record with everything that a record can hold."""
    return RunRecord(
        record_id="sweep:1",
        spec=spec,
        assumed=("recipe.optimizer",),
        duration_s=54.6,
        energies=(
            Energy(energy_j=12448.8, boundary="node", method="mixed", source="a model and a sensor"),
            Energy(energy_j=9000.0, boundary="accelerators", method="counter"),
        ),
        observed={"tokens_seen": 1356096, "waiting_fraction": 0.25},
        source="a table",
        notes="näturlich, with a \\ and a \n break",
        environment={"driver": "570"},
    )
