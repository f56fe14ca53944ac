"""The paper's columns follow from specs and records, and nothing is guessed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wattlaw.errors import ConfigError, DataError
from wattlaw.features.paper import configuration_family, paper_columns
from wattlaw.hardware import accelerator
from wattlaw.parallel.layout import Layout
from wattlaw.run.record import Energy, RunRecord
from wattlaw.run.spec import RunSpec
from wattlaw.workload import Recipe, preset

TOKENS = 32 * 128 * 100


@pytest.fixture
def spec():
    """BERT-base on one GPU: 100 steps of 32 sequences of 128 tokens."""
    return RunSpec(
        architecture=preset("bert-base-uncased"),
        recipe=Recipe(batch_size=32, seq_len=128, steps=100, precision="fp32"),
        layout=Layout(),
        accelerator=accelerator("NVIDIA GeForce RTX 2080 Ti"),
    )


def record(spec, name="run", *, duration_s=100.0, energy_j=2e4, boundary="node", **changes):
    """Build a record of a run."""
    energies = (Energy(energy_j=energy_j, boundary=boundary, method="integrated"),)
    return RunRecord(record_id=name, spec=spec, duration_s=duration_s, energies=energies, **changes)


def on(spec, strategy, devices):
    """Give the same work to several devices."""
    layout = Layout.of(strategy, num_devices=devices)
    steps = 100 // int(layout.data_parallel)
    return replace(spec, layout=layout, recipe=replace(spec.recipe, steps=steps))


def test_columns_of_a_spec_by_hand(spec):
    """Worked numbers for BERT-base: L 12, d 768, ff 3072, S 128, B 32."""
    table = paper_columns([spec], compute="eq2")
    assert table["compute_proxy"][0] == TOKENS * (12 * 12 * 768**2 + 3 * 12 * 128 * 768)
    assert table["memory_proxy"][0] == 32 * 128 * 768 * 12
    assert table["num_steps"][0] == 100
    assert table["strategy"][0] == "single"
    assert table["architecture"][0] == "bert"
    assert (table["num_devices"][0], table["data_parallel"][0], table["tensor_parallel"][0]) == (1, 1, 1)
    artifact = paper_columns([spec], compute="artifact")
    assert artifact["compute_proxy"][0] == TOKENS * 12 * (12 * 768**2 + 2 * 768 * 3072)


def test_a_spec_has_no_targets(spec):
    """Nothing measured: no energy and no time; the efficiency is known on one device only."""
    assert "energy_j" not in paper_columns([spec], compute="eq2")
    assert paper_columns([spec], compute="eq2")["efficiency"][0] == 1
    assert "efficiency" not in paper_columns([spec, on(spec, "fsdp", 4)], compute="eq2")


OBSERVED = {"tokens_seen": 1000.0, "memory_proxy": 77.0, "micro_steps": 9.0}


def test_a_record_has_the_proxies_of_its_spec(spec):
    """What was observed is no matter, because a run to come has none of it: fit and prediction read the same."""
    table, alone = (paper_columns([run], compute="eq2") for run in (record(spec, observed=OBSERVED), spec))
    for name in ("compute_proxy", "memory_proxy", "num_steps"):
        assert table[name] == alone[name]
    assert table["proxy_source"][0] == "spec"


def test_what_was_observed_is_taken_where_it_is_asked_for(spec):
    """Tokens, memory proxy and micro-steps of the source are taken as they are; what it lacks is the spec's."""
    table = paper_columns([record(spec, observed=OBSERVED)], compute="artifact", proxies="observed")
    assert table["proxy_source"][0] == "observed"
    bare = paper_columns([record(spec)], compute="artifact", proxies="observed")
    assert bare["memory_proxy"] == 32 * 128 * 768 * 12
    assert table["compute_proxy"][0] == 1000 * 12 * (12 * 768**2 + 2 * 768 * 3072)
    assert (table["memory_proxy"][0], table["num_steps"][0]) == (77, 9)
    assert (table["energy_j"][0], table["duration_s"][0]) == (2e4, 100)


