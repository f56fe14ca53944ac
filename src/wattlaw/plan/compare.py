"""Several runs side by side, with the chance that one beats the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattlaw.errors import ConfigError
from wattlaw.law.prediction import Prediction, columns_of, host_doubt, predict
from wattlaw.plan.confidence import assumption, draw_errors
from wattlaw.run.amount import schedule

if TYPE_CHECKING:
    from wattlaw.law.calibration import Calibration
    from wattlaw.run.spec import RunSpec

Numbers = NDArray[np.float64]
#: ``chances[row][column]``: that the row's run takes less than the column's.
Chances = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Several runs, each predicted, and how sure their order is.

    Attributes:
        specs: the runs.
        predictions: of each.
        trained_tokens: of each; runs that train on different amounts are compared per token too.
        energy: the chance that one run takes less energy than another; 0.5 on the diagonal.
        duration: the same of time; ``None`` where the law knows no time.
        energy_per_token: the same of energy per token trained on.
        assumption: what is taken to be common to the errors of two runs.
    """

    specs: tuple[RunSpec, ...]
    predictions: tuple[Prediction, ...]
    trained_tokens: tuple[float, ...]
    energy: Chances
    duration: Chances | None
    energy_per_token: Chances
    assumption: str

    @property
    def warnings(self) -> tuple[str, ...]:
        """Doubts about the comparison, one line each."""
        doubt = host_doubt([spec.node is not None for spec in self.specs], self.predictions[0].boundary)
        return () if doubt is None else (doubt,)

    @property
    def same_amount(self) -> bool:
        """Whether all runs train on as many tokens, within a percent."""
        return max(self.trained_tokens) <= 1.01 * min(self.trained_tokens)


def compare(specs: Sequence[RunSpec], calibration: Calibration, *, level: float = 0.95) -> Comparison:
    """Predict several runs, and say how sure their order is.

    Errors that two runs share, as those of the parameters of one machine, change nothing about their order; the draws
    are those of ``confidence``.

    Args:
        specs: the runs, two or more.
        calibration: of any law.
        level: of the intervals.

    Raises:
        ConfigError: fewer than two runs, the level, or a run that does not fit into memory.
        DataError: the calibration cannot say anything about a run.
    """
    if len(specs) < 2:
        raise ConfigError("a comparison needs two runs", given=len(specs), allowed=">= 2")
    predictions = predict(specs, calibration, level=level)
    table = columns_of(specs, calibration)
    if "machine" not in table:
        table = table.with_columns(machine=[spec.accelerator.name for spec in specs])
    times = [one.duration_s.mid for one in predictions if one.duration_s is not None]
    targets = ("energy", "duration") if len(times) == len(predictions) else ("energy",)
    errors = draw_errors(calibration, table, targets=targets)
    energy_j = np.array([one.energy_j.mid for one in predictions]) * np.exp(errors["energy"])
    tokens = np.array([float(schedule(spec.recipe, spec.layout).trained_tokens) for spec in specs])
    return Comparison(
        specs=tuple(specs),
        predictions=predictions,
        trained_tokens=tuple(tokens.tolist()),
        energy=chances(energy_j),
        duration=chances(np.array(times) * np.exp(errors["duration"])) if "duration" in errors else None,
        energy_per_token=chances(energy_j / tokens),
        assumption=assumption(calibration),
    )


def chances(drawn: Numbers) -> Chances:
    """Count how often one run takes less than another; what is equal counts half for each.

    Args:
        drawn: what the runs truly take, shape ``[draws, runs]``.

    >>> import numpy as np
    >>> chances(np.array([[1.0, 2.0], [1.0, 3.0], [4.0, 3.0], [2.0, 2.0]]))
    ((0.5, 0.625), (0.375, 0.5))
    """
    less = (drawn[:, :, None] < drawn[:, None, :]).mean(axis=0)
    equal = (drawn[:, :, None] == drawn[:, None, :]).mean(axis=0)
    return tuple(tuple(row) for row in (less + equal / 2).tolist())
