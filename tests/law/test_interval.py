"""Intervals: quantiles by hand, coverage, distance from what was measured, and which residuals a run is given."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from wattlaw.errors import ConfigError, DataError
from wattlaw.features.table import Table
from wattlaw.law.calibration import Calibration, MachineCalibration, Residuals
from wattlaw.law.interval import (
    ENOUGH_RESIDUALS,
    Interval,
    distances,
    ends,
    ends_of_runs,
    is_cold,
    outside_columns,
    require_level,
    student,
)
from wattlaw.law.spread import spreads
from wattlaw.law.step import StepLaw
from wattlaw.law.step_terms import PARAMETERS

FINITE = st.lists(st.floats(-3, 3), min_size=4, max_size=200).map(np.array)


def test_ends_by_hand():
    """Of -49 ... 49 at 90 %: the finite-sample rank (99 + 1) 0.95 is the 95th, 45, and its mirror."""
    assert ends(np.arange(-49.0, 50.0), 0.9) == (-45, 45)
    assert ends(np.arange(-49.0, 50.0), 0.5) == (-25, 25)


@pytest.mark.parametrize("level", [0.95, 0.999])
def test_few_residuals_give_their_extremes(level):
    """Where the rank asks for more than there is, the outermost are taken."""
    assert ends(np.array([-0.1, 0.0, 0.2, 0.3]), level) == (-0.1, 0.3)


@given(residuals=FINITE, level=st.floats(0.01, 0.99), higher=st.floats(0.01, 0.99))
def test_ends_hold_the_middle_and_grow_with_the_level(residuals, level, higher):
    """The lower end is never above 0, the upper never below; a higher level never gives a narrower interval."""
    low, high = ends(residuals, min(level, higher))
    wider_low, wider_high = ends(residuals, max(level, higher))
    assert wider_low <= low <= 0 <= high <= wider_high


@given(residuals=FINITE, level=st.floats(0.01, 0.99), factor=st.sampled_from([0.5, 2.0, 4.0]))
def test_ends_are_mirrored_scaled_and_blind_to_order(residuals, level, factor):
    """What is done to all residuals is done to their ends; their order tells nothing."""
    low, high = ends(residuals, level)
    assert ends(-residuals, level) == (-high, -low)
    assert ends(factor * residuals, level) == (factor * low, factor * high)
    assert ends(residuals[::-1], level) == (low, high)


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("num_residuals", [19, 60, 200])
def test_a_new_run_is_covered_at_the_level(level, num_residuals):
    """Any shape of errors: a new one is inside with the exact conformal probability, at least the level.

    With n residuals and the k-th from either end as the ends, a new one is outside with probability 2 k / (n + 1).
    """
    random = np.random.default_rng(num_residuals)
    repeats = 4000
    draws = random.exponential(1.0, (repeats, num_residuals + 1)) - math.log(2)
    inside = 0
    for row in draws:
        low, high = ends(row[:-1], level)
        inside += low <= row[-1] <= high
    rank = max(1, math.floor((num_residuals + 1) * (1 - level) / 2 + 1e-9))
    exact = 1 - 2 * rank / (num_residuals + 1)
    assert exact >= level or rank == 1
    assert inside / repeats == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / repeats))


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("target", ["energy", "duration"])
def test_intervals_of_the_step_law_cover_at_their_level(level, target, fitted, tested):
    """From fit to interval: of 600 new runs the level's share is inside, within three binomial errors of both."""
    column = {"energy": "energy_j", "duration": "duration_s"}[target]
    estimate = StepLaw().estimate(fitted, tested)
    log_ratio = np.log(tested[column] / getattr(estimate, column))
    low, high = ends_of_runs(fitted, tested, target=target, level=level)
    inside = np.mean((log_ratio >= low) & (log_ratio <= high))
    error = math.sqrt(level * (1 - level) * (1 / 250 + 1 / len(tested)))
    assert inside == pytest.approx(level, abs=3 * error)


@pytest.fixture(scope="module")
def fitted(step_specs, measured):
    """The step law fitted to 500 simulated runs, 250 on each of two hosts."""
    return StepLaw().fit(measured(step_specs(num_configurations=100, seed=20), noise=0.03, seed=20))


@pytest.fixture(scope="module")
def tested(step_specs, measured):
    """600 new runs of the same hosts."""
    return measured(step_specs(num_configurations=120, seed=21), noise=0.03, seed=21)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_too_few_residuals_tell_nothing(count):
    """Fewer than four are refused, with what to do."""
    with pytest.raises(DataError, match=rf"too few held-out residuals.*given {count}; allowed at least 4; try fitting"):
        ends(np.zeros(count), 0.9)


