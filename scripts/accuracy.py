"""Write ``docs/accuracy.md``: every figure that is claimed, its target, what others publish, all laws side by side.

Figures come from ``build/figures.json`` (``make figures``), the tables of laws are computed here from the measured
tables; that takes minutes. The same tables, the same figures and the same code give the same text.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from accuracy_text import COVERED, FLATTERING, GROUPS, INTRODUCTION, NOT_COVERED, PEERS, Group
from measured_tables import FINE_TUNING, MEGATRON, STEP_TIMES, read_table

from wattlaw.errors import FileError
from wattlaw.features.records import record_columns, usable
from wattlaw.law.baselines import BoostingLaw
from wattlaw.law.evaluation import Evaluation, Verdict, evaluate, judge, splits
from wattlaw.law.laws import LAWS
from wattlaw.report.evaluation import markdown_table
from wattlaw.report.quantities import counted
from wattlaw.run.record import RunRecord

HERE = Path(__file__).resolve().parent
FIGURES = HERE.parent / "build" / "figures.json"
OUTPUT = HERE.parent / "docs" / "accuracy.md"

#: Longest line of prose.
COLUMNS = 120

Figure = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Laws to put side by side.

    Attributes:
        title: of the section.
        table: name of the measured table.
        laws: names of the laws.
        protocol: of the evaluation.
        targets: of the evaluation.
        options: more of ``judge``.
        remark: below the tables; empty for none.
    """

    title: str
    table: str
    protocol: str
    laws: tuple[str, ...] = tuple(LAWS)
    targets: tuple[str, ...] = ("energy", "time", "power")
    options: Mapping[str, Any]
    remark: str = ""


#: Tables whose whole runs the figures rest on.
MEASURED = (
    FINE_TUNING,
    "bert_power_limit",
    "mlperf_training_power",
    "published_training_runs",
    STEP_TIMES,
    MEGATRON,
)
TIMED = ("step", "boosting", "6nd", "tdp")

COMPARISONS = (
    Comparison(title="Configuration families held out", table=FINE_TUNING, protocol="grouped",
               options={"num_splits": 20}),
    Comparison(title="A GPU model left out", table=FINE_TUNING, protocol="leave-one-gpu-out", options={}),
    Comparison(title="A GPU model left out but for four random runs", table=FINE_TUNING, protocol="few-runs",
               options={"num_splits": 20, "num_runs": 4}),
    Comparison(title="A GPU model left out but for sixteen random runs", table=FINE_TUNING, protocol="few-runs",
               options={"num_splits": 20, "num_runs": 16}),
    Comparison(title="A GPU model left out but for four suggested runs", table=FINE_TUNING, protocol="suggested",
               options={"num_runs": 4},
               remark="The runs that `wattlaw suggest` chooses for the step law; the other laws see the same ones."),
    Comparison(title="The larger half from the smaller", table=FINE_TUNING, protocol="small-to-large", options={}),
    Comparison(title="Cold", table=FINE_TUNING, protocol="cold", options={},
               remark="The step law from its data sheets and the round medians of its priors, without a run; its "
                      "interval is made of its errors on the other GPU model. `tdp` has nothing to fit; the others "
                      "are fitted to the other GPU model."),
    Comparison(title="Megatron's iteration times, families held out", table=MEGATRON, protocol="grouped", laws=TIMED,
               targets=("time",), options={"num_splits": 5}),
    Comparison(title="Megatron's iteration times, the larger half from the smaller", table=MEGATRON,
               protocol="small-to-large", laws=TIMED, targets=("time",), options={}),
)  # fmt: skip


#: What was best of a few settings, on the same kind of splits: kinder to boosting than it can be before the runs.
TUNED = BoostingLaw(num_trees=500, depth=5, learning_rate=0.05, row_share=0.5, column_share=0.5)


def reached(target: Any, measured: float) -> bool | None:
    """Tell whether a figure reaches its target; ``None`` where the target is none, or a figure to stand beside.

    >>> reached(">= 0.99", 0.995), reached("<= 5 %", 7.0), reached("93-97", 95.0), reached("none", 1.0)
    (True, False, True, None)
    """
    text = str(target).strip().replace("×", "x")
    if not isinstance(target, str):
        return None
    number = r"x?(-?[0-9.]+(?:e[+-]?[0-9]+)?)\s*%?"
    if found := re.fullmatch(rf"(>=|<=|>|<)\s*{number}.*", text):
        sign, limit = found[1], float(found[2])
        return {">=": measured >= limit, "<=": measured <= limit, ">": measured > limit, "<": measured < limit}[sign]
    if found := re.fullmatch(rf"{number}\s*(?:-|–|to|\.\.)\s*{number}", text):
        return float(found[1]) <= measured <= float(found[2])
    if found := re.fullmatch(number, text):
        return measured == float(found[1])
    return None


