"""``wattlaw plan``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattlaw.cli.options import (
    DEVICES,
    ENERGY,
    MASS,
    SHARE,
    Duration,
    InputPath,
    Name,
    Number,
    OutputFolder,
    OutputPath,
    about,
    as_json_option,
    print_json,
    print_rich,
    working,
)
from wattlaw.cli.plan_options import Share, space_options
from wattlaw.cli.predict import calibration_of
from wattlaw.cli.prices import FIGURE, account, price_options, prices_of
from wattlaw.cli.prices import NAMES as PRICES
from wattlaw.errors import ConfigError, FileError, WattlawError

if TYPE_CHECKING:
    from wattlaw.law.calibration import Calibration
    from wattlaw.plan import Limits, Offer, Plan, Problem, Space
    from wattlaw.plan.launch import Launch
    from wattlaw.run.spec import RunSpec

EPILOG = """\b
Examples:
  wattlaw plan examples/llama2-7b-lora.toml --deadline 24h --gpus a100-sxm4-80gb:8,h100-sxm:8 \\
      --objective energy
  wattlaw plan run.toml --gpus h100-sxm:64@dgx-h100 --deadline 3d --confidence 0.9 --cap 60%,80%
  wattlaw plan run.toml --gpus a100-sxm4-80gb:8 --objective money --price-per-device-hour 1.8 --save plan

Where no way keeps all limits, the answer is which limit to move and by how much: the exit code is 0 then too, and
"best" is null with --json.
"""


def _goals() -> Iterable[str]:
    from wattlaw.plan.objective import GOALS

    return GOALS


@click.command("plan", epilog=EPILOG)
@click.argument("spec", type=InputPath("a run spec", path_type=Path))
@click.option(
    "--gpus",
    metavar="LIST",
    help="Accelerators to choose from and how many: NAME:8, or NAME:64@NODE for their machine, which many need "
    "and whose host then counts; the run's own where none is named.",
)
@click.option(
    "--objective",
    type=Name("objective", _goals),
    default="energy",
    show_default=True,
    help="What is made small: energy, time, money, carbon, or weighted (energy against time).",
)
@click.option("--energy-weight", type=Number(at_least=0, at_most=1), help="Weight of the energy under weighted.")
@click.option("--deadline", type=Duration(above=0), metavar="TIME", help="Longest the run may take, such as 24h.")
@click.option("--memory-free", type=Share(), default="10%", show_default=True, help="Memory that stays free.")
@click.option("--max-energy", type=ENERGY, help="Most energy, such as 50kWh.")
@click.option("--max-money", type=Number(above=0), help="Most money, in the currency of the prices.")
@click.option("--max-carbon", type=MASS, help="Most carbon, such as 20kg.")
@click.option("--max-devices", type=DEVICES, help="Most devices at once.")
@click.option("--confidence", type=SHARE, help="Level of the intervals whose upper ends must keep the limits.")
@click.option("--level", type=SHARE, help="Level of the intervals shown; the confidence, or 0.95.")
@space_options
@price_options
@click.option(
    "--device-price",
    metavar="NAME=PRICE",
    multiple=True,
    help="Price of renting one device of a kind for an hour; may be given several times.",
)
@click.option(
    "--law",
    metavar="FILE",
    type=InputPath("a fitted law", path_type=Path),
    help="A fitted law; the shipped one where none is given.",
)
@click.option(
    "--save",
    metavar="FOLDER",
    type=OutputFolder(path_type=Path),
    help="Folder for the best run's spec, its command, and a configuration of Accelerate.",
)
@click.option(
    "--figure",
    type=OutputPath(path_type=Path),
    help="Draw the front (NAME.png, .svg, .html), and NAME-devices and NAME-caps beside it.",
)
@as_json_option
def command(
    spec: Path,
    law: Path | None,
    level: float | None,
    save: Path | None,
    figure: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Find the best way to run a training under limits: strategy, devices, batches, checkpointing, GPU, power cap.

    SPEC says what is trained, how much, and with which global batch, which no plan changes. All ways to run it that
    the options leave open are costed: memory first, then time and energy.
    """
    from wattlaw.plan.planning import plan

    given = {name: value for name, value in options.items() if value not in (None, ())}
    if figure is not None:
        _require_form(figure)
    calibration = calibration_of(law)
    problem = _problem(spec, given)
    with about([law] if law else []), working("planning", shown=not as_json):
        found = plan(problem, calibration, level=level)
    started = _launched(found, spec, save)
    curve, crossed = _curve(found, calibration) if figure is not None else ((), ())
    if figure is not None:
        _draw(found, calibration, figure, curve, crossed)
    _show(found, started, given, spec, as_json=as_json, curve=curve, crossed=crossed)


