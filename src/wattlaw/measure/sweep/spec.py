"""The sweep file: TOML to the list of configurations that are run, in their order.

::

    name, seed, repeats, control_every
    [defaults]    keys that every table below has unless it says otherwise
    [hardware]    gpu, node
    [measuring]   steps, warm-up, time-out, threads, tokens
    [control]     one configuration that is run again and again between the others
    [[grid]]      every combination of its lists
    [[list]]      its lists side by side, one configuration per place

``layouts = [{strategy = "ddp", num_devices = 2}, ...]`` is a list of whole layouts, in place of ``strategy`` and
``num_devices``. ``sample = n`` in a grid draws n combinations of everything but the layout, and runs each under all of
the layouts, so that what is drawn can be compared across strategies.

Combinations of a grid that cannot be run (four heads on three devices, ``single`` on two) are left out and counted,
with the reason; in a list, where each configuration was written on purpose, they are errors.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections import Counter
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from wattlaw.errors import ConfigError, WattlawError
from wattlaw.hardware import Accelerator, NodeType, accelerator, node_type
from wattlaw.measure.sweep.points import (
    RECIPE_NAMES,
    RECIPE_NUMBERS,
    REQUIRED,
    architecture_of,
    check_keys,
    combinations,
    family_of,
    points_of,
    side_by_side,
)
from wattlaw.measure.sweep.steadiness import Window
from wattlaw.measure.sweep.training import check_training
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunSpec, check_runnable, spec_to_mapping
from wattlaw.run.fields import (
    expect_list,
    expect_mapping,
    expect_number,
    expect_positive,
    expect_text,
    expect_whole,
    refuse_unknown,
)
from wattlaw.run.spec_file import read_toml
from wattlaw.workload import Recipe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Role = Literal["sample", "control"]

TABLES = ("defaults", "hardware", "measuring", "control", "grid", "list")
TOP_KEYS = ("name", "seed", "repeats", "control_every")
HARDWARE_KEYS = ("gpu", "node")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """How every configuration of a sweep is measured.

    Attributes:
        window: warm-up and measured steps.
        timeout_s: for one configuration, after which it is recorded as failed.
        cooldown_s: of rest before each configuration.
        threads: of each rank on a CPU.
        tokens: file of a tokenised text; ``None`` draws tokens at random.
    """

    window: Window = field(default_factory=Window)
    timeout_s: float = 120.0
    cooldown_s: float = 0.0
    threads: int = 1
    tokens: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One run of a sweep.

    Attributes:
        record_id: of the record that it will have: the configuration's, and which repeat of it this is.
        configuration: of everything that is asked for, the same in every sweep that asks for it.
        spec: what is run; its steps are the least that are measured.
        role: ``control`` runs are of one configuration, spread over the sweep to show how the machine drifts.
        repeat: from 0, among the runs of this configuration in this role.
        point: the keys of a ``[[list]]`` that asks for this configuration and no other; none of a control.
    """

    record_id: str
    configuration: str
    spec: RunSpec
    role: Role = "sample"
    repeat: int = 0
    point: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A whole sweep.

    Attributes:
        name: of its folder.
        runs: in the order in which they are made.
        measuring: how.
        left_out: reason -> combinations of grids that cannot be run for it.
        text: the file as it was read.
    """

    name: str
    runs: tuple[Planned, ...]
    measuring: Measuring
    left_out: Mapping[str, int] = field(default_factory=dict)
    text: str = ""

    @property
    def world_size(self) -> int:
        """Ranks that the largest configuration needs."""
        return max(int(run.spec.layout.num_devices) for run in self.runs)

    @property
    def device(self) -> str:
        """What the ranks compute on: ``cpu`` or ``cuda`` (which AMD's GPUs are called as well)."""
        return "cpu" if self.runs[0].spec.accelerator.architecture == "CPU" else "cuda"

    def counts(self) -> dict[str, int]:
        """Count the runs by family, strategy and number of devices."""
        return dict(sorted(Counter(_kind(run) for run in self.runs).items()))


def read_sweep(path: str | Path, *, gpu: str | None = None) -> Sweep:
    """Read a sweep file.

    Args:
        path: of the file; paths in it are relative to its folder.
        gpu: overrides the accelerator of the file.

    Raises:
        FileError: the file cannot be read, is no TOML, or a value is not of the kind that its key needs.
        ConfigError, UnknownNameError: a value, a name or a combination that cannot be run.
    """
    path = Path(path)
    try:
        tables = read_toml(path)
        if gpu is not None:
            tables["hardware"] = {**expect_mapping("hardware", tables.get("hardware", {})), "gpu": gpu}
        sweep = sweep_from_mapping(tables, path.parent, name=path.stem)
        return replace(sweep, text=path.read_text(encoding="utf-8"))
    except WattlawError as error:
        raise error if error.place == str(path) else error.at(path) from error


def sweep_from_mapping(tables: Mapping[str, Any], base_folder: str | Path = ".", *, name: str = "sweep") -> Sweep:
    """Build a sweep from the tables of its file.

    Args:
        tables: as the module's documentation lists them.
        base_folder: what paths are relative to.
        name: of the sweep, unless the file says.

    Raises:
        FileError, ConfigError, UnknownNameError: as ``read_sweep``.
    """
    refuse_unknown("key", tables, (*TOP_KEYS, *TABLES))
    folder = Path(base_folder)
    seed = int(expect_number("seed", tables.get("seed", 0)))
    measuring = _in("measuring", _measuring, folder, tables.get("measuring", {}))
    builder = _Builder(
        measuring=measuring,
        seed=seed,
        repeats=expect_whole("repeats", tables.get("repeats", 1)),
        defaults=expect_mapping("defaults", tables.get("defaults", {})),
        **_in("hardware", _hardware, folder, tables.get("hardware", {})),
    )
    for kind in ("grid", "list"):
        for number, table in enumerate(expect_list(kind, tables.get(kind, [])), start=1):
            _in(f"[{kind}] number {number}", builder.add, kind, table)
    control = _in("control", builder.control_runs, tables["control"]) if "control" in tables else None
    every = _control_every(tables, has_control=control is not None)
    samples = builder.samples()
    if not samples:
        raise ConfigError("the sweep has no configurations", allowed="[[grid]] or [[list]] tables")
    random.Random(seed).shuffle(samples)  # noqa: S311 - an order, not a secret
    return Sweep(
        name=_folder_name(expect_text("name", tables.get("name", name))),
        runs=tuple(_interleaved(samples, control, every)),
        measuring=measuring,
        left_out=dict(builder.left_out),
    )


def configuration_id(spec: RunSpec, measuring: Measuring) -> str:
    """Return the name of a configuration that depends on nothing but what is run.

    The number of steps, names and the order of keys do not change it; the threads of a rank and the text do.
    """
    tables = spec_to_mapping(replace(spec, name="", architecture=replace(spec.architecture, name="")))
    tables["recipe"].pop("steps", None)
    tables["rank"] = {"threads": measuring.threads, "tokens": measuring.tokens and measuring.tokens.name}
    return hashlib.sha256(msgspec.json.encode(tables, order="sorted")).hexdigest()[:16]


@dataclass(slots=True, kw_only=True)
class _Builder:
    """Turns tables into runs."""

    measuring: Measuring
    seed: int
    repeats: int
    defaults: dict[str, Any]
    accelerator: Accelerator
    node: NodeType | None
    left_out: Counter[str] = field(default_factory=Counter)
    # By configuration: two tables may ask for the same one, which is then run as often as the larger repeats say.
    found: dict[str, tuple[RunSpec, int, Mapping[str, Any]]] = field(default_factory=dict)

    def add(self, kind: str, table: object) -> None:
        """Add the configurations of one grid or list."""
        mapping = {**self.defaults, **expect_mapping("table", table)}
        sample = mapping.pop("sample", None)
        if sample is not None and kind != "grid":
            raise ConfigError("only a grid is sampled", given=f"sample = {sample}").at("sample")
        check_keys(mapping)
        if kind == "list":
            for point in points_of(mapping, side_by_side):
                self._keep(self._spec(point), point)
            return
        families: dict[str, list[tuple[RunSpec, dict[str, Any]]]] = {}
        for spec, point in self._possible(mapping):
            families.setdefault(family_of(point), []).append((spec, point))
        chosen = list(families)
        if sample is not None:
            count = min(expect_whole("sample", sample), len(chosen))
            chosen = random.Random(f"{self.seed} {len(self.found)}").sample(chosen, count)  # noqa: S311 - no secret
        for family in chosen:
            for spec, point in families[family]:
                self._keep(spec, point)

    def control_runs(self, table: object) -> Iterator[Planned]:
        """Build the one configuration of the control table, and return its runs without end."""
        mapping = {**self.defaults, **expect_mapping("table", table)}
        check_keys(mapping)
        points = list(points_of(mapping, combinations))
        if len(points) != 1:
            raise ConfigError("the control is one configuration", given=f"{len(points)}", allowed="no lists")
        spec = self._spec(points[0])
        name = configuration_id(spec, self.measuring)
        return (
            Planned(record_id=f"{name}-c{number}", configuration=name, spec=spec, role="control", repeat=number)
            for number in itertools.count()
        )

    def samples(self) -> list[Planned]:
        """List the runs that are not controls."""
        return [
            Planned(record_id=f"{name}-r{repeat}", configuration=name, spec=spec, repeat=repeat, point=point)
            for name, (spec, repeats, point) in self.found.items()
            for repeat in range(repeats)
        ]

    def _possible(self, mapping: Mapping[str, Any]) -> list[tuple[RunSpec, dict[str, Any]]]:
        specs: list[tuple[RunSpec, dict[str, Any]]] = []
        reasons: list[ConfigError] = []
        for point in points_of(mapping, combinations):
            try:
                specs.append((self._spec(point), point))
            except ConfigError as error:
                reasons.append(error)
        if not specs:
            raise reasons[0]
        self.left_out.update(f"{reason.place}: {reason.attempted}" if reason.place else reason.attempted
                             for reason in reasons)  # fmt: skip
        return specs

    def _keep(self, spec: RunSpec, point: Mapping[str, Any]) -> None:
        name = configuration_id(spec, self.measuring)
        repeats = expect_whole("repeats", point.get("repeats", self.repeats))
        _, before, _ = self.found.get(name, (spec, 0, {}))
        self.found[name] = (spec, max(before, repeats), {key: point[key] for key in point if key != "repeats"})

    def _spec(self, point: Mapping[str, Any]) -> RunSpec:
        for key in REQUIRED:
            if key not in point:
                raise ConfigError("a key is missing", allowed="a value or a list, here or in [defaults]").at(key)
        devices = expect_whole("num_devices", point.get("num_devices", 1))
        strategy = point["strategy"]
        layout = Layout.of(strategy, num_devices=devices, tensor_parallel=point.get("tensor_parallel"))
        if layout.strategy == "single" and strategy != "single":
            raise ConfigError(f"{strategy} on one device is single", allowed="2 devices or more").at("num_devices")
        spec = RunSpec(
            architecture=architecture_of(point),
            recipe=Recipe(
                steps=self.measuring.window.steps,
                **{key: point[key] for key in (*RECIPE_NUMBERS, *RECIPE_NAMES) if key in point},
            ),
            layout=layout,
            accelerator=self.accelerator,
            node=self.node,
            power_limit_w=point.get("power_limit_w"),
        )
        if spec.power_limit_w is not None and spec.accelerator.vendor != "nvidia":
            raise ConfigError("power limits are set on NVIDIA GPUs only", given=spec.accelerator.name).at(
                "power_limit_w"
            )
        check_training(spec)
        return check_runnable(spec)


def _interleaved(samples: list[Planned], control: Iterator[Planned] | None, every: int) -> Iterator[Planned]:
    """Put a control before the first sample, after every so many, and after the last."""
    if control is None:
        yield from samples
        return
    for place, sample in enumerate(samples):
        if place % every == 0:
            yield next(control)
        yield sample
    yield next(control)


def _control_every(tables: Mapping[str, Any], *, has_control: bool) -> int:
    if "control_every" in tables and not has_control:
        raise ConfigError("there is no control to run", hint="a table [control]").at("control_every")
    return expect_whole("control_every", tables.get("control_every", 15))


def _measuring(folder: Path, table: object) -> Measuring:
    mapping = expect_mapping("table", table)
    window_keys = tuple(one.name for one in fields(Window))
    own_keys = tuple(one.name for one in fields(Measuring) if one.name != "window")
    refuse_unknown("key", mapping, (*window_keys, *own_keys))
    whole = ("steps", "min_warmup_steps", "max_warmup_steps", "threads")
    values: dict[str, Any] = {}
    for key, value in mapping.items():
        if key == "tokens":
            values[key] = (folder / expect_text(key, value)).resolve()
        elif key in whole:
            values[key] = expect_whole(key, value)
        elif key in ("timeout_s", "max_window_s"):
            values[key] = expect_positive(key, value)
        elif (number := expect_number(key, value)) < 0:
            raise ConfigError("must not be negative", given=number, allowed=">= 0").at(key)
        else:
            values[key] = number
    window = Window(**{key: value for key, value in values.items() if key in window_keys})
    for low, high in (("min_warmup_steps", "max_warmup_steps"), ("min_window_s", "max_window_s")):
        if getattr(window, low) > getattr(window, high):
            raise ConfigError(
                f"{low} exceeds {high}", given=getattr(window, low), allowed=f"<= {getattr(window, high)}"
            )
    return Measuring(window=window, **{key: value for key, value in values.items() if key in own_keys})


def _hardware(folder: Path, table: object) -> dict[str, Any]:
    mapping = expect_mapping("table", table)
    refuse_unknown("key", mapping, HARDWARE_KEYS)
    if "gpu" not in mapping:
        raise ConfigError("a key is missing", allowed="the name of an accelerator, generic-cpu among them",
                          hint="'wattlaw hardware list'").at("gpu")  # fmt: skip
    device = expect_text("gpu", mapping["gpu"])
    node = expect_text("node", mapping["node"]) if "node" in mapping else None
    return {
        "accelerator": accelerator(str((folder / device).resolve()) if device.endswith(".toml") else device),
        "node": None if node is None else node_type(node),
    }


def _folder_name(name: str) -> str:
    if not name or name in (".", "..") or any(sign in name for sign in "/\\\0"):
        raise ConfigError("the name of a sweep is the name of its folder", given=repr(name), allowed="no / or \\").at(
            "name"
        )
    return name


def _kind(run: Planned) -> str:
    layout = run.spec.layout
    name = f"{run.spec.architecture.family} {layout.strategy} x{int(layout.num_devices)}"
    return f"{name} (control)" if run.role == "control" else name


def _in(place: str, build: Any, *arguments: Any) -> Any:
    try:
        return build(*arguments)
    except WattlawError as error:
        raise error.at(place if place.startswith("[") else f"[{place}]") from error