@pytest.mark.parametrize("level", [0, 1, -0.5, 95, math.nan])
def test_a_level_is_a_share_between_none_and_all(level):
    """0 and 1 are no levels, and neither are percents."""
    for attempt in (lambda: require_level(level), lambda: ends(np.zeros(9), level)):
        with pytest.raises(ConfigError, match="a level is a share of runs"):
            attempt()
    with pytest.raises(ConfigError, match="a level is a share of runs"):
        Interval(low=1, mid=2, high=3, level=level)


@pytest.mark.parametrize("numbers", [(2, 1, 3), (1, 3, 2), (math.nan, 1, 2)])
def test_the_ends_of_an_interval_are_in_order(numbers):
    """Low, middle, high."""
    low, mid, high = numbers
    with pytest.raises(ConfigError, match="low <= mid <= high"):
        Interval(low=low, mid=mid, high=high, level=0.9)


# Which residuals a run is given


def residuals(size, count=ENOUGH_RESIDUALS):
    """Residuals whose ends at any high level are a known size."""
    values = tuple(np.linspace(-size, size, count).tolist())
    return Residuals(energy=values, duration=tuple(2 * value for value in values))


@pytest.fixture
def calibration():
    """A well-known machine (residuals up to 1), one with few runs (2), larger runs (4), unknown machines (8)."""
    return Calibration(
        law="step",
        parameters={},
        domain={"work": (10.0, 100.0), "sent_bytes": (0.0, 5.0), "gradient_bytes": (0.0, 0.0)},
        residuals=residuals(0.5),
        outside=residuals(4.0),
        cold=residuals(8.0),
        machines={
            "known": MachineCalibration(parameters={}, residuals=residuals(1.0)),
            "new": MachineCalibration(parameters={}, residuals=residuals(2.0, count=4)),
        },
    )


def runs(machine="known", *, work=50.0, sent_bytes=1.0, gradient_bytes=0.0):
    """One run."""
    return Table({
        "work": [work],
        "sent_bytes": [sent_bytes],
        "gradient_bytes": [gradient_bytes],
        "machine": [machine],
    })  # fmt: skip


def half_width(calibration, table, target="energy"):
    """The upper end at 99.9 %, which is the largest residual of the kind that the run is given."""
    return ends_of_runs(calibration, table, target=target, level=0.999)[1][0]


def test_distances_by_hand(calibration):
    """The logarithm of how many times beyond the range a column is, 0 within, 1 for what no run had."""
    table = Table({
        "work": [50.0, 100.0, 100 * math.e, 5.0, 10.0],
        "sent_bytes": [0.0, 5.0, 20.0, 1.0, 1.0],
        "gradient_bytes": [0.0, 0.0, 0.0, 7.0, 1e12],
    })  # fmt: skip
    expected = [[0, 0, 0], [0, 0, 0], [1, math.log(4), 0], [math.log(2), 0, 1], [0, 0, 1]]
    np.testing.assert_allclose(distances(calibration, table), expected, rtol=1e-12)
    assert outside_columns(calibration, table) == (
        (),
        (),
        ("work", "sent_bytes"),
        ("work", "gradient_bytes"),
        ("gradient_bytes",),
    )


def test_rounding_does_not_put_a_run_outside(calibration):
    """The runs of the fit themselves are inside, whatever the last bit says."""
    table = Table({"work": [100 * (1 + 1e-12)], "sent_bytes": [0.0], "gradient_bytes": [0.0]})
    assert outside_columns(calibration, table) == ((),)


def test_a_well_known_machine_has_its_own_residuals(calibration):
    """Nothing is added to them; a target has its own."""
    assert half_width(calibration, runs()) == 1
    assert half_width(calibration, runs(), target="duration") == 2


def test_a_machine_with_few_runs_is_given_those_of_unknown_machines_too(calibration):
    """Four residuals say too little about their tails."""
    assert half_width(calibration, runs("new")) == 8


def test_an_unknown_machine_has_the_residuals_of_machines_left_out(calibration):
    """Cold, it has nothing of its own."""
    assert is_cold(calibration, runs("other")).tolist() == [True]
    assert is_cold(calibration, runs("known")).tolist() == [False]
    assert half_width(calibration, runs("other")) == 8


@pytest.mark.parametrize(("machine", "largest"), [("known", 8), ("other", 8)])
def test_beyond_the_range_the_interval_widens_with_the_distance(calibration, machine, largest):
    """At the edge all residuals of larger runs count; a factor e beyond, the interval is twice as wide, e^2 thrice."""
    for powers in (1, 2, 3):
        run = runs(machine, work=100 * math.exp(powers))
        assert half_width(calibration, run) == pytest.approx((1 + powers) * largest, rel=1e-12)


