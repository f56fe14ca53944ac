"""Recompute the paper's published figures from the measured rows, with targets beside them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from claims import claims_of, show
from cold_figures import PublishedTraining, candidates_of
from measured_tables import FINE_TUNING, read_table

from wattlaw.features.paper import paper_columns
from wattlaw.law.evaluation import evaluate, splits, trials
from wattlaw.law.evaluation.scores import r2_log
from wattlaw.law.paper import AdditiveLaw, PaperLaw, PowerLaw
from wattlaw.law.paper.checkup import efficiency_test
from wattlaw.law.paper.protocol import run_protocol
from wattlaw.law.paper.published import large_models, large_models_error, large_models_table
from wattlaw.report.published import compared_with_published
from wattlaw.units import JOULES_PER_KWH

if TYPE_CHECKING:
    from wattlaw.features.paper import ComputeDefinition, ProxySource
    from wattlaw.features.table import Table
    from wattlaw.law.protocol import Law
    from wattlaw.run.record import RunRecord

_figure = claims_of("python scripts/paper_figures.py")
_JOULES_PER_MWH = 1e3 * JOULES_PER_KWH

#: Published with the rows: ordinary least squares of ln(energy_kwh) on the 116 RTX 2080 Ti BERT rows.
COEFFICIENTS = {
    "ln_compute_proxy": 0.0507,
    "ln_memory_proxy": 0.4089,
    "ln_efficiency": -1.1115,
    "strategy:fsdp": -0.2720,
    "strategy:tp": -0.5377,
}
#: Published with the rows, median R2 of ln(energy) over 20 random 70/30 splits by configuration family.
HELD_OUT = {
    "measured": {"bert": 0.937, "gpt": 0.927, "pooled": 0.922},
    "speedup": {"bert": 0.878, "gpt": 0.834, "pooled": 0.833},
}
#: Published with the rows, R2 on the GPU model that was left out; their fit had these four GPU models.
LEAVE_ONE_GPU_OUT = {"a100": 0.763, "2080ti": 0.862, "t4": 0.850, "v100": 0.880}
GPU_MODELS = {"a100": "a100-sxm4-40gb", "2080ti": "rtx-2080-ti"}
#: Part of a GPU model's name -> what its figure is called; other models keep their name.
SHORT = {"a100": "a100", "2080-ti": "2080ti", "t4": "t4", "v100": "v100"}
FAMILIES = {"bert": "bert", "gpt": "gpt2"}
PARTS = ("bert", "gpt", "pooled")
#: Row of the table of large models -> the start of its name among the published trainings.
TRAININGS = {"GPT-3": "GPT-3", "GShard": "GShard", "Meena": "Meena", "Switch": "Switch", "T5": "T5-11B"}
TRAINING_TABLE = "published_training_runs"


def read_rows(*, compute: ComputeDefinition = "artifact", proxies: ProxySource = "observed") -> Table:
    """Read the measured multi-GPU rows into the columns of the paper's laws, by default as the authors fitted them."""
    return paper_columns(read_table(FINE_TUNING), compute=compute, proxies=proxies)


def figures(*, num_splits: int = 20) -> list[dict[str, Any]]:
    """Return every figure of the paper's laws: name, target, measured, unit, command, note."""
    table = read_rows()
    return [
        *_coefficients(table),
        *_likelihood_ratio(table),
        *_held_out(table, num_splits),
        *_before_the_run(num_splits),
        *_leave_one_gpu_out(table),
        *_large_models(),
        *_large_models_beside_step(),
    ]


def _coefficients(table: Table) -> list[dict[str, Any]]:
    bert = table.take((table["architecture"] == "bert") & (table["machine"] == GPU_MODELS["2080ti"]))
    fit = PaperLaw(efficiency="measured").least_squares(bert)
    found = dict(zip(fit.names, fit.coefficients.tolist(), strict=True))
    difference = max(abs(round(found[name], 4) - value) for name, value in COEFFICIENTS.items())
    shown = ", ".join(f"{name} {found[name]:.4f}" for name in COEFFICIENTS)
    without = PaperLaw(efficiency="none").least_squares(bert)
    protocol = run_protocol(PaperLaw(efficiency="measured"), bert)
    return [
        _figure("core.paper.coefficients", 0.0, difference, "largest difference at four digits",
                f"{shown}; {len(bert)} RTX 2080 Ti BERT rows; published {list(COEFFICIENTS.values())}"),
        _figure("core.paper.adj_r2", None, fit.adjusted_r2, "1", "with eta_h; the paper's own 410 rows: 0.8525"),
        _figure("core.paper.adj_r2_without_eta", None, without.adjusted_r2, "1",
                "without eta_h; the paper's own 410 rows, R2: 0.7768 without, 0.8543 with"),
        _figure("core.paper.protocol.r2", None, protocol.r2.median, "1",
                f"70/30, five seeds: quartiles {protocol.r2.lower_quartile:.3f} to {protocol.r2.upper_quartile:.3f}, "
                f"calibration slope {protocol.slope.median:.3f}, 95 % interval covers "
                f"{100 * protocol.coverage.median:.1f} %, half-width x{protocol.half_width.median:.2f} "
                "(published, over more BERT rows: x1.83)"),
    ]  # fmt: skip


