"""The file of a run spec: TOML whose tables and keys are checked by name."""

from __future__ import annotations

import inspect
import tomllib
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from wattlaw.errors import ConfigError, FileError, UnknownNameError, WattlawError, encoding_hint
from wattlaw.hardware import accelerator, node_type
from wattlaw.parallel.layout import DEGREES, STRATEGIES, Layout
from wattlaw.run.fields import (
    expect_list,
    expect_mapping,
    expect_number,
    expect_positive,
    expect_text,
    expect_whole,
    refuse_unknown,
)
from wattlaw.run.files import write_atomic
from wattlaw.run.spec import RunSpec, check_runnable
from wattlaw.run.toml_text import toml_text
from wattlaw.workload import FAMILIES, Architecture, Recipe, Stack, from_config, from_sizes, preset

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: The tables of a spec file, beside the run's ``name``.
TABLES = ("model", "recipe", "hardware", "layout")

#: Fields of a recipe that are names; all others are numbers.
RECIPE_NAMES = ("precision", "optimizer", "checkpointing", "attention_kernel", "software", "adapter_targets")
RECIPE_KEYS = tuple(field.name for field in fields(Recipe))
RECIPE_AMOUNTS = ("steps", "samples", "tokens")
#: Of a recipe's numbers, the ones that may be 0.
RECIPE_NUMBERS = ("evaluation_fraction", "adapter_rank")

#: The ways to give a model: by what it is called, by its file, in full, or by its sizes.
MODEL_FORMS = (
    ("preset",),
    ("config",),
    ("architecture",),
    ("family", "num_layers", "hidden_size", "num_heads", "ffn_size", "vocab_size"),
)
#: Sizes and flags that one family or another takes; ``from_sizes`` says which.
SIZE_KEYS = tuple(
    dict.fromkeys(
        key
        for module in FAMILIES.values()
        for key, parameter in inspect.signature(module.from_sizes).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and key != "traits"
    )
)
#: What may be changed of a model however it is given.
HEAD_KEYS = ("head", "num_labels")
MODEL_KEYS = tuple(dict.fromkeys((*(form[0] for form in MODEL_FORMS), *SIZE_KEYS, *HEAD_KEYS)))

HARDWARE_KEYS = ("gpu", "node", "power_limit_w")

#: The two ways to give a layout: by the name of its strategy, or by its degrees.
LAYOUT_BY_NAME = ("strategy", "num_devices", *DEGREES, "num_nodes")
LAYOUT_BY_DEGREE = tuple(field.name for field in fields(Layout))
#: What either way may add.
LAYOUT_DETAILS = ("pipeline_interleaving", "sequence_parallel", "vocabulary_parallel")
#: Of all these, the ones that may be 0; the others count.
LAYOUT_NUMBERS = ("zero_stage", "sequence_parallel", "vocabulary_parallel")
LAYOUT_KEYS = tuple(dict.fromkeys((*LAYOUT_BY_NAME, *LAYOUT_BY_DEGREE)))

#: All keys of the tables whose values are texts.
TEXT_KEYS = ("preset", "config", "family", "head", *RECIPE_NAMES, "gpu", "node", "strategy")


def read_spec(path: str | Path) -> RunSpec:
    """Read a run spec from a TOML file; the file of a model's config is found relative to it.

    Raises:
        FileError: the file cannot be read or is no TOML.
        ConfigError, UnknownNameError: a value or name in it, or a combination, cannot be run.
    """
    path = Path(path)
    tables = read_toml(path)
    try:
        return spec_from_mapping(tables, path.parent)
    except WattlawError as error:
        error.at(path)
        raise


def write_spec(spec: RunSpec, path: str | Path) -> None:
    """Write a run spec as TOML, whole or not at all; the architecture is written out in full."""
    write_atomic(path, spec_text(spec))


def spec_text(spec: RunSpec) -> str:
    """Write a run spec as the text of its TOML file."""
    return toml_text(spec_to_mapping(spec))


def spec_to_mapping(spec: RunSpec) -> dict[str, Any]:
    """Lay a spec out in the tables of its file; reading them back gives an equal spec."""
    recipe = {key: getattr(spec.recipe, key) for key in RECIPE_KEYS}
    hardware = {
        "gpu": spec.accelerator.reference,
        "node": None if spec.node is None else spec.node.reference,
        "power_limit_w": spec.power_limit_w,
    }
    layout = {key: getattr(spec.layout, key) for key in ("strategy", "num_devices", *LAYOUT_BY_DEGREE)}
    mapping = {
        "name": spec.name,
        "model": {"architecture": msgspec.to_builtins(spec.architecture)},
        "recipe": _known(recipe),
        "hardware": _known(hardware),
        "layout": layout,
    }
    return {key: value for key, value in mapping.items() if value != ""}


