"""wattlaw: what training a Transformer will cost, before it starts.

>>> import wattlaw
>>> run = wattlaw.RunSpec(
...     architecture=wattlaw.preset("bert-base-uncased", head="classification"),
...     recipe=wattlaw.Recipe(batch_size=32, seq_len=128, precision="fp16", samples=67349, epochs=3),
...     layout=wattlaw.Layout.of("fsdp", num_devices=4),
...     accelerator=wattlaw.accelerator("NVIDIA GeForce RTX 2080 Ti"),
... )
>>> (prediction,) = wattlaw.predict([run], wattlaw.bundled())
>>> prediction.energy_j.low < prediction.energy_j.mid < prediction.energy_j.high
True

Importing wattlaw loads none of its parts: each name below is looked up where it is used first.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wattlaw.errors import WattlawError, WattlawWarning
    from wattlaw.hardware import accelerator
    from wattlaw.law.bundled import bundled
    from wattlaw.law.calibration import Calibration
    from wattlaw.law.fitting import fit_records
    from wattlaw.law.interval import Interval
    from wattlaw.law.loading import load_law
    from wattlaw.law.prediction import Prediction, predict
    from wattlaw.law.suggestion import suggest
    from wattlaw.parallel.layout import Layout
    from wattlaw.plan import Plan, Problem
    from wattlaw.run.spec import RunSpec
    from wattlaw.run.spec_file import read_spec
    from wattlaw.run.store import read_records
    from wattlaw.workload import Recipe, from_config, preset

__all__ = [
    "Calibration",
    "Interval",
    "Layout",
    "Plan",
    "Prediction",
    "Problem",
    "Recipe",
    "RunSpec",
    "WattlawError",
    "WattlawWarning",
    "accelerator",
    "bundled",
    "fit_records",
    "from_config",
    "load_law",
    "predict",
    "preset",
    "read_records",
    "read_spec",
    "suggest",
]

#: Where each public name is.
_MODULES = {
    "Calibration": "wattlaw.law.calibration",
    "Interval": "wattlaw.law.interval",
    "Layout": "wattlaw.parallel.layout",
    "Plan": "wattlaw.plan",
    "Prediction": "wattlaw.law.prediction",
    "Problem": "wattlaw.plan",
    "Recipe": "wattlaw.workload",
    "RunSpec": "wattlaw.run.spec",
    "WattlawError": "wattlaw.errors",
    "WattlawWarning": "wattlaw.errors",
    "accelerator": "wattlaw.hardware",
    "bundled": "wattlaw.law.bundled",
    "fit_records": "wattlaw.law.fitting",
    "from_config": "wattlaw.workload",
    "load_law": "wattlaw.law.loading",
    "predict": "wattlaw.law.prediction",
    "preset": "wattlaw.workload",
    "read_records": "wattlaw.run.store",
    "read_spec": "wattlaw.run.spec_file",
    "suggest": "wattlaw.law.suggestion",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is used first."""
    if name not in _MODULES:
        raise AttributeError(f"module 'wattlaw' has no attribute {name!r}")
    found = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """List the public names, whether they were used or not."""
    return [*globals(), *(name for name in __all__ if name not in globals())]
