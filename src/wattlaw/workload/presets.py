"""Well-known models by name.

``data/presets.json`` holds the size fields of their published ``config.json`` files, and as aliases the exact
identifiers under which Hugging Face lists them. GPT-3 has no such file: its sizes are those of Brown et al. 2020
(arXiv 2005.14165, table 2.1), in the terms of GPT-2, every layer dense, no dropout.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec

from wattlaw.errors import UnknownNameError
from wattlaw.workload.config import from_mapping

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wattlaw.workload.architecture import Architecture


def presets() -> tuple[str, ...]:
    """List the names of the models that ship with wattlaw."""
    return tuple(_entries())


def preset(name: str, *, head: str | None = None, num_labels: int | None = None) -> Architecture:
    """Build a well-known model.

    The head is that of the published file, which for BERT is the pre-training head: give ``head="classification"``
    for fine-tuning on labels.

    >>> preset("gpt2-xl").hidden_size, preset("google-bert/bert-base-uncased", head="classification").num_labels
    (1600, 2)

    Args:
        name: one of ``presets()``, or an alias; exact, but for the case of letters.
        head: overrides the head.
        num_labels: overrides the number of labels.

    Returns:
        the architecture.

    Raises:
        UnknownNameError: the name is not known; the message lists the nearest.
    """
    canonical = _aliases().get(name.lower())
    if canonical is None:
        raise UnknownNameError.among("model", name, _aliases(), hint="a config.json, or a family and sizes")
    return replace(from_mapping(preset_config(canonical), head=head, num_labels=num_labels), name=canonical)


def preset_config(name: str) -> Mapping[str, Any]:
    """Return the fields of ``config.json`` that a preset, by its own name, is built from."""
    config: Mapping[str, Any] = _entries()[name]["config"]
    return config


@cache
def _entries() -> dict[str, dict[str, Any]]:
    text = resources.files("wattlaw.workload").joinpath("data/presets.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, dict[str, Any]])


@cache
def _aliases() -> dict[str, str]:
    return {alias.lower(): name for name, entry in _entries().items() for alias in (name, *entry["aliases"])}
