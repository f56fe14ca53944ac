"""Explaining: where the energy and the time of a run go, what would change them, and how well they are spent.

::

    work          what each operation does on one device       alone        what the law says of each part by itself
    attribution   the law's terms, shared out to operations     tree         operations -> modules -> model, or by phase
    node          one node of the tree                          correction   factors learned from measured modules
    sensitivity   what +10 % of an input does                   counterfactual   what a named change does
    efficiency    utilisation, tokens per second, joules per token
"""

from wattlaw.explain.correction import Correction, fit_correction, learned_correction
from wattlaw.explain.counterfactual import Change, Outcome, outcomes, usual_changes
from wattlaw.explain.efficiency import Efficiency, efficiency
from wattlaw.explain.node import PHASES, Node
from wattlaw.explain.sensitivity import Sensitivity, sensitivities
from wattlaw.explain.tree import explain, explained, merged

__all__ = [
    "PHASES",
    "Change",
    "Correction",
    "Efficiency",
    "Node",
    "Outcome",
    "Sensitivity",
    "efficiency",
    "explain",
    "explained",
    "fit_correction",
    "learned_correction",
    "merged",
    "outcomes",
    "sensitivities",
    "usual_changes",
]
