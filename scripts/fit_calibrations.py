"""Fit the calibrations that wattlaw ships, from the measured tables beside the repository.

The tables themselves are not shipped: what goes into the package is what was fitted, with its provenance. So the law
ships without its residual's process, which keeps the runs that it was fitted to, and which says of two hosts what no
other host with the same GPU need share.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from measured_tables import FINE_TUNING, MEGATRON, STEP_TIMES, read_table, timed

from wattlaw.features.records import record_columns
from wattlaw.law.step import StepLaw
from wattlaw.law.step_terms import PARAMETERS

if TYPE_CHECKING:
    from wattlaw.law.calibration import Calibration

HERE = Path(__file__).resolve().parent
TARGET = HERE.parent / "src" / "wattlaw" / "law" / "data" / "bundled" / "step.json"
SOURCE = (
    "518 fine-tuning runs of BERT and GPT-2 on 1-6 A100-SXM4-40GB and RTX 2080 Ti, from the public artifact of "
    "'System-Aware Energy Prediction for Multi-GPU Transformer Training'; what GPUs and links have in common, also "
    "from published step times of Megatron on A100, of Selene, and of five other GPUs (vTrain, Korthikanti 2022, "
    "NeuSight)"
)
#: Step times that say what GPUs and links have in common.
TIMES = (MEGATRON, STEP_TIMES)
#: Left out of them, so that figures on this GPU are cold.
KEPT_COLD = "h100"


def main() -> None:
    """Write the calibration of the step law."""
    records = read_table(FINE_TUNING)
    calibration = StepLaw(residual=False).fit(record_columns(records))
    dated = replace(
        with_wider_common(calibration),
        provenance={**calibration.provenance, "source": SOURCE, "date": dt.datetime.now(dt.UTC).date().isoformat()},
    )
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    dated.save(TARGET)
    print(f"{TARGET.relative_to(HERE.parent)}: {len(records)} records, {TARGET.stat().st_size} bytes")
    for warning in dated.warnings:
        print(f"  {warning}")


def with_wider_common(calibration: Calibration) -> Calibration:
    """Learn what GPUs and links have in common from published step times as well.

    The machines of the calibration, its domain and its residuals stay what they are. So does the host's pace: whose
    software is not the eager one that launches are counted of says nothing about that.
    """
    records = [record for name in TIMES for record in timed(name)]
    records = [record for record in records if KEPT_COLD not in record.require_spec().accelerator.name]
    table = record_columns(records)
    sources = [record.source.split()[0] for record in records]
    names = [f"{machine} of {source}" for machine, source in zip(table.text("machine"), sources, strict=True)]
    wider = StepLaw(prior=calibration, residual=False).fit(table.with_columns(machine=np.array(names)))
    kept = {parameter.name for parameter in PARAMETERS if parameter.scope == "pace"}
    return replace(
        calibration,
        parameters={
            name: value if name in kept else wider.parameters[name] for name, value in calibration.parameters.items()
        },
    )


if __name__ == "__main__":
    main()
