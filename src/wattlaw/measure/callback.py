"""A callback for Hugging Face's ``Trainer``: one record per training, whole enough to calibrate a law with.

transformers is imported when a callback is made, not before.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    unwrapped,
    weights_doubts,
    weights_precision,
)
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunSpec

if TYPE_CHECKING:
    from transformers import TrainerCallback

#: Degrees of accelerate's parallelism that no layout here has.
OTHER_AXES = ("cp_size", "sp_size", "dp_replicate_size")


def trainer_callback(
    output: str | Path = DEFAULT_STORE,
    *,
    predict: Callable[[RunSpec], Predicted] | None = None,
    gpu: str | None = None,
    seq_len: int | None = None,
    declared_power_w: float | None = None,
    meter: Meter | None = None,
) -> TrainerCallback:
    """Make a callback that writes one record per training.

    Every rank has it, and the first rank of each node meters. The spec comes from the model's configuration, the
    ``TrainingArguments``, the optimizer and the shapes of the batches; what they do not tell is named in the record's
    ``missing``. Whatever goes wrong becomes one logged warning and never an error of the training. After it
    ``callback.record`` is the record, on the rank that wrote it.

    Args:
        output: the store, a file of JSON lines.
        predict: what a law says of a run spec; it is logged and recorded beside what was measured.
        gpu: what the accelerator is called, if it is not what torch calls it.
        seq_len: longest sequence, for compiled models, whose batches are not looked at.
        declared_power_w: power of the node as the user states it.
        meter: what measures this node; made of this machine's sensors if ``None``.

    Raises:
        MissingExtraError: transformers is not installed.
    """
    recorder = TrainingRecorder(
        output, source="transformers.Trainer", predict=predict, declared_power_w=declared_power_w, meter=meter
    )
    made: TrainerCallback = _callback_class()(recorder, gpu=gpu, seq_len=seq_len)
    return made


@functools.cache
def _callback_class() -> Any:
    """Make the class, of which transformers must be the parent."""
    try:
        from transformers import TrainerCallback
    except ImportError as error:
        raise MissingExtraError.of("measure", "the Trainer's callback") from error

    class WattlawCallback(TrainerCallback):
        """Hands the Trainer's events to a recorder, which never raises."""

        def __init__(self, recorder: TrainingRecorder, *, gpu: str | None, seq_len: int | None) -> None:
            self.recorder = recorder
            self._gpu = gpu
            self._seq_len = seq_len
            self._hook: Any = None

        @property
        def record(self) -> Any:
            """The record of the last training, if this process wrote it."""
            return self.recorder.record

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """Open the job."""
            model, optimizer = kwargs.get("model"), kwargs.get("optimizer")
            first_step = state.global_step
            self._unhook()
            if not args.torch_compile and model is not None:
                # A hook in a compiled model would be compiled with it, again for every count.
                self._hook = _watch(model, self.recorder)
            self.recorder.begin(
                lambda: training_of(
                    args,
                    model,
                    optimizer,
                    self.recorder,
                    steps=state.global_step - first_step,
                    gpu=self._gpu,
                    seq_len=self._seq_len,
                )
            )

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """Write the record."""
            self._unhook()
            self.recorder.end(
                epochs=state.epoch,
                tokens_seen=state.num_input_tokens_seen or None,
                reported_flop=state.total_flos or None,
            )

        def _unhook(self) -> None:
            if self._hook is not None:
                self._hook.remove()
                self._hook = None

    return WattlawCallback


