"""One table of all that laws read and that was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wattlaw.errors import DataError
from wattlaw.features.counts import count_columns
from wattlaw.features.paper import paper_columns
from wattlaw.features.physical import physical_columns
from wattlaw.features.records import record_columns, usable
from wattlaw.hardware import accelerator
from wattlaw.parallel.layout import Layout
from wattlaw.run import Energy, RunRecord, RunSpec
from wattlaw.workload import Recipe, preset


@pytest.fixture
def records():
    """The same training on one and on four devices, with energies within two boundaries."""
    specs = [
        RunSpec(
            architecture=preset("gpt2"),
            recipe=Recipe(batch_size=8, seq_len=128, steps=400 // devices),
            layout=Layout.of(strategy, num_devices=devices),
            accelerator=accelerator("a100-sxm4-40gb"),
        )
        for strategy, devices in (("single", 1), ("fsdp", 4))
    ]
    return [
        RunRecord(
            record_id=f"run {number}",
            spec=spec,
            duration_s=100.0 / (1 + number),
            energies=(
                Energy(energy_j=2e4, boundary="accelerators", method="counter"),
                Energy(energy_j=3e4, boundary="node", method="mixed"),
            ),
        )
        for number, spec in enumerate(specs)
    ]


def test_a_record_has_the_columns_of_every_law_and_what_was_measured(records):
    """The columns of the paper, the step law and the rules of thumb, each as it is alone, one row per record."""
    table = record_columns(records)
    paper = paper_columns(records, compute="eq2")
    theirs = record_columns(records, compute="artifact", proxies="observed")
    assert set(theirs.text("compute_definition")) == {"artifact"}
    assert set(theirs.text("proxy_source")) == {"observed"}
    physical = physical_columns([record.spec for record in records])
    counts = count_columns([record.spec for record in records])
    assert set(table.columns) == set(paper.columns) | set(physical.columns) | set(counts.columns)
    for part in (paper, physical, counts):
        assert all((table[name] == part[name]).all() for name in part.columns)
    assert table["duration_s"].tolist() == [100, 50]
    assert table["efficiency"].tolist() == [1, 0.5]


def test_the_energy_is_that_of_the_boundary_asked_for(records):
    """The narrowest where none is asked for."""
    assert record_columns(records)["energy_j"].tolist() == [2e4, 2e4]
    assert record_columns(records, boundary="node")["energy_j"].tolist() == [3e4, 3e4]
    assert record_columns(records, boundary="node").text("boundary").tolist() == ["node", "node"]


def test_energies_of_different_boundaries_are_not_mixed(records):
    """A node's joules beside a device's are refused, with the records that clash."""
    node_only = replace(records[1], energies=records[1].energies[1:])
    with pytest.raises(DataError, match=r"different boundaries.*run 0 accelerators, run 1 node"):
        record_columns([records[0], node_only])
    assert len(record_columns([records[0], node_only], boundary="node")) == 2


def test_usable_records_say_what_was_run_and_ended_well(records):
    """Failed runs and records without a spec are counted, and the rest is kept in order."""
    failed = replace(records[0], record_id="failed", status="failed")
    unknown = RunRecord(record_id="unknown", missing=("recipe.seq_len",))
    kept, num_left_out = usable([failed, records[1], unknown, records[0]])
    assert kept == (records[1], records[0])
    assert num_left_out == 2
    assert usable([]) == ((), 0)


def test_what_is_not_usable_is_refused_by_its_name(records):
    """A table of records is made of usable ones only: none is dropped in silence."""
    with pytest.raises(DataError, match="record failed is of a run that failed"):
        record_columns([replace(records[0], record_id="failed", status="failed")])
    with pytest.raises(DataError, match=r"record unknown does not say what was run; given no recipe.seq_len"):
        record_columns([RunRecord(record_id="unknown", missing=("recipe.seq_len",))])
