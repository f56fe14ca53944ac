"""The public file of the paper's follow-up, ``data/configurations.csv``, as its authors publish it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wattlaw.run.importers.mapped_csv import import_csv
from wattlaw.run.importers.maps import shipped_map

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wattlaw.run.importers.result import Import


def import_authors(path: str | Path, *, gpus: Mapping[str, str] | None = None) -> Import:
    """Turn the authors' file into records.

    Source: public artifact of "System-Aware Energy Prediction for Multi-GPU Transformer Training". What the file
    does not state and the map assumes (optimizer, attention kernel, vocabulary) is named in ``assumed``.

    Args:
        path: the file.
        gpus: accelerators by what the file calls them, where that name (``V100``) could mean several.

    Raises:
        FileError: the file cannot be read.
        UnknownNameError: it lacks a column of the published file, or ``gpus`` has a name that no row has.
    """
    return import_csv(path, shipped_map("authors_configurations"), gpus=gpus)
