"""``wattlaw import``: one subcommand per kind of source."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattlaw.cli.options import InputPath, OutputPath, as_json_option, print_json

if TYPE_CHECKING:
    from wattlaw.run.importers import Import

EPILOG = """\b
Examples:
  wattlaw import csv runs.csv --columns columns.toml -o records.jsonl
  wattlaw import csv table.csv --columns bert_gpt_multi_gpu -o records.jsonl
  wattlaw import authors configurations.csv --gpu "V100=v100-sxm2-32gb" -o records.jsonl
  wattlaw import codecarbon emissions.csv --spec run.toml -o records.jsonl
"""

file_argument = click.argument("file", type=InputPath(path_type=Path))
output_option = click.option(
    "-o",
    "--output",
    required=True,
    type=OutputPath(path_type=Path),
    help="Store (JSON lines) to add the records to; made where it is absent.",
)


gpu_names_option = click.option(
    "--gpu",
    "gpus",
    multiple=True,
    metavar="NAME=ACCELERATOR",
    help="What a name of the file means that could mean several, such as V100=v100-sxm2-32gb; may be repeated.",
)


@click.group("import", epilog=EPILOG)
def command() -> None:
    """Turn public tables and other tools' logs into records.

    What a row does not state stays unknown. Rows that cannot be read are counted, with the reason. Records that the
    store already holds are not added again, so an import can be repeated.
    """


@command.command("csv", epilog="Example: wattlaw import csv runs.csv --columns columns.toml -o records.jsonl")
@file_argument
@click.option("--columns", required=True, metavar="MAP", help="Column map: a TOML file, or the name of a shipped one.")
@gpu_names_option
@output_option
@as_json_option
def from_csv(file: Path, columns: str, gpus: tuple[str, ...], output: Path, as_json: bool) -> None:
    """Import any CSV file with a column map (see docs/records.md)."""
    from wattlaw.run.importers import import_csv, shipped_map

    is_file = columns.lower().endswith(".toml") or Path(columns).is_file()
    named = columns if is_file else shipped_map(columns)
    _store(file, import_csv(file, named, gpus=_meanings(gpus)), output, as_json)


@command.command("authors", epilog="Example: wattlaw import authors data/configurations.csv -o records.jsonl")
@file_argument
@gpu_names_option
@output_option
@as_json_option
def from_authors(file: Path, gpus: tuple[str, ...], output: Path, as_json: bool) -> None:
    """Import data/configurations.csv of "System-Aware Energy Prediction for Multi-GPU Transformer Training"."""
    from wattlaw.run.importers import import_authors

    _store(file, import_authors(file, gpus=_meanings(gpus)), output, as_json)


@command.command(
    "zeus", epilog="Example: wattlaw import zeus trace.csv --gpu v100-pcie-16gb --spec run.toml -o records.jsonl"
)
@file_argument
@click.option("--gpu", metavar="NAME", help="The accelerator, which a trace does not name.")
@click.option("--spec", type=InputPath(path_type=Path), help="Tables of a run spec with what the trace lacks.")
@output_option
@as_json_option
def from_zeus(file: Path, gpu: str | None, spec: Path | None, output: Path, as_json: bool) -> None:
    """Import a power trace of Zeus, or the log of a ZeusMonitor."""
    from wattlaw.run.importers import import_zeus
    from wattlaw.run.spec_file import read_tables

    _store(file, import_zeus(file, gpu=gpu, spec=None if spec is None else read_tables(spec)), output, as_json)


@command.command(
    "codecarbon", epilog="Example: wattlaw import codecarbon emissions.csv --spec run.toml -o records.jsonl"
)
@file_argument
@click.option("--spec", required=True, type=InputPath(path_type=Path), help="The run spec of what was trained.")
@output_option
@as_json_option
def from_codecarbon(file: Path, spec: Path, output: Path, as_json: bool) -> None:
    """Import CodeCarbon's emissions.csv; it does not say what was trained, so a run spec does."""
    from wattlaw.run.importers import import_codecarbon
    from wattlaw.run.spec_file import read_spec

    _store(file, import_codecarbon(file, spec=read_spec(spec)), output, as_json)


def _meanings(texts: tuple[str, ...]) -> dict[str, str]:
    """Read ``NAME=ACCELERATOR``; the file of an accelerator is one as well."""
    from wattlaw.errors import ConfigError

    found: dict[str, str] = {}
    for text in texts:
        name, equals, means = (part.strip() for part in text.rpartition("="))
        name, means = (name, means) if equals else (means, "")
        if not (name and means):
            raise ConfigError(
                "not a name and what it means", given=repr(text), allowed="NAME=ACCELERATOR, as V100=v100-sxm2-32gb"
            ).at("--gpu")
        if found.setdefault(name, means) != means:
            raise ConfigError("one name, two meanings", given=f"{name}: {found[name]}, {means}").at("--gpu")
    return found


def _store(file: Path, found: Import, output: Path, as_json: bool) -> None:
    """Add what was imported to the store and say what became of every row."""
    from wattlaw.errors import DataError
    from wattlaw.run.store import add_new_records

    if not found.records:
        if not found.skipped:
            raise DataError("a header and no row", allowed="one row or more").at(file)
        first = found.skipped[0]
        raise DataError(
            "no row could be imported", given=f"{len(found.skipped)} rows; the first, line {first.row}: {first.reason}"
        ).at(file)
    added = add_new_records(output, found.records)
    reasons = Counter(skipped.reason for skipped in found.skipped)
    partial = sum(record.spec is None for record in found.records)
    missing = Counter(field for record in found.records for field in record.missing)
    summary: dict[str, Any] = {
        "output": str(output),
        "records": len(found.records),
        "added": added,
        "without_spec": partial,
        "missing": [{"rows": rows, "field": field} for field, rows in missing.most_common()],
        "skipped": len(found.skipped),
        "reasons": [{"rows": rows, "reason": reason} for reason, rows in reasons.most_common()],
    }
    if as_json:
        print_json(summary)
        return
    from wattlaw.report.quantities import counted

    known = len(found.records) - added
    click.echo(f"{output}: {counted(added, 'record')} added" + (f", {known} already there" if known else ""))
    if partial:
        click.echo(f"  {partial} do not state a whole run: they are kept, but no law can use them")
        click.echo(f"    missing: {', '.join(field for field, _ in missing.most_common())}")
    if found.skipped:
        click.echo(f"  {len(found.skipped)} rows skipped")
        for reason, rows in reasons.most_common(5):
            click.echo(f"    {rows} x {reason}")
        if len(reasons) > 5:
            click.echo(f"    and {len(reasons) - 5} other reasons (--json lists all)")
