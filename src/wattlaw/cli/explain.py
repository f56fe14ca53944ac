"""``wattlaw explain``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattlaw.cli.options import InputPath, Number, OutputPath, about, print_json, print_rich
from wattlaw.cli.predict import AMOUNTS, MODELS, PLACES, calibration_of, described_run, reworded
from wattlaw.cli.predict import command as predict_command
from wattlaw.errors import ConfigError, UnknownNameError, WattlawError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wattlaw.explain.correction import Correction
    from wattlaw.explain.counterfactual import Change
    from wattlaw.explain.tree import By
    from wattlaw.law.calibration import Calibration
    from wattlaw.run.spec import RunSpec

EPILOG = """\b
Examples:
  wattlaw explain examples/bert-base-sst2.toml
  wattlaw explain examples/bert-base-sst2.toml --by phase --depth 2
  wattlaw explain examples/bert-base-sst2.toml --what-if seq_len=256 --what-if "gpu=a100-sxm4-40gb, batch_size=64"
  wattlaw explain --model gpt2 --gpu l4 --batch-size 8 --seq-len 512 --steps 1000 --figure tree.html
"""

#: Levels that are shown to people: the model, its blocks, their modules.
DEPTH = 2


def _run_parameters() -> list[click.Parameter]:
    """Describe a run as ``predict`` does; what only turns energy into money is left out."""
    shared = {"spec", "law", "level", "as_json", *PLACES}
    return [parameter for parameter in predict_command.params if parameter.name in shared]


@click.command("explain", epilog=EPILOG, params=_run_parameters())
@click.option("--by", type=click.Choice(["module", "phase"]), default="module", show_default=True,
              help="What the tree is divided by first.")  # fmt: skip
@click.option("--depth", type=Number(whole=True, at_least=0), metavar="LEVELS",
              help=f"Levels below the model; {DEPTH} for people, all of them for --json.")  # fmt: skip
@click.option("--what-if", "what_ifs", multiple=True, metavar="NAME=VALUE,...",
              help="A change of the run to predict as well, in the names of the options; repeatable.")  # fmt: skip
@click.option("--modules", type=InputPath(path_type=Path), metavar="FILE",
              help="Module times of this machine (`wattlaw measure --modules`), to correct by.")  # fmt: skip
@click.option("--figure", type=OutputPath(path_type=Path), metavar="FILE",
              help="Draw the tree: a page (.html), .png or .svg.")  # fmt: skip
def command(
    *,
    spec: Path | None,
    law: Path | None,
    level: float,
    as_json: bool,
    by: str,
    depth: int | None,
    what_ifs: tuple[str, ...],
    modules: Path | None,
    figure: Path | None,
    **options: Any,
) -> None:
    """Show where a run's energy and time go, and what would change them, before it starts.

    The tree goes from the model to its blocks, modules, operations and phases; its parts sum to what `wattlaw predict`
    says. Below it: what a tenth more of each input does, and what the changes do that people ask for, or those of
    --what-if.
    """
    from wattlaw.explain.counterfactual import outcomes, usual_changes
    from wattlaw.explain.efficiency import efficiency
    from wattlaw.explain.sensitivity import sensitivities
    from wattlaw.explain.tree import check_explainable, explained
    from wattlaw.law.prediction import predict
    from wattlaw.report.explain import explanation_mapping, explanation_text

    given = {name: value for name, value in options.items() if value is not None}
    run = described_run(spec, given)
    asked = tuple(_change(text, spec, given) for text in what_ifs)
    calibration = calibration_of(law)
    with about([law] if law else []):
        check_explainable(calibration)
        try:
            (prediction,) = predict([run], calibration, level=level)
        except ConfigError as error:
            raise reworded(error, given, spec) from error
        correction = None if modules is None else _correction(modules, calibration, run)
        way: By = "phase" if by == "phase" else "module"
        tree = explained(run, calibration, prediction, by=way, correction=correction)
        slopes = sensitivities(run, calibration)
        found = outcomes(run, calibration, asked or usual_changes(run), level=level)
    if figure is not None:
        from wattlaw.report.figures.saving import write_figure
        from wattlaw.report.tree_figure import tree_figure

        write_figure(tree_figure(tree), figure)
    merit = efficiency(run, prediction)
    if as_json:
        print_json(explanation_mapping(run, prediction, tree, depth=depth, merit=merit, slopes=slopes, changes=found))
    else:
        shown = DEPTH if depth is None else depth
        print_rich(explanation_text(run, prediction, tree, depth=shown, merit=merit, slopes=slopes, changes=found))


def _correction(path: Path, calibration: Calibration, run: RunSpec) -> Correction:
    from wattlaw.explain.correction import learned_correction
    from wattlaw.measure.module_times import read_module_times

    with about([path]):
        return learned_correction(read_module_times(path), calibration, run.accelerator.name)


def _change(text: str, file: Path | None, given: dict[str, Any]) -> Change:
    """Read a change such as ``seq_len=256, batch_size=8``; what cannot be run is known when it is tried."""
    from wattlaw.explain.counterfactual import Change

    changes = dict(_pair(part) for part in text.split(","))
    replaced = {name for names in (MODELS, AMOUNTS) if set(names) & set(changes) for name in names}

    def apply(_: RunSpec) -> RunSpec:
        kept = {name: value for name, value in given.items() if name not in replaced}
        return described_run(file, {**kept, **changes})

    return Change(name=", ".join(f"{name} = {value}" for name, value in changes.items()), apply=apply)


def _pair(part: str) -> tuple[str, Any]:
    """Read one ``name=value``, the name and the value of an option."""
    name, sign, value = (piece.strip() for piece in part.partition("="))
    if not sign or not value:
        raise ConfigError("a change has a name and a value", given=repr(part), allowed="such as seq_len=256").at(
            "--what-if"
        )
    key = name.removeprefix("--").replace("-", "_")
    if key not in PLACES:
        raise UnknownNameError.among("input", name, _names(), hint="an option of `wattlaw explain --help`").at(
            "--what-if"
        )
    parameter = next(one for one in predict_command.params if one.name == key)
    try:
        return key, parameter.type.convert(value, parameter, None)
    except WattlawError as error:
        raise error.at("--what-if") from error


def _names() -> Iterable[str]:
    return PLACES
