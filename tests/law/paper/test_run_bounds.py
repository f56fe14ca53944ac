"""The bounds (5) and (6) and the band of theorem 3.2 on runs, by hand and against what was measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wattlaw.errors import DataError
from wattlaw.features.paper import paper_columns
from wattlaw.hardware import accelerator
from wattlaw.law.bundled import bundled
from wattlaw.law.fitting import fit_records
from wattlaw.law.paper.additive_checkup import additive_checkup
from wattlaw.law.paper.published import published
from wattlaw.law.paper.run_bounds import bounds_of_runs, dynamic_power_w, traffic_of
from wattlaw.parallel.layout import Layout
from wattlaw.run.spec import RunSpec
from wattlaw.workload import Recipe, preset


@pytest.fixture(scope="module")
def calibration(records):
    """The additive law on forty runs."""
    return fit_records(records, law_name="additive").calibration


@pytest.fixture(scope="module")
def spec():
    """BERT-base on one A100: 100 steps of 32 sequences of 128 tokens."""
    return RunSpec(
        architecture=preset("bert-base-uncased"),
        recipe=Recipe(batch_size=32, seq_len=128, steps=100, precision="fp16"),
        layout=Layout(),
        accelerator=accelerator("a100-sxm4-40gb"),
    )


def test_by_hand(calibration, spec):
    """C = 4096 (12 12 768^2 + 3 12 128 768) per step at 312 TFLOP/s; M = 4096 768 12 numbers, 2 bytes, 1555 GB/s."""
    found = bounds_of_runs(calibration, paper_columns([spec], compute="eq2"), [spec])
    compute, memory = 4096 * (144 * 768**2 + 36 * 128 * 768), 4096 * 768 * 12
    least_s = max(compute / 312e12, 2 * memory / 1555e9)
    assert found.limited_by.tolist() == ["compute"]
    assert found.least_duration_s[0] == pytest.approx(100 * least_s, rel=1e-12)
    assert found.least_energy_j[0] == pytest.approx(100 * least_s * dynamic_power_w(spec), rel=1e-12)
    compute_j, memory_j, fixed_j = (calibration.parameters[name] for name in ("compute_j", "memory_j", "fixed_j"))
    assert found.band_low_j[0] == pytest.approx(100 * min(compute_j * compute, memory_j * memory))
    assert found.band_high_j[0] == pytest.approx(100 * (compute_j * compute + memory_j * memory + fixed_j))


def test_dynamic_power_is_a_share_of_the_limit(spec):
    """The smaller of the shares for products and for memory, of the cap where it is lower."""
    own = bundled().machines["a100-sxm4-40gb"].parameters
    share = min(own["compute_fraction"], own["memory_fraction"])
    assert dynamic_power_w(spec) == pytest.approx(400 * share)
    assert dynamic_power_w(replace(spec, power_limit_w=200)) == pytest.approx(200 * share)


def test_more_devices_share_the_work(calibration, spec):
    """Under data parallelism as many tokens take as much energy at least, and the devices divide the time."""
    two = replace(spec, layout=Layout.of("fsdp", num_devices=2), recipe=replace(spec.recipe, steps=50))
    found = bounds_of_runs(calibration, paper_columns([spec, two], compute="eq2"), [spec, two])
    assert found.least_energy_j[1] == pytest.approx(found.least_energy_j[0])
    assert found.least_duration_s[1] == pytest.approx(found.least_duration_s[0] / 2)


def test_measured_runs_lie_above(records, calibration):
    """No run is faster than (5), or takes less than (6); the band's upper end is what the law says."""
    specs = [record.spec for record in records]
    table = paper_columns(records, compute="eq2")
    found = bounds_of_runs(calibration, table, specs)
    assert (table["duration_s"] > found.least_duration_s).all()
    assert (table["energy_j"] > found.least_energy_j).all()
    assert (found.band_low_j <= found.band_high_j).all()
    said = additive_checkup(records)
    assert said.energy_over_bound[0] > 1
    assert said.duration_over_bound[0] > 1
    assert said.slope == pytest.approx((found.slope.min(), np.median(found.slope), found.slope.max()))


def test_the_band_of_traffic_is_that_of_the_steps(records, calibration):
    """k1 C^b <= M <= k2 C^b for every step of the fit, with equality at both ends."""
    table = paper_columns(records, compute="eq2")
    compute, memory = table["compute_proxy"] / table["num_steps"], table["memory_proxy"]
    band = traffic_of(calibration)
    ratios = memory / compute**band.exponent
    assert (ratios.min(), ratios.max()) == pytest.approx((band.lowest, band.highest))


def test_one_configuration_has_no_exponent(records):
    """A slope is what b is: of steps that are all alike there is none."""
    calibration = fit_records(records, law_name="additive").calibration
    bare = replace(calibration, diagnostics={})
    assert traffic_of(bare) is None
    found = bounds_of_runs(bare, paper_columns([records[0].spec], compute="eq2"), [records[0].spec])
    assert found.slope is None


def test_prices_without_units_make_no_band(spec):
    """Table 2 is published without them."""
    with pytest.raises(DataError, match="joules per unit"):
        bounds_of_runs(published("paper-table2"), paper_columns([spec], compute="eq2"), [spec])
