"""What was trained, from what a framework tells: a whole run spec, or its parts and the names of what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec

from wattlaw.errors import WattlawError
from wattlaw.hardware import Accelerator, accelerator
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunSpec
from wattlaw.run.record import RunRecord
from wattlaw.workload import Architecture, Recipe, from_mapping, step_cost
from wattlaw.workload.recipe import ADAPTER_TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: The accelerator that a CPU is recorded as; its peak rate is an assumption.
CPU = "generic-cpu"


@dataclass(slots=True)
class BatchShapes:
    """Counts what the device computes, from the shapes of the batches: shapes cost no synchronisation.

    Counted on one rank; the others train on batches drawn from the same data.
    """

    micro_steps: int = 0
    sequences: int = 0
    tokens: int = 0
    largest_batch: int = 0
    longest: int = 0
    longest_target: int = 0
    evaluated_tokens: int = 0

    def saw(self, shape: Sequence[int], target_shape: Sequence[int] | None = None, *, training: bool = True) -> None:
        """Take in one batch of shape ``[sequences, length]``; other shapes are no text and are passed over."""
        if len(shape) < 2:
            return
        batch_size, length = int(shape[0]), int(shape[1])
        if not training:
            self.evaluated_tokens += batch_size * length
            return
        self.micro_steps += 1
        self.sequences += batch_size
        self.tokens += batch_size * length
        self.largest_batch = max(self.largest_batch, batch_size)
        self.longest = max(self.longest, length)
        if target_shape is not None and len(target_shape) == 2:
            self.longest_target = max(self.longest_target, int(target_shape[1]))

    def saw_inputs(self, inputs: Mapping[str, Any], *, encoder_decoder: bool, training: bool) -> None:
        """Take in the named inputs of a model."""
        shape = next((_shape(inputs[name]) for name in _INPUTS if _shape(inputs.get(name))), None)
        if shape is not None:
            target = (_shape(inputs.get(name)) for name in _TARGETS)
            found = next((one for one in target if one), None) if encoder_decoder else None
            self.saw(shape, found, training=training)

    def recipe(self) -> dict[str, Any]:
        """Return the fields of a recipe that the batches tell."""
        if self.micro_steps == 0:
            return {}
        mean = self.tokens / self.sequences
        found = {
            "batch_size": self.largest_batch,
            "seq_len": self.longest,
            "padded_len": mean if mean < self.longest else None,
            "target_len": self.longest_target or None,
            "evaluation_fraction": self.evaluated_tokens / self.tokens,
        }
        return {name: value for name, value in found.items() if value is not None}


_INPUTS = ("input_ids", "inputs_embeds")
_TARGETS = ("decoder_input_ids", "labels")


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(getattr(value, "shape", ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """What is trained where not all is.

    Attributes:
        rank: of all low-rank adapters; ``None`` if there are none, or of several ranks.
        trained_parameters: how many numbers the optimizer updates.
        trained_share: of all.
    """

    rank: int | None
    trained_parameters: int
    trained_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What a framework tells of a training.

    Attributes:
        config: of the model, as Hugging Face's ``config.json`` has it; ``None`` if it has none.
        recipe: fields of ``Recipe`` that are known.
        layout: ``None`` if it is none that wattlaw knows.
        device: what the accelerator is called; ``None`` if there is none that has a name.
        power_limit_w: the limit that is set on each device; one that is not below its own is left out.
        adapters: ``None`` where every weight is trained.
        assumed: fields that nothing states.
        obstacles: why no spec can tell what was run, though its fields are known, such as offloading.
        doubts: what a reader should know.
    """

    config: Mapping[str, Any] | None
    recipe: Mapping[str, Any] = field(default_factory=dict)
    layout: Layout | None = None
    device: str | None = None
    power_limit_w: float | None = None
    adapters: Adapters | None = None
    assumed: tuple[str, ...] = ()
    obstacles: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


