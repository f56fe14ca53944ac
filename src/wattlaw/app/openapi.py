"""The JSON interface, described by OpenAPI from the values that requests are read into."""

from __future__ import annotations

from typing import Any

import msgspec

from wattlaw.app import bodies
from wattlaw.run.spec_file import HARDWARE_KEYS, LAYOUT_KEYS, MODEL_KEYS, RECIPE_KEYS

#: Route -> its method, what it takes, and what it is for.
ROUTES: dict[str, tuple[str, type[msgspec.Struct] | None, str]] = {
    "/api/predict": ("post", bodies.Question, "What a run will cost, and the run as TOML and as a command."),
    "/api/compare": ("post", bodies.Comparison, "Other layouts that train on the same tokens, each predicted."),
    "/api/explain": ("post", bodies.Question, "The energy tree by module and operation, and utilisation."),
    "/api/changes": ("post", bodies.Question, "What named changes of the run would do, each by itself."),
    "/api/plan": ("post", bodies.PlanQuestion, "The best ways to do the run's work under limits, and the front."),
    "/api/config": ("post", bodies.ConfigFile, "What a config.json describes."),
    "/api/fit": ("post", None, "A law fitted to records (lines of JSON, one each), with its diagnostics."),
    "/api/options": ("get", None, "The names that a run may hold."),
    "/api/examples": ("get", None, "Published trainings beside their predictions."),
}
#: The tables of a run and the keys of each, as in a spec file (docs/records.md).
TABLES = {"model": (*MODEL_KEYS, "config"), "recipe": RECIPE_KEYS, "hardware": HARDWARE_KEYS, "layout": LAYOUT_KEYS}
ERRORS = {
    "413": "the body is too large",
    "422": "the request cannot be answered; the line says what to mend",
    "503": "too much is asked at once; ask again in a moment",
}


def description() -> dict[str, Any]:
    """Describe every route."""
    from importlib import metadata

    kinds = [kind for _, kind, _ in ROUTES.values() if kind is not None]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    by_kind = dict(zip(kinds, schemas, strict=True))
    _describe_tables(components)
    components["Error"] = {
        "type": "object",
        "properties": {"error": {"type": "string"}, "kind": {"type": "string"}},
        "required": ["error", "kind"],
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "wattlaw",
            "version": metadata.version("wattlaw"),
            "summary": "What training a Transformer will cost, before it starts.",
            "description": "All numbers are in SI units, named at the end of each field. Nothing is kept between "
            "requests.",
        },
        "paths": {
            path: {method: _operation(path, by_kind.get(kind) if kind else None, text)}
            for path, (method, kind, text) in ROUTES.items()
        },
        "components": {"schemas": components},
    }


def _operation(path: str, schema: dict[str, Any] | None, text: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": path.rpartition("/")[2],
        "summary": text,
        "responses": {
            "200": {"description": "the answer", "content": {"application/json": {"schema": {"type": "object"}}}},
        },
    }
    if schema is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    if path == "/api/fit":
        found["requestBody"] = {"required": True, "content": {"application/x-ndjson": {"schema": {"type": "string"}}}}
        law = {"name": "law", "in": "query", "schema": {"type": "string", "default": "step"}}
        found["parameters"] = [law]
    if "requestBody" in found:
        error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
        found["responses"] |= {code: {"description": said, "content": error} for code, said in ERRORS.items()}
    return found


def _describe_tables(components: dict[str, Any]) -> None:
    """Name the keys of a run's tables, which a spec file's reader checks and not these values."""
    properties = components["Run"]["properties"]
    for name, keys in TABLES.items():
        properties[name] = {
            "type": "object",
            "description": f"Keys: {', '.join(dict.fromkeys(keys))}.",
            "propertyNames": {"enum": list(dict.fromkeys(keys))},
        }
