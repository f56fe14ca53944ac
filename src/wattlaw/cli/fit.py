"""``wattlaw fit``."""

from __future__ import annotations

from pathlib import Path

import click

from wattlaw.cli.options import (
    InputPath,
    Name,
    OutputPath,
    about,
    as_json_option,
    boundary_names,
    law_names,
    print_json,
    print_rich,
    working,
)
from wattlaw.errors import ConfigError, FileError

EPILOG = """\b
Examples:
  wattlaw fit records.jsonl --law step -o law.json
  wattlaw fit runs/*.jsonl --law paper -o paper.json
  wattlaw fit mine.jsonl --prior law.json -o mine.json
"""


@click.command("fit", epilog=EPILOG)
@click.argument("records", nargs=-1, required=True, type=InputPath(path_type=Path))
@click.option(
    "--law", type=Name("law", law_names), default="step", show_default=True, help="step, paper, additive or power."
)
@click.option(
    "--prior",
    metavar="NAME|FILE",
    help="What the step law starts from: bundled (the default), none, or a fitted law's file.",
)
@click.option(
    "--boundary",
    type=Name("boundary", boundary_names),
    help="Which energy to fit: accelerators, node or facility; each record's narrowest where none is given.",
)
@click.option("-o", "--output", required=True, type=OutputPath(path_type=Path), help="File for the fitted law.")
@as_json_option
def command(
    records: tuple[Path, ...], law: str, prior: str | None, boundary: str | None, output: Path, as_json: bool
) -> None:
    """Fit a law to records, and write it as a JSON file that predict and evaluate take.

    RECORDS are stores (JSON lines), or folders of them. The step law starts from what other machines have in common,
    so a few runs on a new machine are enough. An earlier law in the output file is replaced when the fit is done.
    """
    from wattlaw.law.fitting import fit_records
    from wattlaw.report.fit import fit_mapping, fit_text
    from wattlaw.run.store import read_stores

    if prior is not None and law != "step":
        raise ConfigError("only the step law starts from a prior", given=f"--law {law}", hint="--law step").at(
            "--prior"
        )
    _refuse_other_files(output)
    with about(records), working(f"fitting the {law} law", shown=not as_json):
        fitted = fit_records(read_stores(records), law_name=law, prior_name=prior or "bundled", boundary=boundary)
    fitted.calibration.save(output)
    if as_json:
        print_json(fit_mapping(fitted, output))
    else:
        print_rich(fit_text(fitted, output))


def _refuse_other_files(output: Path) -> None:
    """Refuse to write over a file that is no law: measurements cannot be had again by running a command."""
    from wattlaw.law.calibration import FORMAT

    if output.exists() and output.stat().st_size and FORMAT.encode() not in _start(output):
        raise FileError("this file is no fitted law, and is left as it is", hint="another name for -o").at(output)


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(200)
