"""Records one training for a framework's callback.

It never breaks the training: whatever goes wrong in here becomes one logged warning, and the training is then not
recorded.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from wattlaw.measure.description import BatchShapes, Training, described
from wattlaw.measure.job import DEFAULT_STORE, Job
from wattlaw.measure.membership import Membership
from wattlaw.measure.meter import Meter
from wattlaw.run import RunRecord, RunSpec

logger = logging.getLogger("wattlaw")

_Method = TypeVar("_Method", bound=Callable[..., None])


class Span(Protocol):
    """A predicted number with its ends."""

    @property
    def low(self) -> float:
        """The lower end."""
        ...

    @property
    def mid(self) -> float:
        """The middle."""
        ...

    @property
    def high(self) -> float:
        """The upper end."""
        ...


class Predicted(Protocol):
    """What a law says of a run; ``wattlaw.law.Prediction`` is one."""

    @property
    def energy_j(self) -> Span:
        """Energy within the boundary."""
        ...

    @property
    def duration_s(self) -> Span | None:
        """Time, if the law says anything about it."""
        ...

    @property
    def boundary(self) -> str:
        """What the energy includes."""
        ...


def _guarded(method: _Method) -> _Method:
    """Turn whatever a method raises into one logged warning, after which the recorder is silent."""

    @functools.wraps(method)
    def guarded(self: TrainingRecorder, *args: Any, **kwargs: Any) -> None:
        if self.broken or os.getpid() != self.process:
            return
        try:
            method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - a training is worth more than its record
            self.broken = True
            logger.warning("this training is not recorded: %s: %s", type(error).__name__, error)

    return cast("_Method", guarded)


class TrainingRecorder:
    """Opens a job when a training begins and writes its record when it ends.

    Args:
        store: where the record goes.
        source: the framework.
        predict: what a law says of a run spec, to be held against what was measured.
        declared_power_w: power of the node as the user states it.
        meter: what measures this node; made of this machine's sensors if ``None``.
    """

    def __init__(
        self,
        store: str | Path = DEFAULT_STORE,
        *,
        source: str,
        predict: Callable[[RunSpec], Predicted] | None = None,
        declared_power_w: float | None = None,
        meter: Meter | None = None,
    ) -> None:
        self._store = Path(store)
        self._source = source
        self._predict = predict
        self._declared_power_w = declared_power_w
        self._meter = meter
        self._job: Job | None = None
        self._first_draft: RunRecord | None = None
        self._describe: Callable[[], Training] | None = None
        self.shapes = BatchShapes()
        self.broken = False
        #: Forked children inherit this object; the training is not theirs.
        self.process = os.getpid()

    @property
    def record(self) -> RunRecord | None:
        """The record of the last training, if this process wrote it."""
        return self._job.record if self._job is not None else None

    @property
    def here(self) -> Membership | None:
        """Where this process stands in its job; ``None`` before the training has begun."""
        return self._job.here if self._job is not None else None

    @_guarded
    def begin(self, describe: Callable[[], Training]) -> None:
        """Open the job; a training of before that never ended is recorded as failed.

        Args:
            describe: tells what is trained as far as it is known by then; asked now, for the case that the process
                is killed, and again at the end.
        """
        self._abandon()
        self.shapes = BatchShapes()
        self._job = job = Job(
            self._store, source=self._source, meter=self._meter, declared_power_w=self._declared_power_w
        )
        self._first_draft, self._describe = job.draft, describe
        job.draft = described(job.draft, describe())
        atexit.register(self._abandon)
        job.start()

    @_guarded
    def saw(self, inputs: Mapping[str, Any], *, encoder_decoder: bool = False, training: bool = True) -> None:
        """Count one batch."""
        self.shapes.saw_inputs(inputs, encoder_decoder=encoder_decoder, training=training)

    @_guarded
    def end(self, **observed: float | None) -> None:
        """Close the job, hold the prediction against it, and write the record."""
        if self._job is None or not self._job.is_open:
            return
        self._close(observed)
        predicted = self._prediction(self._job)
        record = self._job.finish()
        if record is not None and predicted is not None:
            logger.info("%s", comparison(record, predicted))

    @_guarded
    def fail(self, reason: str, **observed: float | None) -> None:
        """Close the job as failed."""
        if self._job is None or not self._job.is_open:
            return
        self._close(observed)
        self._job.finish(failure=reason)

    def _abandon(self) -> None:
        """Close a job whose training never said that it ended, because an exception came between."""
        if self._job is not None and self._job.is_open:
            self.fail("the training stopped before its end")

    def _close(self, observed: Mapping[str, float | None]) -> None:
        job = self._job
        assert job is not None
        job.stop()
        atexit.unregister(self._abandon)
        if self._describe is not None and self._first_draft is not None:
            training = replace(self._describe(), power_limit_w=job.power_limit_w())
            job.draft = described(self._first_draft, training)
            self._describe = None  # it holds the model
        counts = {
            "micro_steps": self.shapes.micro_steps or None,
            "computed_tokens_per_rank": self.shapes.tokens or None,
            **observed,
        }
        job.observe(**{name: float(value) for name, value in counts.items() if value is not None})

    def _prediction(self, job: Job) -> Predicted | None:
        """Ask the law; what it cannot say is a note, and no reason to lose the record."""
        if self._predict is None or job.draft.spec is None or not job.meters:
            return None
        try:
            predicted = self._predict(job.draft.spec)
            told = {"predicted_energy": (predicted.energy_j, "j"), "predicted_duration": (predicted.duration_s, "s")}
            for name, (span, unit) in told.items():
                if span is not None:
                    ends = {"": span.mid, "_low": span.low, "_high": span.high}
                    job.observe(**{f"{name}{end}_{unit}": value for end, value in ends.items()})
        except Exception as error:  # noqa: BLE001 - the law is the caller's
            job.note(f"no prediction: {error}")
            return None
        return predicted


def comparison(record: RunRecord, predicted: Predicted) -> str:
    """Tell in one line what was predicted and what was measured, of the same boundary."""
    energy = next((one for one in record.energies if one.boundary == predicted.boundary), None)
    measured = [
        "unknown time" if record.duration_s is None else f"{record.duration_s:.4g} s",
        f"{predicted.boundary} {energy.energy_j:.4g} J" if energy else f"{predicted.boundary} energy not measured",
    ]
    time, joules = predicted.duration_s, predicted.energy_j
    expected = [
        "no time" if time is None else f"{time.mid:.4g} s ({time.low:.4g} to {time.high:.4g})",
        f"{joules.mid:.4g} J ({joules.low:.4g} to {joules.high:.4g})",
    ]
    return f"{record.record_id}: measured {', '.join(measured)}; predicted {', '.join(expected)}"
