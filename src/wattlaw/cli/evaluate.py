"""``wattlaw evaluate``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattlaw.cli.options import (
    LISTED_LAWS,
    SHARE,
    InputPath,
    Name,
    Number,
    OutputPath,
    about,
    as_json_option,
    boundary_names,
    law_names,
    print_json,
    print_rich,
    watching,
)
from wattlaw.cli.paper_options import chosen, paper_law_options
from wattlaw.errors import ConfigError

if TYPE_CHECKING:
    from wattlaw.law.evaluation import Verdict

EPILOG = """\b
Examples:
  wattlaw evaluate records.jsonl --law step --protocol grouped --splits 20 --json
  wattlaw evaluate records.jsonl --law step --law boosting --law 6nd --by architecture
  wattlaw evaluate records.jsonl --protocol few-runs --runs 4 --target time
  wattlaw evaluate records.jsonl --law paper --efficiency measured --protocol paper
  wattlaw evaluate records.jsonl --all --protocol cold --markdown --figure laws.png
"""

#: The protocol of section 3.6 of the paper.
PAPER = "paper"
#: More splits than this change no digit that is shown.
MOST_SPLITS = 10_000
MOST_SEED = 2**63


def _protocols() -> Iterable[str]:
    from wattlaw.law.evaluation.protocols import PROTOCOLS

    return (*PROTOCOLS, PAPER)


def _targets() -> Iterable[str]:
    from wattlaw.law.evaluation.scores import TARGETS

    return TARGETS


def _parts() -> Iterable[str]:
    from wattlaw.law.evaluation import PARTS

    return PARTS


@click.command("evaluate", epilog=EPILOG)
@click.argument("records", nargs=-1, required=True, type=InputPath("records", path_type=Path))
@click.option(
    "--law",
    "laws",
    multiple=True,
    type=Name("law", law_names),
    default=("step",),
    show_default=True,
    help=f"{LISTED_LAWS}; several stand side by side.",
)
@click.option("--all", "every_law", is_flag=True, help="All laws side by side.")
@click.option(
    "--protocol",
    type=Name("protocol", _protocols),
    default="grouped",
    show_default=True,
    help="grouped, leave-one-gpu-out, few-runs, suggested, small-to-large, cold or paper.",
)
@click.option(
    "--target",
    "targets",
    multiple=True,
    type=Name("target", _targets),
    default=("energy",),
    show_default=True,
    help="energy, time or power; several are judged from the same fits.",
)
@click.option(
    "--splits",
    type=Number(whole=True, at_least=1, at_most=MOST_SPLITS),
    default=20,
    show_default=True,
    help="Random splits, or draws per machine; the paper's protocol has 5.",
)
@click.option(
    "--test-fraction", type=SHARE, default=0.3, show_default=True, help="Share of configuration families held out."
)
@click.option(
    "--runs",
    type=Number(whole=True, at_least=0),
    default=4,
    show_default=True,
    help="Runs of the left-out machine that few-runs and suggested may see.",
)
@click.option(
    "--seed",
    type=Number(whole=True, at_least=0, below=MOST_SEED),
    default=0,
    show_default=True,
    help="Of the random splits.",
)
@click.option("--level", type=SHARE, default=0.95, show_default=True, help="Level of the intervals that are checked.")
@click.option("--by", type=Name("column", _parts), help="Score these apart as well: architecture, strategy or machine.")
@click.option(
    "--boundary",
    type=Name("boundary", boundary_names),
    help="Which energy to take: accelerators, node or facility; each record's narrowest where none is given.",
)
@click.option(
    "--prior",
    metavar="NAME|FILE",
    help="What the step law starts from: none (the default), bundled, or a fitted law's file. The bundled one has seen "
    "the public tables, and is refused on them: it would be judged on what it was fitted on. A file warns.",
)
@click.option(
    "--figure",
    type=OutputPath(path_type=Path),
    help="Draw predicted against measured, and the errors, of the (first) target: .png, .svg or .html.",
)
@click.option("--markdown", is_flag=True, help="Print Markdown.")
@paper_law_options
@as_json_option
def command(
    records: tuple[Path, ...],
    laws: tuple[str, ...],
    every_law: bool,
    protocol: str,
    targets: tuple[str, ...],
    splits: int,
    test_fraction: float,
    runs: int,
    seed: int,
    level: float,
    by: str | None,
    boundary: str | None,
    prior: str | None,
    figure: Path | None,
    markdown: bool,
    as_json: bool,
    **choices: Any,
) -> None:
    """Tell how well a law predicts records that it has not seen.

    RECORDS are stores (JSON lines), or folders of them. Every split fits the law on some records and scores it on
    others; runs of one configuration family never stand on both sides of a grouped split. Cold is the step law from its
    priors alone, the other laws from other machines' runs. Paper is the paper's own protocol: runs (not families) split
    70/30 within each architecture, five seeds; it tells RMSE, calibration slope and intercept, and the coverage of
    residual-bootstrap intervals.
    """
    from wattlaw.law.evaluation import judge
    from wattlaw.run.store import read_stores

    if markdown and as_json:
        raise ConfigError("one form at a time", given="--markdown --json", allowed="either").at("--markdown")
    if figure is not None:
        _require_form(figure)
    if every_law:
        laws = tuple(law_names())
    if prior is not None and "step" not in laws:
        raise ConfigError("only the step law starts from a prior", given=f"--law {laws[0]}", hint="--law step").at(
            "--prior"
        )
    options = chosen(choices, laws)
    with about(records), watching(shown=not as_json) as watch:
        common: dict[str, Any] = {
            "law_names": tuple(dict.fromkeys(laws)),
            "prior_name": prior or "none",
            "test_fraction": test_fraction,
            "seed": seed,
            "level": level,
            "boundary": boundary,
            "options": options,
            "watch": watch,
        }
        if protocol == PAPER:
            found = _as_the_paper(records, targets, by, splits if _was_typed("splits") else None, common)
        else:
            found = judge(
                read_stores(records),
                protocol=protocol,
                targets=tuple(dict.fromkeys(targets)),
                num_splits=splits,
                num_runs=runs,
                by=by,
                **common,
            )
    if figure is not None:
        _draw(found, figure)
    _print(found, markdown=markdown, as_json=as_json)


def _as_the_paper(
    records: tuple[Path, ...], targets: tuple[str, ...], by: str | None, splits: int | None, common: dict[str, Any]
) -> Verdict:
    """Judge by section 3.6 of the paper, which knows energies and all runs together."""
    from wattlaw.law.paper.protocol import SEEDS, paper_verdict
    from wattlaw.run.store import read_stores

    if set(targets) != {"energy"}:
        raise ConfigError("the paper's protocol is of energies", given=", ".join(targets), allowed="energy").at(
            "--target"
        )
    if by is not None:
        raise ConfigError("the paper's protocol scores all runs together", given=by).at("--by")
    return paper_verdict(read_stores(records), num_splits=splits or len(SEEDS), **common)


def _was_typed(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source is not click.core.ParameterSource.DEFAULT


def _require_form(figure: Path) -> None:
    """Refuse a figure that cannot be drawn before the work that fills it."""
    from wattlaw.report.figures.saving import require_form

    try:
        require_form(figure)
    except ConfigError as error:
        raise error.at("--figure") from None


def _draw(found: Verdict, figure: Path) -> None:
    from wattlaw.report.evaluation_figure import verdict_figure
    from wattlaw.report.figures.saving import write_figure

    write_figure(verdict_figure(found, found.evaluations[0].target), figure)


def _print(found: Verdict, *, markdown: bool, as_json: bool) -> None:
    from wattlaw.report.evaluation import evaluation_mapping, evaluation_markdown, evaluation_text

    if as_json:
        print_json(evaluation_mapping(found))
    elif markdown:
        click.echo(evaluation_markdown(found))
    else:
        print_rich(evaluation_text(found))
