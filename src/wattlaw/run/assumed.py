"""What a run spec leaves out and wattlaw fills in: nothing that is not said is silently guessed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from wattlaw.workload import Recipe


def assumed(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of recipe and layout that the tables of a spec file do not give, with the values they get.

    What stays unknown (``None``) is left out, and so is what has no meaning here: where LoRA's adapters sit when there
    are none.

    >>> found = assumed({"recipe": {"precision": "fp16"}, "layout": {"strategy": "ddp", "num_devices": 2}})
    >>> found["optimizer"], "precision" in found, "strategy" in found
    ('adamw', False, False)
    """
    recipe = tables.get("recipe") or {}
    found = {
        field.name: field.default
        for field in fields(Recipe)
        if field.name not in recipe and field.default is not MISSING and field.default is not None
    }
    if not recipe.get("adapter_rank"):
        found.pop("adapter_targets", None)
    return found if tables.get("layout") else {**found, "strategy": "single"}