def _likelihood_ratio(table: Table) -> list[dict[str, Any]]:
    """Table 4: what eta_h adds to the fit."""
    bert = table.take((table["architecture"] == "bert") & (table["machine"] == GPU_MODELS["2080ti"]))
    found = efficiency_test(PaperLaw(efficiency="measured"), bert)
    assert found is not None
    ratio = found.likelihood_ratio
    return [
        _figure("core.paper.likelihood_ratio", None, ratio.statistic, f"on {ratio.dof} degree of freedom",
                f"{len(bert)} RTX 2080 Ti BERT rows, with measured eta_h against without: log10 of p "
                f"{ratio.log10_p_value:.1f}, R2 {found.r2_without:.4f} to {found.r2:.4f}, "
                f"RMSE {found.rmse_without:.4f} to {found.rmse:.4f} ({found.rmse / found.rmse_without - 1:+.0%}); "
                "the paper's 410 rows: 174.90, p 6.3e-40, 0.7768 to 0.8543, 0.4761 to 0.3846 (-19 %)"),
    ]  # fmt: skip


def _part(table: Table, family: str) -> Table:
    return table if family == "pooled" else table.take(table["architecture"] == FAMILIES[family])


def _before_the_run(num_splits: int) -> list[dict[str, Any]]:
    """The paper's laws as they are by default: C by equation (2), all proxies as a spec implies them."""
    table = read_rows(compute="eq2", proxies="spec")
    found = []
    for family in PARTS:
        rows = _part(table, family)
        cuts = splits(rows, "grouped", num_splits=num_splits)
        laws: dict[str, Law] = {"paper": PaperLaw(), "power": PowerLaw(), "additive": AdditiveLaw(),
                                "additive_relative": AdditiveLaw(weighting="relative")}  # fmt: skip
        for name, law in laws.items():
            (verdict,) = evaluate(law, rows, cuts, protocol="grouped")
            found.append(
                _figure(f"core.paper.before_run.{name}.{family}", None, verdict.metrics["r2_log"].median,
                        "R2 of ln(energy)",
                        f"median of {num_splits} 70/30 splits by configuration family, {len(rows)} rows; C by (2), C, "
                        f"M and steps as the spec implies; median error {verdict.metrics['median_ape'].median:.1f} %")
            )  # fmt: skip
    return found


def _held_out(table: Table, num_splits: int) -> list[dict[str, Any]]:
    found = []
    for efficiency, targets in HELD_OUT.items():
        for family, target in targets.items():
            rows = _part(table, family)
            effects = ("strategy", "architecture") if family == "pooled" else ("strategy",)
            law = PaperLaw(efficiency=efficiency, fixed_effects=effects)  # type: ignore[arg-type]
            when = "with measured eta_h" if efficiency == "measured" else "before the run, eta_h from (9) and (11)"
            (verdict,) = evaluate(law, rows, splits(rows, "grouped", num_splits=num_splits), protocol="grouped")
            found.append(
                _figure(f"core.paper.held_out.{efficiency}.{family}", target, verdict.metrics["r2_log"].median,
                        "R2 of ln(energy)",
                        f"{when}; median of {num_splits} 70/30 splits by configuration family, {len(rows)} rows; "
                        "theirs over four GPU models, ours over the two whose rows are here")
            )  # fmt: skip
    return found


def _leave_one_gpu_out(table: Table) -> list[dict[str, Any]]:
    found, protocol = [], "leave-one-gpu-out"
    for cut in splits(table, protocol):
        short = next((short for part, short in SHORT.items() if part in cut.name), cut.name)
        target = LEAVE_ONE_GPU_OUT.get(short)
        (trial,) = trials(PaperLaw(efficiency="measured"), table, [cut], protocol=protocol)
        assert trial.estimate is not None
        measured = trial.test.positive("energy_j")
        errors = np.log(measured / trial.estimate.energy_j)
        r2, without_bias = r2_log(errors, measured), r2_log(errors - errors.mean(), measured)
        found.append(
            _figure(f"core.paper.leave_one_gpu_out.{short}", target, r2, "R2 of ln(energy)",
                    f"trained on {len(cut.train)} rows of the other GPU models here (theirs: three others); "
                    f"{len(trial.rows)} rows predicted, {len(cut.test) - len(trial.rows)} left: a strategy never seen "
                    f"in the fit; bias of ln(energy) {errors.mean():.2f}, R2 without it {without_bias:.3f}")
        )  # fmt: skip
    return found


