"""The measured tables beside the repository: what others measured, each read through the map that is shipped for it."""

from __future__ import annotations

from pathlib import Path

from wattlaw.errors import DataError
from wattlaw.features.records import usable
from wattlaw.run.importers import import_csv, shipped_map
from wattlaw.run.record import RunRecord

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"
#: BERT and GPT-2 fine-tuned on one and several GPUs, with energy and time.
FINE_TUNING = "bert_gpt_multi_gpu"
#: Iterations of Megatron on A100 under many splits, and published steps of other machines: times only.
MEGATRON = "step_times_megatron_a100"
STEP_TIMES = "step_times"


def read_table(name: str) -> tuple[RunRecord, ...]:
    """Read every run of a table.

    Raises:
        DataError: the table is not here.
    """
    path = FOLDER / f"{name}.csv"
    if not path.is_file():
        raise DataError("the measured tables are not here", given=path.name)
    return import_csv(path, shipped_map(name)).records


def timed(name: str) -> tuple[RunRecord, ...]:
    """Read the runs of a table that are stated whole and have a time."""
    records, _ = usable(read_table(name))
    return tuple(record for record in records if record.duration_s is not None)
