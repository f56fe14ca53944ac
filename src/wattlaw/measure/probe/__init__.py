"""Probing: what one machine does, found out in about a minute.

    figure.py       a measured number, and a probe as a value and as a file
    timing.py       many times of one call: warm-up, repeats, median, spread
    matrix.py       rate of matrix products per precision
    bandwidth.py    rate between device and memory
    launch.py       what the host works per kernel, micro-step, weight tensor and update
    layer.py        how fast a whole layer gets through its traffic
    collectives.py  latency and rate of collectives, by number of devices
    strategies.py   steps that are divided over two devices, beside the step of one
    power.py        idle and busy power, from the meters
    load.py         the work that a device is given while its power is metered
    rank.py         the process that does all this
    runner.py       asks the ranks, part by part, within the time that is given

torch is loaded by the ranks only.
"""

from wattlaw.measure.probe.figure import Figure, Probe
from wattlaw.measure.probe.runner import PARTS, Options, Progress, run_probe

__all__ = ["PARTS", "Figure", "Options", "Probe", "Progress", "run_probe"]
