"""``wattlaw fit``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattlaw.cli.options import (
    LISTED_LAWS,
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
from wattlaw.cli.paper_options import chosen, paper_law_options
from wattlaw.errors import ConfigError, FileError

if TYPE_CHECKING:
    from wattlaw.law.fitting import FittedLaw
    from wattlaw.law.paper.additive_checkup import AdditiveCheckup
    from wattlaw.law.paper.checkup import Checkup
    from wattlaw.law.paper.options import PaperOptions
    from wattlaw.run.record import RunRecord

EPILOG = """\b
Examples:
  wattlaw fit records.jsonl --law step -o law.json
  wattlaw fit runs/*.jsonl --law paper --diagnose -o paper.json
  wattlaw fit runs/*.jsonl --law paper --efficiency measured --effect strategy --effect architecture -o paper.json
  wattlaw fit runs/*.jsonl --law additive --diagnose -o additive.json
  wattlaw fit mine.jsonl --law paper-table3 -o anchored.json
  wattlaw fit mine.jsonl --prior law.json -o mine.json
"""

#: Laws whose fit is diagnosed in a terminal; the report draws the diagnostics of any.
DIAGNOSED = ("paper", "power", "additive")


def _published() -> Iterable[str]:
    from wattlaw.law.paper.published import published_names

    return published_names()


def _laws() -> Iterable[str]:
    return (*law_names(), *_published())


@click.command("fit", epilog=EPILOG)
@click.argument("records", nargs=-1, required=True, type=InputPath("records", path_type=Path))
@click.option(
    "--law",
    type=Name("law", _laws),
    default="step",
    show_default=True,
    help=f"{LISTED_LAWS}; or paper-table3, whose level alone is then set.",
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
@click.option(
    "--residual/--no-residual",
    default=True,
    show_default=True,
    help="Interpolate what the step law leaves between the runs; the file then keeps their inputs.",
)
@click.option(
    "--diagnose", is_flag=True, help="Say what to doubt about the fit of the paper, the power or the additive law."
)
@paper_law_options
@as_json_option
def command(
    records: tuple[Path, ...],
    law: str,
    prior: str | None,
    boundary: str | None,
    output: Path,
    residual: bool,
    diagnose: bool,
    as_json: bool,
    **choices: Any,
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
    if diagnose and law not in DIAGNOSED:
        raise ConfigError(
            "only the paper's laws have these diagnostics", given=law, allowed=f"--law {', '.join(DIAGNOSED)}",
            hint="wattlaw report, for any law",
        ).at("--diagnose")  # fmt: skip
    options = chosen(choices, [law])
    _refuse_other_files(output)
    with about(records), working(f"fitting the {law} law", shown=not as_json):
        runs = read_stores(records)
        if law in _published():
            fitted = _anchored(runs, law, boundary)
        else:
            fitted = fit_records(
                runs,
                law_name=law,
                prior_name=prior or "bundled",
                boundary=boundary,
                residual=residual,
                options=options,
            )
        found = _checkup(runs, law, boundary, options) if diagnose else None
    fitted.calibration.save(output)
    if as_json:
        print_json(fit_mapping(fitted, output) | ({} if found is None else {"diagnosis": found}))
        return
    print_rich(fit_text(fitted, output))
    if found is not None:
        from wattlaw.report.checkup import diagnosis_text

        print_rich(diagnosis_text(found))


def _checkup(
    runs: Sequence[RunRecord], law: str, boundary: str | None, options: PaperOptions
) -> Checkup | AdditiveCheckup:
    if law == "additive":
        from wattlaw.law.paper.additive_checkup import additive_checkup

        return additive_checkup(runs, boundary=boundary, options=options)
    from wattlaw.law.paper.checkup import checkup

    return checkup(runs, law_name=law, boundary=boundary, options=options)


def _anchored(runs: Sequence[RunRecord], name: str, boundary: str | None) -> FittedLaw:
    from wattlaw.law.paper.published import anchored_fit, published

    return anchored_fit(published(name), runs, energy_boundary=boundary)


def _refuse_other_files(output: Path) -> None:
    """Refuse to write over a file that is no law: measurements cannot be had again by running a command."""
    from wattlaw.law.calibration import FORMAT

    if output.exists() and output.stat().st_size and FORMAT.encode() not in _start(output):
        raise FileError("this file is no fitted law, and is left as it is", hint="another name for -o").at(output)


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(200)