def described(draft: RunRecord, training: Training) -> RunRecord:
    """Return the draft of a record with the training's spec, or with its parts and what is missing."""
    return _Builder(training).fill(draft)


class _Builder:
    """Builds the parts one by one, and remembers what kept it from building the whole."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._missing = [*training.obstacles]
        self._doubts = [*training.doubts]

    def fill(self, draft: RunRecord) -> RunRecord:
        """Return the draft with what could be built."""
        training = self._training
        architecture = self._architecture()
        recipe = self._adapted(architecture, self._recipe())
        device = self._device()
        if training.layout is None:
            self._missing.append("layout")
        spec: RunSpec | None = None
        if architecture and recipe and device and training.layout and not self._missing:
            try:
                spec = RunSpec(
                    architecture=architecture,
                    recipe=recipe,
                    layout=training.layout,
                    accelerator=device,
                    power_limit_w=_below(training.power_limit_w, device.power_limit_w),
                    name=architecture.name,
                )
            except WattlawError as error:
                self._lacks("recipe.precision", error)
        notes = "; ".join(filter(None, (draft.notes, *self._doubts)))
        if spec is not None:
            return replace(draft, spec=spec, stated={}, missing=(), assumed=training.assumed, notes=notes)
        return replace(
            draft,
            spec=None,
            stated=dict(self._stated(architecture, device)),
            missing=tuple(dict.fromkeys(self._missing)),
            assumed=(),
            notes=notes,
        )

    def _architecture(self) -> Architecture | None:
        if self._training.config is None:
            self._missing.append("model")
            return None
        try:
            return from_mapping(self._training.config)
        except WattlawError as error:
            self._lacks("model", error)
            return None

    def _recipe(self) -> Recipe | None:
        known = self._training.recipe
        lacking = [
            f"recipe.{name}" for name in ("batch_size", "seq_len", "precision", "optimizer") if name not in known
        ]
        lacking += [] if known.get("steps") else ["recipe.steps"]
        self._missing += lacking
        try:
            return Recipe(**known) if not lacking else None
        except WattlawError as error:
            self._lacks("recipe", error)
            return None

    def _adapted(self, architecture: Architecture | None, recipe: Recipe | None) -> Recipe | None:
        """Find the adapters that train as many numbers as this training did: the count tells which projections."""
        adapters = self._training.adapters
        if adapters is None or architecture is None or recipe is None:
            return recipe
        for targets in ADAPTER_TARGETS if adapters.rank is not None else ():
            adapted = replace(recipe, adapter_rank=adapters.rank or 0, adapter_targets=targets)
            cost = step_cost(architecture, adapted, attention="full", head="counted")
            if cost.trained_parameters == adapters.trained_parameters:
                return adapted
        self._missing.append(f"frozen weights ({100 * adapters.trained_share:.3g} % are trained)")
        return None

    def _device(self) -> Accelerator | None:
        if self._training.device is None:
            self._missing.append("hardware.gpu")
            return None
        try:
            return accelerator(self._training.device)
        except WattlawError as error:
            self._lacks("hardware.gpu", error)
            return None

    def _lacks(self, name: str, error: WattlawError) -> None:
        self._missing.append(name)
        self._doubts.append(f"no run spec: {error}")

    def _stated(
        self, architecture: Architecture | None, device: Accelerator | None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        if architecture is not None:
            yield "model", {"architecture": msgspec.to_builtins(architecture)}
        if self._training.recipe:
            yield "recipe", dict(self._training.recipe)
        if device is not None:
            yield "hardware", {"gpu": device.reference}
        if (layout := self._training.layout) is not None:
            yield "layout", {"strategy": layout.strategy, "num_devices": layout.num_devices}


def _below(limit_w: float | None, own_w: float) -> float | None:
    """Keep a limit that changes something: at least a watt below the device's own."""
    return limit_w if limit_w is not None and limit_w < own_w - 1 else None
