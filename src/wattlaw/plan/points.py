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


def pareto_front(points: Points, *, across: str = "duration_s", along: str = "energy_j") -> Points:
    """Return the points that no other beats in both of two columns, the least ``across`` first.

    >>> import numpy as np
    >>> columns = {"duration_s": [1.0, 2.0, 3.0], "energy_j": [5.0, 6.0, 4.0], "group": [0.0, 0.0, 0.0]}
    >>> pareto_front(Points({name: np.array(values) for name, values in columns.items()}))["energy_j"].tolist()
    [5.0, 4.0]
    """
    ties = [points[name] for name in reversed(ORDER) if name in points]
    ordered = points.take(np.lexsort([*ties, points[along], points[across]]))
    values = ordered[along]
    before = np.concatenate([[np.inf], np.minimum.accumulate(values)[:-1]])
    return ordered.take(values < before)


def beaten(
    front: Points | None, first: NDArray[np.float64], second: NDArray[np.float64], *, across: str, along: str
) -> NDArray[np.bool_]:
    """Tell which pairs a front's points beat: as good in both columns, and better in one.

    So is whatever lies above a pair that is beaten, which makes this a test for lower bounds too.

    >>> import numpy as np
    >>> front = Points({"group": np.zeros(2), "x": np.array([1.0, 3.0]), "y": np.array([5.0, 4.0])})
    >>> beaten(front, np.array([1.0, 1.0, 2.0, 0.5]), np.array([5.0, 6.0, 5.0, 9.0]), across="x", along="y").tolist()
    [False, True, True, False]
    """
    if front is None or not len(front):
        return np.zeros(len(first), dtype=bool)
    values = front[along]
    place = np.searchsorted(front[across], first, side="right") - 1
    found: NDArray[np.bool_] = (place >= 0) & (values[place] < second)
    rest = np.flatnonzero(~found)  # most are beaten clearly, so that few need the second look
    place = np.searchsorted(front[across], first[rest], side="left") - 1
    found[rest] = (place >= 0) & (values[place] <= second[rest])
    return found
