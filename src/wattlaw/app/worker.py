"""Fits of uploaded records: each in a process of its own, which takes its memory with it and can be stopped.

``python -m wattlaw.app.worker LAW`` reads records from standard input and writes one JSON object: the answer, or the
error in a line.
"""

from __future__ import annotations

import asyncio
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import msgspec

from wattlaw.app.bodies import MOST_RECORDS
from wattlaw.errors import DataError, WattlawError


async def run_worker(law: str, records: bytes, *, seconds: float) -> bytes:
    """Fit in a new process and return the answer as JSON.

    Raises:
        DataError: what the fit was refused for, or it took too long.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "wattlaw.app.worker", law,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        answer, _ = await asyncio.wait_for(process.communicate(records), timeout=seconds)
    except TimeoutError:
        raise DataError(
            "the fit took too long", given=f"{seconds:g} s", hint="fewer records, or `wattlaw fit`"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        found = msgspec.json.decode(answer) if answer else {"error": "a fault of wattlaw"}
        raise DataError(found["error"])
    return answer


def fitted(law: str, content: bytes) -> dict[str, Any]:
    """Fit records, and lay out the law, its diagnostics and their figures.

    Raises:
        WattlawError: not records, too many, or a fit that does not end well.
    """
    from wattlaw.law.fitting import fit_records
    from wattlaw.law.laws import law_named
    from wattlaw.report.document import Figure
    from wattlaw.report.fit import fit_mapping
    from wattlaw.report.html import as_html, drawings
    from wattlaw.report.records_report import records_document
    from wattlaw.run.store import records_in

    law_named(law)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        records = records_in(content, place="records")
    if len(records) > MOST_RECORDS:
        raise DataError("too many records", given=len(records), allowed=MOST_RECORDS, hint="`wattlaw fit`")
    found = fit_records(records, law_name=law)
    document = records_document(records, found.calibration, fitted=True)
    drawn = drawings(document)
    mapping = fit_mapping(found, Path("law.json"))
    return {
        **{key: value for key, value in mapping.items() if key != "output"},
        "skipped": [str(one.message) for one in said],
        "calibration": found.calibration.to_mapping(),
        "figures": [
            {"name": block.name, "title": block.title, "alt": block.alt, "svg": drawn[block.name],
             "columns": block.table.columns, "rows": block.table.rows}
            for section in document.sections
            for block in section.blocks
            if isinstance(block, Figure)
        ],
        "report": as_html(document, drawn=drawn),
    }  # fmt: skip


def main() -> int:
    """Read records, write the answer."""
    try:
        answer, code = fitted(sys.argv[1], sys.stdin.buffer.read()), 0
    except WattlawError as error:
        answer, code = {"error": str(error), "kind": type(error).__name__}, 3
    sys.stdout.buffer.write(msgspec.json.encode(answer))
    return code


if __name__ == "__main__":
    raise SystemExit(main())
