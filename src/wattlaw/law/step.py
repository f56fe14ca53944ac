"""The step law as one of the laws: how its parameters are found from runs, machine by machine.

The law itself, its parameters and its terms, is ``step_terms``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from wattlaw.errors import DataError
from wattlaw.features.table import Table
from wattlaw.law import hierarchy
from wattlaw.law.beyond import step_parameters, value_of
from wattlaw.law.calibration import Anchor, Calibration, Estimate, MachineCalibration, Residuals
from wattlaw.law.covered import boundary, domain, require_one_boundary, widened
from wattlaw.law.protocol import Times
from wattlaw.law.residual import (
    Hyperparameters,
    Leftover,
    inputs_of,
    left_out,
    only_noise,
    process_of,
    search,
    thinned,
)
from wattlaw.law.spread import slopes, spreads
from wattlaw.law.step_terms import COLUMNS, DOMAIN_COLUMNS, PARAMETERS, between_machines, terms

Numbers = NDArray[np.float64]

#: Columns of text whose values say whether a run is like those of a fit.
KIND_COLUMNS = ("precision", "optimizer", "software")
#: With fewer runs than this, their larger half predicted from the smaller tells nothing.
ENOUGH_RUNS = 40
#: From the median of absolute values to the standard deviation of normal ones.
TO_DEVIATION = 1.4826
#: No law of this kind is nearer to a measured run than half a percent.
LEAST_NOISE = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLaw:
    """The step law as one of the laws: fitted jointly to time and energy, machine by machine.

    Attributes:
        prior: a calibration whose common parameters the fit starts from; ``None`` starts from the round figures of
            ``PARAMETERS``. Machines that only the prior saw are kept, and what a probe measured of a machine holds
            that machine's parameters, as far as the probe was sure.
        residual: interpolate what the law leaves unexplained between a machine's runs (``wattlaw.law.residual``).
    """

    name: ClassVar[str] = "step"
    columns: ClassVar[tuple[str, ...]] = (*COLUMNS, "machine")
    times: ClassVar[Times] = "enough"
    limits: ClassVar[Mapping[str, float]] = {parameter.name: parameter.upper for parameter in PARAMETERS}

    prior: Calibration | None = None
    residual: bool = True

    @property
    def common(self) -> Mapping[str, float]:
        """The parameters of a machine of which nothing was measured."""
        if self.prior is None:
            return {parameter.name: parameter.start for parameter in PARAMETERS}
        return self.prior.parameters

    @property
    def common_spread(self) -> Numbers:
        """How sure these are: standard deviations of their logarithms, shape ``[parameters]``."""
        if self.prior is None:
            return np.array([parameter.spread for parameter in PARAMETERS])
        # The mean of n machines is known to a machine's spread over the root of n.
        return np.sqrt(np.diag(between_machines()) / max(1, len(self.prior.machines)))

    @property
    def between(self) -> Numbers:
        """How machines differ: covariance of the parameters' logarithms, shape ``[parameters, parameters]``."""
        return between_machines()

    def starting_from(self, prior: Calibration | None, *, residual: bool = True) -> StepLaw:
        """Return the law that starts from a calibration, or from the round figures of ``PARAMETERS``."""
        return replace(self, prior=prior, residual=residual)

    def fit(self, table: Table) -> Calibration:
        """Fit to the columns ``energy_j`` and ``duration_s`` (one of them is enough), by ``machine`` and ``group``.

        The residuals kept for intervals are of runs as if not seen (their whole group left out), of the larger half
        of the runs predicted from the smaller, and of each machine predicted from the others.

        Raises:
            DataError: no row, a column missing, or a number that is not finite or above zero.
            FitError: the search did not converge.
        """
        require_one_boundary(table)
        runs, found = self._fit(table)
        known = search([one.leftover for one in runs]) if self.residual else _only_noise(found, table)
        kept_out = [_as_residuals(left_out(one.leftover, known, roots=one.roots, groups=one.groups)) for one in runs]
        kept = _machines(runs, found, known, kept_out)
        noise = known.spread()
        before = self.prior
        outside = Residuals()
        if len(table) >= ENOUGH_RUNS:
            outside = self._predicted_from(table, _smaller_half(table), known)
        names = [one.name for one in runs]
        cold = [self._predicted_from(table, table.text("machine") != name, known) for name in names if len(names) > 1]
        return Calibration(
            law=self.name,
            parameters=_by_name(found.common),
            covariance=_rounded(found.covariance_of(0)),
            machines={**before.machines, **kept} if before else kept,
            domain=_domain(table, before),
            kinds=_kinds(table, before),
            residuals=Residuals.joined(one.residuals for one in kept.values()),
            outside=outside if outside or before is None else before.outside,
            cold=Residuals.joined(cold) if cold or before is None else before.cold,
            num_cold=len(cold) if cold or before is None else before.num_cold,
            noise=noise if before is None else {**before.noise, **noise},
            # Times alone say nothing of what an energy includes: the prior's energies are what is then predicted.
            boundary=boundary(table) or ("" if before is None else before.boundary),
            warnings=_on_bounds(names, found),
            diagnostics={"evaluations": float(found.evaluations), "num_records": float(len(table))},
            provenance={
                "source": "fit",
                "num_records": str(len(table)),
                "machines": ", ".join(names),
                "state": "warm",
            },
        )

    def estimate(self, calibration: Calibration, table: Table) -> Estimate:
        """Say what each run takes; a machine that the calibration did not see has the common parameters.

        Of steps larger than those of the fit, a machine's own ``matrix_fraction`` is ``beyond.toward_common``.

        What the law leaves unexplained between a machine's runs multiplies the totals and all of their terms.
        ``Calibration.without_residual`` leaves that out.

        Raises:
            DataError: a column is missing.
            UnknownNameError: the calibration lacks a parameter.
        """
        columns = {name: table.numbers(name) for name in COLUMNS}
        found = terms(step_parameters(calibration, table.text("machine"), columns), columns)
        factors = _left_factors(calibration, table)
        energy, duration = factors.get("energy", 1.0), factors.get("duration", 1.0)
        return Estimate(
            energy_j=found.energy_j * energy,
            duration_s=found.duration_s * duration,
            terms_j={name: values * energy for name, values in found.terms_j.items()},
            terms_s={name: values * duration for name, values in found.terms_s.items()},
        )

    def covers(self, calibration: Calibration, table: Table) -> NDArray[np.bool_]:
        """Every run: what was not seen is predicted cold."""
        return np.ones(len(table), dtype=bool)

    def _fit(self, table: Table) -> tuple[list[_Runs], hierarchy.Fit]:
        if not len(table):
            raise DataError("no run to fit the step law to", given="0 rows", allowed="1 or more")
        for target in _targets(table):
            table.positive(target)  # here, where the row is the reader's and not one of its machine's
        names = [str(name) for name in np.unique(table.text("machine"))]
        parts = [table.take(table.text("machine") == name) for name in names]
        groups = [np.unique(part.text("group"), return_inverse=True)[1] for part in parts]
        machines = [
            hierarchy.Machine(
                name=name,
                residuals=_residuals_of(part),
                slopes=_slopes_of(part),
                groups=np.tile(own, len(_targets(part))),
                **self._anchors(name),
            )
            for name, part, own in zip(names, parts, groups, strict=True)
        ]
        found = hierarchy.fit(machines, self._hyperprior())
        left = zip(names, parts, groups, found.residuals, found.roots, strict=True)
        return [_runs_of(*each, self._anchors_of(each[0])) for each in left], found

    def _anchors_of(self, machine: str) -> tuple[Anchor, ...]:
        known = self.prior is not None and machine in self.prior.machines
        return self.prior.machines[machine].anchors if self.prior is not None and known else ()

    def _anchors(self, machine: str) -> dict[str, Numbers]:
        """Lay out what a probe measured of a machine; a parameter that it did not measure has an infinite spread."""
        found = {one.parameter: one for one in self._anchors_of(machine)}
        rows = [found.get(parameter.name) for parameter in PARAMETERS]
        return {
            "anchors": np.array([0.0 if one is None else np.log(one.value) for one in rows]),
            "anchor_spread": np.array([np.inf if one is None else one.spread for one in rows]),
        }

    def _hyperprior(self) -> hierarchy.Prior:
        common = self.common
        return hierarchy.Prior(
            centre=np.log([value_of(common, parameter.name) for parameter in PARAMETERS]),
            spread=self.common_spread,
            between=self.between,
            upper=np.log([parameter.upper for parameter in PARAMETERS]),
        )

    def _predicted_from(self, table: Table, seen: NDArray[np.bool_], known: Hyperparameters) -> Residuals:
        """Residuals of the rows that are not ``seen``, predicted from those that are."""
        if not seen.any() or seen.all():
            return Residuals()
        runs, found = self._fit(table.take(seen))
        calibration = Calibration(
            law=self.name,
            parameters=_by_name(found.common),
            covariance=_rounded(found.covariance_of(0)),
            machines=_machines(runs, found, known, [Residuals() for _ in runs]),
            domain=_domain(table.take(seen), self.prior),
            noise=known.spread(),
        )
        rest = table.take(~seen)
        estimate = self.estimate(calibration, rest)
        assert estimate.duration_s is not None
        predicted = {"energy_j": estimate.energy_j, "duration_s": estimate.duration_s}
        return _as_residuals(
            {
                target: (np.log(rest.positive(column) / predicted[column]), spreads(calibration, rest, target))
                for column in _targets(rest)
                for target in [column.rpartition("_")[0]]
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runs:
    """What a fit left of one machine's runs."""

    name: str
    groups: NDArray[np.intp]
    leftover: Leftover
    roots: hierarchy.Roots
    anchors: tuple[Anchor, ...]
    num_runs: Mapping[str, int]


def _runs_of(
    name: str,
    table: Table,
    groups: NDArray[np.intp],
    residuals: Numbers,
    roots: hierarchy.Roots,
    anchors: tuple[Anchor, ...],
) -> _Runs:
    """Gather what is left of one machine's runs, of some of their groups where they are very many."""
    targets = [target.rpartition("_")[0] for target in _targets(table)]
    places = thinned(groups)
    stacked = np.concatenate([places + number * len(groups) for number in range(len(targets))])
    by_target = -residuals.reshape(len(targets), -1)[:, places]
    return _Runs(
        name=name,
        groups=groups[places],
        leftover=Leftover(inputs=inputs_of(table)[places], residuals=dict(zip(targets, by_target, strict=True))),
        roots=hierarchy.Roots(spread=roots.spread[stacked], leverage=roots.leverage[stacked]),
        anchors=anchors,
        num_runs=dict(Counter(table.text("strategy").tolist())) if "strategy" in table else {},
    )


def _machines(
    runs: Sequence[_Runs], found: hierarchy.Fit, known: Hyperparameters, kept_out: Sequence[Residuals]
) -> dict[str, MachineCalibration]:
    return {
        one.name: MachineCalibration(
            parameters=_by_name(values),
            covariance=_rounded(found.covariance_of(place)),
            residuals=kept,
            process=process_of(one.leftover, known),
            anchors=one.anchors,
            num_runs=one.num_runs,
        )
        for place, (one, values, kept) in enumerate(zip(runs, found.machines, kept_out, strict=True), start=1)
    }


def _only_noise(found: hierarchy.Fit, table: Table) -> Hyperparameters:
    """What is left taken for noise alone, as large as most residuals of runs left out are."""
    targets = _targets(table)
    values = np.concatenate([each.reshape(len(targets), -1) for each in found.held_out], axis=1)
    return only_noise(
        {
            target.rpartition("_")[0]: max(LEAST_NOISE, TO_DEVIATION * float(np.median(np.abs(row))))
            for target, row in zip(targets, values, strict=True)
        }
    )


def _left_factors(calibration: Calibration, table: Table) -> dict[str, Numbers]:
    """By target, what the processes of the table's machines multiply it by; empty where there are none."""
    machines = table.text("machine")
    found: dict[str, Numbers] = {}
    for name, machine in calibration.machines.items():
        rows = np.flatnonzero(machines == name) if machine.process is not None else np.zeros(0, dtype=np.intp)
        if machine.process is None or not rows.size:
            continue
        inputs = inputs_of(table.take(rows), tuple(machine.process.lengths))
        for target, mean in machine.process.mean(inputs).items():
            found.setdefault(target, np.ones(len(table)))[rows] = np.exp(mean)
    return found


def _targets(table: Table) -> tuple[str, ...]:
    found = tuple(name for name in ("duration_s", "energy_j") if name in table)
    if not found:
        raise DataError("nothing to fit the step law to", given="no column energy_j or duration_s")
    return found


def _residuals_of(table: Table) -> Callable[[Numbers], Numbers]:
    columns = {name: table.numbers(name) for name in COLUMNS}
    targets = _targets(table)
    seen = np.concatenate([np.log(table.positive(name)) for name in targets])

    def residuals(logarithms: Numbers) -> Numbers:
        found = terms(_by_name(logarithms), columns)
        predicted = {"duration_s": found.duration_s, "energy_j": found.energy_j}
        difference: Numbers = np.concatenate([np.log(predicted[name]) for name in targets]) - seen
        return difference

    return residuals


def _slopes_of(table: Table) -> Callable[[Numbers], Numbers]:
    columns = {name: table.numbers(name) for name in COLUMNS}
    targets = [target.rpartition("_")[0] for target in _targets(table)]

    def derivatives(logarithms: Numbers) -> Numbers:
        found = slopes(_by_name(logarithms), columns)
        together: Numbers = np.concatenate([found[target] for target in targets])
        return together

    return derivatives


def _as_residuals(found: Mapping[str, tuple[Numbers, Numbers]]) -> Residuals:
    """Keep residuals with what was expected of them, to a millionth: by target, both of shape ``[runs]``."""
    kept: dict[str, tuple[float, ...]] = {}
    for target, (values, expected) in found.items():
        kept[target] = tuple(np.round(values, 6).tolist())
        kept[f"{target}_spread"] = tuple(np.maximum(np.round(expected, 6), 1e-6).tolist())
    return Residuals(**kept)


def _rounded(covariance: Numbers) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(f"{value:.6g}") for value in row) for row in covariance)


def _smaller_half(table: Table) -> NDArray[np.bool_]:
    work = table.numbers("block_flop") * table.numbers("micro_steps") * table.numbers("num_devices")
    return work <= np.median(work)


def _domain(table: Table, prior: Calibration | None) -> dict[str, tuple[float, float]]:
    return widened(domain(table, DOMAIN_COLUMNS), {} if prior is None else prior.domain)


def _kinds(table: Table, prior: Calibration | None) -> dict[str, tuple[str, ...]]:
    before = {} if prior is None else prior.kinds
    return {
        name: tuple(sorted({*np.unique(table.text(name)).tolist(), *before.get(name, ())}))
        for name in KIND_COLUMNS
        if name in table
    }


def _on_bounds(names: list[str], found: hierarchy.Fit) -> tuple[str, ...]:
    return tuple(
        f"{parameter.name} of {name} leans on its bound {parameter.upper:g}"
        for name, values in zip(names, np.exp(found.machines), strict=True)
        for parameter, value in zip(PARAMETERS, values, strict=True)
        if value > 0.99 * parameter.upper
    )


def _by_name(logarithms: Numbers) -> dict[str, float]:
    return {parameter.name: float(value) for parameter, value in zip(PARAMETERS, np.exp(logarithms), strict=True)}
