"""Protocols: lists of splits into rows to fit on and rows to predict. Every law is judged on the same ones.

Rows of one configuration family (runs that differ in strategy and device count only) never stand on both sides of a
grouped split, because they share most of what decides their energy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from wattlaw.errors import ConfigError, DataError, UnknownNameError

if TYPE_CHECKING:
    from wattlaw.features.table import Table

ProtocolName = Literal["grouped", "leave-one-gpu-out", "few-runs", "suggested", "small-to-large", "cold"]
PROTOCOLS: tuple[ProtocolName, ...] = get_args(ProtocolName)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Rows to fit on and rows to predict, as positions in the table, and what the split is called."""

    name: str
    train: NDArray[np.intp]
    test: NDArray[np.intp]


def splits(
    table: Table, protocol: str, *, num_splits: int = 20, test_fraction: float = 0.3, num_runs: int = 4, seed: int = 0
) -> tuple[Split, ...]:
    """List the splits of a protocol over a table with the text columns ``group`` and ``machine``.

    ``grouped``: whole groups drawn at random into training and test. ``leave-one-gpu-out``: each machine is
    predicted from all others. ``few-runs``: the same, with ``num_runs`` random runs of the machine in training.
    ``suggested``: the same with the runs that ``wattlaw suggest`` would choose from what the other machines taught.
    ``small-to-large``: trained on the runs with less work than the median, tested on the others. ``cold``: the
    splits of ``leave-one-gpu-out``, of which a law that can do without runs sees none (``cold``).

    Raises:
        ConfigError: a number of splits, fraction or number of runs that is none.
        DataError: the table has too few groups or machines for the protocol.
        UnknownNameError: no such protocol.
    """
    if num_splits < 1 or num_runs < 0 or not 0 < test_fraction < 1:
        raise ConfigError(
            "a protocol needs splits",
            given=f"splits {num_splits}, test fraction {test_fraction}, runs {num_runs}",
            allowed="splits >= 1, 0 < test fraction < 1, runs >= 0",
        )
    rng = np.random.default_rng(seed)
    match protocol:
        case "grouped":
            return tuple(_grouped(table, num_splits, test_fraction, rng))
        case "leave-one-gpu-out" | "cold":
            return tuple(_machines(table, 1, 0, rng))
        case "few-runs":
            return tuple(_machines(table, num_splits, num_runs, rng))
        case "suggested":
            return tuple(_suggested(table, num_runs, seed))
        case "small-to-large":
            return (_small_to_large(table),)
    raise UnknownNameError.among("protocol", protocol, PROTOCOLS)


def _grouped(table: Table, num_splits: int, test_fraction: float, rng: np.random.Generator) -> Iterator[Split]:
    names, member = np.unique(table.text("group"), return_inverse=True)
    num_test = round(test_fraction * len(names))
    if num_test < 1 or num_test >= len(names):
        raise DataError(
            "too few configuration families to split",
            given=f"{len(names)}, test fraction {test_fraction:g}",
            allowed="one or more on both sides",
        )
    for number in range(num_splits):
        held_out = np.isin(member, rng.permutation(len(names))[:num_test])
        yield Split(name=f"split {number}", train=np.flatnonzero(~held_out), test=np.flatnonzero(held_out))


def _machines(table: Table, num_splits: int, num_runs: int, rng: np.random.Generator) -> Iterator[Split]:
    machines = table.text("machine")
    names = np.unique(machines)
    if len(names) < 2:
        raise DataError("one GPU model only: none can be left out", given=", ".join(names), allowed="two or more")
    for name in names:
        rows, others = np.flatnonzero(machines == name), np.flatnonzero(machines != name)
        if len(rows) <= num_runs:
            raise DataError(f"too few runs on {name}", given=len(rows), allowed=f"more than {num_runs}")
        for number in range(num_splits):
            seen = rng.permutation(rows)[:num_runs]
            label = f"{name}, draw {number}" if num_runs else str(name)
            yield Split(name=label, train=np.concatenate([others, seen]), test=np.setdiff1d(rows, seen))


def _suggested(table: Table, num_runs: int, seed: int) -> Iterator[Split]:
    from wattlaw.law.evaluation.suggested import suggested_rows

    for cut in _machines(table, 1, 0, np.random.default_rng(seed)):
        if len(cut.test) <= num_runs or num_runs < 1:
            raise DataError(
                f"too few runs on {cut.name}, or none to suggest",
                given=f"{len(cut.test)} and {num_runs}",
                allowed="more than are suggested, and 1 or more of these",
            )
        seen = suggested_rows(table, cut.name, num_runs, seed=seed)
        yield Split(
            name=f"{cut.name}, suggested", train=np.concatenate([cut.train, seen]), test=np.setdiff1d(cut.test, seen)
        )


def _small_to_large(table: Table) -> Split:
    work = table.positive("compute_proxy")
    small = work < np.median(work)
    if not small.any():  # half of the runs, or more, do the least work
        small = work == work.min()
    if small.all():
        raise DataError("every run does the same work: none is larger than the others", given=f"{len(table)} runs")
    return Split(name="small to large", train=np.flatnonzero(small), test=np.flatnonzero(~small))
