"""Calibrations that others published, and the paper's estimates for large models."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from statistics import NormalDist
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from wattlaw.errors import ConfigError, DataError, UnknownNameError
from wattlaw.features.table import Table
from wattlaw.law.calibration import Calibration, Residuals
from wattlaw.law.covered import boundary, domain
from wattlaw.law.fitting import FittedLaw, measured
from wattlaw.law.interval import LEAST_RESIDUALS
from wattlaw.law.paper.log_linear import ln_energy
from wattlaw.law.paper.options import PaperOptions, law_of
from wattlaw.law.paper.scaling import PaperLaw, prepared
from wattlaw.units import JOULES_PER_KWH
from wattlaw.workload.proxies import compute_proxy_per_token, memory_proxy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wattlaw.run.record import RunRecord

_FOLDER = resources.files("wattlaw.law") / "data"
_JOULES_PER_MWH = 1e3 * JOULES_PER_KWH
#: Residuals that stand for a published error; the outermost lie at 99.75 % on either side.
NUM_QUANTILES = 200


def published_names() -> tuple[str, ...]:
    """Return the names of the published calibrations."""
    files = (_FOLDER / "published").iterdir()
    return tuple(sorted(file.name.removesuffix(".json") for file in files if file.name.endswith(".json")))


@cache
def published(name: str) -> Calibration:
    """Return a published calibration.

    ``paper-table3``: the paper's law with its speedup parameters; the constants that its regressors were centred
    on are not published, so that it gives ratios between runs, or energies once ``anchored``.
    ``paper-table2``: the additive law as printed, to compare with only.

    Raises:
        UnknownNameError: none of this name.
    """
    if name not in published_names():
        raise UnknownNameError.among("published calibration", name, published_names())
    file = _FOLDER / "published" / f"{name}.json"
    return Calibration.from_json(file.read_bytes(), place=f"{name}.json")


def anchored(calibration: Calibration, table: Table) -> Calibration:
    """Set the level of a law in logarithms so that it agrees, in the geometric mean, with measured runs.

    What is unknown in a law published without its centring constants is one number, the sum of its intercept and
    these constants times their coefficients. The exponents and effects stay as published. A law that was fitted on
    another machine is moved to this one in the same way.

    The interval of a prediction comes from what four or more anchors leave, each left out in turn; with fewer, from the
    root mean squared error that was published with the law (0.3846 in ln E, table 4), as if errors were normal.

    Args:
        calibration: of the paper or the power law.
        table: one or more runs, with ``energy_j`` and the law's columns.

    Raises:
        ConfigError: a law that has no such level.
        DataError: no run, a column is missing or not above zero, or a strategy is unknown to the law.
    """
    if "regressors" not in calibration.options:
        raise ConfigError("only a law in logarithms has a level to set", given=calibration.law, allowed="paper, power")
    if not len(table):
        raise DataError("no run to set the level by")
    regressors = calibration.options["regressors"].split()
    centred = replace(calibration, centres={f"ln_{name}": 0.0 for name in regressors} | dict(calibration.centres))
    errors = np.log(table.positive("energy_j")) - ln_energy(centred, prepared(centred, table))
    told = len(table) >= LEAST_RESIDUALS
    return replace(
        centred,
        parameters={**centred.parameters, "intercept": centred.parameters["intercept"] + float(errors.mean())},
        domain=domain(table, law_of(calibration).columns) if told else {},
        residuals=Residuals(energy=tuple(_left(centred, errors))),
        boundary=boundary(table),
        warnings=(
            *centred.warnings,
            f"only the level is that of {_counted(table)}; exponents and effects are as they were",
        ),
        provenance={**centred.provenance, "anchor": f"{len(table)} measured runs", "state": "warm"},
    )


def anchored_fit(
    calibration: Calibration, records: Sequence[RunRecord], *, energy_boundary: str | None = None
) -> FittedLaw:
    """Set the level of a law in logarithms by the records that state a whole run; see ``anchored``.

    Raises:
        ConfigError: an unknown boundary, or a law that has no such level.
        DataError: no usable record, or a strategy that the law does not know.
    """
    options = PaperOptions.of(calibration)
    kept = measured(records, laws=[law_of(calibration)], boundary=energy_boundary, options=options)
    return FittedLaw(
        calibration=anchored(calibration, kept.table),
        num_records=len(kept.records),
        num_left_out=len(records) - len(kept.records),
    )


def _left(calibration: Calibration, errors: NDArray[np.float64]) -> list[float]:
    """Residuals of runs as if the level had been set without them; where they are too few, by the published error."""
    count = errors.size
    if count >= LEAST_RESIDUALS:
        left: list[float] = ((errors - errors.mean()) * count / (count - 1)).tolist()
        return left
    spread = calibration.diagnostics.get("rmse_ln_energy")
    if spread is None:
        return list(calibration.residuals.energy)
    normal = NormalDist(sigma=spread * float(np.sqrt(1 + 1 / count)))
    return [normal.inv_cdf((place + 0.5) / NUM_QUANTILES) for place in range(NUM_QUANTILES)]


def _counted(table: Table) -> str:
    return f"{len(table)} measured run{'' if len(table) == 1 else 's'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeModel:
    """One row of the paper's table of large models; every number as printed, but ``seq_len``, which is implied.

    ``total`` energies are of the whole training; the paper does not say by how many epochs. Energies in MWh, as
    the table prints them, with two decimals.
    """

    model: str
    parameters_billion: float
    flop_1e21: float
    num_layers: int
    hidden_size: int
    seq_len: int
    compute_per_epoch: float
    memory_proxy: float
    reported_mwh: float
    fsdp_epoch_mwh: float
    fsdp_total_mwh: float
    tp_epoch_mwh: float
    tp_total_mwh: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeModels:
    """The paper's table of large models: 100 GPUs and the same number of tokens per epoch for each."""

    source: str
    note: str
    num_devices: int
    tokens_per_epoch: float
    models: tuple[LargeModel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeModelEstimate:
    """Energy of one epoch by the published law, anchored on one cell of the table."""

    model: str
    fsdp_epoch_mwh: float
    tp_epoch_mwh: float


@cache
def large_models_table() -> LargeModels:
    """Return the paper's table of large models as printed (section 6 and appendix E)."""
    return msgspec.json.decode((_FOLDER / "large_models.json").read_bytes(), type=LargeModels)


def large_models() -> tuple[LargeModelEstimate, ...]:
    """Recompute the table from the published coefficients, anchored on GPT-3 under tensor parallelism.

    The anchor is the cell with the most digits; eta comes from (10) and (12) at 100 devices. Order of magnitude
    only, as the paper says: a law of small encoders on one node, taken 10^5 times beyond its records.
    """
    published_table = large_models_table()
    runs = _large_runs(published_table)
    anchor = runs.take([len(published_table.models)]).with_columns(
        energy_j=[published_table.models[0].tp_epoch_mwh * _JOULES_PER_MWH]
    )
    calibration = anchored(published("paper-table3"), anchor)
    energy_mwh = PaperLaw(efficiency="published").estimate(calibration, runs).energy_j / _JOULES_PER_MWH
    fsdp, tensor = np.split(energy_mwh, 2)
    return tuple(
        LargeModelEstimate(model=row.model, fsdp_epoch_mwh=float(data), tp_epoch_mwh=float(tp))
        for row, data, tp in zip(published_table.models, fsdp, tensor, strict=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeModelsError:
    """How well the table is reproduced.

    Attributes:
        largest_relative_error: over ratios of two cells that both show three digits or more: between rows under
            tensor parallelism, and between TP and FSDP in the totals of each row.
        num_ratios: how many such ratios.
        num_outside_rounding: cells per epoch of fewer digits that the estimate would not round to.
        num_rounded: how many such cells.
    """

    largest_relative_error: float
    num_ratios: int
    num_outside_rounding: int
    num_rounded: int


def large_models_error() -> LargeModelsError:
    """Compare the recomputed table with the printed one.

    A printed total over its printed epoch is the number of epochs, the same for TP and FSDP, so the ratio of the
    totals is that of the epochs, with more digits.
    """
    printed, estimates = large_models_table().models, large_models()
    pairs = [(row.tp_epoch_mwh, estimate.tp_epoch_mwh) for row, estimate in zip(printed, estimates, strict=True)]
    pairs = [pair for pair in pairs if _three_digits(pair[0])]
    errors = [
        (other[1] / first[1]) / (other[0] / first[0]) - 1
        for position, first in enumerate(pairs)
        for other in pairs[position + 1 :]
    ]
    errors += [
        (estimate.tp_epoch_mwh / estimate.fsdp_epoch_mwh) / (row.tp_total_mwh / row.fsdp_total_mwh) - 1
        for row, estimate in zip(printed, estimates, strict=True)
        if _three_digits(row.fsdp_total_mwh) and _three_digits(row.tp_total_mwh)
    ]
    cells = [
        (getattr(row, cell), getattr(estimate, cell))
        for row, estimate in zip(printed, estimates, strict=True)
        for cell in ("fsdp_epoch_mwh", "tp_epoch_mwh")
        if not _three_digits(getattr(row, cell))
    ]
    return LargeModelsError(
        largest_relative_error=max(abs(error) for error in errors),
        num_ratios=len(errors),
        num_outside_rounding=sum(round(estimate, 2) != value for value, estimate in cells),
        num_rounded=len(cells),
    )


def _large_runs(table: LargeModels) -> Table:
    """One run per model with FSDP over all devices, then the same with tensor parallelism."""

    def column(name: str) -> NDArray[np.float64]:
        return np.array([getattr(row, name) for row in table.models] * 2, dtype=np.float64)

    count = len(table.models)
    devices, ones = np.full(count, float(table.num_devices)), np.ones(count)
    layers, hidden, length = column("num_layers"), column("hidden_size"), column("seq_len")
    return Table({
        "compute_proxy": np.asarray(table.tokens_per_epoch * compute_proxy_per_token(layers, hidden, length)),
        "memory_proxy": np.asarray(memory_proxy(table.tokens_per_epoch, length, hidden, layers)),
        "data_parallel": np.concatenate([devices, ones]),
        "tensor_parallel": np.concatenate([ones, devices]),
        "strategy": np.repeat(["fsdp", "tp"], count),
    })  # fmt: skip


def _three_digits(value: float) -> bool:
    """Whether a cell with two decimals shows three digits."""
    return value >= 1
