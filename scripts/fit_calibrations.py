"""Fit the calibrations that wattlaw ships, from the measured tables beside the repository.

The tables themselves are not shipped: what goes into the package is what was fitted, with its provenance.
"""

from __future__ import annotations

import datetime as dt
import sys
from dataclasses import replace
from pathlib import Path

from wattlaw.features.records import record_columns
from wattlaw.law.step import StepLaw
from wattlaw.run.importers import import_csv, shipped_map

HERE = Path(__file__).resolve().parent
TABLE = HERE.parents[1] / "shared" / "data" / "bert_gpt_multi_gpu.csv"
TARGET = HERE.parent / "src" / "wattlaw" / "law" / "data" / "bundled" / "step.json"
SOURCE = (
    "518 fine-tuning runs of BERT and GPT-2 on 1-6 A100-SXM4-40GB and RTX 2080 Ti, from the public artifact of "
    "'System-Aware Energy Prediction for Multi-GPU Transformer Training'"
)


def main() -> None:
    """Write the calibration of the step law."""
    if not TABLE.is_file():
        sys.exit(f"{TABLE} is not here: the calibrations cannot be refitted, and stay as they are")
    imported = import_csv(TABLE, shipped_map("bert_gpt_multi_gpu"))
    calibration = StepLaw().fit(record_columns(imported.records))
    dated = replace(
        calibration,
        provenance={**calibration.provenance, "source": SOURCE, "date": dt.datetime.now(dt.UTC).date().isoformat()},
    )
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    dated.save(TARGET)
    print(f"{TARGET.relative_to(HERE.parent)}: {len(imported.records)} records, {TARGET.stat().st_size} bytes")
    for warning in dated.warnings:
        print(f"  {warning}")


if __name__ == "__main__":
    main()
