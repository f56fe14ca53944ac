"""``wattlaw report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattlaw.cli.options import (
    SHARE,
    InputPath,
    OutputPath,
    about,
    as_json_option,
    print_json,
    working,
)
from wattlaw.cli.paper_options import LAWS_OF, chosen, paper_law_options
from wattlaw.cli.prices import account, price_options
from wattlaw.errors import ConfigError, FileError

if TYPE_CHECKING:
    from wattlaw.law.calibration import Calibration
    from wattlaw.law.paper.options import PaperOptions
    from wattlaw.report.document import Document

EPILOG = """\b
Examples:
  wattlaw report examples/bert-base-sst2.toml -o report.html
  wattlaw report runs/*.jsonl -o report.md
  wattlaw report records.jsonl law.json -o fit.html --interactive
  wattlaw report records.jsonl --law paper --efficiency measured -o paper.html
"""

#: How a report can be written, by the ending of its file.
FORMS = {".html": "page", ".htm": "page", ".md": "Markdown"}


@click.command("report", epilog=EPILOG)
@click.argument(
    "inputs",
    nargs=-1,
    required=True,
    metavar="INPUT...",
    type=InputPath("a run spec", "records", "a fitted law", "a plan", path_type=Path),
)
@click.option("-o", "--output", required=True, type=OutputPath(path_type=Path), help="File to write: .html or .md.")
@click.option(
    "--law",
    metavar="FILE|NAME",
    type=InputPath(path_type=Path),
    help="A fitted law to predict with, the shipped one where none is given; or paper, power or additive, to fit that "
    "law to the records and report it.",
)
@click.option("--level", type=SHARE, default=0.95, show_default=True, help="Share of runs that the interval holds.")
@price_options
@click.option("--interactive", is_flag=True, help="A page whose figures answer the pointer; half a megabyte more.")
@paper_law_options
@as_json_option
def command(
    inputs: tuple[Path, ...],
    output: Path,
    law: Path | None,
    level: float,
    interactive: bool,
    as_json: bool,
    **others: Any,
) -> None:
    """Write one file that shows a prediction, a plan, a sweep or a fit: figures, each with its data as a table.

    What INPUT is says what is reported: a run spec (.toml) its prediction; records (.jsonl, or folders of them) what
    was measured, beside the law; a fitted law (.json) with its records the law's diagnostics; a plan (the .json that
    `wattlaw plan --json` prints) its front. The page needs no network and no other file; Markdown has its figures in a
    folder beside it.
    """
    form = FORMS.get(output.suffix.lower())
    if form is None:
        raise ConfigError("a report is a page or Markdown", given=output.name, allowed=", ".join(FORMS)).at("--output")
    if interactive and form != "page":
        raise ConfigError("only a page is interactive", given=output.name, allowed="a name in .html").at(
            "--interactive"
        )
    choices = {name: others.pop(name) for name in LAWS_OF}
    options = chosen(choices, [str(law)] if _is_fitted_here(law) else [])
    with working("drawing", shown=not as_json):
        document = _document(inputs, law=law, level=level, prices=others, options=options)
        written = _write(document, output, interactive=interactive, page=form == "page")
    if as_json:
        print_json({"output": str(output), "kind": document.kind, "title": document.title, "files": written})
    else:
        more = f", and {len(written) - 1} figures beside it" if len(written) > 1 else ""
        click.echo(f"{output}: {document.title}{more}")


def _is_fitted_here(law: Path | None) -> bool:
    """Whether ``--law`` names one of the paper's laws, and no file."""
    return law is not None and str(law) in LAWS_OF["compute"] and not law.exists()


def _document(
    inputs: tuple[Path, ...], *, law: Path | None, level: float, prices: dict[str, Any], options: PaperOptions
) -> Document:
    """Tell what the inputs are, and report on it."""
    specs = [path for path in inputs if path.suffix.lower() == ".toml"]
    values = [path for path in inputs if path.suffix.lower() == ".json"]
    stores = [path for path in inputs if path not in specs and path not in values]
    laws = [path for path in values if _is_law(path)]
    plans = [path for path in values if path not in laws]
    if (len(specs), len(plans), bool(stores)) not in ((1, 0, False), (0, 1, False), (0, 0, True)) or len(laws) > 1:
        raise ConfigError(
            "a report is of one thing",
            given=", ".join(str(path) for path in inputs),
            allowed="one run spec (.toml), one plan (.json), or records (.jsonl) with or without their law (.json)",
        )
    if laws and law:
        raise ConfigError("one law to predict with", given=f"{laws[0]} and --law {law}", allowed="one of them")
    if law is not None and _is_fitted_here(law):
        return _fitted(stores, str(law), options)
    calibration = _calibration(laws[0] if laws else law)
    if specs:
        return _run(specs[0], calibration, level=level, prices=prices)
    if plans:
        return _plan(plans[0])
    from wattlaw.report.records_report import records_document
    from wattlaw.run.store import read_stores

    with about(stores):
        return records_document(read_stores(stores), calibration, fitted=bool(laws))


def _fitted(stores: list[Path], law: str, options: PaperOptions) -> Document:
    """Fit one of the paper's laws to the records, and report it."""
    from wattlaw.law.fitting import fit_records
    from wattlaw.report.records_report import records_document
    from wattlaw.run.store import read_stores

    if not stores:
        raise ConfigError("a law is fitted to records", given=law, allowed="records (.jsonl), or a law's file").at(
            "--law"
        )
    with about(stores):
        records = read_stores(stores)
        return records_document(records, fit_records(records, law_name=law, options=options).calibration, fitted=True)


def _run(path: Path, calibration: Calibration, *, level: float, prices: dict[str, Any]) -> Document:
    from wattlaw.law.prediction import predict
    from wattlaw.report.run_report import run_document
    from wattlaw.run.spec_file import read_spec

    spec = read_spec(path)
    with about([path]):
        (prediction,) = predict([spec], calibration, level=level)
    costs = account(prices, spec, prediction)
    return run_document(
        spec, prediction, costs.footprint, calibration, carbon_source=costs.carbon_source, location=costs.location
    )


def _plan(path: Path) -> Document:
    from wattlaw.report.plan_report import plan_document

    return plan_document(path)


def _is_law(path: Path) -> bool:
    from wattlaw.law.calibration import FORMAT

    try:
        with path.open("rb") as file:
            return FORMAT.encode() in file.read(200)
    except OSError as error:
        raise FileError("cannot read the file", given=error.strerror).at(path) from error


def _calibration(law: Path | None) -> Calibration:
    from wattlaw.law.bundled import bundled
    from wattlaw.law.loading import load_law

    return bundled() if law is None else load_law(law)


def _write(document: Document, output: Path, *, interactive: bool, page: bool) -> list[str]:
    """Write the report, and return the files, its own first."""
    from wattlaw.report.html import as_html
    from wattlaw.report.markdown import as_markdown
    from wattlaw.run.files import write_atomic

    if page:
        write_atomic(output, as_html(document, interactive=interactive))
        return [str(output)]
    folder = output.with_name(f"{output.stem}-figures")
    text, figures = as_markdown(document, folder=folder.name)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise FileError("cannot make the folder of the figures", given=error.strerror).at(folder) from error
    for name, content in figures.items():
        write_atomic(folder / name, content)
    write_atomic(output, text)
    return [str(output), *(str(folder / name) for name in figures)]