def test_evaluation_counts_as_tokens_seen(spec):
    """A tenth of evaluation is a tenth more compute."""
    more = replace(spec, recipe=replace(spec.recipe, evaluation_fraction=0.1))
    columns = paper_columns([spec, more], compute="eq2")["compute_proxy"]
    assert columns[1] / columns[0] == pytest.approx(1.1)


def test_stated_efficiency(spec):
    """100 s on one device and 50 s on four: eta_h = 0.5."""
    run = record(on(spec, "fsdp", 4), duration_s=50.0, observed={"single_device_duration_s": 100.0})
    table = paper_columns([run], compute="eq2")
    assert table["efficiency"][0] == 0.5
    assert table["efficiency_source"][0] == "stated"


def test_paired_efficiency(spec):
    """Without a stated time, the median of the single-device runs of the same family and work is taken."""
    singles = [record(spec, f"single {time}", duration_s=time) for time in (90.0, 100.0, 400.0)]
    run = record(on(spec, "tp", 4), duration_s=50.0)
    table = paper_columns([*singles, run], compute="eq2")
    assert table["efficiency"].tolist() == [1, 1, 1, 0.5]
    assert table["efficiency_source"].tolist() == ["single", "single", "single", "paired"]


def test_runs_of_other_work_are_no_pair(spec):
    """A single-device run of ten times the work, or of another batch, says nothing about the efficiency."""
    longer = replace(spec, recipe=replace(spec.recipe, steps=1000))
    smaller = replace(spec, recipe=replace(spec.recipe, batch_size=16, steps=200))
    run = record(on(spec, "fsdp", 4), duration_s=50.0)
    assert "efficiency" not in paper_columns([record(longer, "a"), record(smaller, "b"), run], compute="eq2")


def test_families_differ_by_everything_but_layout_and_amount(spec):
    """Strategy, devices and steps do not change the family; batch, precision and GPU do."""
    family = configuration_family(spec)
    assert configuration_family(on(spec, "tp", 4)) == family
    assert configuration_family(on(spec, "fsdp", 2)) == family
    assert configuration_family(replace(spec, recipe=replace(spec.recipe, batch_size=16))) != family
    assert configuration_family(replace(spec, recipe=replace(spec.recipe, precision="fp16"))) != family
    assert configuration_family(replace(spec, accelerator=accelerator("NVIDIA A100-SXM4-40GB"))) != family
    assert configuration_family(replace(spec, power_limit_w=200.0)) != family


def test_energies_within_different_boundaries_are_not_mixed(spec):
    """One record of the boards and one of the node are refused, unless a boundary that both have is asked for."""
    both = Energy(energy_j=3e4, boundary="node", method="integrated")
    boards = record(spec, "boards", boundary="accelerators")
    boards = replace(boards, energies=(*boards.energies, both))
    node = record(spec, "other")
    with pytest.raises(DataError, match=r"boards accelerators, other node"):
        paper_columns([boards, node], compute="eq2")
    assert paper_columns([boards, node], compute="eq2", boundary="node")["energy_j"].tolist() == [3e4, 2e4]


def test_an_unknown_energy_is_never_filled(spec):
    """Where one record has no energy or time there is no such column at all."""
    unknown = replace(record(spec, "unknown"), energies=(), duration_s=None)
    table = paper_columns([record(spec), unknown], compute="eq2")
    assert "energy_j" not in table
    assert "duration_s" not in table


def test_bad_input_is_refused(spec):
    """An unknown definition, and a run that failed, are named."""
    with pytest.raises(ConfigError, match="given eq1; allowed eq2, artifact"):
        paper_columns([spec], compute="eq1")
    with pytest.raises(ConfigError, match="spec, observed"):
        paper_columns([spec], compute="eq2", proxies="guessed")
    with pytest.raises(DataError, match="record broken is of a run that failed"):
        paper_columns([record(spec, "broken", status="failed")], compute="eq2")
