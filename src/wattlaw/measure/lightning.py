"""A callback for Lightning's ``Trainer``: one record per training. Lightning is imported when a callback is made."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from wattlaw.errors import MissingExtraError
from wattlaw.measure.description import Training
from wattlaw.measure.job import DEFAULT_STORE
from wattlaw.measure.meter import Meter
from wattlaw.measure.recorder import Predicted, TrainingRecorder
from wattlaw.measure.torch_training import (
    adapters_of,
    device_name,
    model_config,
    recipe_of,
    recomputes,
    weights_doubts,
    weights_precision,
)
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunSpec

#: Lightning's name of a precision -> ours, and whether the weights themselves stay fp32.
_PRECISIONS = {
    "bf16-mixed": ("bf16", True),
    "16-mixed": ("fp16", True),
    "bf16-true": ("bf16", False),
    "16-true": ("fp16", False),
}


def lightning_callback(
    output: str | Path = DEFAULT_STORE,
    *,
    predict: Callable[[RunSpec], Predicted] | None = None,
    gpu: str | None = None,
    declared_power_w: float | None = None,
    meter: Meter | None = None,
) -> Any:
    """Make a Lightning callback that writes one record per training.

    As ``trainer_callback``. The model is the Lightning module's own, or the one among its direct parts that has a
    Hugging Face configuration; without one the record says that the model is missing. Batches are mappings with
    ``input_ids``, or pairs whose first part is tokens.

    Args:
        output: the store, a file of JSON lines.
        predict: what a law says of a run spec; it is logged and recorded beside what was measured.
        gpu: what the accelerator is called, if it is not what torch calls it.
        declared_power_w: power of the node as the user states it.
        meter: what measures this node; made of this machine's sensors if ``None``.

    Raises:
        MissingExtraError: Lightning is not installed.
    """
    recorder = TrainingRecorder(
        output, source="lightning.Trainer", predict=predict, declared_power_w=declared_power_w, meter=meter
    )
    return _callback_class()(recorder, gpu=gpu)


def _lightning() -> Any:
    """Import Lightning under one of its two names."""
    for name in ("lightning.pytorch", "pytorch_lightning"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise MissingExtraError("Lightning's callback needs Lightning", hint="pip install lightning")


@functools.cache
def _callback_class() -> Any:
    """Make the class, of which Lightning must be the parent."""
    parent = _lightning().Callback

    class WattlawCallback(parent):  # type: ignore[misc, valid-type]
        """Hands Lightning's events to a recorder, which never raises."""

        def __init__(self, recorder: TrainingRecorder, *, gpu: str | None) -> None:
            super().__init__()
            self.recorder = recorder
            self._gpu = gpu

        @property
        def record(self) -> Any:
            """The record of the last training, if this process wrote it."""
            return self.recorder.record

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            """Open the job."""
            first_step = trainer.global_step
            self.recorder.begin(
                lambda: training_of(
                    trainer, pl_module, self.recorder, steps=trainer.global_step - first_step, gpu=self._gpu
                )
            )

        def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
            """Count a batch."""
            self.recorder.saw(_inputs(batch), encoder_decoder=_is_encoder_decoder(pl_module))

        def on_validation_batch_start(self, trainer: Any, pl_module: Any, batch: Any, *_: Any) -> None:
            """Count a batch of an evaluation within the training."""
            if not trainer.sanity_checking:
                self.recorder.saw(_inputs(batch), training=False)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            """Write the record."""
            self.recorder.end(epochs=trainer.current_epoch)

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            """Record the training as failed."""
            self.recorder.fail(f"{type(exception).__name__}: {exception}".splitlines()[0][:200])

    return WattlawCallback


def _inputs(batch: Any) -> dict[str, Any]:
    if isinstance(batch, Mapping):
        return dict(batch)
    first = batch[0] if isinstance(batch, (tuple, list)) and batch else batch
    return dict(first) if isinstance(first, Mapping) else {"input_ids": first}


def _model(module: Any) -> Any:
    """Find the model with a Hugging Face configuration: the module itself, or one of its direct parts."""
    return next((one for one in (module, *module.children()) if model_config(one) is not None), module)


def _is_encoder_decoder(module: Any) -> bool:
    return bool(getattr(getattr(_model(module), "config", None), "is_encoder_decoder", False))


def training_of(
    trainer: Any, module: Any, recorder: TrainingRecorder, *, steps: int, gpu: str | None = None
) -> Training:
    """Gather what Lightning's objects tell of a training.

    Args:
        trainer: Lightning's trainer.
        module: the Lightning module.
        recorder: knows the batches.
        steps: optimizer steps that were made.
        gpu: what the accelerator is called.
    """
    model = _model(module)
    precision, is_cast = _PRECISIONS.get(str(trainer.precision), (None, False))
    if precision is None and str(trainer.precision).startswith("32"):
        precision = weights_precision(module)
    device = trainer.strategy.root_device
    name, assumed = (gpu, ()) if gpu is not None else device_name(device.type, device.index)
    layout, obstacles = _layout(trainer)
    optimizers = list(trainer.optimizers)
    recipe = recipe_of(
        model,
        optimizers[0] if len(optimizers) == 1 else None,
        recorder.shapes,
        steps=steps,
        recomputing=recomputes(model),
        grad_accumulation=trainer.accumulate_grad_batches,
        precision=precision,
    )
    return Training(
        config=model_config(model),
        recipe=recipe,
        layout=layout,
        device=name,
        adapters=adapters_of(module),
        assumed=assumed,
        obstacles=obstacles,
        doubts=tuple(weights_doubts(precision, is_cast=is_cast)),
    )


#: Class of a Lightning strategy -> ZeRO stage.
_STAGES = {"SingleDeviceStrategy": 0, "DDPStrategy": 0, "FSDPStrategy": 3}
_FSDP_STAGES = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0}


def _layout(trainer: Any) -> tuple[Layout | None, tuple[str, ...]]:
    name = type(trainer.strategy).__name__
    stage = _STAGES.get(name)
    if name == "FSDPStrategy":
        stage = _FSDP_STAGES.get(str(getattr(trainer.strategy.sharding_strategy, "name", "")).upper())
    if stage is None:
        return None, (f"layout ({name}, which no law here knows)",)
    return Layout(data_parallel=trainer.world_size, zero_stage=stage, num_nodes=trainer.num_nodes), ()
