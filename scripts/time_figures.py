"""Figures of the step law on published step times: Megatron on A100, Selene, and single GPUs of five makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from claims import claims_of, show
from measured_tables import MEGATRON, STEP_TIMES, timed
from numpy.typing import NDArray

from wattlaw.features.records import record_columns
from wattlaw.features.table import Table
from wattlaw.law.step import StepLaw
from wattlaw.run.record import RunRecord
from wattlaw.workload.recipe import Checkpointing

_figure = claims_of("python scripts/time_figures.py")
#: How often the calibrating tenth of the rows is drawn.
DRAWS = 10
#: Fewer splits than this are no choice.
ENOUGH_SPLITS = 4
#: How many of the splits predicted fastest are looked at for the fastest.
FIRST = 3

Numbers = NDArray[np.float64]


def figures(*, draws: int = DRAWS) -> list[dict[str, Any]]:
    """Compute all figures of this script.

    Args:
        draws: how many random tenths of the Megatron rows calibrate the law.
    """
    megatron = timed(MEGATRON)
    others = timed(STEP_TIMES)
    return [*_megatron(megatron, draws), _selene(others), _single_gpu(others)]


def predicted(table: Table, seen: NDArray[np.bool_]) -> Numbers:
    """Calibrate on the rows ``seen`` and return the predicted seconds of every row."""
    law = StepLaw()
    duration_s = law.estimate(law.fit(table.take(seen)), table).duration_s
    assert duration_s is not None
    return duration_s


def ape(predicted_s: Numbers, measured_s: Numbers) -> Numbers:
    """Absolute errors in %."""
    return 100 * np.abs(predicted_s / measured_s - 1)


def tenth(rows: NDArray[np.bool_], seed: int) -> NDArray[np.bool_]:
    """Choose a random tenth of some rows."""
    places = np.flatnonzero(rows)
    chosen = np.zeros(len(rows), dtype=bool)
    chosen[np.random.default_rng(seed).permutation(places)[: len(places) // 10]] = True
    return chosen


def recomputing(record: RunRecord, how: Checkpointing) -> RunRecord:
    """Return the record of a run that recomputes its activations in another way."""
    spec = record.require_spec()
    return replace(record, spec=replace(spec, recipe=replace(spec.recipe, checkpointing=how)))


def choices(records: Sequence[RunRecord], *, fixed_micro_batch: bool) -> list[NDArray[np.intp]]:
    """Gather the rows that train one model on as many GPUs with one global batch: what a planner chooses from."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for place, record in enumerate(records):
        spec = record.require_spec()
        model = spec.architecture
        key = (model.num_layers, model.hidden_size, spec.layout.num_devices, record.observed["global_batch"])
        groups.setdefault((*key, spec.recipe.batch_size if fixed_micro_batch else 0), []).append(place)
    return [np.array(places) for places in groups.values() if len(places) >= ENOUGH_SPLITS]


def planned(predicted_s: Numbers, measured_s: Numbers, groups: Sequence[NDArray[np.intp]]) -> tuple[float, float]:
    """Judge a planner: how often the fastest is among the first few, and how much longer the first takes, in %."""
    found, lost = [], []
    for places in groups:
        order = places[np.argsort(predicted_s[places], kind="stable")]
        fastest = places[np.argmin(measured_s[places])]
        found.append(fastest in order[:FIRST])
        lost.append(measured_s[order[0]] / measured_s[fastest] - 1)
    return 100 * float(np.mean(found)), 100 * float(np.mean(lost))


