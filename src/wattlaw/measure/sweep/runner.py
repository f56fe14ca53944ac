"""The parent of a sweep: asks the pool for one configuration after another, and writes what came of each.

Every configuration ends as one record, also if it failed; the record is on the disk before the next one starts.
"""

from __future__ import annotations

import time
import warnings
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from wattlaw.errors import ConfigError, FileError, MeterError, MissingExtraError, WattlawWarning
from wattlaw.hardware import accelerator
from wattlaw.measure.record import energies_of, environment_of, observed_of
from wattlaw.measure.sweep.data import check_tokens, read_tokens
from wattlaw.measure.sweep.gate import gate_spec, judgement
from wattlaw.measure.sweep.metering import Metering, MeterOf, no_meter, power_limits, same_device
from wattlaw.measure.sweep.pool import RANK_COMMAND, START_TIMEOUT_S, Message, Pool, PoolError, PoolTimeoutError
from wattlaw.measure.sweep.spec import Planned, Sweep, configuration_id
from wattlaw.measure.sweep.steadiness import describe_steps
from wattlaw.measure.sweep.stopping import Stop
from wattlaw.measure.sweep.surroundings import describe_machine, load_average
from wattlaw.run import RunRecord, append_record, read_records, spec_to_mapping, write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

RECORDS = "records.jsonl"
SWEEP_FILE = "sweep.toml"
RANKS_LOG = "ranks.log"
#: Starts of the pool in a row, without one answer in between, after which the machine is at fault.
MOST_STARTS = 3
#: The number of steps is planned from the warm-up's; steps that are a little faster must not make a window too short.
WINDOW_MARGIN = 1.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a sweep stands.

    Attributes:
        num_done: runs of the plan that are recorded, those of before included.
        num_total: runs of the plan.
        record: what was just recorded; ``None`` at the start.
    """

    num_done: int
    num_total: int
    record: RunRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """How a sweep ended.

    Attributes:
        folder: where its records are.
        num_total: runs of the plan.
        num_before: of them, recorded before.
        num_ok: measured now.
        failed: reason -> runs that failed now.
        stopped: whether it was stopped before its end.
        duration_s: of the work now.
    """

    folder: Path
    num_total: int
    num_before: int
    num_ok: int
    failed: dict[str, int] = field(default_factory=dict)
    stopped: bool = False
    duration_s: float = 0.0

    @property
    def num_left(self) -> int:
        """Runs of the plan without a record."""
        return self.num_total - self.num_before - self.num_ok - sum(self.failed.values())


def require_libraries() -> None:
    """Refuse to start ranks that could not import what they need.

    Raises:
        MissingExtraError: torch or transformers is not installed.
    """
    if any(find_spec(package) is None for package in ("torch", "transformers")):
        raise MissingExtraError.of("measure", "training on this machine")


def run_sweep(
    sweep: Sweep,
    output: str | Path,
    *,
    resume: bool = False,
    meter_of: MeterOf = no_meter,
    watch: Callable[[Progress], None] = lambda _: None,
    stop: Stop | None = None,
    max_duration_s: float | None = None,
    rank_command: Sequence[str] = RANK_COMMAND,
) -> SweepResult:
    """Run a sweep and record it in a folder of its name.

    Args:
        sweep: what is run.
        output: folder of sweeps; the sweep's own folder is made in it.
        resume: skip the runs that are recorded there.
        meter_of: what measures energy.
        watch: called after every record.
        stop: asked for an end, the running configuration is finished and no other started.
        max_duration_s: no configuration is started after this time.
        rank_command: what starts a rank; replaced in tests.

    Returns:
        how it ended.

    Raises:
        ConfigError: there are records and ``resume`` is not set, or the device here is not the one that is stated.
        MissingExtraError: torch or transformers is not installed.
        FileError, DataError: the folder, or the text of tokens, cannot be used.
        PoolError: the ranks do not start.
    """
    start_s = time.monotonic()
    if tuple(rank_command) == RANK_COMMAND:
        require_libraries()
    stop = Stop() if stop is None else stop
    folder = Path(output) / sweep.name
    recorded = _recorded(folder / RECORDS, resume=resume)
    _check_tokens(sweep)
    _open_folder(folder, sweep)
    runs = [run for run in sweep.runs if run.record_id not in recorded]
    before = len(sweep.runs) - len(runs)
    watch(Progress(num_done=before, num_total=len(sweep.runs)))
    num_ok, failed = 0, dict[str, int]()
    pool = Pool(
        sweep.world_size, device=sweep.device, threads=sweep.measuring.threads, log=folder / RANKS_LOG,
        command=rank_command,
    )  # fmt: skip
    with closing(pool):
        session = Session(sweep, pool, meter_of)
        for run in runs:
            if stop.asked or (max_duration_s is not None and time.monotonic() - start_s > max_duration_s):
                break
            record = session.run(run)
            append_record(folder / RECORDS, record)
            if record.status == "ok":
                num_ok += 1
            else:
                reason = record.notes.partition(":")[0]
                failed[reason] = failed.get(reason, 0) + 1
            watch(Progress(num_done=before + num_ok + sum(failed.values()), num_total=len(sweep.runs), record=record))
    result = SweepResult(
        folder=folder, num_total=len(sweep.runs), num_before=before, num_ok=num_ok, failed=failed,
        duration_s=time.monotonic() - start_s,
    )  # fmt: skip
    return replace(result, stopped=result.num_left > 0)


class Session:
    """What is kept between configurations: the pool, the judgements of the gate, the machine's description.

    Args:
        sweep: what is run.
        pool: that runs it.
        meter_of: what measures energy.
    """

    def __init__(self, sweep: Sweep, pool: Pool, meter_of: MeterOf) -> None:
        self._sweep = sweep
        self._pool = pool
        self._meter_of = meter_of
        self._machine = describe_machine()
        # By kind of run: the largest difference of its losses, or why it is refused.
        self._judged: dict[str, float | str] = {}
        self._num_runs = 0
        self._starts_in_vain = 0

    def run(self, run: Planned) -> RunRecord:
        """Run one configuration and return its record, whatever comes of it.

        Raises:
            ConfigError: the device here is not the one that the sweep states.
            PoolError: the ranks do not start, again and again.
        """
        self._num_runs += 1
        if self._sweep.measuring.cooldown_s > 0:
            time.sleep(self._sweep.measuring.cooldown_s)
        self._start_pool()
        try:
            judged = self._judge(run)
        except PoolError as error:
            return self._failed(run, f"{_kind_of(error)}: in the loss check, {_told(error)}")
        if isinstance(judged, str):
            return self._failed(run, f"refused: {judged}")
        return self._measure(run, judged)

    # ---------------------------------------------------------------- inside

    def _start_pool(self) -> None:
        if self._pool.is_running:
            return
        try:
            self._pool.start()
        except PoolError:
            self._starts_in_vain += 1
            if self._starts_in_vain >= MOST_STARTS:
                raise
            self._start_pool()
            return
        self._starts_in_vain = 0
        found = self._pool.environment.get("device_name")
        if found is not None:
            stated = accelerator(self._sweep.runs[0].spec.accelerator.reference)
            same_device(stated.full_name, (stated.name, *stated.aliases), found)

    def _judge(self, run: Planned) -> float | str | None:
        """Return the difference of the losses, ``None`` for one device, or why this kind of run is refused."""
        if run.spec.layout.strategy == "single":
            return None
        small = gate_spec(run.spec)
        kind = configuration_id(small, self._sweep.measuring)
        if kind not in self._judged:
            question = {"do": "gate", "spec": spec_to_mapping(small)}
            answers = self._pool.ask(question, timeout_s=START_TIMEOUT_S)
            self._judged[kind] = judgement(answers)
            self._restart_after(answers, int(small.layout.num_devices))
        return self._judged[kind]

    def _measure(self, run: Planned, judged: float | None) -> RunRecord:
        measuring, spec = self._sweep.measuring, run.spec
        num_devices = int(spec.layout.num_devices)
        meter = self._meter_of(num_devices)
        window = measuring.window
        if meter is not None:
            long_enough_s = max(window.min_window_s, WINDOW_MARGIN * meter.shortest_window_s)
            window = replace(window, min_window_s=long_enough_s, max_window_s=max(window.max_window_s, long_enough_s))
        question = {
            "do": "measure",
            "spec": spec_to_mapping(spec),
            "window": asdict(window),
            "metered": meter is not None,
            "tokens": None if measuring.tokens is None else str(measuring.tokens),
        }
        metering = Metering(meter)
        try:
            with power_limits(num_devices, spec.power_limit_w), closing(metering):
                answers = self._pool.ask(
                    question, timeout_s=measuring.timeout_s, midway=metering.start, after=metering.stop
                )
        except PoolError as error:
            return self._failed(run, f"{_kind_of(error)}: {_told(error)}")
        except (MeterError, ConfigError) as error:
            return self._failed(run, f"power limit not set: {error}")
        self._restart_after(answers, num_devices)
        failures = [answer for answer in answers if answer["answer"] == "failed"]
        if failures:
            return self._failed(run, f"{failures[0]['kind']}: {failures[0]['reason']}")
        try:
            return self._ok(run, answers[0], judged, metering)
        except ConfigError as error:
            # A loss that is no number, a time of zero: nothing that a record can hold.
            return self._failed(run, f"not measured: {error}")

    def _ok(self, run: Planned, answer: Message, judged: float | None, metering: Metering) -> RunRecord:
        times_s = answer["step_times_s"]
        observed: dict[str, float] = {
            **describe_steps(times_s),
            "num_steps": len(times_s),
            "warmup_steps": answer["warmup_steps"],
            "warmup_was_steady": float(answer["steady"]),
            "loss": answer["loss"],
        }
        if "peak_memory_bytes" in answer:
            observed["peak_memory_bytes"] = answer["peak_memory_bytes"]
        if judged is not None:
            observed["loss_check_difference_fraction"] = judged
        reading = metering.reading
        if reading is not None:
            observed.update(observed_of(reading))
            observed["metered_s"] = reading.duration_s
        return RunRecord(
            record_id=run.record_id,
            spec=replace(run.spec, recipe=replace(run.spec.recipe, steps=len(times_s))),
            duration_s=answer["duration_s"],
            energies=() if reading is None else energies_of(reading),
            observed={**observed, **self._order()},
            source=self._source(),
            notes=metering.doubt,
            environment=self._environment(run, metering),
        )

    def _failed(self, run: Planned, reason: str) -> RunRecord:
        return RunRecord(
            record_id=run.record_id,
            spec=run.spec,
            status="failed",
            observed=self._order(),
            source=self._source(),
            notes=" ".join(reason.split()),
            environment=self._environment(run, Metering(None)),
        )

    def _environment(self, run: Planned, metering: Metering) -> dict[str, str]:
        metered = {} if metering.reading is None else environment_of(metering.reading, metering.states)
        measuring = self._sweep.measuring
        return {
            **metered,
            **self._machine,
            **self._pool.environment,
            "configuration": run.configuration,
            "role": run.role,
            "repeat": str(run.repeat),
            "data": "random tokens" if measuring.tokens is None else measuring.tokens.name,
        }

    def _order(self) -> dict[str, float]:
        """Tell when in the session this was, and how busy the machine: drift and disturbance show later."""
        load = load_average()
        order = {"order_in_session": float(self._num_runs)}
        return order if load is None else {**order, "load_average": load}

    def _source(self) -> str:
        return f"wattlaw measure, sweep {self._sweep.name}"

    def _restart_after(self, answers: Sequence[Message], num_devices: int) -> None:
        """End the pool after a failure in the middle of a collective: what was left half done would meet the next one.

        A refusal comes before any collective, and a run on one rank has none.
        """
        if num_devices > 1 and any(answer.get("kind", "refused") != "refused" for answer in answers):
            self._pool.kill()


def _kind_of(error: PoolError) -> str:
    return "time-out" if isinstance(error, PoolTimeoutError) else "rank died"


def _told(error: PoolError) -> str:
    # Without the path of the log: a record may be published.
    return f"{error.attempted}: {error.given}"


def _open_folder(folder: Path, sweep: Sweep) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError("cannot make the sweep's folder", given=error.strerror).at(folder) from error
    if sweep.text:
        write_atomic(folder / SWEEP_FILE, sweep.text)


def _recorded(path: Path, *, resume: bool) -> frozenset[str]:
    """Return the ids of the records that are there; a record that a kill cut short is not there."""
    if not path.exists():
        return frozenset()
    if not resume:
        raise ConfigError("there are records of this sweep already", hint="--resume, or another folder").at(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WattlawWarning)
        return frozenset(record.record_id for record in read_records(path))


def _check_tokens(sweep: Sweep) -> None:
    path = sweep.measuring.tokens
    if path is not None:
        smallest = min(float(run.spec.architecture.vocab_size) for run in sweep.runs)
        check_tokens(read_tokens(path), smallest, path)