def spec_from_mapping(
    mapping: Mapping[str, Any], base_folder: str | Path = ".", *, already_run: bool = False
) -> RunSpec:
    """Build a run spec from the tables of its file, and check that it can be run.

    Args:
        mapping: ``name`` and the tables ``model``, ``recipe``, ``hardware``, ``layout``.
        base_folder: what the path of a model's config is relative to.
        already_run: the run was made and recorded, so that nothing is left to check against the rules of
            frameworks: people did divide 3 heads over 2 devices, by dividing the MLP only.

    Raises:
        FileError: a value is not of the kind that its key needs.
        ConfigError, UnknownNameError: a value, name or combination that cannot be run.
    """
    tables = expect_mapping("run spec", mapping)
    refuse_unknown("table", tables, ("name", *TABLES))
    for name in ("model", "recipe", "hardware"):
        if name not in tables:
            raise ConfigError(f"table [{name}] is missing", allowed=", ".join(f"[{one}]" for one in TABLES))
    folder = Path(base_folder)
    hardware = _in_table("hardware", partial(_hardware, folder), tables["hardware"])
    spec = RunSpec(
        architecture=_in_table("model", partial(_architecture, folder), tables["model"]),
        recipe=_in_table("recipe", _recipe, tables["recipe"]),
        layout=_in_table("layout", _layout, tables.get("layout", {})),
        name=expect_text("name", tables.get("name", "")),
        **hardware,
    )
    return spec if already_run else check_runnable(spec)


