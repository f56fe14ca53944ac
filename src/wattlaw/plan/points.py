"""Configurations with what they take, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from wattlaw.plan.space import CHOICE_COLUMNS

#: What a configuration takes, beside what it is. Money and carbon are there where their prices are.
TAKEN_COLUMNS = ("memory_bytes", "duration_s", "energy_j", "max_power_w")
#: The numbers that order configurations which are equally good: faster, less energy, fewer devices and so on.
ORDER = ("duration_s", "energy_j", "memory_bytes", "num_devices", "group", *CHOICE_COLUMNS)


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Columns of one length, one entry per configuration; a new value is made, none changed.

    Attributes:
        columns: ``group`` (its place in the list of groups), the columns of ``CHOICE_COLUMNS``, ``num_devices``, and
            what the configurations take.
    """

    columns: Mapping[str, NDArray[np.float64]]

    def __len__(self) -> int:
        return len(self.columns["group"])

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        return self.columns[name]

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def take(self, rows: Any) -> Self:
        """Return some rows, by mask or positions."""
        return type(self)({name: values[rows] for name, values in self.columns.items()})

    def with_columns(self, **columns: NDArray[np.float64]) -> Self:
        """Return the points with columns added or replaced."""
        return type(self)({**self.columns, **columns})

    def row(self, place: int) -> dict[str, float]:
        """Return one configuration as numbers."""
        return {name: float(values[place]) for name, values in self.columns.items()}

    @classmethod
    def joined(cls, parts: Iterable[Points]) -> Self:
        """Stack points with the same columns."""
        kept = list(parts)
        return cls({name: np.concatenate([part[name] for part in kept]) for name in kept[0].columns})


def first(points: Points, key: NDArray[np.float64], count: int) -> Points:
    """Return the ``count`` points whose ``key`` is least, in order; what is equal stands in the order of ``ORDER``.

    The result does not depend on the order of the points.
    """
    if len(points) > count:
        limit = np.partition(key, count - 1)[count - 1]
        kept = key <= limit
        points, key = points.take(kept), key[kept]
    ties = [points[name] for name in reversed(ORDER) if name in points]
    return points.take(np.lexsort([*ties, key])[:count])


def pareto_front(points: Points) -> Points:
    """Return the points that no other beats in both time and energy, fastest first.

    >>> import numpy as np
    >>> columns = {"duration_s": [1.0, 2.0, 3.0], "energy_j": [5.0, 6.0, 4.0], "group": [0.0, 0.0, 0.0]}
    >>> pareto_front(Points({name: np.array(values) for name, values in columns.items()}))["energy_j"].tolist()
    [5.0, 4.0]
    """
    ordered = first(points, points["duration_s"], len(points))
    energy_j = ordered["energy_j"]
    before = np.concatenate([[np.inf], np.minimum.accumulate(energy_j)[:-1]])
    return ordered.take(energy_j < before)
