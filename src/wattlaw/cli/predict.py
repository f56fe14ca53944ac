"""``wattlaw predict``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattlaw.cli.options import (
    COUNT,
    DEVICES,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    InputPath,
    Name,
    Number,
    about,
    as_json_option,
    print_json,
    print_rich,
)
from wattlaw.errors import ConfigError, WattlawError

if TYPE_CHECKING:
    from wattlaw.law.calibration import Calibration
    from wattlaw.run.spec import RunSpec

EPILOG = """\b
Examples:
  wattlaw predict --model bert-base-uncased --head classification --gpu a100-sxm4-40gb \\
      --batch-size 32 --seq-len 128 --samples 67349 --epochs 3 --precision fp16
  wattlaw predict --config path/to/config.json --gpu a100-sxm4-40gb --num-gpus 2 --strategy tp \\
      --batch-size 8 --seq-len 512 --steps 1000
  wattlaw predict run.toml --law law.json --json
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


def _layout_names() -> Iterable[str]:
    from wattlaw.parallel.layout import STRATEGIES

    return STRATEGIES


@click.command("predict", epilog=EPILOG)
@click.argument("spec", required=False, type=InputPath(path_type=Path))
@click.option("--model", metavar="NAME", help="A known model, such as bert-base-uncased.")
@click.option(
    "--config",
    metavar="PATH",
    type=InputPath(path_type=Path),
    help="A Hugging Face config.json, or the folder that holds it.",
)
@click.option("--head", metavar="NAME", help="What turns hidden states into a loss: lm, mlm, classification ...")
@click.option("--num-labels", type=COUNT, help="Labels of a classification head.")
@click.option("--gpu", metavar="NAME", help="The accelerator, by its name or as nvidia-smi prints it.")
@click.option("--node", metavar="NAME", help="The node type, such as dgx-a100; needed for several nodes.")
@click.option("--power-limit", type=POSITIVE, metavar="W", help="Power limit set on each device.")
@click.option("--num-gpus", type=DEVICES, help="Devices, over all nodes.")
@click.option("--num-nodes", type=DEVICES, help="Nodes.")
@click.option("--strategy", metavar="NAME", help="single, ddp, fsdp, fsdp-grad-op, tp, pp, or a product: 'fsdp x tp'.")
@click.option("--tensor-parallel", type=DEVICES, help="Tensor-parallel degree within a product.")
@click.option("--pipeline-parallel", type=COUNT, help="Stages of the pipeline within a product.")
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
@click.option("--steps", type=COUNT, help="Optimizer steps of the run.")
@click.option("--samples", type=COUNT, help="Sequences per epoch.")
@click.option("--epochs", type=POSITIVE, help="Passes over the samples.")
@click.option("--tokens", type=COUNT, help="Training tokens of the run, such as 2e9.")
@click.option("--evaluation-fraction", type=NOT_NEGATIVE, help="Tokens evaluated per token trained on.")
@click.option(
    "--law",
    metavar="FILE",
    type=InputPath(path_type=Path),
    help="A fitted law; the shipped one where none is given.",
)
@click.option("--level", type=SHARE, default=0.95, show_default=True, help="Share of runs that the interval holds.")
@click.option("--pue", type=Number(at_least=1), help="Energy of the facility over that of its nodes.")
@click.option("--carbon-g-per-kwh", type=NOT_NEGATIVE, help="Carbon intensity of the grid.")
@click.option("--price-per-kwh", type=NOT_NEGATIVE, help="Price of electricity, in any currency.")
@click.option("--price-per-gpu-hour", type=NOT_NEGATIVE, help="Price of renting one device, in the same currency.")
@as_json_option
def command(spec: Path | None, law: Path | None, level: float, as_json: bool, **options: Any) -> None:
    """Tell what a run will cost before it starts: energy, time, power, and where they go.

    The run is described by a SPEC file (TOML), by options, or by a file with options that replace parts of it.
    """
    from wattlaw.law.footprint import footprint
    from wattlaw.law.prediction import predict
    from wattlaw.report.prediction import prediction_mapping, prediction_text

    prices = {
        "pue": options.pop("pue"),
        "carbon_g_per_kwh": options.pop("carbon_g_per_kwh"),
        "price_per_kwh": options.pop("price_per_kwh"),
        "price_per_device_hour": options.pop("price_per_gpu_hour"),
    }
    given = {name: value for name, value in options.items() if value is not None}
    run = _run(spec, given)
    calibration = _calibration(law)
    with about([law] if law else []):
        try:
            (prediction,) = predict([run], calibration, level=level)
        except ConfigError as error:
            raise _reworded(error, given, spec) from error
    costs = footprint(prediction, num_devices=float(run.layout.num_devices), **prices)
    if as_json:
        print_json(prediction_mapping(run, prediction, costs))
    else:
        print_rich(prediction_text(run, prediction, costs))


def _run(file: Path | None, given: dict[str, Any]) -> RunSpec:
    """Build the run spec of a file and of the options that replace parts of it."""
    from wattlaw.run.spec_file import read_toml, spec_from_mapping

    if file is None:
        _require(given)
    for names in (MODELS, AMOUNTS):
        if len(both := [option(name) for name in names if name in given]) > 1:
            raise ConfigError(
                f"{both[0]} is one way to say it, {both[1]} another",
                given=" and ".join(both),
                allowed=f"one of {', '.join(option(name) for name in names)}",
            )
    tables, folder = ({}, Path()) if file is None else (read_toml(file), file.parent)
    try:
        run = spec_from_mapping(_replaced(tables, given, folder), folder)
    except WattlawError as error:
        raise _reworded(error, given, file) from error
    labels = given.get("num_labels")
    if labels is not None and run.architecture.num_labels != labels:
        raise ConfigError(
            "this model's head has no labels to choose", given=labels, hint="--head classification as well"
        ).at("--num-labels")
    return run


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


def _reworded(error: WattlawError, given: dict[str, Any], file: Path | None) -> WattlawError:
    from wattlaw.cli.wording import in_options

    options = {place: option(name) for name, place in PLACES.items()}
    if str(given.get("strategy")).strip().lower() == "tp" and "num_gpus" in given:
        options["layout", "tensor_parallel"] = option("num_gpus")  # which strategy tp takes its degree from
    return in_options(error, options=options, typed=map(option, given), file=file)


def option(name: str) -> str:
    """Name an option as it is typed."""
    return f"--{name.replace('_', '-')}"


def _calibration(law: Path | None) -> Calibration:
    if law is None:
        from wattlaw.law.bundled import bundled

        return bundled()
    from wattlaw.law.loading import load_law

    return load_law(law)
