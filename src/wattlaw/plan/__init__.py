"""Planning: the best way to run a training under limits, and how sure that is.

::

    problem     what is asked: a run, what may vary, limits, objective, prices
    layouts     the layouts that devices allow, and the names of strategies
    space       what may vary, as columns
    costs       memory first, then time and energy, chunk by chunk
    limits      what must be kept, and by how much it is missed
    objective   what is made small
    search      the best, the front, and what comes nearest
    option      one way to run, as a value
    confidence  how sure the first place is
    neighbours  why the ways next to the best were rejected
    tradeoffs   what limits cost, and what would make a plan possible
    planning    ``plan``, which calls the above
    compare     several runs, and the chance that one beats the other
    curves      energy and time against device count and power cap
    launch      the command that starts an option
"""

from wattlaw.plan.limits import Limits, Miss
from wattlaw.plan.objective import Objective
from wattlaw.plan.option import Option
from wattlaw.plan.planning import Plan, plan
from wattlaw.plan.problem import Problem
from wattlaw.plan.space import Offer, Space

__all__ = ["Limits", "Miss", "Objective", "Offer", "Option", "Plan", "Problem", "Space", "plan"]
