"""Runs: what is run (``RunSpec``), what was seen of it (``RunRecord``), how much work it is, and where both are kept.

::

    spec       what is run; its file: spec_file      amount   steps and tokens of a recipe on a layout
    record     one run as it was seen               store    append-only lines of JSON
    importers  other people's figures -> records
"""

from wattlaw.run.amount import Schedule, schedule
from wattlaw.run.files import write_atomic
from wattlaw.run.record import Energy, RunRecord
from wattlaw.run.spec import RunSpec, check_fits, check_runnable
from wattlaw.run.spec_file import read_spec, read_tables, spec_from_mapping, spec_to_mapping, write_spec
from wattlaw.run.store import add_new_records, append_record, append_records, read_records, read_stores

__all__ = [
    "Energy",
    "RunRecord",
    "RunSpec",
    "Schedule",
    "add_new_records",
    "append_record",
    "append_records",
    "check_fits",
    "check_runnable",
    "read_records",
    "read_spec",
    "read_stores",
    "read_tables",
    "schedule",
    "spec_from_mapping",
    "spec_to_mapping",
    "write_atomic",
    "write_spec",
]
