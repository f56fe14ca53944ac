"""What torch's objects tell of a training, for the callbacks of the frameworks; torch itself is not imported here."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from wattlaw.measure.description import CPU, Adapters, BatchShapes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wattlaw.workload.recipe import AttentionKernel, Optimizer, Precision

#: How far optimizers are wrapped in one another: accelerate's around DeepSpeed's around torch's.
DEEPEST_WRAPPING = 4

#: Class of an optimizer -> its name here.
_OPTIMIZERS: dict[str, Optimizer] = {
    "AdamW": "adamw",
    "FusedAdam": "adamw",
    "DeepSpeedCPUAdam": "adamw",
    "Adam": "adam",
    "Adafactor": "adafactor",
    "AdamW8bit": "adamw-8bit",
    "PagedAdamW8bit": "adamw-8bit",
}


def optimizer_name(optimizer: Any) -> Optimizer | None:
    """Tell the optimizer by its class; ``None`` if wattlaw does not know what its update costs."""
    for _ in range(DEEPEST_WRAPPING):
        inner = getattr(optimizer, "optimizer", None)
        if inner is None:
            break
        optimizer = inner
    name = type(optimizer).__name__
    if name == "SGD":
        groups = getattr(optimizer, "param_groups", ())
        return "momentum" if any(group.get("momentum") for group in groups) else "sgd"
    found = _OPTIMIZERS.get(name)
    # bitsandbytes has one class whose states have as many bits as it is told.
    bits = getattr(getattr(optimizer, "args", None), "optim_bits", None)
    return "adamw-8bit" if found == "adamw" and bits == 8 else found


def weights_precision(model: Any) -> Precision | None:
    """Tell the precision that the weights' own type implies, where nothing is cast."""
    kind = next((str(weight.dtype) for weight in model.parameters() if weight.dtype.is_floating_point), None)
    if kind == "torch.float32":
        torch = sys.modules["torch"]
        uses_tf32 = torch.cuda.is_available() and torch.get_float32_matmul_precision() != "highest"
        return "tf32" if uses_tf32 else "fp32"
    return {"torch.bfloat16": "bf16", "torch.float16": "fp16"}.get(str(kind))  # type: ignore[return-value]


def weights_doubts(precision: str | None, *, is_cast: bool) -> Iterator[str]:
    """Say so if the weights themselves are short, where the precision's name promises fp32 master weights."""
    if not is_cast and precision in ("bf16", "fp16"):
        yield f"the weights themselves are {precision}, without fp32 masters: memory and optimizer are overstated"


def adapters_of(model: Any) -> Adapters | None:
    """Tell the low-rank adapters of a model; ``None`` where every weight is trained.

    PEFT calls the first matrix of an adapter ``lora_A``; its rows are the rank. Where there is none, or ranks differ,
    the rank is ``None``.
    """
    total = trained = 0
    ranks = set()
    for name, weight in model.named_parameters():
        total += weight.numel()
        trained += weight.numel() * weight.requires_grad
        if ".lora_A." in name and weight.requires_grad:
            ranks.add(int(weight.shape[0]))
    if trained == total:
        return None
    return Adapters(
        rank=ranks.pop() if len(ranks) == 1 else None, trained_parameters=trained, trained_share=trained / total
    )


def device_name(kind: str, index: int | None = None) -> tuple[str | None, tuple[str, ...]]:
    """Return what the device is called and which fields are thereby assumed."""
    if kind == "cpu":
        return CPU, ("hardware.gpu",)
    if kind == "cuda":
        return str(sys.modules["torch"].cuda.get_device_name(index)), ()
    return None, ()


def model_config(model: Any) -> dict[str, Any] | None:
    """Return the fields of a Hugging Face model's configuration, with the class of the model itself."""
    config = getattr(model, "config", None)
    if config is None or not hasattr(config, "to_dict"):
        return None
    fields: dict[str, Any] = config.to_dict()
    return {**fields, "architectures": [type(model).__name__], "_name_or_path": getattr(config, "_name_or_path", "")}


def recomputes(model: Any) -> bool:
    """Tell whether the model recomputes activations in its backward pass; newer transformers call it differently."""
    for name in ("is_activation_checkpointing", "is_gradient_checkpointing"):
        if hasattr(model, name):
            return bool(getattr(model, name))
    return False


def attention_kernel(model: Any) -> AttentionKernel | None:
    """Tell whether the score matrix is written to memory."""
    implementation = getattr(getattr(model, "config", None), "_attn_implementation", None)
    if implementation is None:
        return None
    return "eager" if implementation == "eager" else "fused"


def unwrapped(model: Any) -> Any:
    """Return the module inside of DDP, FSDP, a compiled model or PEFT's adapters."""
    for _ in range(DEEPEST_WRAPPING):
        inner = getattr(model, "_orig_mod", None) or getattr(model, "module", None)
        if inner is None or not hasattr(inner, "parameters"):
            break
        model = inner
    # PEFT puts adapters into the model itself, so that the model inside has them too.
    return model.get_base_model() if hasattr(model, "peft_config") and hasattr(model, "get_base_model") else model


def recipe_of(
    model: Any, optimizer: Any, shapes: BatchShapes, *, steps: int, recomputing: bool, **stated: Any
) -> dict[str, Any]:
    """Gather the fields of a recipe that are known.

    Args:
        model: inside of what it is wrapped in.
        optimizer: ``None`` where there is not exactly one.
        shapes: of the batches that were seen; they go before what is stated.
        steps: optimizer steps that were made.
        recomputing: whether activations are recomputed in the backward pass.
        stated: what the framework says.
    """
    found = {
        **stated,
        "optimizer": optimizer_name(optimizer),
        "checkpointing": "full" if recomputing else "none",
        "attention_kernel": attention_kernel(model),
        "steps": steps or None,
        **shapes.recipe(),
    }
    return {name: value for name, value in found.items() if value is not None}