def test_the_farthest_column_counts(calibration):
    """Distances in several columns are not added up."""
    run = runs(work=100 * math.e, sent_bytes=5 * math.exp(2.0), gradient_bytes=1.0)
    assert half_width(calibration, run) == pytest.approx(3 * 8, rel=1e-12)


def test_runs_of_all_kinds_have_each_their_own_ends(calibration):
    """In one table, in any order: the same ends as alone."""
    kinds = [runs(), runs("new"), runs("other"), runs(work=1e4), runs("other", gradient_bytes=1.0), runs()]
    together = ends_of_runs(calibration, Table.concat(kinds), target="energy", level=0.9)
    alone = [ends_of_runs(calibration, kind, target="energy", level=0.9) for kind in kinds]
    assert list(zip(*(part.tolist() for part in together), strict=True)) == [(low[0], high[0]) for low, high in alone]


def test_a_law_that_tells_no_machines_apart_has_one_set_of_residuals():
    """It is warm everywhere, and needs no column of machines."""
    plain = Calibration(law="power", parameters={}, residuals=residuals(0.5, count=10))
    table = Table({"work": [1.0, 2.0]})
    assert is_cold(plain, table).tolist() == [False, False]
    assert ends_of_runs(plain, table, target="energy", level=0.99)[1].tolist() == [0.5, 0.5]


def test_residuals_that_a_calibration_lacks_are_an_error(calibration):
    """Nothing measured on other machines: how sure a cold prediction is cannot be said."""
    blind = Calibration(law="step", parameters={}, machines=calibration.machines)
    with pytest.raises(DataError, match="too few held-out residuals"):
        ends_of_runs(blind, runs("other"), target="energy", level=0.9)


# Where the expected spread is known


@given(level=st.floats(0.01, 0.999), degrees=st.integers(1, 200))
def test_student_is_that_of_scipy(level, degrees):
    """The series and the halving come to the same quantile."""
    assert student(level, degrees) == pytest.approx(stdtrit(degrees, (1 + level) / 2), rel=1e-9)


@pytest.fixture(scope="module")
def sure():
    """A calibration that knows how sure it is: two machines, one with many runs and one with four."""
    unsure = tuple(tuple(row) for row in (0.01 * np.eye(len(PARAMETERS))).tolist())

    def own(count, size):
        values = tuple((size * np.linspace(-1, 1, count)).tolist()) if count else ()
        return Residuals(energy=values, energy_spread=(0.05,) * count)

    parameters = {one.name: one.start for one in PARAMETERS}
    return Calibration(
        law="step",
        parameters=parameters,
        covariance=unsure,
        noise={"energy": 0.04, "duration": 0.04},
        domain={"block_kernels": (1.0, 1e9)},
        kinds={"precision": ("16-bit",)},
        residuals=own(60, 0.1),
        outside=own(60, 0.2),
        cold=own(60, 0.15),
        num_cold=3,
        machines={
            "a100-sxm4-40gb": MachineCalibration(parameters=parameters, residuals=own(60, 0.1), covariance=unsure),
            "rtx-2080-ti": MachineCalibration(parameters=parameters, residuals=own(4, 0.1), covariance=unsure),
        },
    )


@pytest.fixture(scope="module")
def some_runs(step_specs, measured):
    """Runs on both machines of ``sure``."""
    return measured(step_specs(num_configurations=4, seed=22), noise=0.0, seed=22)


def in_spreads(calibration, table, *, level=0.9, target="energy"):
    """The ends of each run in units of its spread."""
    low, high = ends_of_runs(calibration, table, target=target, level=level)
    expected = spreads(calibration, table, target)
    return low / expected, high / expected


def on(table, machine):
    """The runs of one machine, or as if they were on another."""
    if machine in table.text("machine"):
        return table.take(table.text("machine") == machine)
    return table.with_columns(machine=np.full(len(table), machine))


def test_a_machine_with_many_runs_has_their_quantiles_in_units_of_the_spread(sure, some_runs):
    """Residuals up to 0.1 with an expected spread of 0.05: the 55th of 60 from either end, at any run."""
    kept = sure.machines["a100-sxm4-40gb"].residuals.scaled("energy")
    assert kept.max() == pytest.approx(2.0)
    expected = ends(kept, 0.9)
    low, high = in_spreads(sure, on(some_runs, "a100-sxm4-40gb"))
    np.testing.assert_allclose(low, expected[0], rtol=1e-9)
    np.testing.assert_allclose(high, expected[1], rtol=1e-9)


