"""Figures of the energy tree: whether its parts sum, how far measured modules are from predicted ones, how fast it is.

A module's error is |predicted share / measured share - 1| of the time of a forward and a backward pass, averaged over
modules (embeddings, attention, MLP, norms, head; blocks together) and configurations. Of each configuration nothing is
known beforehand: the step law's parameters of this processor are fitted to whole steps, and the factors per operation
to modules, of the other folds only; a fold holds both families in the same sizes.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from claims import claims_of, show, start_ratios

from wattlaw.explain.correction import Correction, corrected, fit_correction, measured_pairs, module_shares
from wattlaw.explain.node import Node
from wattlaw.explain.tree import explain
from wattlaw.features.records import record_columns
from wattlaw.hardware import accelerator, node_type
from wattlaw.law.bundled import bundled
from wattlaw.law.calibration import Calibration
from wattlaw.law.prediction import predict
from wattlaw.law.step import StepLaw
from wattlaw.measure.module_times import ModuleTimes, read_module_times, write_module_times
from wattlaw.measure.modules import time_modules
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunRecord, RunSpec
from wattlaw.workload import Recipe, from_sizes, preset, presets

HERE = Path(__file__).resolve().parent
_figure = claims_of("python scripts/explain_figures.py")
#: Layers, hidden size, tokens per sequence, sequences.
SIZES = (
    (2, 256, 128, 4), (4, 256, 64, 4), (4, 256, 128, 4), (3, 256, 256, 2), (4, 384, 128, 2),
    (2, 384, 64, 8), (3, 512, 64, 4), (2, 512, 128, 2), (4, 512, 128, 1), (6, 320, 128, 2),
)  # fmt: skip
HEADS = {"bert": "mlm", "gpt2": "lm"}
FOLDS = 5
STEPS = 5
#: The allocator keeps the memory that it has: whether a gradient as large as the vocabulary's is given fresh pages by
#: the kernel in every step is otherwise left to chance, and doubles the time of the embeddings.
MEASURING = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**32),
    "MALLOC_TOP_PAD_": str(2**26),
}


def figures() -> list[dict[str, Any]]:
    """Compute all figures of this script."""
    return [_sum_error(), *_module_errors(), _cold_start()]


def _sum_error() -> dict[str, Any]:
    """Every known model under several layouts, both ways to divide; roots against ``predict``."""
    largest, trees = 0.0, 0
    for spec in _specs():
        (prediction,) = predict([spec], bundled())
        assert prediction.duration_s is not None
        for by in ("module", "phase"):
            root = explain(spec, bundled(), by=by)  # type: ignore[arg-type]
            trees += 1
            largest = max(
                largest,
                abs(root.energy_j / prediction.energy_j.mid - 1),
                abs(root.time_s / prediction.duration_s.mid - 1),
                *(_difference(node) for node in root.walk() if node.children),
            )
    note = f"largest relative difference of any parent from its children, in energy and time, of {trees} trees"
    return _figure("explain.sum_error", "<= 1e-9", largest, "share", note)


def _difference(node: Node) -> float:
    energy_j = sum(child.energy_j for child in node.children)
    time_s = sum(child.time_s for child in node.children)
    return max(abs(energy_j - node.energy_j) / node.energy_j, abs(time_s - node.time_s) / max(node.time_s, 1e-300))


def _specs() -> list[RunSpec]:
    layouts = [
        Layout.of("fsdp", num_devices=64, num_nodes=8),
        Layout.of("fsdp x tp x pp", num_devices=64, num_nodes=8, tensor_parallel=4, pipeline_parallel=4),
    ]
    recipe = Recipe(batch_size=1, seq_len=256, steps=100, grad_accumulation=4, evaluation_fraction=0.1)
    found = [
        RunSpec(
            architecture=preset(name),
            recipe=recipe,
            layout=layout,
            accelerator=accelerator("h100-sxm5-80gb"),
            node=node_type("dgx-h100"),
        )
        for name in presets()
        for layout in layouts
    ]
    adapted = replace(recipe, adapter_rank=8, checkpointing="full")
    return [*found, *(replace(spec, recipe=adapted, power_limit_w=500.0) for spec in found[::4])]


def _module_errors() -> list[dict[str, Any]]:
    times = _measured()
    errors: dict[str, list[dict[str, float]]] = {family: [] for family in HEADS}
    plain: dict[str, list[dict[str, float]]] = {family: [] for family in HEADS}
    for fold in range(FOLDS):
        seen = [one for place, one in enumerate(times) if place % len(SIZES) % FOLDS != fold]
        rest = [one for place, one in enumerate(times) if place % len(SIZES) % FOLDS == fold]
        calibration = _fitted(seen)
        correction = fit_correction(measured_pairs(seen, calibration))
        for one, (predicted, measured) in zip(rest, measured_pairs(rest, calibration), strict=True):
            family = one.spec.architecture.family
            errors[family].append(_errors(predicted, measured, correction))
            plain[family].append(_errors(predicted, measured, Correction()))
    return [_module_figure(family, errors[family], plain[family]) for family in HEADS]


def _module_figure(
    family: str, errors: Sequence[dict[str, float]], plain: Sequence[dict[str, float]]
) -> dict[str, Any]:
    by_module = ", ".join(f"{name} {100 * statistics.fmean(e[name] for e in errors):.1f}" for name in errors[0])
    without = 100 * statistics.fmean(value for one in plain for value in one.values())
    note = (
        f"mean |predicted / measured share of time - 1| over {len(errors)} configurations and {len(errors[0])} "
        f"modules ({by_module}), {FOLDS} folds, parameters and factors from the others; without factors {without:.1f}"
    )
    mean = 100 * statistics.fmean(value for one in errors for value in one.values())
    return _figure(f"explain.module_error.{family}", "<= 10", mean, "%", note)


def _errors(predicted: dict[str, float], measured: dict[str, float], correction: Correction) -> dict[str, float]:
    expected, seen = module_shares(corrected(predicted, correction)), module_shares(measured)
    return {module: abs(expected[module] / seen[module] - 1) for module in seen}


def _measured() -> tuple[ModuleTimes, ...]:
    """Time the modules in a process of its own, whose allocator and threads are set."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "modules.jsonl"
        subprocess.run(
            [sys.executable, str(Path(__file__).resolve()), "--measure", str(path)],
            check=True, env={**os.environ, **MEASURING}, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        return read_module_times(path)


def _fitted(times: Sequence[ModuleTimes]) -> Calibration:
    """Fit the step law to whole steps, from what the shipped machines have in common."""
    records = [
        RunRecord(
            record_id=str(number), spec=one.spec, duration_s=float(one.spec.recipe.steps) * (one.pass_s + one.update_s)  # type: ignore[arg-type]
        )
        for number, one in enumerate(times)
    ]  # fmt: skip
    return StepLaw(prior=bundled()).fit(record_columns(records))


def configurations() -> list[RunSpec]:
    """The configurations whose modules are timed: real models of two families, small enough for one core."""
    return [
        RunSpec(
            architecture=from_sizes(
                family, head=head, num_layers=layers, hidden_size=hidden, num_heads=hidden // 64,
                ffn_size=4 * hidden, vocab_size=4000,
            ),
            recipe=Recipe(batch_size=batch, seq_len=length, precision="fp32", attention_kernel="eager", steps=100),
            layout=Layout(),
            accelerator=accelerator("generic-cpu"),
        )
        for family, head in HEADS.items()
        for layers, hidden, length, batch in SIZES
    ]  # fmt: skip


def _cold_start() -> dict[str, Any]:
    """Wall time of an explanation from the shell over that of importing numpy, in pairs."""
    wattlaw = str(Path(sys.executable).with_name("wattlaw"))
    explaining = [wattlaw, "explain", str(HERE.parent / "examples" / "bert-base-sst2.toml")]
    note = "tables for people, with slopes and changes; median of 10 pairs, after two to warm the disk"
    return _figure("explain.cold_start.ratio", "<= 4", statistics.median(start_ratios(explaining)), "ratio", note)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        write_module_times(Path(sys.argv[2]), time_modules(configurations(), num_steps=STEPS))
    else:
        show(figures())