def _large_models() -> list[dict[str, Any]]:
    error = large_models_error()
    rows = "; ".join(f"{row.model} FSDP {row.fsdp_epoch_mwh:.3f} TP {row.tp_epoch_mwh:.2f}" for row in large_models())
    return [
        _figure("core.paper.table5_max_error", 2.0, 100 * error.largest_relative_error, "percent",
                f"largest error over {error.num_ratios} ratios whose cells show three digits, from one anchor row "
                f"(GPT-3, TP); cells of fewer digits outside of their rounding: {error.num_outside_rounding} of "
                f"{error.num_rounded}; MWh per epoch: {rows}")
    ]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeModelRow:
    """One model of section 6: what its training took, what the paper's table says, and what the step law does; MWh.

    Attributes:
        model: as the paper names it.
        reported_mwh: of the real training.
        fsdp_mwh: the paper's total under FSDP on 100 GPUs.
        tp_mwh: the same under tensor parallelism.
        step_mwh: the step law's prediction of the real training, cold; ``None`` where its blocks are none it reads.
        step_power_mwh: the step law's power of such a training over the hours that were reported.
    """

    model: str
    reported_mwh: float
    fsdp_mwh: float
    tp_mwh: float
    step_mwh: float | None
    step_power_mwh: float


def large_models_beside_step() -> list[LargeModelRow]:
    """Set the paper's table of large models beside what the step law says of the real trainings."""
    whole = {one.run.name: one.energy_j for one in compared_with_published()}
    records = read_table(TRAINING_TABLE)
    rows = []
    for row in large_models_table().models:
        start = TRAININGS[row.model]
        record = next(one for one in records if one.environment["model"].startswith(start))
        energy = next((energy for name, energy in whole.items() if name.startswith(start)), None)
        rows.append(
            LargeModelRow(
                model=row.model,
                reported_mwh=row.reported_mwh,
                fsdp_mwh=row.fsdp_total_mwh,
                tp_mwh=row.tp_total_mwh,
                step_mwh=None if energy is None else energy.mid / _JOULES_PER_MWH,
                step_power_mwh=row.reported_mwh * (1 + _error_of_power(record)),
            )
        )
    return rows


def _error_of_power(record: RunRecord) -> float:
    """The step law's power over the reported hours, relative to the reported energy, less 1."""
    error = PublishedTraining(replace(record, stated={}), candidates_of(record)).energy_error
    assert error is not None
    return error


def large_models_markdown() -> str:
    """Write the comparison as the table of docs/laws/paper.md."""
    head = ("model", "reported", "paper, FSDP", "paper, TP", "step law, whole run", "step law's power x reported hours")
    body = [
        (row.model, f"{row.reported_mwh:g}", f"{row.fsdp_mwh:.3g}", f"{row.tp_mwh:.3g}",
         "-" if row.step_mwh is None else f"{row.step_mwh:.3g}", f"{row.step_power_mwh:.3g}")
        for row in large_models_beside_step()
    ]  # fmt: skip
    rule = ("---", *["---:"] * (len(head) - 1))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *body))


def _large_models_beside_step() -> list[dict[str, Any]]:
    rows = large_models_beside_step()
    columns = {
        "paper_fsdp": [row.fsdp_mwh / row.reported_mwh for row in rows],
        "paper_tp": [row.tp_mwh / row.reported_mwh for row in rows],
        "step": [row.step_mwh / row.reported_mwh for row in rows if row.step_mwh is not None],
        "step_power": [row.step_power_mwh / row.reported_mwh for row in rows],
    }
    said = {
        "paper_fsdp": "the paper's totals under FSDP on 100 GPUs, as printed",
        "paper_tp": "the paper's totals under tensor parallelism, as printed",
        "step": "the step law, cold, of the real runs that it reads (GPT-3 and T5), layouts assumed, PUE as reported",
        "step_power": "the step law's power over the reported hours, cold; usual shapes where none is published",
    }
    return [
        _figure(f"core.paper.large_models.{name}", None, float(np.exp(np.median(np.abs(np.log(ratios))))),
                "factor off, median",
                f"{said[name]}; over reported: {', '.join(f'{ratio:.2f}' for ratio in ratios)} "
                f"({', '.join(row.model for row in rows if name != 'step' or row.step_mwh is not None)})")
        for name, ratios in columns.items()
    ]  # fmt: skip


if __name__ == "__main__":
    show(figures())
    print(large_models_markdown())
