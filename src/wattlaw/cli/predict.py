"""``wattlaw predict``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattlaw.cli.options import (
    COUNT,
    DEVICES,
    FLAG,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    InputPath,
    Name,
    about,
    as_json_option,
    print_json,
    print_rich,
)
from wattlaw.cli.prices import NAMES as PRICES
from wattlaw.cli.prices import account, price_options
from wattlaw.errors import ConfigError, WattlawError

if TYPE_CHECKING:
    from wattlaw.cli.prices import Account
    from wattlaw.law.calibration import Calibration
    from wattlaw.law.prediction import Prediction
    from wattlaw.run.spec import RunSpec

EPILOG = """\b
Examples:
  wattlaw predict --model bert-base-uncased --head classification --gpu a100-sxm4-40gb \\
      --batch-size 32 --seq-len 128 --samples 67349 --epochs 3 --precision fp16
  wattlaw predict --config path/to/config.json --gpu a100-sxm4-40gb --num-gpus 2 --strategy tp \\
      --batch-size 8 --seq-len 512 --steps 1000
  wattlaw predict run.toml --law law.json --json
  wattlaw predict run.toml --law paper-table3 --anchor records.jsonl
  wattlaw predict run.toml --region DE --pue 1.2 --price-per-device-hour 2.5 --embodied
  wattlaw predict run.toml --carbon-series DE-2025.csv --tariff tariff.toml --start 2025-07-01T09:00+02:00 --window 48h
  wattlaw predict run.toml --region FR --model-card --training-type fine-tuning
