"""The cold figures: what is assumed of runs, and that they come out as claimed."""

from __future__ import annotations

import cold_figures
import power_limit_figures
from claims import FIELDS
from measured_tables import read_table


def test_metered_nodes_are_predicted_within_a_tenth(shared_data):
    """BERT and LoRA on one node, GPT-3 on 64: energy per step, from parameters that saw no H100."""
    found = cold_figures.mlperf(read_table("mlperf_training_power"))
    assert [figure["name"].rpartition(".")[2] for figure in found] == ["bert", "llama2_lora", "gpt3"]
    for figure in found:
        assert tuple(figure) == FIELDS
        assert abs(figure["measured"]) < 10, figure


def test_published_trainings_come_out_in_their_order_of_magnitude(shared_data):
    """Hours within a fifth at the median; no measured energy is off by more than a factor 2."""
    hours, energy, worst = cold_figures.published(read_table("published_training_runs"))
    assert hours["measured"] < 20
    assert energy["measured"] < 25
    assert 1 < worst["measured"] < 2


def test_nothing_of_the_table_says_more_of_a_run_than_its_paper(shared_data):
    """A training without sizes or board is left out, one with both has layouts that fill its devices."""
    records = {record.environment["model"]: record for record in read_table("published_training_runs")}
    assert cold_figures.candidates_of(records["Llama 4 Scout (MoE)"]) == []
    assert cold_figures.candidates_of(records["Apertus 70B"]) == []
    specs = cold_figures.candidates_of(records["LLaMA-65B"])
    assert {spec.layout.num_devices for spec in specs} == {2048}
    assert {spec.recipe.software for spec in specs} == {"fused"}
    assert {spec.recipe.checkpointing for spec in cold_figures.candidates_of(records["Pythia 12B"])} == {"full"}


def test_one_curve_is_predicted_from_its_two_ends(shared_data):
    """28 curves of 202 rows; the first, from its lowest and highest limit, within a tenth at each other."""
    records = read_table("bert_power_limit")
    curves = power_limit_figures.curves_of(records)
    assert (len(curves), sum(len(curve.duration_s) for curve in curves)) == (28, 202)
    found = power_limit_figures.judged(curves[0], (0, len(curves[0].duration_s) - 1))
    assert len(found.energy) == len(curves[0].duration_s) - 2
    assert found.energy.max() < 0.1
    assert found.regret < 0.05


def test_what_a_record_does_not_state_is_assumed_by_name(shared_data):
    """Length, precision, attention and head of the capped runs are named as assumed; limits are the table's."""
    record = read_table("bert_power_limit")[0]
    found = power_limit_figures.completed(record)
    assert {"recipe.seq_len", "recipe.precision", "recipe.attention_kernel", "model.head"} <= set(found.assumed)
    assert found.spec.power_limit_w == 100
    assert found.missing == ()
