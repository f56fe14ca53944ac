"""From the values of one row to a record: complete where the source states a whole run, in parts where it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wattlaw.errors import DataError, WattlawError
from wattlaw.hardware import accelerator
from wattlaw.run.fields import expect_mapping, expect_positive, refuse_unknown
from wattlaw.run.record import Energy, RunRecord
from wattlaw.run.spec_file import (
    HARDWARE_KEYS,
    LAYOUT_KEYS,
    LAYOUT_NUMBERS,
    MODEL_FORMS,
    MODEL_KEYS,
    RECIPE_AMOUNTS,
    RECIPE_KEYS,
    RECIPE_NUMBERS,
    TABLES,
    spec_from_mapping,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: What a source, its map or its user must state before a run is known. A recipe has defaults for people who write
#: one; about a run that somebody else made, nothing is filled in that nobody has said.
REQUIRED = {
    "recipe": (
        "batch_size",
        "seq_len",
        "grad_accumulation",
        "precision",
        "optimizer",
        "checkpointing",
        "attention_kernel",
    ),
    "hardware": ("gpu",),
}


def build_record(
    *,
    tables: Mapping[str, Mapping[str, Any]],
    filled: Mapping[str, Any],
    assumed_fields: Iterable[str] = (),
    energies: Iterable[Mapping[str, Any]] = (),
    **fields: Any,
) -> RunRecord:
    """Build the record of one row.

    Args:
        tables: what the row states of the spec, by table; unknown keys are absent.
        filled: tables of a spec that fill in what the row does not state, from the user; ``check_filled`` before.
        assumed_fields: fields of the spec that the source does not state.
        energies: fields of each energy; one without ``energy_j`` is unknown and left out.
        fields: the record's other fields.

    Raises:
        WattlawError: the row cannot be read as a run; the field is named.
    """
    stated = {name: dict(table) for name, table in tables.items() if table}
    fills = sorted(_fill(stated, filled))
    missing = _missing(stated)
    assumed = tuple(dict.fromkeys((*assumed_fields, *fills)))
    known = tuple(Energy(**_complete(one)) for one in energies if one.get("energy_j") is not None)
    if missing:
        _check_parts(stated)
        return RunRecord(stated=stated, missing=missing, assumed=assumed, energies=known, **fields)
    spec = spec_from_mapping(stated, already_run=True)
    return RunRecord(spec=spec, assumed=assumed, energies=known, **fields)


def check_filled(filled: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the user's tables, or refuse names that no spec has, before the first row is read."""
    refuse_unknown("table", filled, ("name", *TABLES))
    for name, keys in (
        ("model", MODEL_KEYS),
        ("recipe", RECIPE_KEYS),
        ("hardware", HARDWARE_KEYS),
        ("layout", LAYOUT_KEYS),
    ):
        try:
            refuse_unknown("key", expect_mapping("table", filled.get(name, {})), keys)
        except WattlawError as error:
            error.at(f"[{name}]")
            raise
    return filled


def _check_parts(tables: Mapping[str, dict[str, Any]]) -> None:
    """Check what can be checked of a run that is not known as a whole, and give the accelerator its own name."""
    for name, table in tables.items():
        for key, value in table.items():
            if isinstance(value, (int, float)) and key not in (*LAYOUT_NUMBERS, *RECIPE_NUMBERS):
                expect_positive(f"[{name}]: {key}", value)
    if "gpu" in tables.get("hardware", {}):
        tables["hardware"]["gpu"] = accelerator(tables["hardware"]["gpu"]).name


def _fill(stated: dict[str, dict[str, Any]], filled: Mapping[str, Any]) -> Iterable[str]:
    """Add the user's values where the row has none, and name the fields; two different values are an error."""
    for name in TABLES:
        table = stated.setdefault(name, {})
        for key, value in dict(filled.get(name, {})).items():
            if key not in table:
                table[key] = value
                yield f"{name}.{key}"
            elif table[key] != value:
                raise DataError("the row and the spec disagree", given=table[key], allowed=value).at(f"{name}.{key}")
        if not table:
            del stated[name]


def _missing(tables: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    missing = [f"{name}.{key}" for name, keys in REQUIRED.items() for key in keys if key not in tables.get(name, {})]
    recipe, layout, model = (tables.get(name, {}) for name in ("recipe", "layout", "model"))
    if not any(amount in recipe for amount in RECIPE_AMOUNTS):
        missing.append("recipe.steps, samples or tokens")
    if "samples" in recipe and "epochs" not in recipe:
        missing.append("recipe.epochs")
    by_name = {"strategy", "num_devices", "num_nodes"}
    by_degree = {"data_parallel", "tensor_parallel", "zero_stage", "num_nodes"}
    if not (by_name <= set(layout) or by_degree <= set(layout)):
        missing += [f"layout.{key}" for key in sorted(by_name - set(layout))]
    if not any(set(keys) <= set(model) for keys in MODEL_FORMS):
        missing += [f"model.{key}" for key in MODEL_FORMS[-1] if key not in model]
    # A language model's head may cost as much as the rest of a small model.
    if "architecture" not in model and "head" not in model:
        missing.append("model.head")
    return tuple(missing)


def _complete(energy: Mapping[str, Any]) -> dict[str, Any]:
    for key in ("boundary", "method"):
        if key not in energy:
            raise DataError(f"an energy without its {key}", given=energy["energy_j"]).at("energies")
    return dict(energy)
