"""``wattlaw compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from wattlaw.cli.options import SHARE, InputPath, about, as_json_option, print_json, print_rich
from wattlaw.cli.predict import calibration_of
from wattlaw.cli.prices import account, price_options
from wattlaw.errors import ConfigError

EPILOG = """\b
Examples:
  wattlaw compare examples/llama2-7b-fsdp.toml examples/llama2-7b-lora.toml
  wattlaw compare one.toml two.toml three.toml --law law.json --region DE --json
"""


@click.command("compare", epilog=EPILOG)
@click.argument("specs", nargs=-1, required=True, metavar="SPEC...", type=InputPath("a run spec", path_type=Path))
@click.option(
    "--law",
    metavar="FILE",
    type=InputPath("a fitted law", path_type=Path),
    help="A fitted law; the shipped one where none is given.",
)
@click.option("--level", type=SHARE, default=0.95, show_default=True, help="Share of runs that the interval holds.")
@price_options
@as_json_option
def command(specs: tuple[Path, ...], law: Path | None, level: float, as_json: bool, **figures: Any) -> None:
    """Predict several runs side by side, with the chance that one takes less energy or time than another.

    Two runs on one machine are wrong together, so that their order is surer than their intervals look.
    """
    from wattlaw.plan.compare import compare
    from wattlaw.report.compare import comparison_mapping, comparison_text
    from wattlaw.run.spec import check_fits
    from wattlaw.run.spec_file import read_spec

    if len(specs) < 2:
        raise ConfigError("a comparison needs two runs", given=f"{len(specs)} SPEC", allowed="2 or more")
    runs = [read_spec(path) for path in specs]
    for path, run in zip(specs, runs, strict=True):
        try:
            check_fits(run)
        except ConfigError as error:
            raise error.at(path) from None
    calibration = calibration_of(law)
    with about([law] if law else list(specs)):
        found = compare(runs, calibration, level=level)
    costs = [
        account(figures, run, prediction).footprint
        for run, prediction in zip(found.specs, found.predictions, strict=True)
    ]
    if as_json:
        print_json(comparison_mapping(found, costs))
    else:
        print_rich(comparison_text(found, costs, _labels(specs)))


def _labels(specs: tuple[Path, ...]) -> list[str]:
    """Name each run by its file; files of one name by their number as well."""
    names = [path.stem for path in specs]
    if len(set(names)) == len(names):
        return names
    return [f"{number} {name}" for number, name in enumerate(names, 1)]
