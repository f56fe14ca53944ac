"""``wattlaw predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from wattlaw.cli.options import as_json_option, print_json, print_rich

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


@click.command("predict", epilog=EPILOG)
@click.argument("spec", required=False, type=click.Path(path_type=Path))
@click.option("--model", metavar="NAME", help="A known model, such as bert-base-uncased.")
@click.option("--config", metavar="PATH", help="A Hugging Face config.json, or the folder that holds it.")
@click.option("--head", metavar="NAME", help="What turns hidden states into a loss: lm, mlm, classification ...")
@click.option("--num-labels", type=int, help="Labels of a classification head.")
@click.option("--gpu", metavar="NAME", help="The accelerator, by its name or as nvidia-smi prints it.")
@click.option("--node", metavar="NAME", help="The node type, such as dgx-a100; needed for several nodes.")
@click.option("--power-limit", type=float, metavar="W", help="Power limit set on each device.")
@click.option("--num-gpus", type=int, help="Devices, over all nodes.")
@click.option("--num-nodes", type=int, help="Nodes.")
@click.option("--strategy", metavar="NAME", help="single, ddp, fsdp, fsdp-grad-op, tp, or a product: 'fsdp x tp'.")
@click.option("--tensor-parallel", type=int, help="Tensor-parallel degree within a product.")
@click.option("--batch-size", type=int, help="Sequences per device and micro-step.")
@click.option("--seq-len", type=int, help="Tokens per sequence.")
@click.option("--padded-len", type=float, help="Mean tokens per sequence that are computed, after padding.")
@click.option("--target-len", type=float, help="Tokens per sequence in the decoder of an encoder-decoder.")
@click.option("--grad-accumulation", type=int, help="Micro-steps per optimizer step.")
@click.option("--precision", metavar="NAME", help="fp32, tf32, bf16, fp16 or fp8.")
@click.option("--optimizer", metavar="NAME", help="adamw, adam, sgd, momentum, adafactor or adamw-8bit.")
@click.option("--checkpointing", metavar="NAME", help="none, selective or full.")
@click.option("--attention-kernel", metavar="NAME", help="eager or fused.")
@click.option("--steps", type=float, help="Optimizer steps of the run.")
@click.option("--samples", type=float, help="Sequences per epoch.")
@click.option("--epochs", type=float, help="Passes over the samples.")
@click.option("--tokens", type=float, help="Training tokens of the run.")
@click.option("--evaluation-fraction", type=float, help="Tokens evaluated per token trained on.")
@click.option("--law", "law", metavar="FILE", help="A fitted law; the shipped one where none is given.")
@click.option("--level", type=float, default=0.95, show_default=True, help="Share of runs that the interval holds.")
@click.option("--pue", type=float, help="Energy of the facility over that of its nodes.")
@click.option("--carbon-g-per-kwh", type=float, help="Carbon intensity of the grid.")
@click.option("--price-per-kwh", type=float, help="Price of electricity, in any currency.")
@click.option("--price-per-gpu-hour", type=float, help="Price of renting one device, in the same currency.")
@as_json_option
def command(spec: Path | None, law: str | None, level: float, as_json: bool, **options: Any) -> None:
    """Tell what a run will cost before it starts: energy, time, power, and where they go.

    The run is described by a SPEC file (TOML), by options, or by a file with options that replace parts of it.
    """
    from wattlaw.law.footprint import footprint
    from wattlaw.law.prediction import predict
    from wattlaw.report.prediction import prediction_mapping, prediction_text

    money = {
        "pue": options.pop("pue"),
        "carbon_g_per_kwh": options.pop("carbon_g_per_kwh"),
        "price_per_kwh": options.pop("price_per_kwh"),
        "price_per_device_hour": options.pop("price_per_gpu_hour"),
    }
    run = _run(spec, options)
    (prediction,) = predict([run], _calibration(law), level=level)
    costs = footprint(prediction, num_devices=float(run.layout.num_devices), **money)
    if as_json:
        print_json(prediction_mapping(run, prediction, costs))
    else:
        print_rich(prediction_text(run, prediction, costs))


def _run(path: Path | None, options: dict[str, Any]) -> Any:
    """Build the run spec of a file and of the options that replace parts of it."""
    from wattlaw.errors import WattlawError
    from wattlaw.run.spec_file import read_tables, spec_from_mapping

    tables: dict[str, Any] = {} if path is None else dict(read_tables(path))
    given = {name: value for name, value in options.items() if value is not None}
    if {"model", "config"} & set(given):
        tables["model"] = {}
    if {"steps", "samples", "tokens"} & set(given):
        recipe = dict(tables.get("recipe", {}))
        tables["recipe"] = {key: recipe[key] for key in recipe if key not in ("steps", "samples", "tokens", "epochs")}
    for name, value in given.items():
        table, key = PLACES[name]
        tables[table] = {**tables.get(table, {}), key: value}
    if path is None or "config" in given:
        folder = Path()
    else:
        folder = path.parent
    layout = tables.setdefault("layout", {})
    layout.setdefault("strategy", "single" if layout.get("num_devices", 1) == 1 else "")
    try:
        return spec_from_mapping(tables, folder)
    except WattlawError as error:
        if path is not None:
            error.at(path)
        raise


def _calibration(law: str | None) -> Any:
    from wattlaw.law.bundled import bundled
    from wattlaw.law.calibration import Calibration

    return bundled() if law is None else Calibration.load(law)