def test_few_runs_have_their_own_scale_shrunk_to_what_was_expected(sure, some_runs):
    """Four residuals with a sum of squares of 8.9 in spreads, and four expected ones of 1: t with 8 degrees."""
    squares = np.sum(sure.machines["rtx-2080-ti"].residuals.scaled("energy") ** 2)
    expected = stdtrit(8, 0.95) * math.sqrt((4 + squares) / 8)
    low, high = in_spreads(sure, on(some_runs, "rtx-2080-ti"))
    np.testing.assert_allclose(high, expected, rtol=1e-6)
    np.testing.assert_allclose(low, -high, rtol=1e-9)


def test_a_probed_machine_has_what_was_expected(sure, some_runs):
    """No residual of its own: t with the four degrees of freedom that expectation is worth."""
    probed = replace(sure.machines["rtx-2080-ti"], residuals=Residuals())
    calibration = replace(sure, machines={"rtx-2080-ti": probed})
    np.testing.assert_allclose(in_spreads(calibration, on(some_runs, "rtx-2080-ti"))[1], stdtrit(4, 0.95), rtol=1e-6)


def test_an_unknown_machine_has_the_error_of_machines_left_out(sure, some_runs):
    """Three of them: t with three degrees of freedom times their root mean square; the prior's where there is one."""
    rows = on(some_runs, "l4")
    size = math.sqrt(np.mean(sure.cold.scaled("energy") ** 2))
    np.testing.assert_allclose(in_spreads(sure, rows)[1], stdtrit(3, 0.95) * size, rtol=1e-6)
    lonely = replace(sure, num_cold=1)
    np.testing.assert_allclose(in_spreads(lonely, rows)[1], NormalDist().inv_cdf(0.95), rtol=1e-6)


def test_outside_of_the_domain_the_error_of_larger_runs_comes_on_top(sure, some_runs):
    """In quadrature, in units of the law's own error, the more the farther: another precision counts as a factor e."""
    rows = on(some_runs, "a100-sxm4-40gb")
    inside, _ = ends_of_runs(sure, rows, target="energy", level=0.9)
    low, high = ends(sure.outside.scaled("energy"), 0.9)
    assert -low == pytest.approx(high)
    for far, distance in (
        (rows.with_columns(precision=np.full(len(rows), "fp8")), 1.0),
        (rows.with_columns(block_kernels=np.full(len(rows), 1e9 * math.exp(2.0))), 2.0),
    ):
        outer, _ = ends_of_runs(sure, far, target="energy", level=0.9)
        spread = spreads(sure, far, "energy", distance) / spreads(sure, rows, "energy")
        np.testing.assert_allclose(outer, -np.hypot(inside * spread, 0.04 * high * (1 + distance)), rtol=1e-6)
        assert np.all(outer < inside)


def test_another_kind_of_run_is_named_and_a_table_that_does_not_say_is_alike(sure, some_runs):
    """The precision is a column like others; 16-bit formats are one kind."""
    rows = on(some_runs, "a100-sxm4-40gb").take([0])
    assert outside_columns(sure, rows) == ((),)
    assert outside_columns(sure, rows.with_columns(precision=["fp32"])) == (("precision",),)
    assert outside_columns(sure, rows.without("precision")) == ((),)


@pytest.mark.parametrize("num_runs", [4, 12])
def test_intervals_of_a_new_machine_cover_though_few_runs_were_measured(num_runs, step_specs, measured, true_step):
    """Hosts drawn anew: over six of them at least nine tenths of the runs are within the 95 % interval."""
    random = np.random.default_rng(num_runs)
    known = StepLaw().fit(measured(step_specs(num_configurations=40, seed=23), noise=0.03, seed=23))
    specs = step_specs(num_configurations=10, seed=24, machines=("v100-sxm2-32gb",))
    plain = measured(specs, noise=0.0, seed=24)
    inside = []
    for _ in range(6):
        changes = {
            name: known.parameters[name] * math.exp(spread * random.standard_normal())
            for name, spread in (("launch_kernel_s", 0.8), ("link_fraction", 0.5), ("active_fraction", 0.2))
        }
        true = true_step(specs, **{**known.parameters, **changes})
        noise = np.exp(0.03 * random.standard_normal((2, len(specs))))
        table = plain.with_columns(energy_j=true.energy_j * noise[0], duration_s=true.duration_s * noise[1])
        seen = random.permutation(len(specs))[:num_runs]
        fitted, rest = StepLaw(prior=known).fit(table.take(seen)), np.setdiff1d(np.arange(len(specs)), seen)
        new = table.take(rest)
        error = np.log(new["energy_j"] / StepLaw().estimate(fitted, new).energy_j)
        low, high = ends_of_runs(fitted, new, target="energy", level=0.95)
        inside += ((error >= low) & (error <= high)).tolist()
    assert np.mean(inside) > 0.9