def read_tables(path: str | Path) -> dict[str, Any]:
    """Read the tables of a spec file that need not be whole; the path of a model's config is made absolute.

    Raises:
        FileError: the file cannot be read or is no TOML.
        UnknownNameError: it has a table that no spec has.
    """
    path = Path(path)
    tables = read_toml(path)
    try:
        refuse_unknown("table", tables, ("name", *TABLES))
        found = {name: expect_mapping(f"[{name}]", tables[name]) for name in TABLES if name in tables}
        if "config" in found.get("model", {}):
            found["model"]["config"] = str((path.parent / expect_text("config", found["model"]["config"])).resolve())
    except WattlawError as error:
        error.at(path)
        raise
    return found


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        FileError: the file cannot be read or is no TOML; the line is named.
    """
    content = b""
    try:
        content = path.read_bytes()
        return tomllib.loads(content.decode("utf-8-sig"))
    except OSError as error:
        raise FileError("cannot read the file", given=error.strerror).at(path) from error
    except RecursionError as error:
        raise FileError("not a TOML file", given="tables within tables without end").at(path) from error
    except ValueError as error:
        raise FileError("not a TOML file", given=error, hint=encoding_hint(content)).at(path) from error


def _architecture(base_folder: Path, table: dict[str, Any]) -> Architecture:
    refuse_unknown("key", table, MODEL_KEYS)
    forms = [form[0] for form in MODEL_FORMS if form[0] in table]
    if len(forms) != 1:
        allowed = " | ".join(", ".join(form) for form in MODEL_FORMS)
        raise ConfigError("a model is given in one way", given=", ".join(forms) or "none", allowed=allowed)
    (form,) = forms
    own = set(table) - {form} - set(SIZE_KEYS if form == "family" else ())
    for key in sorted(own - set(HEAD_KEYS if form != "architecture" else ())):
        raise ConfigError(f"does not go with {form}", given=f"{key} and {form}", allowed="one of them").at(key)
    checked = {key: _MODEL_CHECKS.get(key, expect_text)(key, value) for key, value in table.items()}
    value = checked.pop(form)
    if form == "architecture":
        return _written_out(value)
    try:
        if form == "config":
            return from_config(base_folder / value, **checked)
        return preset(value, **checked) if form == "preset" else _from_sizes(value, checked)
    except WattlawError as error:
        error.at(form)
        raise


def _from_sizes(family: str, sizes: dict[str, Any]) -> Architecture:
    for key in MODEL_FORMS[-1][1:]:
        if key not in sizes:
            raise ConfigError(f"{key} is missing", allowed="a whole number >= 1")
    return from_sizes(family, **sizes)


def _written_out(table: dict[str, Any]) -> Architecture:
    """Build an architecture from all its fields, as ``write_spec`` and the records give it."""
    for place, part, kind in (
        ("architecture", table, Architecture),
        *(
            (f"architecture.stacks[{index}]", expect_mapping(f"architecture.stacks[{index}]", stack), Stack)
            for index, stack in enumerate(expect_list("architecture.stacks", table.get("stacks", [])))
        ),
    ):
        known = [field.name for field in fields(kind)]
        for key in part:
            if key not in known:
                raise UnknownNameError.among("key", key, known).at(f"{place}.{key}")
    try:
        return msgspec.convert(table, Architecture)
    except msgspec.ValidationError as error:
        raise FileError("not an architecture", given=error).at("architecture") from error
    except WattlawError as error:
        error.at("architecture")
        raise


#: How each value of a model is read, where it is not a text.
_MODEL_CHECKS: dict[str, Callable[[str, object], Any]] = {
    "architecture": expect_mapping,
    "num_labels": expect_whole,
    **dict.fromkeys(SIZE_KEYS, expect_number),
}


def _recipe(table: dict[str, Any]) -> Recipe:
    refuse_unknown("key", table, RECIPE_KEYS)
    for key in ("batch_size", "seq_len"):
        if key not in table:
            raise ConfigError("a key is missing", allowed="a whole number >= 1").at(key)
    return Recipe(**{key: _RECIPE_CHECKS.get(key, expect_number)(key, value) for key, value in table.items()})


#: How each value of a recipe is read, where it is not any number.
_RECIPE_CHECKS: dict[str, Callable[[str, object], Any]] = {
    **dict.fromkeys(("batch_size", "seq_len", "target_len", "grad_accumulation"), expect_whole),
    **dict.fromkeys(RECIPE_NAMES, expect_text),
}


def _hardware(base_folder: Path, table: dict[str, Any]) -> dict[str, Any]:
    refuse_unknown("key", table, HARDWARE_KEYS)
    if "gpu" not in table:
        raise ConfigError("a key is missing", allowed="the name of an accelerator", hint="'wattlaw hardware list'").at(
            "gpu"
        )
    found: dict[str, Any] = {"accelerator": _named("gpu", accelerator, table["gpu"], base_folder)}
    if "node" in table:
        found["node"] = _named("node", node_type, table["node"], base_folder)
    if "power_limit_w" in table:
        found["power_limit_w"] = expect_positive("power_limit_w", table["power_limit_w"])
    return found


def _layout(table: dict[str, Any]) -> Layout:
    refuse_unknown("key", table, LAYOUT_KEYS)
    whole: dict[str, Any] = {
        key: expect_number(key, value) if key in LAYOUT_NUMBERS else expect_whole(key, value)
        for key, value in table.items()
        if key != "strategy"
    }
    strategy = expect_text("strategy", table["strategy"]) if "strategy" in table else None
    if not set(table) <= {*LAYOUT_BY_NAME, *LAYOUT_DETAILS}:
        layout = Layout(**{key: whole[key] for key in LAYOUT_BY_DEGREE if key in whole})
        for key, said in (("strategy", strategy), ("num_devices", whole.get("num_devices"))):
            if said is not None and said != getattr(layout, key):
                raise ConfigError("disagrees with the degrees", given=said, allowed=getattr(layout, key)).at(key)
        return layout
    if strategy is None and set(whole) - {"num_nodes"}:
        raise ConfigError("a key is missing", allowed=", ".join(STRATEGIES)).at("strategy")
    details = {key: whole.pop(key) for key in LAYOUT_DETAILS if key in whole}
    return replace(Layout.of("single" if strategy is None else strategy, **whole), **details)


def _named(key: str, lookup: Callable[[str], Any], name: object, base_folder: Path) -> Any:
    try:
        text = expect_text("name", name)
        return lookup(str((base_folder / text).resolve()) if text.lower().endswith(".toml") else text)
    except WattlawError as error:
        error.at(key)
        raise


def _in_table(name: str, build: Callable[[dict[str, Any]], Any], table: object) -> Any:
    try:
        return build(expect_mapping("table", table))
    except WattlawError as error:
        error.at(f"[{name}]")
        raise


def _known(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value is not None}