def document(
    figures: Sequence[Figure], comparisons: Sequence[tuple[Comparison, Verdict]], *, tuned: Evaluation, covered: str
) -> str:
    """Lay the whole text out."""
    sections = [
        "# Accuracy",
        INTRODUCTION,
        _tally(figures),
        "## Figures and their targets",
        *_groups(figures),
        "## Laws side by side",
        _LEGEND,
        *(part for comparison, verdict in comparisons for part in _side_by_side(comparison, verdict)),
        _tuned(tuned),
        "## What others publish",
        _table(("who", "what", "figure", "source"), [tuple(peer) for peer in PEERS]),
        "## What the rows cover",
        COVERED,
        covered,
        "## What is not covered",
        NOT_COVERED,
        "## Where the figures flatter",
        FLATTERING,
    ]
    lines = "\n\n".join(section for section in sections if section).splitlines()
    return "\n".join(_wrapped(line) for line in lines) + "\n"


_LEGEND = (
    "Medians over the splits. `R2 ln`: share of the variance of the logarithm explained; below 0 the mean of the rows "
    "would do better. Errors are relative to what was measured. `covered`, `width`: share of the runs inside their "
    "95 % interval, and the factor from its middle to its end. Laws: [choosing.md](choosing.md)."
)


def _tally(figures: Sequence[Figure]) -> str:
    verdicts = Counter(reached(figure["target"], figure["measured"]) for figure in figures)
    missing = sum(len(_missing(group, figures)) for group in GROUPS)
    missed = [f"`{figure['name']}`" for figure in figures if reached(figure["target"], figure["measured"]) is False]
    return (
        f"**{verdicts[True] + verdicts[False] + missing} figures have a target: {verdicts[True]} reach it, "
        f"{verdicts[False]} miss it, {missing} were not computed.**"
        + (f" Missed: {', '.join(missed)}." if missed else "")
    )


def _groups(figures: Sequence[Figure]) -> Iterator[str]:
    """Sections of the declared groups, then of what no group asks for, by the first word of the name."""
    rest = list(figures)
    for group in GROUPS:
        own = [figure for figure in rest if any(fnmatch(figure["name"], pattern) for pattern in group.patterns)]
        rest = [figure for figure in rest if figure not in own]
        yield f"### {group.title}"
        yield group.text
        yield _figure_table(own, group)
        yield _notes(own)
    for word in dict.fromkeys(figure["name"].partition(".")[0] for figure in rest):
        own = [figure for figure in rest if figure["name"].partition(".")[0] == word]
        yield f"### Further figures: {word}"
        yield _figure_table(own, None)
        yield _notes(own)


def _figure_table(figures: Sequence[Figure], group: Group | None) -> str:
    peers = {} if group is None else group.peers
    rows = [
        (
            f"`{figure['name']}`",
            _target(figure["target"]),
            _number(figure["measured"], figure["unit"]),
            {True: "reached", False: "**missed**", None: ""}[reached(figure["target"], figure["measured"])],
            peers.get(figure["name"], ""),
        )
        for figure in figures
    ]
    if group is not None:
        rows += [(f"`{name}`", target, "not computed", "", peers.get(name, ""))
                 for name, target in _missing(group, figures).items()]  # fmt: skip
    return _table(("figure", "target", "measured", "", "peers"), rows) if rows else ""


def _missing(group: Group, figures: Sequence[Figure]) -> dict[str, str]:
    """Figures that a group asks for and that nobody computed, with their targets."""
    names = [figure["name"] for figure in figures]
    return {name: target for name, target in group.asked.items() if name not in names}


def _notes(figures: Sequence[Figure]) -> str:
    return _bullets([f"`{figure['name']}`: {figure['note']}" for figure in figures if figure["note"]])