def _require_form(figure: Path) -> None:
    from wattlaw.report.figures.saving import require_form

    try:
        require_form(figure)
    except ConfigError as error:
        raise error.at("--figure") from None


def _problem(file: Path, given: dict[str, Any]) -> Problem:
    from wattlaw.plan import Limits, Objective, Problem
    from wattlaw.run.spec_file import read_spec

    run = read_spec(file)
    limits = Limits(
        deadline_s=given.get("deadline"),
        memory_free_fraction=given["memory_free"],
        max_energy_j=given.get("max_energy"),
        max_money=given.get("max_money"),
        max_carbon_g=given.get("max_carbon"),
        max_devices=given.get("max_devices"),
        confidence=given.get("confidence"),
    )
    try:
        objective = Objective(goal=given["objective"], energy_weight=given.get("energy_weight"))
    except ConfigError as error:
        raise error.at("--energy-weight") from None
    space = _space(run, given)
    return Problem(run=run, space=space, limits=limits, objective=objective, prices=_prices(given, space, limits))


def _space(run: RunSpec, given: dict[str, Any]) -> Space:
    from wattlaw.plan import Space

    names = {
        "strategies": "strategies",
        "also": "also",
        "devices": "device_counts",
        "tensor_parallel": "tensor_parallel",
        "pipeline_parallel": "pipeline_parallel",
        "context_parallel": "context_parallel",
        "expert_parallel": "expert_parallel",
        "interleaving": "pipeline_interleavings",
        "micro_batches": "micro_batches",
        "checkpointing": "checkpointings",
        "attention_kernel": "attention_kernels",
        "precision": "precisions",
        "optimizer": "optimizers",
        "adapter_rank": "adapter_ranks",
    }
    chosen = {field: given[name] for name, field in names.items() if name in given}
    try:
        offers = _offers(run, given)
        return Space(offers=offers, **chosen)
    except WattlawError as error:
        raise error.at("--gpus") if error.place is None or not error.place.startswith("--") else error from None


def _offers(run: RunSpec, given: dict[str, Any]) -> tuple[Offer, ...]:
    from wattlaw.plan import Offer

    caps = given.get("cap", ())
    if "gpus" not in given:
        own = Offer(accelerator=run.accelerator, num_devices=int(run.layout.num_devices), node=run.node)
        return (_capped(own, caps),)
    offers = [_offer(part.strip()) for part in given["gpus"].split(",")]
    # The run's node goes with the run's own kind of device, but not beside kinds whose host nobody names: energies
    # that hold a server's host would stand beside energies that do not.
    if all(offer.node is not None or offer.accelerator.name == run.accelerator.name for offer in offers):
        offers = [offer if offer.node is not None else replace(offer, node=run.node) for offer in offers]
    return tuple(_capped(offer, caps) for offer in offers)


def _offer(text: str) -> Offer:
    """Read ``NAME:COUNT`` or ``NAME:COUNT@NODE``."""
    from wattlaw.hardware import accelerator, node_type
    from wattlaw.plan import Offer

    found = re.fullmatch(r"(?P<name>.+?)\s*:\s*(?P<count>\d+)\s*(?:@\s*(?P<node>.+))?", text)
    if found is None:
        raise ConfigError(
            "not a kind of device and how many", given=repr(text), allowed="NAME:COUNT or NAME:COUNT@NODE"
        )
    device = accelerator(found["name"])
    node = node_type(found["node"]) if found["node"] else None
    return Offer(accelerator=device, num_devices=int(found["count"]), node=node)


def _capped(offer: Offer, caps: Iterable[tuple[float, bool]]) -> Offer:
    """Give an offer the caps that its boards can have."""
    from dataclasses import replace

    from wattlaw.run.spec import SETTABLE_SHARE

    limit_w = offer.accelerator.power_limit_w
    watts = {number * limit_w if is_share else number for number, is_share in caps}
    below = tuple(sorted(value for value in watts if value < limit_w))
    if below and below[0] < SETTABLE_SHARE * limit_w:
        raise ConfigError(
            f"no board of {offer.accelerator.name} can be set to this power cap",
            given=f"{below[0]:g} W",
            allowed=f"{SETTABLE_SHARE * limit_w:g} to {limit_w:g} W",
        ).at("--cap")
    if watts and not below and min(watts) > limit_w:
        raise ConfigError(
            f"no power cap of a {offer.accelerator.name}", given=f"{min(watts):g} W", allowed=f"below {limit_w:g} W"
        ).at("--cap")
    return replace(offer, power_caps_w=below)


