"""The rules of thumb: six operations per weight and token, at a share of the peak rate and of the rated power.

A training step costs about 6 N D operations for N weights and D tokens, 2 forward and 4 backward (Kaplan et al. 2020,
arXiv 2001.08361, section 2.1). Divided by a rate that is a share of the data sheets' peak they are a time, and times a
share of the boards' rated power (TDP) an energy. ``tdp`` assumes both shares, ``6nd`` fits them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from wattlaw.errors import DataError
from wattlaw.law.calibration import Calibration, Estimate, Residuals
from wattlaw.law.covered import boundary, domain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from wattlaw.features.table import Table
    from wattlaw.law.protocol import Times

COLUMNS = ("active_parameters", "trained_tokens", "num_devices", "peak_flop_per_s", "power_limit_w")

#: Share of the peak rate that training language models reaches, where nothing is known: Sevilla et al. 2022,
#: "Estimating Training Compute of Deep Learning Models" (Epoch AI), section "Method 2: GPU time".
ASSUMED_UTILISATION = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedPowerLaw:
    """TDP x time: E = devices TDP T with T = 6 N D / (devices peak 0.3). Nothing is fitted.

    It assumes that a device reaches 30 % of its peak rate and draws its rated power all the time, and knows nothing
    of hosts, launches or communication. A fit tells only how far off it is.
    """

    name: ClassVar[str] = "tdp"
    columns: ClassVar[tuple[str, ...]] = COLUMNS
    times: ClassVar[Times] = "read"

    def fit(self, table: Table) -> Calibration:
        """Compare the rule with ``energy_j`` and ``duration_s``, whichever there are.

        Raises:
            DataError: no row, neither column, or a number that is not above zero.
        """
        shares = {"utilisation": ASSUMED_UTILISATION, "power_fraction": 1.0}
        errors = _errors(table, shares)
        _require_rows(table, 1)
        return _calibration(self.name, table, shares, errors, state="warm")

    def estimate(self, calibration: Calibration, table: Table) -> Estimate:
        """Say what each run takes.

        Raises:
            DataError: a column is missing or not above zero.
        """
        return _estimate(calibration.parameters, table)

    def covers(self, calibration: Calibration, table: Table) -> NDArray[np.bool_]:
        """Every run: the rule asks for weights and tokens only."""
        return np.ones(len(table), dtype=bool)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlopCountLaw:
    """6 N D over a fitted rate, times a fitted power: ``tdp`` with both shares from the runs that were measured.

    ``utilisation``: share of the peak rate, the geometric mean over the runs. ``power_fraction``: mean power over the
    rated power of the devices, likewise. Both are least squares of the logarithms.
    """

    name: ClassVar[str] = "6nd"
    columns: ClassVar[tuple[str, ...]] = COLUMNS
    times: ClassVar[Times] = "read"

    def fit(self, table: Table) -> Calibration:
        """Fit to ``energy_j`` and ``duration_s``; where one is missing its share is the assumed one, with a warning.

        Residuals are of runs as if not seen: a mean of n runs without one of them is n / (n - 1) times as far from it.

        Raises:
            DataError: fewer than three rows, neither column, or a number that is not above zero.
        """
        assumed = {"utilisation": ASSUMED_UTILISATION, "power_fraction": 1.0}
        errors = _errors(table, assumed)
        _require_rows(table, 3)
        slower = float(errors["duration"].mean()) if "duration" in errors else 0.0
        dearer = float(errors["energy"].mean()) - slower if "energy" in errors else 0.0
        shares = {
            "utilisation": ASSUMED_UTILISATION * float(np.exp(-slower)),
            "power_fraction": float(np.exp(dearer)),
        }
        left_out = {name: (row - row.mean()) * len(row) / (len(row) - 1) for name, row in errors.items()}
        warnings = [
            f"no {missing}: {share} is assumed"
            for name, missing, share in (
                ("duration", "durations", f"a utilisation of {ASSUMED_UTILISATION:g}"),
                ("energy", "energies", "the rated power"),
            )
            if name not in errors
        ]
        warnings += [f"{name} is above 1" for name, value in shares.items() if value > 1]
        return _calibration(self.name, table, shares, left_out, state="warm", warnings=tuple(warnings))

    def estimate(self, calibration: Calibration, table: Table) -> Estimate:
        """Say what each run takes.

        Raises:
            DataError: a column is missing or not above zero.
        """
        return _estimate(calibration.parameters, table)

    def covers(self, calibration: Calibration, table: Table) -> NDArray[np.bool_]:
        """Every run: the rule asks for weights and tokens only."""
        return np.ones(len(table), dtype=bool)


def flop_by_rule(*, parameters: NDArray[np.float64], tokens: NDArray[np.float64]) -> NDArray[np.float64]:
    """Operations of training, 6 N D: Kaplan et al. 2020, arXiv 2001.08361, equation 2.3 and table 1."""
    return 6 * parameters * tokens


def _estimate(shares: Mapping[str, float], table: Table) -> Estimate:
    work = flop_by_rule(parameters=table.positive("active_parameters"), tokens=table.positive("trained_tokens"))
    devices = table.positive("num_devices")
    duration_s = work / (devices * table.positive("peak_flop_per_s") * shares["utilisation"])
    energy_j = duration_s * devices * table.positive("power_limit_w") * shares["power_fraction"]
    return Estimate(
        energy_j=energy_j, duration_s=duration_s, terms_j={"compute": energy_j}, terms_s={"compute": duration_s}
    )


def _errors(table: Table, shares: Mapping[str, float]) -> dict[str, NDArray[np.float64]]:
    """ln(observed / predicted) of what was measured: ``energy``, ``duration`` or both."""
    measured = {
        name: np.log(table.positive(column))
        for name, column in (("energy", "energy_j"), ("duration", "duration_s"))
        if column in table
    }
    if not measured:
        raise DataError("nothing to compare the rule with", given="no column energy_j or duration_s")
    estimate = _estimate(shares, table)
    assert estimate.duration_s is not None
    predicted = {"energy": estimate.energy_j, "duration": estimate.duration_s}
    return {name: values - np.log(predicted[name]) for name, values in measured.items()}


def _require_rows(table: Table, least: int) -> None:
    if len(table) < least:
        raise DataError("too few rows to fit", given=f"{len(table)} rows", allowed=f"at least {least} rows")


def _calibration(
    law: str,
    table: Table,
    shares: Mapping[str, float],
    errors: Mapping[str, NDArray[np.float64]],
    *,
    state: str,
    warnings: tuple[str, ...] = (),
) -> Calibration:
    return Calibration(
        law=law,
        parameters=dict(shares),
        domain=domain(table, COLUMNS),
        residuals=Residuals(**{name: tuple(values.tolist()) for name, values in errors.items()}),
        boundary=boundary(table),
        warnings=warnings,
        diagnostics={"num_records": float(len(table))},
        provenance={"source": "fit", "num_records": str(len(table)), "state": state},
    )
