"""The figures of one run, and the other ways to run it."""

from __future__ import annotations

import pytest

from wattlaw.explain import explain
from wattlaw.hardware import accelerator
from wattlaw.law.bundled import bundled
from wattlaw.law.prediction import predict
from wattlaw.parallel.layout import Layout
from wattlaw.report.alternatives import alternatives
from wattlaw.report.figures.run import comparison_figure, roofline_figure, terms_figure
from wattlaw.run.amount import schedule
from wattlaw.run.spec import RunSpec
from wattlaw.workload import Recipe, preset


def spec_of(strategy="fsdp", num_devices=4, **changes):
    """Build a run of BERT-base."""
    recipe = {"batch_size": 16, "seq_len": 128, "precision": "fp16", "steps": 500, **changes}
    return RunSpec(
        architecture=preset("bert-base-uncased", head="classification"),
        recipe=Recipe(**recipe),
        layout=Layout.of(strategy, num_devices=num_devices),
        accelerator=accelerator("rtx-2080-ti"),
    )


def columns(figure):
    """Return the table of a figure as rows by name."""
    return [dict(zip(figure.table.columns, row, strict=True)) for row in figure.table.rows]


def test_shares_of_terms_are_of_the_whole():
    """The energy's shares sum to 100 %, and so do the time's."""
    (prediction,) = predict([spec_of()], bundled())
    rows = columns(terms_figure(prediction))
    for what in ("energy", "time"):
        assert sum(row["share"] for row in rows if row["of"] == what) == pytest.approx(100, abs=1e-6)


@pytest.mark.parametrize(
    "spec",
    [spec_of(), spec_of("single", 1, checkpointing="full"), spec_of("tp", 2, attention_kernel="eager")],
    ids=["fsdp", "single", "tp"],
)
def test_no_operation_breaks_through_the_roof(spec):
    """Each operation is no faster than the peak, nor than its traffic allows; their time is no more than the run's."""
    rows = columns(roofline_figure(spec, explain(spec, bundled())))
    peak, bandwidth = spec.accelerator.peak_flop_per_s("fp16"), spec.accelerator.bandwidth_bytes_per_s
    assert {row["bottleneck"] for row in rows} <= {"compute", "memory", "launch", "communication"}
    assert any("up" in row["operation"] for row in rows)
    for row in rows:
        assert row["rate"] <= peak
        assert row["rate"] <= bandwidth * row["intensity"] * (1 + 1e-9)
    assert 0 < sum(row["time_share"] for row in rows) <= 100


def test_alternatives_train_on_the_same_tokens():
    """The run stands first; every other layout sees the same tokens, though its steps are larger or smaller."""
    spec = spec_of()
    rows = alternatives(spec, bundled(), counts=[1, 2, 4])
    assert rows[0][0] == spec
    wanted = schedule(spec.recipe, spec.layout).trained_tokens
    for other, _ in rows:
        assert schedule(other.recipe, other.layout).trained_tokens == pytest.approx(wanted)
    named = [(other.layout.strategy, int(other.layout.num_devices)) for other, _ in rows]
    assert len(set(named)) == len(named)
    assert {("single", 1), ("ddp", 2), ("fsdp", 4), ("tp", 2)} <= set(named)


def test_what_cannot_be_run_is_left_out():
    """Twelve heads do not divide over eight devices, and a batch that fits nowhere leaves nothing."""
    named = [(o.layout.strategy, int(o.layout.num_devices)) for o, _ in alternatives(spec_of(), bundled())]
    assert ("tp", 8) not in named
    assert ("tp", 4) in named
    assert alternatives(spec_of(batch_size=10**5), bundled()) == ()


def test_a_comparison_marks_the_fastest_and_the_greenest():
    """The labels with a mark are those of the least time and of the least energy."""
    spec = spec_of()
    rows = alternatives(spec, bundled(), counts=[1, 2])
    points = columns(comparison_figure(rows))
    for key, mark in (("energy_kwh", "greenest"), ("time_min", "fastest")):
        (best,) = [point for point in points if mark in point["label"]]
        assert best[key] == min(point[key] for point in points)
