"""One node of the energy tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from wattlaw.law.interval import Interval

Kind = Literal["model", "stack", "block", "module", "operation", "phase"]
Bottleneck = Literal["compute", "memory", "launch", "communication"]
Phase = Literal[
    "forward",
    "backward_input",
    "backward_weight",
    "recompute",
    "optimizer",
    "communication",
    "launch",
    "host",
    "pipeline",
    "evaluation",
    "setup",
    "other",
]

BOTTLENECKS: tuple[Bottleneck, ...] = get_args(Bottleneck)
#: In the order in which they are shown.
PHASES: tuple[Phase, ...] = get_args(Phase)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A part of a run: what it takes, and the parts that it consists of.

    All amounts are of the whole run and of all devices together; seconds are wall-clock time, a mean over devices
    where they work on different things at once. What children take sums to what their parent takes.

    Attributes:
        name: of the part: of a module, an operation or a phase.
        kind: what sort of part it is.
        energy_j: energy within the prediction's boundary.
        interval: of that energy. The ends are the whole run's in proportion, and wider where a correction says how far
            measured shares are from predicted ones.
        time_s: wall-clock time.
        energy_share: of the whole run.
        time_share: of the whole run.
        flop: operations that the devices execute, repeated and recomputed ones too.
        traffic_bytes: to and from device memory.
        bottleneck: what most of the time is spent on or waited for.
        terms_j: parts of the energy by the law's terms.
        terms_s: parts of the time by the law's terms.
        phases_j: parts of the energy by phase.
        phases_s: parts of the time by phase.
        bound_s: parts of the time by what it is spent on or waited for; the largest is the ``bottleneck``.
        children: the parts, none at the end of a branch.
    """

    name: str
    kind: Kind
    energy_j: float
    interval: Interval
    time_s: float
    energy_share: float
    time_share: float
    flop: float
    traffic_bytes: float
    bottleneck: Bottleneck
    terms_j: Mapping[str, float]
    terms_s: Mapping[str, float]
    phases_j: Mapping[Phase, float]
    phases_s: Mapping[Phase, float]
    bound_s: Mapping[Bottleneck, float]
    children: tuple[Node, ...] = ()

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def child(self, *names: str) -> Node:
        """Return the node below this one that a path of names leads to.

        Raises:
            KeyError: there is none.
        """
        found = self
        for name in names:
            found = next((one for one in found.children if one.name == name), found)
            if found.name != name:
                raise KeyError(name)
        return found
