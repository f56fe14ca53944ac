"""How well a probe alone predicts what was then measured: ``probe_check.py HOST.json RECORDS.jsonl...``.

Prints, by strategy, of |ln(predicted / measured)| of the step's time its median, its mean, and its mean about the
median ratio, with the shipped calibration (cold) and with the probe's; and the same of the accelerators' energy, where
the records have it. Set-up is left out of the predictions, because a sweep's records leave it out; so is the host's
power, which is not the accelerators'.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wattlaw.law.bundled import bundled
from wattlaw.law.calibration import Calibration
from wattlaw.law.prediction import predict
from wattlaw.run import read_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wattlaw.run import RunRecord

Errors = dict[str, dict[str, dict[str, float]]]


def check(host: Calibration, records: Sequence[RunRecord]) -> Errors:
    """Return errors by target, by strategy, and by calibration."""
    kept = [record for record in records if record.spec is not None and record.status == "ok"]
    found: dict[tuple[str, str, str], list[float]] = {}
    for name, calibration in (("cold", bundled()), ("probed", host)):
        for record, prediction in zip(kept, predict([one.require_spec() for one in kept], calibration), strict=True):
            spec = record.require_spec()
            for target, measured, terms, left_out in _targets(record, prediction.terms_s, prediction.terms_j):
                told = sum(value for term, value in terms.items() if term != left_out)
                strategy = f"{spec.layout.strategy} x{int(spec.layout.num_devices)}"
                for place in (strategy, "all"):
                    found.setdefault((target, place, name), []).append(math.log(told / measured))
    errors: Errors = {}
    for (target, place, name), values in found.items():
        row = errors.setdefault(target, {}).setdefault(place, {"num_records": len(values)})
        sizes = [abs(value) for value in values]
        row[f"{name}_median_abs_log"] = round(statistics.median(sizes), 4)
        row[f"{name}_mean_abs_log"] = round(statistics.mean(sizes), 4)
        middle = statistics.median(values)
        row[f"{name}_median_ratio"] = round(math.exp(middle), 4)
        # What a busier or a quieter hour leaves as it is: how far the ratios are from their median.
        row[f"{name}_mean_abs_log_about_median"] = round(statistics.mean(abs(value - middle) for value in values), 4)
    return errors


def _targets(
    record: RunRecord, terms_s: Mapping[str, float], terms_j: Mapping[str, float]
) -> Iterator[tuple[str, float, Mapping[str, float], str]]:
    """Yield what was measured, with the terms that predict it and the one that it leaves out."""
    if record.duration_s is not None:
        yield "duration_s", record.duration_s, terms_s, "setup"
    for energy in record.energies:
        if energy.boundary == "accelerators" and energy.method != "declared":
            yield "energy_j", energy.energy_j, terms_j, "host"


def main() -> None:
    """Print the errors as JSON."""
    host, *paths = map(Path, sys.argv[1:])
    records = [record for path in paths for record in read_records(path)]
    print(json.dumps(check(Calibration.load(host), records), indent=2))


if __name__ == "__main__":
    main()
