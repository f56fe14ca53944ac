"""Sweeps for people: the plan, the progress, and what came of it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from wattlaw.report.progress import bar
from wattlaw.report.quantities import counted, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wattlaw.measure.sweep import Planned, Progress, Sweep, SweepResult
    from wattlaw.run import RunRecord


def plan_table(sweep: Sweep) -> Table:
    """Lay out how many runs of which kind a sweep has, and what its grids leave out."""
    title = (
        f"sweep {sweep.name}: {counted(len(sweep.runs), 'run')} on {counted(sweep.world_size, 'rank')} ({sweep.device})"
    )
    # Wide enough for its title, which is the longer line of a short plan.
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, min_width=len(title))
    table.add_column("runs", justify="right")
    table.add_column("of", ratio=1)
    for kind, count in sweep.counts().items():
        table.add_row(str(count), kind)
    if sweep.left_out:
        table.add_section()
    for reason, count in sweep.left_out.items():
        table.add_row(str(count), f"left out: {reason}", style="dim")
    return table


def plan_document(sweep: Sweep) -> dict[str, Any]:
    """Lay out the plan in plain values."""
    return {
        "sweep": sweep.name,
        "device": sweep.device,
        "num_ranks": sweep.world_size,
        "counts": sweep.counts(),
        "left_out": dict(sweep.left_out),
        "runs": [_run(run) for run in sweep.runs],
    }


def _run(run: Planned) -> dict[str, Any]:
    spec = run.spec
    (stack,) = spec.architecture.stacks
    return {
        "record_id": run.record_id,
        "role": run.role,
        "family": spec.architecture.family,
        "num_layers": stack.num_layers,
        "hidden_size": spec.architecture.hidden_size,
        "num_heads": stack.num_heads,
        "ffn_size": stack.ffn_size,
        "seq_len": spec.recipe.seq_len,
        "batch_size": spec.recipe.batch_size,
        "grad_accumulation": spec.recipe.grad_accumulation,
        "precision": spec.recipe.precision,
        "strategy": spec.layout.strategy,
        "num_devices": spec.layout.num_devices,
        "power_limit_w": spec.power_limit_w,
    }


def result_lines(result: SweepResult) -> list[str]:
    """Say in lines what a sweep has done."""
    before = f", {result.num_before} were recorded before" if result.num_before else ""
    lines = [f"{result.num_ok} of {result.num_total} runs measured in {duration(result.duration_s)}{before}"]
    lines += [f"{count} failed: {reason}" for reason, count in sorted(result.failed.items())]
    if result.num_left:
        lines.append(f"{result.num_left} left: --resume goes on where this ended")
    return [*lines, f"records in {result.folder}"]


def result_document(result: SweepResult) -> dict[str, Any]:
    """Lay out what a sweep has done in plain values."""
    return {
        "folder": str(result.folder),
        "num_total": result.num_total,
        "num_before": result.num_before,
        "num_ok": result.num_ok,
        "failed": dict(result.failed),
        "num_left": result.num_left,
        "stopped": result.stopped,
        "duration_s": result.duration_s,
    }


@contextmanager
def progress_bar(*, shown: bool) -> Iterator[Callable[[Progress], None]]:
    """Show a bar with the time that is left, and a line for every failure."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TextColumn("left"), TimeRemainingColumn())  # fmt: skip
    with bar(*columns, shown=shown) as drawn:
        if drawn is None:
            yield lambda _: None
            return
        task = drawn.add_task("starting the ranks", total=None)

        def watch(progress: Progress) -> None:
            described = "" if progress.record is None else _described(progress.record)
            # The runs of before took no time now and must not make the rest look fast.
            if progress.record is None:
                drawn.reset(
                    task, total=progress.num_total, completed=progress.num_done, description="starting the ranks"
                )
                return
            drawn.update(task, completed=progress.num_done, description=described)
            if progress.record.status == "failed":
                drawn.console.print(f"{described}: {progress.record.notes}", markup=False)

        yield watch


def _described(record: RunRecord) -> str:
    spec = record.require_spec()
    layout = spec.layout
    return f"{spec.architecture.family} {layout.strategy} x{int(layout.num_devices)}"
