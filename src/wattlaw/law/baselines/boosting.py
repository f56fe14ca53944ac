"""Gradient-boosted trees on the step law's columns: what machine learning makes of the same runs without physics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np

from wattlaw.errors import DataError, MissingExtraError
from wattlaw.law.calibration import Calibration, Estimate, Residuals
from wattlaw.law.covered import boundary, domain
from wattlaw.law.step_terms import COLUMNS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wattlaw.features.table import Table
    from wattlaw.law.protocol import Times

#: What is fitted -> the name of its residuals.
TARGETS = {"energy_j": "energy", "duration_s": "duration"}
LEAST_ROWS = 10
FOLDS = 5
#: Of the draws that part ties between equally good splits of a tree.
SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BoostingLaw:
    """scikit-learn's gradient boosting (Friedman 2001, Ann. Stat. 29), one ensemble for ln(energy), one for ln(time).

    The trees are part of the calibration, as text, so that only a fit needs scikit-learn. Trees answer anything, and
    know nothing outside of what they saw.

    Attributes:
        num_trees: in each ensemble; this and the others are as scikit-learn has them where nothing is said.
        depth: of a tree.
        learning_rate: share by which each tree corrects those before it.
        row_share: of the rows, drawn for each tree.
        column_share: of the columns, drawn for each branching.
    """

    name: ClassVar[str] = "boosting"
    columns: ClassVar[tuple[str, ...]] = COLUMNS
    times: ClassVar[Times] = "read"

    num_trees: int = 100
    depth: int = 3
    learning_rate: float = 0.1
    row_share: float = 1.0
    column_share: float = 1.0

    def fit(self, table: Table) -> Calibration:
        """Fit to ``energy_j`` and ``duration_s``, whichever there are.

        Residuals are of runs as if not seen: each fifth of the configuration families (column ``group``) is predicted
        from the others.

        Raises:
            DataError: too few rows, neither column, or an energy or duration that is not above zero.
            MissingExtraError: scikit-learn is not installed.
        """
        targets = [name for name in TARGETS if name in table]
        if not targets:
            raise DataError("nothing to fit trees to", given="no column energy_j or duration_s")
        logarithms = {name: np.log(table.positive(name)) for name in targets}
        if len(table) < LEAST_ROWS:
            raise DataError("too few rows to fit", given=f"{len(table)} rows", allowed=f"at least {LEAST_ROWS} rows")
        inputs = _inputs(table)
        folds = _folds(table)
        parameters, options, errors = {}, {}, {}
        for name, values in logarithms.items():
            ensemble = self._grown(inputs, values)
            parameters[f"first_ln_{name}"] = ensemble.first
            parameters["learning_rate"] = ensemble.learning_rate
            options[f"trees_{name}"] = msgspec.json.encode(ensemble.trees).decode()
            errors[TARGETS[name]] = tuple(self._left_out(inputs, values, folds).tolist())
        return Calibration(
            law=self.name,
            parameters=parameters,
            domain=domain(table, self.columns),
            residuals=Residuals(**errors),
            boundary=boundary(table),
            warnings=() if "energy_j" in targets else ("no energies: the rated power is assumed",),
            diagnostics={
                "num_records": float(len(table)),
                "num_trees": float(sum(map(len, map(_trees, options.values())))),
            },
            options=options,
            provenance={"source": "fit", "num_records": str(len(table)), "state": "warm"},
        )

    def estimate(self, calibration: Calibration, table: Table) -> Estimate:
        """Evaluate the trees; trees have no terms, so there is one.

        Raises:
            DataError: a column is missing.
        """
        inputs = _inputs(table)
        found = {
            name: np.exp(_ensemble(calibration, name).evaluate(inputs))
            for name in TARGETS
            if f"trees_{name}" in calibration.options
        }
        duration_s = found.get("duration_s")
        energy_j = found.get("energy_j")
        if energy_j is None:
            energy_j = found["duration_s"] * table.numbers("num_devices") * table.numbers("power_limit_w")
        return Estimate(
            energy_j=energy_j,
            duration_s=duration_s,
            terms_j={"trees": energy_j},
            terms_s={} if duration_s is None else {"trees": duration_s},
        )

    def covers(self, calibration: Calibration, table: Table) -> NDArray[np.bool_]:
        """Every run: trees answer anything."""
        return np.ones(len(table), dtype=bool)

    def _grown(self, inputs: NDArray[np.float32], values: NDArray[np.float64]) -> _Ensemble:
        """Grow an ensemble; rows are put in an order of their own, so that theirs does not matter."""
        try:
            from sklearn.ensemble import GradientBoostingRegressor
        except ImportError as error:
            raise MissingExtraError.of("stats", "gradient boosting") from error
        order = np.lexsort((values, *inputs.T))
        first = float(values.mean())
        model: Any = GradientBoostingRegressor(
            n_estimators=self.num_trees,
            max_depth=self.depth,
            learning_rate=self.learning_rate,
            subsample=self.row_share,
            max_features=self.column_share,
            random_state=SEED,
            init="zero",
        )
        model.fit(inputs[order], values[order] - first)
        trees = [_as_tree(one.tree_) for one in model.estimators_[:, 0]]
        return _Ensemble(first=first, learning_rate=self.learning_rate, trees=trees)

    def _left_out(
        self, inputs: NDArray[np.float32], values: NDArray[np.float64], folds: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        """ln(observed / predicted) of each row, predicted from the other folds; from all rows where there is one."""
        found = np.zeros(len(values))
        for rest, held_out in _apart(folds):
            found[held_out] = values[held_out] - self._grown(inputs[rest], values[rest]).evaluate(inputs[held_out])
        return found


class _Tree(msgspec.Struct, frozen=True, array_like=True):
    """A regression tree, node by node; a leaf has no feature (below 0)."""

    feature: list[int]
    threshold: list[float]
    left: list[int]
    right: list[int]
    value: list[float]

    def evaluate(self, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
        """Let each row fall to its leaf; shape ``[rows]``."""
        feature, threshold = np.array(self.feature), np.array(self.threshold)
        left, right = np.array(self.left), np.array(self.right)
        node, rows = np.zeros(len(inputs), dtype=np.intp), np.arange(len(inputs))
        while (inside := feature[node] >= 0).any():
            goes_left = inputs[rows, np.maximum(feature[node], 0)] <= threshold[node]
            node = np.where(inside, np.where(goes_left, left[node], right[node]), node)
        found: NDArray[np.float64] = np.array(self.value)[node]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ensemble:
    """A first value, and trees that each correct the sum so far by a share."""

    first: float
    learning_rate: float
    trees: list[_Tree]

    def evaluate(self, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
        total = np.full(len(inputs), self.first)
        for tree in self.trees:
            total += self.learning_rate * tree.evaluate(inputs)
        return total


def _ensemble(calibration: Calibration, target: str) -> _Ensemble:
    return _Ensemble(
        first=calibration.parameters[f"first_ln_{target}"],
        learning_rate=calibration.parameters["learning_rate"],
        trees=_trees(calibration.options[f"trees_{target}"]),
    )


def _trees(text: str) -> list[_Tree]:
    return msgspec.json.decode(text, type=list[_Tree])


def _inputs(table: Table) -> NDArray[np.float32]:
    """The columns in single precision, as scikit-learn compares them."""
    return np.stack([table.numbers(name) for name in COLUMNS], axis=1).astype(np.float32)


def _as_tree(tree: Any) -> _Tree:
    leaf = tree.children_left < 0
    return _Tree(
        feature=np.where(leaf, -1, tree.feature).tolist(),
        threshold=np.where(leaf, 0.0, tree.threshold).tolist(),
        left=np.where(leaf, 0, tree.children_left).tolist(),
        right=np.where(leaf, 0, tree.children_right).tolist(),
        value=np.where(leaf, tree.value[:, 0, 0], 0.0).tolist(),
    )


def _folds(table: Table) -> NDArray[np.intp]:
    """Number each row's fold; a configuration family is in one."""
    names, member = np.unique(table.text("group"), return_inverse=True)
    fold: NDArray[np.intp] = np.random.default_rng(SEED).permutation(len(names))[member] % FOLDS
    return fold


def _apart(folds: NDArray[np.intp]) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    numbers = np.unique(folds)
    if len(numbers) == 1:
        yield np.ones(len(folds), dtype=bool), np.ones(len(folds), dtype=bool)
        return
    for number in numbers:
        yield folds != number, folds == number