def _megatron(records: Sequence[RunRecord], draws: int) -> list[dict[str, Any]]:
    """Fit to random tenths of the one-node rows, under the map's recomputation and, for the notes, the table's."""
    table = record_columns(records)
    stated = record_columns([recomputing(record, "full") for record in records])
    one_node = table.numbers("num_nodes") == 1
    drawn = [tenth(one_node, seed) for seed in range(draws)]
    both = tuple([predicted(columns, seen) for seen in drawn] for columns in (table, stated))
    measured_s = table.positive("duration_s")
    calibrated = f"median of {draws} draws of a tenth of the {one_node.sum()} one-node rows"
    near, near_stated = (
        [np.median(ape(each_s, measured_s)[one_node & ~seen]) for each_s, seen in zip(predictions, drawn, strict=True)]
        for predictions in both
    )
    far, far_stated = (
        [np.median(ape(each_s, measured_s)[~one_node]) for each_s in predictions] for predictions in both
    )
    near_note = (
        f"median error, {calibrated}; vTrain 8.37 %. With full recomputation on one node, as the table says, "
        f"{np.median(near_stated):.2f} %"
    )
    far_note = (
        f"median error of {np.sum(~one_node)} rows, {calibrated}, {min(far):.1f} to {max(far):.1f} %; vTrain 14.73 "
        "%. Rests on selective recomputation on one node, which the map assumes with these rows in view, full on 8"
    )
    stated_note = "the same with full recomputation everywhere, as the table says"
    return [
        _figure("accuracy.megatron.one_node", "<= 4.5", np.median(near), "%", near_note),
        _figure("accuracy.megatron.64_gpus", "<= 8", np.median(far), "%", far_note),
        _figure("accuracy.megatron.64_gpus.as_stated", "<= 8", np.median(far_stated), "%", stated_note),
        *_plans([record for record, alone in zip(records, one_node, strict=True) if alone], calibrated,
                measured_s[one_node], *([each_s[one_node] for each_s in predictions] for predictions in both)),
    ]  # fmt: skip


def _plans(
    records: Sequence[RunRecord],
    calibrated: str,
    measured_s: Numbers,
    predictions: Sequence[Numbers],
    predictions_stated: Sequence[Numbers],
) -> list[dict[str, Any]]:
    """Judge the choice of a split, with the micro-batch fixed and with it chosen too."""
    figures = []
    for fixed, ending in ((True, ""), (False, ".free_micro_batch")):
        groups = choices(records, fixed_micro_batch=fixed)
        (first, lost), (first_stated, lost_stated) = (
            np.median([planned(each_s, measured_s, groups) for each_s in one], axis=0)
            for one in (predictions, predictions_stated)
        )
        what = "model, GPUs, global batch and micro-batch" if fixed else "model, GPUs and global batch"
        note = f"{len(groups)} choices of a split for {what} on one node, {calibrated}; with full recomputation"
        figures += [
            _figure(f"plan.megatron.top3{ending}", ">= 97", first, "%", f"{note} {first_stated:.1f} %"),
            _figure(f"plan.megatron.regret{ending}", "<= 2", lost, "%", f"{note} {lost_stated:.2f} %"),
        ]
    return figures


def _selene(records: Sequence[RunRecord]) -> dict[str, Any]:
    """Korthikanti et al. 2022, table 5: four models, with and without sequence parallelism."""
    table = record_columns([record for record in records if record.source.startswith("Korthikanti")])
    left_out = _leave_one_out(table)
    note = f"{len(table)} rows, each predicted from the others; largest error {left_out.max():.1f} %; Calculon 3.65 %"
    return _figure("accuracy.korthikanti", "<= 3.65", left_out.mean(), "%", note)


def _single_gpu(records: Sequence[RunRecord]) -> dict[str, Any]:
    """NeuSight's measured steps on one GPU, but for the rows that the table marks as doubtful."""
    chosen = [
        record
        for record in records
        if record.source.startswith("NeuSight")
        and record.require_spec().layout.num_devices == 1
        and "SUSPECT" not in record.notes
    ]
    table = record_columns(chosen)
    left_out = _leave_one_out(table)
    measured_s, machines = table.positive("duration_s"), table.text("machine")
    cold = [ape(predicted(table, machines != name), measured_s)[machines == name] for name in np.unique(machines)]
    peer = ape(np.array([record.observed["peer_predicted_step_s"] for record in chosen]), measured_s)
    note = (
        f"mean error of {len(table)} rows on {len(cold)} GPUs, each predicted from all others (no GPU has five rows); "
        f"without any row of the GPU {np.concatenate(cold).mean():.1f} %; NeuSight on these rows {peer.mean():.1f} %"
    )
    return _figure("accuracy.single_gpu_time", "<= 8", left_out.mean(), "%", note)


def _leave_one_out(table: Table) -> Numbers:
    """Absolute errors in % of each row, predicted from all others."""
    rows, measured_s = np.arange(len(table)), table.positive("duration_s")
    return np.array([ape(predicted(table, rows != row), measured_s)[row] for row in rows])


if __name__ == "__main__":
    show(figures())
