"""What kind of file a path holds, told by what only files of that kind have: who hands over another is told so.

A file that is of no kind that is known here is left to whoever reads it.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from pathlib import Path
from typing import Literal

from wattlaw.errors import FileError

Kind = Literal[
    "a run spec", "a sweep", "records", "a fitted law", "a model's config.json", "a tariff", "a column map", "a plan"
]

#: What takes a file of each kind.
TAKEN_BY: dict[Kind, str] = {
    "a run spec": "'wattlaw predict', plan, explain, compare or report",
    "a sweep": "'wattlaw measure' or 'wattlaw suggest'",
    "records": "'wattlaw fit', evaluate or report",
    "a fitted law": "--law",
    "a model's config.json": "--config",
    "a tariff": "--tariff",
    "a column map": "'wattlaw import csv --columns'",
    "a plan": "'wattlaw report'",
}
#: So much of a file tells.
READ_BYTES = 65536
#: Tables of TOML that no other kind of file has.
TABLES: dict[str, Kind] = {
    "grid": "a sweep",
    "measuring": "a sweep",
    "zones": "a tariff",
    "records": "a column map",
    "recipe": "a run spec",
}
#: The same of JSON, where the first found tells.
JSON_MARKS: tuple[tuple[bytes, Kind], ...] = (
    (rb'^\s*\{\s*"schema"\s*:', "records"),
    (rb'^\s*\{\s*"format"\s*:\s*"wattlaw calibration"', "a fitted law"),
    (rb'"num_configurations"\s*:', "a plan"),
    (rb'"(model_type|architectures|transformers_version)"\s*:', "a model's config.json"),
)


def kind_of(path: Path) -> Kind | None:
    """Recognise a file; ``None`` for a folder, a file that cannot be read, or one that nothing here wrote."""
    try:
        with path.open("rb") as file:
            start = file.read(READ_BYTES).removeprefix(BOM_UTF8)
    except (OSError, ValueError):
        return None
    if start.lstrip().startswith(b"{"):
        return next((kind for mark, kind in JSON_MARKS if re.search(mark, start)), None)
    named = re.findall(rb"^\[+\s*(\w+)", start, re.MULTILINE)
    found = {TABLES[name.decode()] for name in named if name.decode("ascii", "replace") in TABLES}
    return found.pop() if len(found) == 1 else None


def require_kind(path: Path, wanted: tuple[Kind, ...]) -> None:
    """Refuse a file that is of another kind.

    Raises:
        FileError: says which kind it is, and what takes it.
    """
    found = kind_of(path)
    if found is not None and found not in wanted:
        raise FileError(
            "another kind of file", given=found, allowed=" or ".join(wanted), hint=f"it with {TAKEN_BY[found]}"
        ).at(path)
