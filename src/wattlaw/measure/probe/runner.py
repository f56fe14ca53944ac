"""The parent of a probe: asks the ranks for one part after another and gathers the figures.

A part that fails leaves its figures unknown, with the reason, and the others go on. What a single device does is asked
of all ranks and done by the first, while the others wait idle.
"""

from __future__ import annotations

import datetime as dt
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from wattlaw.errors import ConfigError
from wattlaw.hardware import Accelerator, accelerator
from wattlaw.measure.probe import bandwidth, collectives, launch, layer, matrix, strategies
from wattlaw.measure.probe.figure import Figure, Probe
from wattlaw.measure.probe.load import LOADS
from wattlaw.measure.probe.power import PROBED, STATES, PowerProbe
from wattlaw.measure.sweep.metering import MachineMeters, MeterOf, same_device
from wattlaw.measure.sweep.pool import START_TIMEOUT_S, Message, Pool, PoolError
from wattlaw.measure.sweep.runner import require_libraries
from wattlaw.measure.sweep.surroundings import describe_machine, load_average

if TYPE_CHECKING:
    from wattlaw.measure.sweep.metering import SweepMeter

RANK_COMMAND = (sys.executable, "-m", "wattlaw.measure.probe.rank")
#: Ranks that stand for devices on a CPU, unless the user says how many.
CPU_RANKS = 2
DEVICES = ("auto", "cpu", "cuda")
#: Part -> its share of the time that is left after the ranks have started.
PARTS: Mapping[str, float] = {
    "matrix": 0.2,
    "bandwidth": 0.06,
    "launch": 0.24,
    "layer": 0.16,
    "power": 0.16,
    "collectives": 0.11,
    "strategies": 0.07,
}
#: A probe measures for this long at least, whatever the start of the ranks took.
LEAST_MEASURING_S = 4.0
#: A part may overrun its share, for samples that it takes whatever they cost, by this factor and this time.
PATIENCE, PATIENCE_S = 10.0, 60.0
#: Other people's work on the machine beyond this many processes per CPU spoils the times.
QUIET_LOAD_PER_CPU = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is probed, and for how long.

    Attributes:
        seconds: for all of it, the start of the ranks included; it is kept to within some samples.
        device: ``cpu``, ``cuda`` (which AMD's GPUs are called as well) or ``auto``, which takes a GPU if there is one.
        gpu: the accelerator's name, or the path of a file that describes it; ``None`` goes by the driver's name.
        num_devices: largest number of devices of collectives; ``None`` takes all GPUs, or two ranks on a CPU.
        threads: of each rank on a CPU; a sweep's ranks have one unless its file says otherwise.
    """

    seconds: float = 60.0
    device: str = "auto"
    gpu: str | None = None
    num_devices: int | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        """Refuse what cannot be probed."""
        if self.device not in DEVICES:
            raise ConfigError("unknown device", given=self.device, allowed=", ".join(DEVICES))
        for name in ("seconds", "num_devices", "threads"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"{name} must be above zero", given=value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a probe stands: the part that begins, and the share of the work that is done."""

    part: str
    done_fraction: float


@dataclass(slots=True)
class _Findings:
    """What has been found so far."""

    figures: dict[str, Figure] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def run_probe(
    options: Options,
    *,
    watch: Callable[[Progress], None] = lambda _: None,
    meter_of: MeterOf | None = None,
    rank_command: Sequence[str] = RANK_COMMAND,
) -> Probe:
    """Probe this machine.

    Args:
        options: what, and for how long.
        watch: called before every part.
        meter_of: what measures energy; this machine's meters where ``None``.
        rank_command: what starts a rank; replaced in tests.

    Raises:
        ConfigError: the device that is here is not the one that is stated.
        UnknownNameError: no data sheet of this device is known.
        MissingExtraError: torch or transformers is not installed.
        PoolError: the ranks do not start.
    """
    if tuple(rank_command) == RANK_COMMAND:
        require_libraries()
    start_s = time.monotonic()
    found = _Findings()
    stated = None if options.gpu is None else accelerator(options.gpu)
    busy_before = load_average()
    watch(Progress(part="start", done_fraction=0.0))
    with tempfile.TemporaryDirectory(prefix="wattlaw-probe-") as folder, ExitStack() as pools:
        log = Path(folder) / "ranks.log"
        # How many GPUs there are is only known once a rank has looked.
        num_known = options.num_devices or (CPU_RANKS if options.device == "cpu" else 1)
        pool = pools.enter_context(closing(_pool(num_known, options.device, options, log, rank_command)))
        pool.start()
        startup_s = time.monotonic() - start_s
        kind = pool.environment["device"]
        device = _device(stated, pool.environment)
        world_size = _world_size(options, pool.environment)
        meter = (MachineMeters(kind) if meter_of is None else meter_of)(1)
        starts_s = startup_s * (1 if world_size == num_known else 2)
        budget_s = _budgets(options.seconds - starts_s, world_size, metered=meter is not None)
        asker = _Asker(found=found, watch=watch, budget_s=budget_s)
        _probe_one(asker, pool, device, PowerProbe(meter=meter), kind)
        environment = {**describe_machine(), **pool.environment}
        if world_size > num_known:
            pool.close()
            pool = pools.enter_context(closing(_pool(world_size, kind, options, log, rank_command)))
        if world_size > 1:
            _probe_together(asker, pool, device, world_size)
    watch(Progress(part="end", done_fraction=1.0))
    found.warnings += _busy_with_others(busy_before, environment)
    names = _expected(device, world_size)
    return Probe(
        accelerator=device.reference,
        device=kind,
        num_devices=world_size,
        threads=options.threads,
        measured={name: found.figures.get(name) for name in sorted({*names, *found.figures})},
        unavailable={
            name: found.reasons.get(part, _reason(part, kind, meter))
            for name, part in names.items()
            if name not in found.figures
        },
        warnings=tuple(dict.fromkeys(found.warnings)),
        environment=environment,
        date=dt.datetime.now(dt.UTC).date().isoformat(),
        duration_s=time.monotonic() - start_s,
    )


def _pool(world_size: int, device: str, options: Options, log: Path, command: Sequence[str]) -> Pool:
    return Pool(world_size, device=device, threads=options.threads, log=log, command=command)


def _device(stated: Accelerator | None, environment: Mapping[str, str]) -> Accelerator:
    """Return the accelerator that is here, by the driver's name unless the user states it."""
    named = environment.get("device_name")
    if stated is None:
        return accelerator("generic-cpu" if named is None else named)
    if named is not None and not stated.file:
        same_device(stated.full_name, (stated.name, *stated.aliases), named)
    return stated


def _world_size(options: Options, environment: Mapping[str, str]) -> int:
    visible = environment.get("num_visible_devices")
    if options.num_devices is None:
        return CPU_RANKS if visible is None else int(visible)
    if visible is not None and options.num_devices > int(visible):
        raise ConfigError("fewer devices are visible", given=options.num_devices, allowed=f"<= {visible}")
    return options.num_devices


def _budgets(left_s: float, world_size: int, *, metered: bool) -> dict[str, float]:
    """Share the time that is left among the parts that are measured here."""
    left_s = max(LEAST_MEASURING_S, left_s)
    parts = {
        part: share
        for part, share in PARTS.items()
        if not (part == "power" and not metered) and not (part in ("collectives", "strategies") and world_size == 1)
    }
    return {part: left_s * share / sum(parts.values()) for part, share in parts.items()}


@dataclass(slots=True)
class _Asker:
    """Asks a pool, and files what it answers."""

    found: _Findings
    watch: Callable[[Progress], None]
    budget_s: Mapping[str, float]
    done_s: float = 0.0

    def begin(self, part: str) -> float:
        """Tell which part begins; return its time, 0 where it is not measured here."""
        total_s = sum(self.budget_s.values())
        self.watch(Progress(part=part, done_fraction=self.done_s / total_s))
        budget_s = self.budget_s.get(part, 0.0)
        self.done_s += budget_s
        return budget_s

    def ask(
        self,
        pool: Pool,
        part: str,
        command: Mapping[str, Any],
        budget_s: float,
        *,
        midway: Callable[[], None] = lambda: None,
        after: Callable[[], None] = lambda: None,
    ) -> None:
        """Ask for some figures; a failure is a reason, not an end."""
        timeout_s = PATIENCE * budget_s + PATIENCE_S + START_TIMEOUT_S
        try:
            answers = pool.ask({**command, "budget_s": budget_s}, timeout_s=timeout_s, midway=midway, after=after)
        except PoolError as error:
            self._fail(part, f"{error.attempted}: {error.given}")
            return
        for answer in answers:
            if answer["answer"] != "done":
                self._fail(part, answer.get("reason", "no answer"))
        if any(answer["answer"] != "done" for answer in answers):
            pool.kill()  # what was left half done in a collective would meet the next question
            return
        self.found.figures.update(_figures(answers))

    def _fail(self, part: str, reason: str) -> None:
        self.found.reasons.setdefault(part, reason)
        self.found.warnings.append(f"{part}: {reason}")


def _figures(answers: Sequence[Message]) -> dict[str, Figure]:
    """Take each figure from the first rank that has it."""
    found: dict[str, Figure] = {}
    for answer in answers:
        for name, value in answer["figures"].items():
            found.setdefault(name, msgspec.convert(value, Figure))
    return found


def _probe_one(asker: _Asker, pool: Pool, device: Accelerator, power: PowerProbe, kind: str) -> None:
    """Ask for what one device does."""
    precisions = [precision for precision in device.precisions if precision in matrix.PRECISIONS]
    for part in ("matrix", "bandwidth", "launch", "layer"):
        budget_s = asker.begin(part)
        asker.ask(pool, part, {"do": part, "precisions": precisions}, budget_s)
    budget_s = asker.begin("power")
    if power.meter is None:
        return
    window_s = max(power.shortest_window_s, budget_s / len(STATES))
    power.rest(window_s)
    precision = next((half for half in matrix.HALVES if half in precisions), precisions[0])
    for load in LOADS:
        command = {"do": "load", "kind": load, "precision": precision, "warmup_s": window_s / 4, "duration_s": window_s}

        def run(start: Callable[[], None], stop: Callable[[], None], command: Mapping[str, Any] = command) -> None:
            asker.ask(pool, "power", command, window_s, midway=start, after=stop)

        power.measure(load, run)
    # A GPU that idles beside a busy CPU is not what was loaded.
    kept = {name: one for name, one in power.figures.items() if kind == "cuda" or not name.startswith("accelerators")}
    asker.found.figures.update(kept)
    asker.found.warnings += power.warnings


def _probe_together(asker: _Asker, pool: Pool, device: Accelerator, world_size: int) -> None:
    """Ask for what several devices say to each other."""
    budget_s = asker.begin("collectives")
    counts = collectives.counts(world_size)
    for count in counts:
        command = {"do": "collectives", "num_devices": count}
        asker.ask(pool, "collectives", command, budget_s / len(counts))
    budget_s = asker.begin("strategies")
    for strategy in strategies.STRATEGIES:
        command = {"do": "strategy", "strategy": strategy, "accelerator": device.reference}
        asker.ask(pool, "strategies", command, budget_s / len(strategies.STRATEGIES))


def _expected(device: Accelerator, world_size: int) -> dict[str, str]:
    """Name every figure that a probe can have, and the part that it is of."""
    precisions = [precision for precision in device.precisions if precision in matrix.PRECISIONS]
    counts = collectives.counts(max(2, world_size))
    names = {
        "matrix": [f"{name}_{each}_flop_per_s" for each in precisions for name in matrix.NAMES],
        "bandwidth": list(bandwidth.NAMES),
        "launch": list(launch.NAMES),
        "layer": list(layer.NAMES),
        "power": [f"{boundary}_{state}_power_w" for boundary in PROBED for state in STATES],
        "collectives": [f"collective_{count}_{name}" for count in counts for name in collectives.NAMES],
        "strategies": list(strategies.NAMES),
    }
    return {name: part for part, each in names.items() for name in each}


def _reason(part: str, kind: str, meter: SweepMeter | None) -> str:
    if part == "power":
        if meter is None:
            return "no sensor here measures power; wattlaw doctor says what to do"
        return "no sensor of this boundary" if kind == "cuda" else "no sensor of this boundary, or no GPU was loaded"
    if part in ("collectives", "strategies"):
        return "needs two devices"
    return "the times were too uneven to tell"


def _busy_with_others(before: float | None, environment: Mapping[str, str]) -> Iterator[str]:
    """Doubt the times of a machine on which others worked when the probe began."""
    if before is None:
        return
    cpus = int(environment.get("num_cpus", "1"))
    if before > QUIET_LOAD_PER_CPU * cpus:
        yield (
            f"{before:.1f} processes wanted the {cpus} CPUs in the minute before the probe: "
            "times on a busy machine are too long"
        )
