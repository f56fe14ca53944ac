"""``wattlaw evaluate``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from wattlaw.cli.options import (
    SHARE,
    InputPath,
    Name,
    Number,
    about,
    as_json_option,
    boundary_names,
    law_names,
    print_json,
    print_rich,
    watching,
)
from wattlaw.errors import ConfigError

EPILOG = """\b
Examples:
  wattlaw evaluate records.jsonl --law step --protocol grouped --splits 20 --json
  wattlaw evaluate records.jsonl --law step --law paper --law power --by architecture
  wattlaw evaluate records.jsonl --protocol few-runs --runs 4 --target time
"""

#: More splits than this change no digit that is shown.
MOST_SPLITS = 10_000
MOST_SEED = 2**63


def _protocols() -> Iterable[str]:
    from wattlaw.law.evaluation import PROTOCOLS

    return PROTOCOLS


def _targets() -> Iterable[str]:
    from wattlaw.law.evaluation import TARGETS

    return TARGETS


def _parts() -> Iterable[str]:
    from wattlaw.law.judging import PARTS

    return PARTS


@click.command("evaluate", epilog=EPILOG)
@click.argument("records", nargs=-1, required=True, type=InputPath(path_type=Path))
@click.option(
    "--law",
    "laws",
    multiple=True,
    type=Name("law", law_names),
    default=("step",),
    show_default=True,
    help="step, paper, additive or power; several stand side by side.",
)
@click.option(
    "--protocol",
    type=Name("protocol", _protocols),
    default="grouped",
    show_default=True,
    help="grouped, leave-one-gpu-out, few-runs or small-to-large.",
)
@click.option(
    "--target", type=Name("target", _targets), default="energy", show_default=True, help="energy, time or power."
)
@click.option(
    "--splits",
    type=Number(whole=True, at_least=1, at_most=MOST_SPLITS),
    default=20,
    show_default=True,
    help="Random splits, or draws per machine.",
)
@click.option(
    "--test-fraction", type=SHARE, default=0.3, show_default=True, help="Share of configuration families held out."
)
@click.option(
    "--runs",
    type=Number(whole=True, at_least=0),
    default=4,
    show_default=True,
    help="Runs of the left-out machine that few-runs may see.",
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
    "the public tables, so it may not judge itself on them.",
)
@as_json_option
def command(
    records: tuple[Path, ...],
    laws: tuple[str, ...],
    protocol: str,
    target: str,
    splits: int,
    test_fraction: float,
    runs: int,
    seed: int,
    level: float,
    by: str | None,
    boundary: str | None,
    prior: str | None,
    as_json: bool,
) -> None:
    """Tell how well a law predicts records that it has not seen.

    RECORDS are stores (JSON lines), or folders of them. Every split fits the law on some records and scores it on
    others; runs of one configuration family never stand on both sides of a grouped split.
    """
    from wattlaw.law.judging import judge
    from wattlaw.report.evaluation import evaluation_mapping, evaluation_text
    from wattlaw.run.store import read_stores

    if prior is not None and "step" not in laws:
        raise ConfigError("only the step law starts from a prior", given=f"--law {laws[0]}", hint="--law step").at(
            "--prior"
        )
    with about(records), watching(shown=not as_json) as watch:
        found = judge(
            read_stores(records),
            law_names=tuple(dict.fromkeys(laws)),
            prior_name=prior or "none",
            protocol=protocol,
            target=target,
            num_splits=splits,
            test_fraction=test_fraction,
            num_runs=runs,
            seed=seed,
            level=level,
            by=by,
            boundary=boundary,
            watch=watch,
        )
    if as_json:
        print_json(evaluation_mapping(found))
    else:
        print_rich(evaluation_text(found))
