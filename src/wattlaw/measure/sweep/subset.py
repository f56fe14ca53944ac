"""Some of a sweep's configurations as a sweep of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattlaw.run.spec_file import read_toml
from wattlaw.run.toml_text import toml_text

if TYPE_CHECKING:
    from wattlaw.measure.sweep.spec import Planned


def subset_text(
    path: str | Path, runs: Sequence[Planned], *, name: str, gpu: str | None = None, notes: Sequence[str] = ()
) -> str:
    """Write a sweep file with each of the ``runs`` once, measured as the file at ``path`` says, without controls.

    Args:
        path: of the sweep that the runs are of; paths in it become absolute, so that the text can be put anywhere.
        runs: samples, not controls.
        name: of the new sweep.
        gpu: overrides the accelerator.
        notes: lines of comment at the top.

    Raises:
        FileError: the sweep cannot be read.
    """
    tables = read_toml(Path(path))
    folder = Path(path).resolve().parent
    hardware = dict(tables.get("hardware", {})) | ({} if gpu is None else {"gpu": gpu})
    head: dict[str, Any] = {"name": name}
    if "seed" in tables:
        head["seed"] = tables["seed"]
    head["hardware"] = _absolute(hardware, "gpu", folder, only=".toml")
    if "measuring" in tables:
        head["measuring"] = _absolute(tables["measuring"], "tokens", folder)
    parts = ["".join(f"# {note}\n" for note in notes) + toml_text(head)]
    parts += ["[[list]]\n" + toml_text(run.point) for run in runs]
    return "\n".join(parts)


def _absolute(table: Mapping[str, Any], key: str, folder: Path, *, only: str = "") -> dict[str, Any]:
    if key not in table or not str(table[key]).endswith(only):
        return dict(table)
    return {**table, key: str((folder / table[key]).resolve())}