"""

#: Option -> the table and key of a run spec that it sets.
PLACES = {
    "model": ("model", "preset"),
    "config": ("model", "config"),
    "head": ("model", "head"),
    "num_labels": ("model", "num_labels"),
    "gpu": ("hardware", "gpu"),
    "node": ("hardware", "node"),
    "power_limit": ("hardware", "power_limit_w"),
    "strategy": ("layout", "strategy"),
    "num_gpus": ("layout", "num_devices"),
    "tensor_parallel": ("layout", "tensor_parallel"),
    "pipeline_parallel": ("layout", "pipeline_parallel"),
    "context_parallel": ("layout", "context_parallel"),
    "expert_parallel": ("layout", "expert_parallel"),
    "pipeline_interleaving": ("layout", "pipeline_interleaving"),
    "sequence_parallel": ("layout", "sequence_parallel"),
    "vocabulary_parallel": ("layout", "vocabulary_parallel"),
    "num_nodes": ("layout", "num_nodes"),
    "batch_size": ("recipe", "batch_size"),
    "seq_len": ("recipe", "seq_len"),
    "padded_len": ("recipe", "padded_len"),
    "target_len": ("recipe", "target_len"),
    "grad_accumulation": ("recipe", "grad_accumulation"),
    "precision": ("recipe", "precision"),
    "optimizer": ("recipe", "optimizer"),
    "checkpointing": ("recipe", "checkpointing"),
    "attention_kernel": ("recipe", "attention_kernel"),
    "software": ("recipe", "software"),
    "predicted_fraction": ("recipe", "predicted_fraction"),
    "packed_sequences": ("recipe", "packed_sequences"),
    "adapter_rank": ("recipe", "adapter_rank"),
    "adapter_targets": ("recipe", "adapter_targets"),
    "steps": ("recipe", "steps"),
    "samples": ("recipe", "samples"),
    "epochs": ("recipe", "epochs"),
    "tokens": ("recipe", "tokens"),
    "evaluation_fraction": ("recipe", "evaluation_fraction"),
}
#: Ways to say which model, and how much it is trained: one of each.
MODELS = ("model", "config")
AMOUNTS = ("steps", "samples", "tokens")
#: What a run needs besides, where no file says it.
NEEDED = ("gpu", "batch_size", "seq_len")


def _recipe_names(names: str) -> Name:
    def known() -> Iterable[str]:
        from wattlaw.workload import recipe

        return tuple(getattr(recipe, names))

    return Name(names.lower().removesuffix("s").replace("_", " "), known)


def _training_types() -> Iterable[str]:
    from wattlaw.report.model_card import TRAINING_TYPES

    return TRAINING_TYPES


def _layout_names() -> Iterable[str]:
    from wattlaw.parallel.layout import STRATEGIES

    return STRATEGIES


@click.command("predict", epilog=EPILOG)
@click.argument("spec", required=False, type=InputPath("a run spec", path_type=Path))
@click.option("--model", metavar="NAME", help="A known model, such as bert-base-uncased.")
@click.option(
    "--config",
    metavar="PATH",
    type=InputPath("a model's config.json", path_type=Path),
    help="A Hugging Face config.json, or the folder that holds it.",
)
@click.option("--head", metavar="NAME", help="What turns hidden states into a loss: lm, mlm, classification ...")
@click.option("--num-labels", type=COUNT, help="Labels of a classification head.")
@click.option("--gpu", metavar="NAME", help="The accelerator, by its name or as nvidia-smi prints it.")
@click.option("--node", metavar="NAME", help="The node type, such as dgx-a100; needed for several nodes.")
@click.option("--power-limit", type=POSITIVE, metavar="W", help="Power limit set on each device.")
@click.option("--num-gpus", type=DEVICES, help="Devices, over all nodes.")
@click.option("--num-nodes", type=DEVICES, help="Nodes.")
@click.option(
    "--strategy",
    metavar="NAME",
    help="single, ddp, zero1, fsdp, fsdp-grad-op, tp, pp, cp, ep, or a product: 'fsdp x tp'.",
)
@click.option("--tensor-parallel", type=DEVICES, help="Tensor-parallel degree within a product.")
@click.option("--pipeline-parallel", type=COUNT, help="Stages of the pipeline within a product.")
@click.option("--context-parallel", type=DEVICES, help="Devices that divide one sequence, within a product.")
@click.option("--expert-parallel", type=DEVICES, help="Ranks that the experts are dealt out to, within a product.")
@click.option("--pipeline-interleaving", type=COUNT, help="Runs of blocks per stage of the pipeline.")
@click.option("--sequence-parallel", type=FLAG, help="1: tensor-parallel devices divide norms and dropout too.")
@click.option("--vocabulary-parallel", type=FLAG, help="1: tensor-parallel devices divide the vocabulary too.")
@click.option("--batch-size", type=COUNT, help="Sequences per device and micro-step.")
@click.option("--seq-len", type=COUNT, help="Tokens per sequence.")
@click.option("--padded-len", type=POSITIVE, help="Mean tokens per sequence that are computed, after padding.")
@click.option("--target-len", type=COUNT, help="Tokens per sequence in the decoder of an encoder-decoder.")
@click.option("--grad-accumulation", type=COUNT, help="Micro-steps per optimizer step.")
@click.option("--precision", type=_recipe_names("PRECISIONS"), help="fp32, tf32, bf16, fp16 or fp8.")
@click.option(
    "--optimizer", type=_recipe_names("OPTIMIZERS"), help="adamw, adam, sgd, momentum, adafactor or adamw-8bit."
)
@click.option("--checkpointing", type=_recipe_names("CHECKPOINTINGS"), help="none, selective or full.")
@click.option("--attention-kernel", type=_recipe_names("ATTENTION_KERNELS"), help="eager or fused.")
@click.option("--software", type=_recipe_names("SOFTWARES"), help="How kernels come about: eager, fused or graphs.")
@click.option("--predicted-fraction", type=POSITIVE, help="Share of positions that a vocabulary head computes.")
@click.option("--packed-sequences", type=POSITIVE, help="Sequences in one row that do not attend to each other.")
@click.option("--adapter-rank", type=NOT_NEGATIVE, help="Rank of LoRA's adapters, the rest frozen; 0 for none.")
@click.option("--adapter-targets", type=_recipe_names("ADAPTER_TARGETS"), help="query-value, attention or all-linear.")
@click.option("--steps", type=COUNT, help="Optimizer steps of the run.")
@click.option("--samples", type=COUNT, help="Sequences per epoch.")
@click.option("--epochs", type=POSITIVE, help="Passes over the samples.")
@click.option("--tokens", type=COUNT, help="Training tokens of the run, such as 2e9.")
@click.option("--evaluation-fraction", type=NOT_NEGATIVE, help="Tokens evaluated per token trained on.")
@click.option(
    "--law",
    metavar="FILE",
    type=InputPath("a fitted law", path_type=Path),
    help="A fitted law, or a published one by its name, such as paper-table3; the shipped one where none is given.",
)
@click.option(
    "--anchor",
    "anchors",
    metavar="RECORDS",
    multiple=True,
    type=InputPath("records", path_type=Path),
    help="Measured runs that set the level of a law in logarithms, whose exponents stay: for a published law, or one "
    "of another machine.",
)
@click.option("--level", type=SHARE, default=0.95, show_default=True, help="Share of runs that the interval holds.")
@price_options
@click.option("--model-card", is_flag=True, help="Print the emissions as the metadata of a model card, in YAML.")
@click.option("--training-type", type=Name("training type", _training_types), help="pre-training or fine-tuning.")
@click.option(
    "--location", metavar="TEXT", help="Where the run takes place, for --model-card, such as 'Quebec, Canada'."
)
@as_json_option
def command(
    spec: Path | None, law: Path | None, anchors: tuple[Path, ...], level: float, as_json: bool, **options: Any
) -> None:
    """Tell what a run will cost before it starts: energy, time, power, money, carbon, and where they go.

    The run is described by a SPEC file (TOML), by options, or by a file with options that replace parts of it.
    """
    from wattlaw.law.prediction import predict
    from wattlaw.report.prediction import prediction_mapping, prediction_text

    figures = {name: options.pop(name) for name in PRICES}
    card = {name: options.pop(name) for name in ("model_card", "training_type", "location")}
    for name in ("training_type", "location"):
        if card[name] is not None and not card["model_card"]:
            raise ConfigError("says nothing alone", allowed="with --model-card").at(option(name))
    given = {name: value for name, value in options.items() if value is not None}
    run = described_run(spec, given)
    calibration = calibration_of(law)
    if anchors:
        calibration = _anchored(calibration, anchors)
    with about([law] if law else []):
        try:
            (prediction,) = predict([run], calibration, level=level)
        except ConfigError as error:
            raise reworded(error, given, spec) from error
    costs = account(figures, run, prediction)
    told: dict[str, Any] = {
        "assumed": {**filled_in(spec, given), **costs.assumed},
        "timing": costs.timing,
        "sources": costs.sources,
    }
    if card["model_card"]:
        _print_card(run, prediction, costs, card, as_json=as_json)
    elif as_json:
        mapping = prediction_mapping(run, prediction, costs.footprint, **told)
        print_json(mapping | _bounds_of_additive(run, calibration))
    else:
        print_rich(prediction_text(run, prediction, costs.footprint, **told))
        for line in _bounds_of_additive(run, calibration, as_lines=True):
            click.echo(line)


def _bounds_of_additive(run: RunSpec, calibration: Calibration, *, as_lines: bool = False) -> dict[str, Any]:
    """Lay out what the additive law says of a run beside its energy, to print or as lines; of other laws nothing."""
    if calibration.law != "additive":
        return {}
    from wattlaw.law.paper.run_bounds import bounds_of_runs
    from wattlaw.law.prediction import columns_of
    from wattlaw.report.additive import bounds_lines, bounds_mapping

    found = bounds_of_runs(calibration, columns_of([run], calibration), [run])
    if as_lines:
        return dict.fromkeys(bounds_lines(calibration, found))
    return {"bounds": bounds_mapping(calibration, found)}


def _print_card(run: RunSpec, prediction: Prediction, costs: Account, card: dict[str, Any], *, as_json: bool) -> None:
    from wattlaw.report.model_card import card_of_prediction, card_text

    try:
        fields = card_of_prediction(
            run,
            prediction,
            costs.footprint,
            carbon_source=costs.carbon_source,
            training_type=card["training_type"],
            location=card["location"] or costs.location,
        )
    except ConfigError as error:
        raise error.at("--model-card") from None
    if as_json:
        print_json(fields)
    else:
        click.echo(card_text(fields), nl=False)


def described_run(file: Path | None, given: dict[str, Any]) -> RunSpec:
    """Build the run spec of a file and of the options that replace parts of it."""
    from wattlaw.run.spec_file import spec_from_mapping

    if file is None:
        _require(given)
    for names in (MODELS, AMOUNTS):
        if len(both := [option(name) for name in names if name in given]) > 1:
            raise ConfigError(
                f"{both[0]} is one way to say it, {both[1]} another",
                given=" and ".join(both),
                allowed=f"one of {', '.join(option(name) for name in names)}",
            )
    tables, folder = _described(file, given)
    try:
        run = spec_from_mapping(tables, folder)
    except WattlawError as error:
        raise reworded(error, given, file) from error
    labels = given.get("num_labels")
    if labels is not None and run.architecture.num_labels != labels:
        raise ConfigError(
            "this model's head has no labels to choose", given=labels, hint="--head classification as well"
        ).at("--num-labels")
    return run


def filled_in(file: Path | None, given: dict[str, Any]) -> dict[str, Any]:
    """Return the choices of a run that neither its file nor options make, with what they get."""
    from wattlaw.run.assumed import assumed

    return assumed(_described(file, given)[0])


def _described(file: Path | None, given: dict[str, Any]) -> tuple[dict[str, Any], Path]:
    """Return the tables of a run, and the folder that paths in them are relative to."""
    from wattlaw.run.spec_file import read_toml

    tables, folder = ({}, Path()) if file is None else (read_toml(file), file.parent)
    try:
        return _replaced(tables, given, folder), folder
    except WattlawError as error:
        raise reworded(error, given, file) from error


def _require(given: dict[str, Any]) -> None:
    """Refuse a run that neither a file nor options describe, and name all that is missing at once."""
    missing = [option(name) for name in NEEDED if name not in given]
    missing += [" or ".join(map(option, names)) for names in (MODELS, AMOUNTS) if not set(names) & set(given)]
    if missing:
        raise ConfigError(
            "this run is not described",
            given=", ".join(map(option, given)) or "nothing",
            allowed=f"a SPEC file, or also {', '.join(missing)}",
            hint="wattlaw predict --help",
        )


def _replaced(tables: dict[str, Any], given: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Lay options over the tables of a file. One way to say the model, or the amount, replaces any other."""
    from wattlaw.run.fields import expect_mapping

    found = dict(tables)
    if set(MODELS) & set(given):
        found["model"] = {}
        found["name"] = _name(given)
    if set(AMOUNTS) & set(given):
        recipe = expect_mapping("[recipe]", found.get("recipe", {}))
        found["recipe"] = {key: recipe[key] for key in recipe if key not in (*AMOUNTS, "epochs")}
    for name, value in given.items():
        table, key = PLACES[name]
        found[table] = {**expect_mapping(f"[{table}]", found.get(table, {})), key: value}
    if "config" in given:
        found["model"]["config"] = str(given["config"] if folder == Path() else given["config"].absolute())
    return found


