"""Families of architectures, one file each: how their configurations are read and what their sizes mean.

A family is a module with ``MODEL_TYPES`` (values of ``model_type`` in a ``config.json``), ``DEFAULT_TASK``,
``from_config(family, fields, task)`` and ``from_sizes(family, task, **sizes)``, each returning an ``Architecture``.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wattlaw.errors import ConfigError, UnknownNameError
from wattlaw.workload.architecture import require_number
from wattlaw.workload.families import bert, gpt2, llama, moe, t5
from wattlaw.workload.families.task import TASKS, named_task

if TYPE_CHECKING:
    from types import ModuleType

    from wattlaw.workload.architecture import Architecture

#: The module of each model type.
FAMILIES: dict[str, ModuleType] = {
    model_type: module for module in (bert, gpt2, llama, t5, moe) for model_type in module.MODEL_TYPES
}

__all__ = ["FAMILIES", "TASKS", "family_module", "from_sizes"]


def family_module(family: str) -> ModuleType:
    """Find the module of a model type.

    Raises:
        UnknownNameError: no family has this type; the message lists the nearest.
    """
    if family not in FAMILIES:
        raise UnknownNameError.among("model_type", family, FAMILIES)
    return FAMILIES[family]


def from_sizes(
    family: str, *, head: str | None = None, num_labels: int | None = None, name: str = "", **sizes: Any
) -> Architecture:
    """Build a model of a family from its sizes, which may be columns of floats.

    Every family needs ``num_layers``, ``hidden_size``, ``num_heads``, ``ffn_size`` and ``vocab_size``; experts need
    ``num_experts`` and ``experts_per_token``. The rest (``num_kv_heads``, ``head_size``, ``max_positions``, ...) is
    the family's own, see its module.

    >>> from_sizes("gpt2", num_layers=12, hidden_size=768, num_heads=12, ffn_size=3072, vocab_size=50257).head
    'lm'

    Args:
        family: a model type, a key of ``FAMILIES``.
        head: ``lm``, ``mlm``, ``classification``, ...; what the family is pre-trained with where not given.
        num_labels: classes of a classification head, 2 where not given.
        name: of the model.
        sizes: of the model.

    Returns:
        the architecture.

    Raises:
        UnknownNameError: the family or a size is not known.
        ConfigError: a size is missing, or the sizes cannot be built.
    """
    module = family_module(family)
    parameters = inspect.signature(module.from_sizes).parameters
    known = {key: value for key, value in parameters.items() if value.kind is value.KEYWORD_ONLY and key != "traits"}
    for key in sizes:
        if key not in known:
            raise UnknownNameError.among(f"size of {family}", key, known)
    for key, value in sizes.items():
        require_number(key, value)
    missing = [key for key, value in known.items() if value.default is value.empty and key not in sizes]
    if missing:
        raise ConfigError(f"{family} needs {', '.join(missing)}", given=", ".join(sizes) or "none")
    task = named_task(module.DEFAULT_TASK if head is None else head, num_labels=num_labels)
    architecture: Architecture = module.from_sizes(family, task, **sizes)
    return _named(architecture, name)


def _named(architecture: Architecture, name: str) -> Architecture:
    return replace(architecture, name=name)
