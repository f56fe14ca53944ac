"""A verdict on laws as text and as a mapping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wattlaw.law.evaluation import METRICS, Evaluation, Summary
from wattlaw.law.judging import Verdict
from wattlaw.report.machine import as_builtins

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

#: Metric -> its heading and how its median is written.
COLUMNS = {
    "r2_log": ("R2 ln", "{:.4f}"),
    "median_ape": ("median err", "{:.1f} %"),
    "mean_ape": ("mean err", "{:.1f} %"),
    "bias": ("bias", "{:+.1f} %"),
    "coverage": ("covered", "{:.1f} %"),
    "half_width": ("width", "x{:.2f}"),
}


def evaluation_mapping(verdict: Verdict) -> dict[str, Any]:
    """Lay a verdict out for ``--json``: per law and part, each metric's median, quartiles and count.

    The first law's verdict on all rows stands at the top as well, for readers who asked for one. ``median_ape``,
    ``mean_ape``, ``bias`` and ``coverage`` are in percent; ``half_width`` is the factor from the middle of an interval
    to its end.
    """
    evaluations: list[dict[str, Any]] = as_builtins(verdict.evaluations)
    first = evaluations[0]
    return {
        **{name: first[name] for name in ("law", "protocol", "target")},
        "level": verdict.level,
        "num_records": verdict.num_records,
        "num_left_out": verdict.num_left_out,
        "num_splits": verdict.num_splits,
        "metrics": first["metrics"],
        "evaluations": evaluations,
    }


def evaluation_text(verdict: Verdict) -> Group:
    """Show the laws side by side: medians over the splits (``--json`` has the quartiles)."""
    from rich.console import Group
    from rich.text import Text

    first = verdict.evaluations[0]
    left_out = f", {verdict.num_left_out} left out" if verdict.num_left_out else ""
    heading = f"{first.target}, {first.protocol}: {verdict.num_records} records{left_out}, {verdict.num_splits} splits"
    doubts = [
        Text(f"! {evaluation.law}: {doubt}", style="yellow")
        for evaluation in verdict.evaluations
        if evaluation.part == "pooled"
        for doubt in _doubts(evaluation)
    ]
    note = f"medians over the splits; the {100 * verdict.level:g} % interval goes from the middle / width to x width"
    return Group(Text(heading, style="bold"), _table(verdict), Text(note, style="dim"), *doubts)


def _table(verdict: Verdict) -> Table:
    from rich.table import Table

    headings = [COLUMNS[metric][0] for metric in METRICS]
    table = Table("law", "part", *headings, box=None, pad_edge=False, header_style="dim")
    for evaluation in verdict.evaluations:
        cells = [_cell(metric, evaluation.metrics.get(metric)) for metric in METRICS]
        table.add_row(evaluation.law, evaluation.part, *cells)
    return table


def _cell(metric: str, summary: Summary | None) -> str:
    if summary is None:
        return "-"
    return COLUMNS[metric][1].format(summary.median)


def _doubts(evaluation: Evaluation) -> list[str]:
    doubts = []
    if evaluation.num_uncovered:
        doubts.append(f"{evaluation.num_uncovered} test rows that the fitted law knows nothing of are not scored")
    if evaluation.num_failed:
        doubts.append(f"{evaluation.num_failed} splits could not be fitted: {evaluation.failure}")
    return doubts