def _prices(given: dict[str, Any], space: Space, limits: Limits) -> Any:
    """Read the prices; what changes with time counts with its mean from the start to the deadline."""
    from dataclasses import replace

    named = {name: given[name] for name in PRICES if name in given}
    prices = prices_of(named, until_s=limits.deadline_s)
    rents = dict(_device_price(text) for text in given.get("device_price", ()))
    if not rents:
        return prices
    if prices.price_per_device_hour is not None:
        raise ConfigError(
            "--price-per-device-hour is one way to say it, --device-price another",
            given="both",
            allowed="one of them",
        )
    for offer in space.offers:
        if offer.accelerator.name not in rents:
            raise ConfigError(
                "a device has no price", given=offer.accelerator.name, allowed="--device-price for each of --gpus"
            ).at("--device-price")
    return replace(prices, price_per_device_hour=rents)


def _device_price(text: str) -> tuple[str, float]:
    from wattlaw.hardware import accelerator

    name, equals, price = text.partition("=")
    try:
        if not equals:
            raise ConfigError("not a device and its price", given=repr(text), allowed="NAME=PRICE")
        return accelerator(name.strip()).name, FIGURE.convert(price.strip(), None, None)
    except WattlawError as error:
        error.place = None
        raise error.at("--device-price") from None


def _launched(found: Plan, file: Path, folder: Path | None) -> Launch | None:
    """Say how to start the best run, and write that down where a folder is given."""
    from wattlaw.plan.launch import launch
    from wattlaw.run.files import write_atomic
    from wattlaw.run.spec_file import spec_text

    if found.best is None:
        return None
    run = found.best.spec
    if folder is None:
        return launch(run, spec_file=file, options=True)
    path = folder / "run.toml"
    started = launch(run, spec_file=path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        texts = {path: spec_text(run)}
        if started.command is not None:
            texts[folder / "launch.sh"] = "\n".join(("#!/bin/sh", *started.before, started.command, ""))
        if started.accelerate is not None:
            texts[folder / "accelerate.yaml"] = started.accelerate
        for name, text in texts.items():
            _refuse_other(name, text)
        for name, text in texts.items():
            write_atomic(name, text)
    except OSError as error:
        raise FileError("cannot write the plan", given=error.strerror).at(folder) from error
    return started


def _refuse_other(path: Path, text: str) -> None:
    """Refuse to replace a file that says something else: it may be the run that the plan is of."""
    if path.exists() and path.read_bytes() != os.fsencode(text):
        raise FileError("is there already, and says something else", allowed="a new folder for --save").at(path)


def _curve(found: Plan, calibration: Calibration) -> tuple[Any, Any]:
    from wattlaw.plan.curves import by_device_count, crossovers

    curve = by_device_count(found.problem, calibration, level=found.level)
    return curve, crossovers(curve)


def _draw(found: Plan, calibration: Calibration, path: Path, curve: Any, crossed: Any) -> None:
    from wattlaw.plan.curves import by_power_cap
    from wattlaw.report.figures.saving import save
    from wattlaw.report.plan_figures import caps_figure, devices_figure, front_figure

    save(front_figure(found, curve), path)
    save(devices_figure(found, curve, crossed), path.with_name(f"{path.stem}-devices.png"))
    if found.best is not None:
        run = found.best.spec
        caps = by_power_cap(run, calibration, level=found.level)
        chart = caps_figure(found, caps, board_limit_w=run.accelerator.power_limit_w)
        save(chart, path.with_name(f"{path.stem}-caps.png"))


def _show(
    found: Plan, started: Launch | None, given: dict[str, Any], file: Path, *, as_json: bool, curve: Any, crossed: Any
) -> None:
    from wattlaw.plan.launch import first_started
    from wattlaw.report import quantities
    from wattlaw.report.plan import plan_mapping, plan_text
    from wattlaw.report.timing import timing_lines, timing_mapping

    best = found.best
    extras: dict[str, Any] = {}
    lines: list[str] = []
    named = {name: given[name] for name in PRICES if name in given}
    if best is not None and best.prediction is not None and named:
        costs = account(named, best.spec, best.prediction)
        if costs.timing is not None:
            extras["timing"] = timing_mapping(costs.timing, costs.footprint)
            lines += timing_lines(costs.timing, costs.footprint)
        if costs.footprint.embodied_g is not None:
            extras["embodied_g"] = costs.footprint.embodied_g
            lines.append(f"embodied carbon of the best: {quantities.mass(costs.footprint.embodied_g.mid)}")
    instead = None
    if started is not None and started.command is None:
        instead = first_started(found.ranking[1:], spec_file=file)
    if as_json:
        print_json({**plan_mapping(found, started, instead=instead, curve=curve, crossovers=crossed), **extras})
    else:
        print_rich(plan_text(found, started, instead=instead, crossovers=crossed, notes=lines))