def _watch(model: Any, recorder: TrainingRecorder) -> Any:
    """Count the batches that a model is given; only shapes are read, so that nothing waits for the device."""
    inner = unwrapped(model)
    encoder_decoder = bool(getattr(getattr(inner, "config", None), "is_encoder_decoder", False))

    def saw(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        inputs = {"input_ids": args[0], **kwargs} if args else kwargs
        recorder.saw(inputs, encoder_decoder=encoder_decoder, training=module.training)

    return inner.register_forward_pre_hook(saw, with_kwargs=True) if hasattr(inner, "parameters") else None


def training_of(
    args: Any,
    model: Any,
    optimizer: Any,
    recorder: TrainingRecorder,
    *,
    steps: int,
    gpu: str | None = None,
    seq_len: int | None = None,
) -> Training:
    """Gather what the Trainer's objects tell of its training.

    Args:
        args: the ``TrainingArguments``.
        model: the model, perhaps wrapped.
        optimizer: as the Trainer has it.
        recorder: knows the batches and the nodes.
        steps: optimizer steps that were made.
        gpu: what the accelerator is called.
        seq_len: longest sequence, if the batches do not tell.
    """
    inner = unwrapped(model)
    is_cast = bool(args.bf16 or args.fp16)
    precision = "bf16" if args.bf16 else "fp16" if args.fp16 else weights_precision(inner)
    device, assumed = (gpu, ()) if gpu is not None else device_name(args.device.type, args.device.index)
    # The Trainer has set it up: one shared state per process.
    state = importlib.import_module("accelerate.state").AcceleratorState()
    recomputing = recomputes(inner) or getattr(getattr(state, "fsdp_plugin", None), "activation_checkpointing", False)
    num_nodes = recorder.here.num_nodes if recorder.here is not None else 1
    layout, obstacles = _layout(args, inner, state, num_nodes)
    recipe = recipe_of(
        inner,
        optimizer,
        recorder.shapes,
        steps=steps,
        recomputing=bool(recomputing),
        batch_size=args.per_device_train_batch_size,
        seq_len=seq_len,
        grad_accumulation=args.gradient_accumulation_steps,
        precision=precision,
    )
    return Training(
        config=model_config(inner),
        recipe=recipe,
        layout=layout,
        device=device,
        adapters=adapters_of(inner),
        assumed=assumed,
        obstacles=obstacles,
        doubts=(
            *weights_doubts(precision, is_cast=is_cast),
            *_batch_doubts(args.per_device_train_batch_size, recorder.shapes.largest_batch),
        ),
    )


def _batch_doubts(stated: int, seen: int) -> Iterator[str]:
    if seen not in (0, stated):
        yield f"batches of {stated} sequences were asked for and of {seen} computed"


def _layout(args: Any, model: Any, state: Any, num_nodes: int) -> tuple[Layout | None, tuple[str, ...]]:
    """Tell over which devices a step is divided, from what accelerate has set up, not from what was asked of it."""
    from transformers.training_args import ParallelMode

    if args.parallel_mode not in (ParallelMode.DISTRIBUTED, ParallelMode.NOT_PARALLEL):
        return None, (f"layout ({args.parallel_mode.value}, which no law here knows)",)
    degrees = getattr(args, "parallelism_config", None)
    others = [axis for axis in OTHER_AXES if (getattr(degrees, axis, None) or 1) > 1]
    if others:
        return None, (f"layout ({', '.join(others)}, which no law here knows)",)
    tensor_parallel = int(getattr(degrees, "tp_size", None) or getattr(model, "_tp_size", None) or 1)
    stage, obstacles = _sharding(state)
    if stage is None:
        return None, obstacles
    layout = Layout(
        data_parallel=args.world_size // tensor_parallel,
        tensor_parallel=tensor_parallel,
        zero_stage=stage,
        num_nodes=num_nodes,
    )
    return layout, obstacles


#: ``torch.distributed.fsdp.ShardingStrategy`` and FSDP2's ``reshard_after_forward`` -> ZeRO stage.
_STAGES = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0, "TRUE": 3, "FALSE": 2}


def _sharding(state: Any) -> tuple[int | None, tuple[str, ...]]:
    """Tell the ZeRO stage, ``None`` if it is one that no layout has, and what else stands in a spec's way."""
    kind = str(getattr(getattr(state, "distributed_type", None), "value", "NO"))
    if kind == "FSDP":
        plugin = state.fsdp_plugin
        told = plugin.reshard_after_forward
        stage = _STAGES.get(str(getattr(told, "name", told)).upper())
        # FSDP1 has an object with a flag, FSDP2 two kinds of policy.
        offload = plugin.cpu_offload
        offloads = getattr(offload, "offload_params", False) or type(offload).__name__ == "CPUOffloadPolicy"
        obstacles = ("offloading to the host's memory",) if offloads else ()
        return stage, obstacles if stage is not None else (f"layout (FSDP's {told}, which no law here knows)",)
    if kind == "DEEPSPEED":
        plugin = state.deepspeed_plugin
        stage = plugin.zero_stage if plugin.zero_stage in (0, 1, 2, 3) else None
        places = {str(plugin.offload_optimizer_device), str(plugin.offload_param_device)} - {"none", "None"}
        obstacles = ("offloading to the host's memory",) if places else ()
        return stage, obstacles if stage is not None else (f"layout (ZeRO stage {plugin.zero_stage})",)
    if kind in ("NO", "MULTI_CPU", "MULTI_GPU"):
        return 0, ()
    return None, (f"layout ({kind}, which no law here knows)",)
