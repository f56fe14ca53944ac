"""One table of everything that laws read and that was measured, from records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wattlaw.features.counts import count_columns
from wattlaw.features.paper import ComputeDefinition, ProxySource, paper_columns
from wattlaw.features.physical import physical_columns, within

if TYPE_CHECKING:
    from wattlaw.features.table import Table
    from wattlaw.run.record import Boundary, RunRecord


def record_columns(
    records: Sequence[RunRecord],
    *,
    boundary: Boundary | None = None,
    compute: ComputeDefinition = "eq2",
    proxies: ProxySource = "spec",
) -> Table:
    """Return the columns of every law, one row per record.

    Args:
        records: whole runs (with a spec) that ended well.
        boundary: which energy to take; ``None`` takes each record's narrowest, the same for all.
        compute: how the paper's laws count C, equation (2) or as its follow-up's data does.
        proxies: whether C, M and steps are what a spec implies, or what a record observed.

    Raises:
        DataError: a failed run, a record without a spec, or energies within different boundaries.
    """
    table = paper_columns(records, compute=compute, proxies=proxies, boundary=boundary)
    specs = [record.require_spec() for record in records]
    physical = physical_columns(specs)
    if "boundary" in table and len(table):
        physical = within(str(table.text("boundary")[0]), physical)
    return table.with_columns(**physical.columns, **count_columns(specs).columns)


def usable(records: Sequence[RunRecord]) -> tuple[tuple[RunRecord, ...], int]:
    """Return the records that say what was run and that ended well, and how many others there are."""
    kept = tuple(record for record in records if record.spec is not None and record.status == "ok")
    return kept, len(records) - len(kept)
