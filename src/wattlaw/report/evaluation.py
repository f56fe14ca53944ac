"""A verdict on laws as text, as Markdown and as a mapping."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from wattlaw.law.evaluation import METRICS, Evaluation, Summary, Unjudged, Verdict
from wattlaw.law.paper.protocol import PROTOCOL
from wattlaw.report.machine import as_builtins
from wattlaw.report.quantities import counted

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table

#: Metric -> its heading and how its median is written.
COLUMNS = {
    "r2_log": ("R2 ln", "{:.4f}"),
    "median_ape": ("median err", "{:.1f} %"),
    "mean_ape": ("mean err", "{:.1f} %"),
    "bias": ("bias", "{:+.1f} %"),
    "rmse_log": ("RMSE ln", "{:.4f}"),
    "slope": ("slope", "{:.3f}"),
    "intercept": ("intercept", "{:+.3f}"),
    "coverage": ("covered", "{:.1f} %"),
    "half_width": ("width", "x{:.2f}"),
}
#: What section 3.6 of the paper reports.
PAPER_METRICS = ("r2_log", "rmse_log", "slope", "intercept", "coverage", "half_width")
BOOTSTRAPPED = "intervals of paper and power are residual bootstraps, those of other laws their own"


def evaluation_mapping(verdict: Verdict) -> dict[str, Any]:
    """Lay a verdict out for ``--json``: per law, target and part, each metric's median, quartiles and count.

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
        "unjudged": as_builtins(verdict.unjudged),
    }


def evaluation_text(verdict: Verdict) -> Group:
    """Show the laws side by side: medians over the splits (``--json`` has the quartiles)."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for target in _targets(verdict):
        parts += [Text(_heading(verdict, target), style="bold"), _table(verdict, target)]
    doubts = [Text(f"! {doubt}", style="yellow") for doubt in _doubts(verdict)]
    return Group(*parts, Text(_note(verdict), style="dim"), *doubts)


def evaluation_markdown(verdict: Verdict) -> str:
    """Write the same as Markdown: a table per target, doubts below."""
    return "\n\n".join([
        *(f"**{_heading(verdict, target)}**\n\n{markdown_table(verdict, target)}" for target in _targets(verdict)),
        f"{_note(verdict).capitalize()}.",
        *("\n".join(f"- {doubt}" for doubt in doubts) for doubts in [_doubts(verdict)] if doubts),
    ])  # fmt: skip


def markdown_table(verdict: Verdict, target: str) -> str:
    """Write the laws side by side on one target as a Markdown table."""
    found = [one for one in verdict.evaluations if one.target == target]
    several = any(one.part != "pooled" for one in found)
    metrics = _metrics(verdict)
    head = ["law", *(["part"] if several else []), *(COLUMNS[metric][0] for metric in metrics)]
    rows = [[one.law, *([one.part] if several else []), *_cells(one, metrics)] for one in found]
    rule = ["---"] * (len(head) - len(metrics)) + ["---:"] * len(metrics)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def _heading(verdict: Verdict, target: str) -> str:
    left_out = f", {verdict.num_left_out} left out" if verdict.num_left_out else ""
    records, cuts = counted(verdict.num_records, "record"), counted(verdict.num_splits, "split")
    return f"{target}, {verdict.evaluations[0].protocol}: {records}{left_out}, {cuts}"


def _metrics(verdict: Verdict) -> tuple[str, ...]:
    """The columns shown: section 3.6 of the paper reports others."""
    return PAPER_METRICS if verdict.evaluations[0].protocol == PROTOCOL else METRICS


def _note(verdict: Verdict) -> str:
    note = f"medians over the splits; the {100 * verdict.level:g} % interval goes from the middle / width to x width"
    if verdict.evaluations[0].protocol != PROTOCOL:
        return note
    return f"{note}; slope and intercept of ln(observed) on ln(predicted); {BOOTSTRAPPED}"


def _targets(verdict: Verdict) -> list[str]:
    return list(dict.fromkeys(one.target for one in verdict.evaluations))


def _table(verdict: Verdict, target: str) -> Table:
    from rich.table import Table

    metrics = _metrics(verdict)
    headings = [COLUMNS[metric][0] for metric in metrics]
    table = Table("law", "part", *headings, box=None, pad_edge=False, header_style="dim")
    for evaluation in verdict.evaluations:
        if evaluation.target == target:
            table.add_row(evaluation.law, evaluation.part, *_cells(evaluation, metrics))
    return table


def _cells(evaluation: Evaluation, metrics: Sequence[str]) -> list[str]:
    return [_cell(metric, evaluation.metrics.get(metric)) for metric in metrics]


def _cell(metric: str, summary: Summary | None) -> str:
    return "-" if summary is None else COLUMNS[metric][1].format(summary.median)


def _doubts(verdict: Verdict) -> list[str]:
    """What was not scored, once per law."""
    found: dict[str, None] = {}
    for evaluation in verdict.evaluations:
        if evaluation.part == "pooled":
            found |= dict.fromkeys(f"{evaluation.law}: {doubt}" for doubt in _doubts_of(evaluation))
    unjudged: dict[str, list[Unjudged]] = {}
    for one in verdict.unjudged:
        unjudged.setdefault(one.law, []).append(one)
    for law, ones in unjudged.items():
        found[f"{law} is not judged on {' and '.join(one.target for one in ones)}: {ones[0].reason}"] = None
    return list(found)


def _doubts_of(evaluation: Evaluation) -> Iterator[str]:
    if evaluation.num_uncovered:
        yield f"{evaluation.num_uncovered} test rows that the fitted law knows nothing of are not scored"
    if evaluation.num_failed:
        yield f"{evaluation.num_failed} splits could not be fitted: {evaluation.failure}"
