"""What others estimate by, as laws: the rules of thumb, and machine learning without physics.

::

    thumb     TDP x time, and 6 N D over a fitted rate    boosting  gradient-boosted trees on the step law's columns
"""

from wattlaw.law.baselines.boosting import BoostingLaw
from wattlaw.law.baselines.thumb import FlopCountLaw, RatedPowerLaw

__all__ = ["BoostingLaw", "FlopCountLaw", "RatedPowerLaw"]
