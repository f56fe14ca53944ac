"""How well laws predict runs that they have not seen.

::

    protocols  which rows are fitted, which predicted     scores     what is told of a set of predictions
    judge      one law through the splits of a protocol   verdict    several laws on records, side by side
    cold       the step law before anything was measured  suggested  the runs that suggest would choose
"""

from wattlaw.law.evaluation.judge import Evaluation, Trial, evaluate, trials
from wattlaw.law.evaluation.protocols import PROTOCOLS, Split, splits
from wattlaw.law.evaluation.scores import METRICS, TARGETS, Summary
from wattlaw.law.evaluation.verdict import PARTS, Point, Unjudged, Verdict, judge

__all__ = [
    "METRICS",
    "PARTS",
    "PROTOCOLS",
    "TARGETS",
    "Evaluation",
    "Point",
    "Split",
    "Summary",
    "Trial",
    "Unjudged",
    "Verdict",
    "evaluate",
    "judge",
    "splits",
    "trials",
]
