"""Hugging Face ``config.json`` -> ``Architecture``: pure reading, no code of the model runs, nothing is downloaded."""

from __future__ import annotations

import warnings
from codecs import BOM_UTF8
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from wattlaw.errors import ConfigError, FileError, WattlawError, WattlawWarning, encoding_hint
from wattlaw.workload.families import FAMILIES, family_module
from wattlaw.workload.families.fields import Fields
from wattlaw.workload.families.task import ENDINGS, task_of

if TYPE_CHECKING:
    from os import PathLike

    from wattlaw.workload.architecture import Architecture


#: Model types whose blocks are those of another, with what their own classes take for a field that is absent.
SAME_BLOCKS: dict[str, tuple[str, dict[str, Any]]] = {
    "xlm-roberta": ("roberta", {}),
    "camembert": ("roberta", {}),
    "mt5": ("t5", {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
}

#: Model types of the classes that were published before a configuration named its own.
CLASSES = {
    "Bert": "bert",
    "Roberta": "roberta",
    "XLMRoberta": "xlm-roberta",
    "Camembert": "camembert",
    "DistilBert": "distilbert",
    "GPT2": "gpt2",
    "T5": "t5",
    "MT5": "mt5",
}

#: Fields of a text model within another that the whole model's file holds.
SHARED = (
    "architectures",
    "_name_or_path",
    "id2label",
    "tie_word_embeddings",
    "quantization_config",
    "torch_dtype",
    "dtype",
)
#: What the text part's class takes for a size that is absent: files of the whole model leave it out (Gemma Team 2025).
TEXT_SIZES = {"gemma3_text": {"num_attention_heads": 8, "vocab_size": 262_208}}

#: Types of weights that no optimizer updates.
QUANTISED = ("int", "uint", "float8", "float4")


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
        text = file.read_bytes().removeprefix(BOM_UTF8)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError("the model's configuration cannot be read", given=reason).at(file) from error
    try:
        content = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise FileError("the model's configuration is not JSON", given=error, hint=encoding_hint(text)).at(
            file
        ) from error
    try:
        return from_mapping(content, head=head, num_labels=num_labels)
    except WattlawError as error:
        error.at(file)
        raise


def from_mapping(mapping: Mapping[str, Any], *, head: str | None = None, num_labels: int | None = None) -> Architecture:
    """Read a model from the fields of a ``config.json``.

    The five sizes (layers, hidden size, heads, feed-forward size, vocabulary) must be there. Any other field that is
    absent has the value that the configuration class of Hugging Face transformers gives it, because published files
    are written without their defaults. Of a model of several parts (``text_config``) the text is read.

    Args:
        mapping: the fields.
        head: as in ``from_config``.
        num_labels: as in ``from_config``.

    Returns:
        the architecture.

    Raises:
        FileError: a field is missing or of the wrong type.
        ConfigError: the sizes cannot be built, or the weights are quantised.
        UnknownNameError: the model type or head is not known.

    Warns:
        WattlawWarning: other parts than the text are not counted.
    """
    if not isinstance(mapping, Mapping):
        raise FileError("the model's configuration is not a JSON object", given=type(mapping).__name__)
    mapping = _text_part(mapping)
    _refuse_quantised(mapping)
    family, defaults = _family(Fields(mapping))
    fields = Fields({**defaults, **mapping})
    try:
        module = family_module(family)
    except WattlawError as error:
        error.at("model_type")
        raise
    task = task_of(fields, head=head, num_labels=num_labels)
    architecture: Architecture = module.from_config(family, fields, task)
    name = mapping.get("_name_or_path")
    return replace(architecture, name=name if isinstance(name, str) else "")


def _family(fields: Fields) -> tuple[str, dict[str, Any]]:
    """Tell the family of a configuration, by its model type or else its class, and the defaults of its own."""
    kind = None if "model_type" in fields.mapping else _kind_of_class(fields.texts("architectures"))
    kind = fields.text("model_type") if kind is None else kind
    return SAME_BLOCKS.get(kind, (kind, {}))


def _kind_of_class(names: tuple[str, ...]) -> str | None:
    for name in names[:1]:
        for ending, _ in ENDINGS:
            if name.endswith(ending):
                return CLASSES.get(name.removesuffix(ending).removesuffix("With"))
    return None


def _text_part(mapping: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the text model within a model of several parts, and say that the others are not counted."""
    text, whole = mapping.get("text_config"), mapping.get("model_type")
    if not isinstance(text, Mapping) or whole in FAMILIES:
        return mapping
    kind = text.get("model_type") or f"{whole}_text"
    shared = {name: mapping[name] for name in SHARED if name in mapping}
    found = {**shared, **TEXT_SIZES.get(str(kind), {}), **text, "model_type": kind}
    if isinstance(mapping.get("architectures"), list):
        found["architectures"] = mapping["architectures"]
    if kind in FAMILIES:
        warnings.warn(
            f"only the text part ({kind}) of this {whole} is read: images and their encoder are not counted",
            WattlawWarning,
            stacklevel=2,
        )
    return found


def _refuse_quantised(mapping: Mapping[str, Any]) -> None:
    """Refuse weights of few bits: neither their memory nor their arithmetic is what a training in ``precision`` has."""
    hint = "the config.json of the model before it was quantised"
    why = (
        "quantised weights are not counted here: they are held in few bits, expanded for each product, and not trained"
    )
    if mapping.get("quantization_config") is not None:
        table = mapping["quantization_config"]
        method = table.get("quant_method") if isinstance(table, Mapping) else None
        raise ConfigError(why, given=method or "a quantization_config", allowed="none", hint=hint).at(
            "quantization_config"
        )
    for name in ("torch_dtype", "dtype"):
        kind = mapping.get(name)
        if isinstance(kind, str) and kind.removeprefix("torch.").startswith(QUANTISED):
            raise ConfigError(why, given=kind, allowed="float32, bfloat16, float16", hint=hint).at(name)