def _name(given: dict[str, Any]) -> str:
    """Name a run for people: by its model, or by the folder of its config.json."""
    if "config" not in given:
        return str(given["model"])
    path: Path = given["config"].absolute()
    return path.parent.name if path.suffix == ".json" else path.name


def reworded(error: WattlawError, given: dict[str, Any], file: Path | None) -> WattlawError:
    """Word an error about a run in the options that were typed."""
    from wattlaw.cli.wording import in_options

    options = {place: option(name) for name, place in PLACES.items()}
    if str(given.get("strategy")).strip().lower() == "tp" and "num_gpus" in given:
        options["layout", "tensor_parallel"] = option("num_gpus")  # which strategy tp takes its degree from
    return in_options(error, options=options, typed=map(option, given), file=file)


def option(name: str) -> str:
    """Name an option as it is typed."""
    return f"--{name.replace('_', '-')}"


def _anchored(calibration: Calibration, anchors: tuple[Path, ...]) -> Calibration:
    """Set the level of a law by measured runs."""
    from wattlaw.law.paper.published import anchored_fit
    from wattlaw.run.store import read_stores

    if "regressors" not in calibration.options:
        raise ConfigError(
            "only the paper and the power law have a level to set", given=calibration.law, allowed="--law paper-table3"
        ).at("--anchor")
    with about(list(anchors)):
        return anchored_fit(calibration, read_stores(anchors)).calibration


def calibration_of(law: Path | None) -> Calibration:
    """Read the law that was named, or take the shipped one."""
    if law is None:
        from wattlaw.law.bundled import bundled

        return bundled()
    from wattlaw.law.loading import load_law

    return load_law(law)
