"""Layouts of devices: what each divides, what the devices say to each other, and what speedup that leaves.

::

    layout       degrees of parallelism, by the name of a strategy or one by one
    collectives  bytes and number of collectives of a layout
    speedup      the paper's speedup laws and hardware efficiency
"""

from wattlaw.parallel.collectives import Communication, communication
from wattlaw.parallel.layout import STRATEGIES, Layout

__all__ = ["STRATEGIES", "Communication", "Layout", "communication"]
