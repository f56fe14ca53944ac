"""One job, from its start to its record, as one of its processes sees it.

Every rank may open the job: the first rank of each node meters, the others only tell if they fail. The record is
written by whichever node closes last (see ``parts``).
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec

from wattlaw.errors import MeterError, UnknownNameError, WattlawError
from wattlaw.hardware import accelerator
from wattlaw.measure.machine import machine_meter
from wattlaw.measure.membership import Membership, membership
from wattlaw.measure.meter import Meter, SampledMeter
from wattlaw.measure.meters import nvml
from wattlaw.measure.parts import RENEW_S, Part, Parts, RankFailure, environment, new_record_id, origin
from wattlaw.measure.reading import MeterWarning, Reading
from wattlaw.run import RunRecord, RunSpec
from wattlaw.run.record import record_to_mapping

logger = logging.getLogger("wattlaw")

DEFAULT_STORE = Path("runs/records.jsonl")


class Job:
    """A job that is being metered; ``measure`` and ``wattlaw run`` make one.

    Args:
        store: where the record goes; its folder is made.
        source: who records: ``wattlaw run``, ``transformers.Trainer``, ...
        meter: what measures this node; made of this machine's sensors if ``None``.
        declared_power_w: power of the node as the user states it.
        here: which job and node this process belongs to; found out if ``None``.

    Raises:
        ConfigError: the process has a rank but no local rank, or the devices cannot be told.
        FileError: the store's folder cannot be written.
    """

    def __init__(
        self,
        store: str | Path = DEFAULT_STORE,
        *,
        source: str = "wattlaw.measure",
        meter: Meter | None = None,
        declared_power_w: float | None = None,
        here: Membership | None = None,
    ) -> None:
        self.store = Path(store)
        self.here = membership() if here is None else here
        self.meters = self.here.place.meters
        self.record_id = new_record_id()
        #: What is known of the record; to be replaced as more becomes known.
        self.draft = self._first_draft(source)
        #: Between ``start`` and ``finish``.
        self.is_open = False
        #: What this process has measured, once it has stopped.
        self.reading: Reading | None = None
        #: The job's record, if this process is the one that wrote it.
        self.record: RunRecord | None = None
        #: Records of former jobs of this store that ended without a word.
        self.recovered: list[RunRecord] = []
        self._parts = Parts(self.store)
        # A job that nothing names has one node and is alone in its folder.
        self._name = self.here.job or self.record_id
        self._meter: Meter | None = None
        if self.meters:
            self._meter = meter if meter is not None else self._meter_of_machine(declared_power_w)
        self._fault = ""
        self._part: Part | None = None
        self._ended = threading.Event()
        # Whoever writes the part: an open one must not come after the closed one.
        self._writing = threading.Lock()
        self._started_s = 0.0

    def start(self) -> None:
        """Open the window of this node.

        Raises:
            FileError: the store's folder cannot be written: better now than after the run.
        """
        self.is_open = True
        if self._meter is None:
            return
        self._recover()
        self._part = Part(
            record_id=self.record_id,
            node=self.here.node,
            num_nodes=self.here.num_nodes,
            host=self.here.place.host,
            origin=origin(),
            draft=record_to_mapping(self.draft),
        )
        self._parts.put(self._name, self._part)
        threading.Thread(target=self._renew, name="wattlaw-job", daemon=True).start()
        self._started_s = time.monotonic()
        self._meter.start()

    def cancel(self) -> None:
        """Close the window and leave no trace: nothing was run."""
        self._ended.set()
        self.is_open = False
        if isinstance(self._meter, SampledMeter):
            self._meter.cancel()
        if self._part is not None:
            self._part = None
            with self._writing:
                self._parts.drop(self._name, self.here.node)

    def stop(self) -> Reading | None:
        """Close the window and return what was measured; ``None`` on a rank that does not meter."""
        if self._part is None or self._meter is None or self.reading is not None:
            return self.reading
        stopped = time.monotonic()
        try:
            self.reading = self._meter.stop()
        except Exception as error:  # noqa: BLE001 - whatever the meter does, the run was made and is recorded
            # A driver's fault costs the energy, never the record.
            self._fault = f"energy unknown: {error}" if isinstance(error, MeterError) else f"energy unknown: {error!r}"
            doubt = MeterWarning(kind="not-measured", text=self._fault)
            duration_s = stopped - self._started_s
            self.reading = Reading(energies=(), duration_s=duration_s, requested_s=duration_s, warnings=(doubt,))
        return self.reading

    def finish(self, *, failure: str | None = None, exit_code: int | None = None) -> RunRecord | None:
        """Close this node's part, and write the job's record if it is the last one.

        Args:
            failure: why the run failed; ``None`` if it ended well.
            exit_code: of the command, where there is one.

        Returns:
            the record if this process wrote it, else ``None``.

        Raises:
            FileError: the record cannot be written; the part stays, and a later job of the store writes it.
        """
        self.stop()
        self._ended.set()
        self.is_open = False
        if self._part is None:
            if failure is not None:
                self._tell_failure(RankFailure(rank=self.here.place.rank or 0, reason=failure, exit_code=exit_code))
            return None
        meter = self._meter if isinstance(self._meter, SampledMeter) else None
        self._state_devices()
        part = replace(
            self._part,
            draft=record_to_mapping(self.draft),
            closed=True,
            status="ok" if failure is None else "failed",
            exit_code=exit_code,
            reason="; ".join(filter(None, (failure, self._fault))),
            reading=self.reading,
            states=meter.states() if meter is not None else (),
            drivers=_drivers(meter),
        )
        self._part = None
        try:
            with self._writing:
                self._parts.put(self._name, part)
            self.record = self._parts.finish(self._name)
        except WattlawError as error:
            # The disk may be full: the log is the last place that is left.
            logger.error(  # noqa: TRY400 - a full disk needs no traceback
                "%s; what could not be written: %s", error, msgspec.json.encode(part).decode()
            )
            raise
        logger.info("%s", self.summary())
        return self.record

    def summary(self) -> str:
        """Tell in one line what was measured and where it is."""
        if self.record is None:
            waits = f"waits for the other nodes of {self._name}" if self.meters else "is metered by the first rank"
            return f"{self.here.place} {waits}"
        record = self.record
        energies = ", ".join(f"{one.boundary} {one.energy_j:.6g} J ({one.method})" for one in record.energies)
        lasted = "unknown time" if record.duration_s is None else f"{record.duration_s:.6g} s"
        notes = f"; {record.notes}" if record.notes else ""
        unknown = "energy not measured (wattlaw doctor says why)"
        return f"{record.record_id} {record.status}: {lasted}, {energies or unknown}{notes}; in {self.store}"

    def power_limit_w(self) -> float | None:
        """Return the power limit that all devices of this node have; ``None`` if they tell none, or differ."""
        states = self._meter.states() if isinstance(self._meter, SampledMeter) else ()
        limits = {state.power_limit_w for state in states}
        return limits.pop() if len(limits) == 1 else None

    # ---------------------------------------------------------------- what is said of the job

    def describe(self, spec: RunSpec) -> None:
        """State what is run."""
        self.draft = replace(self.draft, spec=spec, stated={}, missing=(), assumed=())

    def observe(self, **numbers: float) -> None:
        """Add numbers to the record, with the unit at the end of each name."""
        self.draft = replace(self.draft, observed={**self.draft.observed, **numbers})

    def note(self, text: str) -> None:
        """Add what a reader of the record should know."""
        self.draft = replace(self.draft, notes="; ".join(filter(None, (self.draft.notes, text))))

    def surround(self, **words: str | None) -> None:
        """Add what the numbers depend on; what is ``None`` is left out."""
        self.draft = replace(self.draft, environment={**self.draft.environment, **environment(words)})

    # ---------------------------------------------------------------- inside

    def _first_draft(self, source: str) -> RunRecord:
        place, here = self.here.place, self.here
        return RunRecord(
            record_id=self.record_id,
            missing=("model", "recipe", "hardware"),
            source=source,
            notes="; ".join(here.doubts),
            environment=environment(
                {
                    "launcher": place.launcher,
                    "job": here.job,
                    "world_size": None if here.world_size is None else str(here.world_size),
                    "inside": here.inside,
                }
            ),
        )

    def _meter_of_machine(self, declared_power_w: float | None) -> Meter:
        # A window that is too short has no energy: widening it would charge the run for the time behind it.
        return machine_meter(
            synchronize=synchronize_torch,
            short_window="refuse",
            declared_power_w=declared_power_w,
            here=self.here.place,
        )

    def _recover(self) -> None:
        self.store.parent.mkdir(parents=True, exist_ok=True)
        left = self._parts.recover_node(self._name, self.here.node)
        self.recovered = [*([left] if left is not None else []), *self._parts.recover()]
        for record in self.recovered:
            logger.info("recorded a job that ended without a word: %s; in %s", record.record_id, self.store)

    def _renew(self) -> None:
        """Run in the thread: show other processes that this one lives, and keep what it has measured so far."""
        while not self._ended.wait(RENEW_S):
            reading = self._so_far()
            with self._writing:
                part = self._part
                if part is None or self._ended.is_set():
                    return
                with contextlib.suppress(WattlawError):
                    self._parts.put(self._name, replace(part, draft=record_to_mapping(self.draft), reading=reading))

    def _so_far(self) -> Reading | None:
        try:
            return self._meter.so_far() if isinstance(self._meter, SampledMeter) else None
        except Exception:  # noqa: BLE001 - whatever a driver does, the part is renewed
            return None

    def _tell_failure(self, failure: RankFailure) -> None:
        try:
            if self._parts.put_failure(self._name, failure):
                return
        except WattlawError:
            logger.debug("the job's folder went away while rank %d told its failure", failure.rank)
        logger.warning("%s failed after the job's record was written: %s", self.here.place, failure.reason)

    def _state_devices(self) -> None:
        """Where the run is not described, state at least on which kind of device it was."""
        entries = self.reading.energies if self.reading is not None else ()
        names = {entry.name for entry in entries if entry.boundary == "accelerators"}
        if self.draft.spec is not None or "hardware" in self.draft.stated or len(names) != 1:
            return
        try:
            found = accelerator(names.pop())
        except UnknownNameError:
            return
        self.draft = replace(
            self.draft,
            stated={**self.draft.stated, "hardware": {"gpu": found.reference}},
            missing=tuple(name for name in self.draft.missing if name != "hardware"),
        )


@contextmanager
def measure(
    spec: RunSpec | None = None,
    *,
    output: str | Path = DEFAULT_STORE,
    declared_power_w: float | None = None,
    meter: Meter | None = None,
) -> Iterator[Job]:
    """Meter a block of code as one job, and record it.

    Every rank may run it: under torchrun, Slurm or MPI the first rank of each node meters, and the job gets one
    record. A block that raises is recorded as failed, and its error goes on. After the block ``job.record`` is the
    record on the rank that wrote it, and ``job.reading`` what this node measured.

    Args:
        spec: what is run; may also be given inside of the block, with ``job.describe``.
        output: the store, a file of JSON lines.
        declared_power_w: power of the node as the user states it, for machines without a sensor.
        meter: what measures this node; made of this machine's sensors if ``None``.

    Raises:
        ConfigError: the process has a rank but no local rank, so that it cannot be told who meters the node.
        FileError: the store's folder cannot be written; the block is not run.
    """
    job = Job(output, meter=meter, declared_power_w=declared_power_w)
    if spec is not None:
        job.describe(spec)
    job.start()
    try:
        yield job
    except BaseException as error:
        try:
            job.finish(failure=_told(error))
        except WattlawError:
            logger.debug("the record is in the log", exc_info=True)
        raise
    try:
        job.finish()
    except WattlawError as error:
        # What the block has computed is worth more than its record, which is in the log.
        logger.warning("not recorded: %s", error)


def synchronize_torch() -> None:
    """Wait for the work that this process gave its GPU, if it uses torch and has given any."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _told(error: BaseException) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


def _drivers(meter: SampledMeter | None) -> dict[str, str]:
    """Tell the driver's version where its sensors were read."""
    if meter is None or not any(isinstance(sensor, nvml.NvmlSensor) for sensor in meter.sensors):
        return {}
    try:
        return nvml.Nvml().versions()
    except WattlawError:
        return {}
