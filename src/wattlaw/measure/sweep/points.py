"""A table of a sweep file as points: which keys it may have, and the values of its lists, paired."""

from __future__ import annotations

import inspect
import itertools
from typing import TYPE_CHECKING, Any

from wattlaw.errors import ConfigError, FileError, UnknownNameError
from wattlaw.measure.sweep.models import FAMILIES
from wattlaw.parallel.layout import Layout
from wattlaw.run.fields import (
    expect_list,
    expect_mapping,
    expect_number,
    expect_positive,
    expect_text,
    expect_whole,
    refuse_unknown,
)
from wattlaw.workload import from_sizes
from wattlaw.workload.families import family_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from wattlaw.workload import Architecture

RECIPE_NUMBERS = ("batch_size", "seq_len", "grad_accumulation")
RECIPE_NAMES = ("precision", "optimizer", "checkpointing", "attention_kernel")
LAYOUT_NUMBERS = ("num_devices", "tensor_parallel")
LAYOUT_KEYS = ("strategy", *LAYOUT_NUMBERS)
#: Sizes that grow with another one, so that one number serves every hidden size of a grid.
RATIOS = {"ffn_per_hidden": "ffn_size", "hidden_per_head": "num_heads"}
TEXT_KEYS = ("family", "head", "strategy", *RECIPE_NAMES)
REQUIRED = ("family", "strategy", "precision", *RECIPE_NUMBERS[:2])
#: Sizes that are flags, for which 0 is a value.
FLAGS = ("hidden_dropout", "attention_dropout", "embedding_dropout", "qkv_bias", "output_bias", "mlp_bias", "tied_head",
         "token_types", "window", "windowed_layers")  # fmt: skip


def architecture_of(point: Mapping[str, Any]) -> Architecture:
    """Build the model that a point asks for."""
    sizes = {key: value for key, value in point.items() if key in _size_keys(point["family"])}
    for ratio, size in RATIOS.items():
        if ratio not in point:
            continue
        if size in sizes:
            raise ConfigError(f"{size} is given twice", given=f"{size} and {ratio}", allowed="one of them").at(ratio)
        if "hidden_size" not in sizes:
            raise ConfigError("a key is missing").at("hidden_size")
        hidden, value = sizes["hidden_size"], point[ratio]
        if size == "num_heads" and hidden % value:
            raise ConfigError("hidden_per_head does not divide the hidden size", given=f"{value}, {hidden}").at(ratio)
        sizes[size] = hidden * value if size == "ffn_size" else hidden // value
    return from_sizes(point["family"], head=point.get("head"), num_labels=point.get("num_labels"), **sizes)


def _size_keys(family: str) -> tuple[str, ...]:
    if family not in FAMILIES:
        raise UnknownNameError.among("family", family, FAMILIES)
    parameters = inspect.signature(family_module(family).from_sizes).parameters
    return tuple(name for name, one in parameters.items() if one.kind is one.KEYWORD_ONLY and name != "traits")


def check_keys(mapping: Mapping[str, Any]) -> None:
    """Refuse unknown keys and values of the wrong kind, before combinations are left out for any reason."""
    families = _values("family", mapping.get("family", []))
    known = {key for family in families for key in _size_keys(expect_text("family", family))}
    others = ("num_labels", "power_limit_w", "repeats", *RATIOS, *TEXT_KEYS, *RECIPE_NUMBERS, *LAYOUT_NUMBERS)
    refuse_unknown("key", mapping, (*sorted(known), *others, "layouts"))
    _check_layouts(mapping)
    for key, value in mapping.items():
        if key == "layouts":
            continue
        for one in _values(key, value):
            if key in TEXT_KEYS:
                expect_text(key, one)
            elif key in FLAGS:
                expect_number(key, one)
            elif key == "power_limit_w":
                expect_positive(key, one)
            else:
                expect_whole(key, one)
    for strategy in _values("strategy", mapping.get("strategy", [])):
        _check_strategy(strategy)


def _check_layouts(mapping: Mapping[str, Any]) -> None:
    if "layouts" not in mapping:
        return
    for key in LAYOUT_KEYS:
        if key in mapping:
            raise ConfigError(f"{key} is given beside layouts", allowed="one of them").at(key)
    layouts = expect_list("layouts", mapping["layouts"])
    if not layouts:
        raise FileError("an empty list", allowed="at least one layout").at("layouts")
    for layout in layouts:
        table = expect_mapping("layouts", layout)
        refuse_unknown("key of a layout", table, LAYOUT_KEYS)
        _check_strategy(expect_text("strategy", table.get("strategy")))
        for key in LAYOUT_NUMBERS:
            if key in table:
                expect_whole(key, table[key])


def _check_strategy(strategy: str) -> None:
    """Refuse an unknown name: it is a slip of the pen and not a combination to leave out."""
    product = any(sign in strategy for sign in "x*×+")
    Layout.of(strategy, num_devices=1 if strategy == "single" else 4, tensor_parallel=2 if product else None)


def _values(key: str, value: object) -> list[Any]:
    values = list(value) if isinstance(value, list) else [value]
    if not values and isinstance(value, list) and key not in ("family", "strategy"):
        raise FileError("an empty list", allowed="at least one value").at(key)
    return values


def points_of(
    mapping: Mapping[str, Any], pair: Callable[[Mapping[str, Any]], Iterator[dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    """Pair the values of the lists, each pairing under every layout where those are listed."""
    rest = {key: value for key, value in mapping.items() if key != "layouts"}
    for point in pair(rest):
        for layout in mapping.get("layouts", [{}]):
            yield {**point, **layout}


def combinations(mapping: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Pair every value of each list with every one of the others."""
    lists = [_values(key, value) for key, value in mapping.items()]
    for values in itertools.product(*lists):
        yield dict(zip(mapping, values, strict=True))


def family_of(point: Mapping[str, Any]) -> str:
    """Name what runs of one configuration family share: everything but how they are divided over devices."""
    return repr(sorted((key, value) for key, value in point.items() if key not in LAYOUT_KEYS))


def side_by_side(mapping: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Pair the first values of all lists, the second ones, and so on."""
    lengths = {key: len(value) for key, value in mapping.items() if isinstance(value, list)}
    if len(set(lengths.values())) > 1:
        raise ConfigError("the lists are not equally long",
                          given=", ".join(f"{key} {length}" for key, length in lengths.items()))  # fmt: skip
    for place in range(next(iter(lengths.values()), 1)):
        yield {key: value[place] if isinstance(value, list) else value for key, value in mapping.items()}
