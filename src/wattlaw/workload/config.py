"""Hugging Face ``config.json`` -> ``Architecture``: pure reading, no code of the model runs, nothing is downloaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from wattlaw.errors import FileError, WattlawError
from wattlaw.workload.families import family_module
from wattlaw.workload.families.fields import Fields
from wattlaw.workload.families.task import task_of

if TYPE_CHECKING:
    from os import PathLike

    from wattlaw.workload.architecture import Architecture


def from_config(path: str | PathLike[str], *, head: str | None = None, num_labels: int | None = None) -> Architecture:
    """Read a model from a ``config.json``.

    Args:
        path: the file, or the folder that it is in.
        head: overrides the head that the file's ``architectures`` implies: ``lm``, ``mlm``, ``classification``, ...
        num_labels: overrides the number of labels, which the file's ``id2label`` states (2 where it does not).

    Returns:
        the architecture.

    Raises:
        FileError: the file cannot be read, is not JSON, or a field is missing or of the wrong type.
        ConfigError: the sizes cannot be built.
        UnknownNameError: the model type or head is not known.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "config.json"
    try:
        text = file.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError("the model's configuration cannot be read", given=reason).at(file) from error
    try:
        content = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise FileError("the model's configuration is not JSON", given=error).at(file) from error
    try:
        return from_mapping(content, head=head, num_labels=num_labels)
    except WattlawError as error:
        error.at(file)
        raise


def from_mapping(mapping: Mapping[str, Any], *, head: str | None = None, num_labels: int | None = None) -> Architecture:
    """Read a model from the fields of a ``config.json``.

    The five sizes (layers, hidden size, heads, feed-forward size, vocabulary) must be there. Any other field that is
    absent has the value that the configuration class of Hugging Face transformers gives it, because published files
    are written without their defaults.

    Args:
        mapping: the fields.
        head: as in ``from_config``.
        num_labels: as in ``from_config``.

    Returns:
        the architecture.

    Raises:
        FileError: a field is missing or of the wrong type.
        ConfigError: the sizes cannot be built.
        UnknownNameError: the model type or head is not known.
    """
    if not isinstance(mapping, Mapping):
        raise FileError("the model's configuration is not a JSON object", given=type(mapping).__name__)
    fields = Fields(mapping)
    family = fields.text("model_type")
    try:
        module = family_module(family)
    except WattlawError as error:
        error.at("model_type")
        raise
    task = task_of(fields, head=head, num_labels=num_labels)
    architecture: Architecture = module.from_config(family, fields, task)
    name = mapping.get("_name_or_path")
    return replace(architecture, name=name if isinstance(name, str) else "")
