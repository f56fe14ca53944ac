"""Sweeps: many configurations, measured one after another on this machine, each ending as a run record.

::

    spec        the sweep file -> the list of runs      steadiness  warm-up, number of steps, spread
    points      a grid or a list -> configurations
    runner      the parent: asks, records, resumes      stopping    Ctrl-C
    pool        the ranks as the parent sees them       metering    meters and power limits per configuration
    worker      one rank                                surroundings  versions, processor, clocks
    training    a model and its optimizer in a rank     models      Hugging Face models from sizes alone
    strategies/ how a model is divided, one per file    data        random tokens, or a tokenised text
    gate        the loss check that every kind of run passes first

Only the ranks import torch and transformers: ``import wattlaw.measure.sweep`` loads neither.
"""

from wattlaw.measure.sweep.metering import MachineMeters, SweepMeter, no_meter
from wattlaw.measure.sweep.pool import Pool, PoolError
from wattlaw.measure.sweep.runner import Progress, SweepResult, run_sweep
from wattlaw.measure.sweep.spec import (
    Measuring,
    Planned,
    Sweep,
    configuration_id,
    read_sweep,
    sweep_from_mapping,
)
from wattlaw.measure.sweep.steadiness import Window
from wattlaw.measure.sweep.stopping import Stop, stop_on_signals

__all__ = [
    "MachineMeters",
    "Measuring",
    "Planned",
    "Pool",
    "PoolError",
    "Progress",
    "Stop",
    "Sweep",
    "SweepMeter",
    "SweepResult",
    "Window",
    "configuration_id",
    "no_meter",
    "read_sweep",
    "run_sweep",
    "stop_on_signals",
    "sweep_from_mapping",
]