def _side_by_side(comparison: Comparison, verdict: Verdict) -> Iterator[str]:
    runs = f"{verdict.num_records} runs of `{comparison.table}`, {counted(verdict.num_splits, 'split')}"
    yield f"### {comparison.title}"
    yield f"Protocol `{comparison.protocol}`, {runs}."
    for target in comparison.targets:
        yield f"**{target}**"
        yield markdown_table(verdict, target)
    unjudged = sorted({one.law for one in verdict.unjudged})
    yield f"Without a time, and so not judged on it: {', '.join(unjudged)}." if unjudged else ""
    yield comparison.remark


def _tuned(verdict: Evaluation) -> str:
    r2, error = verdict.metrics["r2_log"].median, verdict.metrics["median_ape"].median
    return (
        f"### Boosting with other options\n\nWith {TUNED.num_trees} trees of depth {TUNED.depth}, learning rate "
        f"{TUNED.learning_rate:g} and half of the rows and columns drawn for each, the best of a few that were tried, "
        f"boosting reaches R2 ln {r2:.4f} and a median error of {error:.1f} % on the energies of the first "
        "table's splits."
    )


def coverage(tables: Mapping[str, Sequence[RunRecord]]) -> str:
    """Say of each measured table how many runs it has, and what those are that it states whole."""
    rows = []
    for name, every in tables.items():
        records, _ = usable(every)
        specs = [record.require_spec() for record in records]
        devices = [spec.layout.num_devices for spec in specs]
        rows.append((
            f"`{name}`",
            str(len(every)),
            str(len(records)),
            _listed(spec.accelerator.name for spec in specs),
            _listed(spec.architecture.family for spec in specs),
            _listed(spec.layout.strategy for spec in specs),
            _listed(spec.recipe.precision for spec in specs),
            " to ".join(f"{count:g}" for count in sorted({min(devices), max(devices)})) if devices else "",
            _listed(energy.boundary for record in records for energy in record.energies) or "none",
            str(sum(record.duration_s is not None for record in records)),
        ))  # fmt: skip
    head = (
        "table",
        "rows",
        "whole runs",
        "devices",
        "families",
        "strategies",
        "precisions",
        "devices per run",
        "energies",
        "times",
    )
    return _table(head, rows)


def _listed(words: Iterator[str]) -> str:
    return ", ".join(f"{word} {count}" for word, count in sorted(Counter(words).items()))


def _target(target: Any) -> str:
    if target is None or str(target).strip().lower() in ("", "none"):
        return ""
    return str(target) if isinstance(target, str) else f"beside {target:g}"


def _number(measured: float, unit: str) -> str:
    shown = f"{measured:.4g}" if abs(measured) < 1e5 else f"{measured:.2e}"
    return f"{shown} {unit}" if unit and unit != "1" and len(unit) <= 8 else shown


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _wrapped(line: str) -> str:
    """Break a long line of prose; not in code, nor before what would begin a list, a heading or a quotation."""
    if line.startswith(("|", "#")):
        return line
    held = re.sub(r"`[^`]+`| (?=(?:[-+*#=]+|\d+[.)])(?: |$)|>)", lambda found: found[0].replace(" ", "\0"), line)
    hang = "  " if line.startswith("- ") else ""
    broken = textwrap.fill(held, COLUMNS, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False)
    return broken.replace("\0", " ")


def read_figures(path: Path) -> list[dict[str, Any]]:
    """Read what ``make figures`` wrote.

    Raises:
        FileError: it has not been run.
    """
    if not path.is_file():
        raise FileError("no figures", hint="make figures").at(path)
    found: list[dict[str, Any]] = json.loads(path.read_text())
    return found


def main(arguments: Sequence[str]) -> None:
    """Write the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", type=Path, default=FIGURES, help="what make figures wrote")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args(arguments)
    figures = read_figures(options.figures)
    tables = {name: read_table(name) for name in MEASURED}
    compared = []
    for comparison in COMPARISONS:
        print(f"{comparison.title} ...", flush=True)
        verdict = judge(
            tables[comparison.table],
            law_names=comparison.laws,
            protocol=comparison.protocol,
            targets=comparison.targets,
            **comparison.options,
        )
        compared.append((comparison, verdict))
    print("boosting with other options ...", flush=True)
    rows = record_columns(usable(tables[FINE_TUNING])[0]).without("duration_s")
    (tuned,) = evaluate(TUNED, rows, splits(rows, "grouped"), protocol="grouped")
    options.output.write_text(document(figures, compared, tuned=tuned, covered=coverage(tables)))
    print(options.output)


if __name__ == "__main__":
    main(sys.argv[1:])
