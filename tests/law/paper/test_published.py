"""Published calibrations are as printed, and the paper's large-model table follows from them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from wattlaw.errors import ConfigError, DataError, UnknownNameError
from wattlaw.features.table import Table
from wattlaw.law.calibration import Calibration
from wattlaw.law.paper import PaperLaw
from wattlaw.law.paper.published import (
    anchored,
    anchored_fit,
    large_models,
    large_models_error,
    large_models_table,
    published,
    published_names,
)
from wattlaw.law.prediction import predict
from wattlaw.parallel.speedup import PUBLISHED
from wattlaw.units import JOULES_PER_KWH
from wattlaw.workload.proxies import compute_proxy_per_token, memory_proxy


def runs(**columns) -> Table:
    """Two runs that differ in the columns given."""
    same = {
        "compute_proxy": [1e15, 1e15],
        "memory_proxy": [1e8, 1e8],
        "data_parallel": [1, 1],
        "tensor_parallel": [1, 1],
        "strategy": ["single", "single"],
    }
    return Table(same | columns)


def test_table_3_as_printed():
    """Worked numbers: coefficients, errors and the intervals that the paper prints beside them."""
    calibration = published("paper-table3")
    parameters = calibration.parameters
    assert parameters["intercept"] - math.log(JOULES_PER_KWH) == pytest.approx(-10.5283, abs=1e-12)
    assert [parameters[f"strategy:{name}"] for name in ("fsdp", "tp")] == [5.3839, 7.6487]
    printed = {
        "ln_compute_proxy": (0.1955, 0.147, 0.244),
        "ln_memory_proxy": (0.0980, 0.025, 0.171),
        "ln_efficiency": (-1.0601, -1.255, -0.865),
    }
    for name, (value, low, high) in printed.items():
        assert parameters[name] == value
        half = 1.96 * calibration.standard_error(name)
        assert (value - half, value + half) == pytest.approx((low, high), abs=2e-3)
    assert calibration.diagnostics["adjusted_r2"] == 0.8525
    assert calibration.provenance["state"] == "published"


def test_speedup_parameters_are_those_of_the_speedup_laws():
    """The calibration carries the same published speedup parameters as ``parallel.speedup``."""
    parameters = published("paper-table3").parameters
    for name in ("alpha", "beta", "s_max", "rate"):
        assert parameters[f"speedup.{name}"] == getattr(PUBLISHED, name)


def test_every_published_calibration_loads_and_names_its_source():
    """Each file is a calibration with a source and a date."""
    assert set(published_names()) >= {"paper-table2", "paper-table3"}
    for name in published_names():
        calibration = published(name)
        assert isinstance(calibration, Calibration)
        assert calibration.provenance["source"]
        assert calibration.provenance["date"]


def test_unknown_names_list_the_nearest():
    """A name that was not published lists those that were."""
    with pytest.raises(UnknownNameError, match="paper-table3"):
        published("paper-table4")


def test_without_an_anchor_there_are_only_ratios():
    """The centring constants are not published: an absolute energy is refused, with what to try."""
    with pytest.raises(DataError, match=r"ratios between runs only.*anchoring"):
        PaperLaw().estimate(published("paper-table3"), runs())


def test_anchored_on_a_run_it_gives_that_run_and_the_ratios():
    """The anchor comes back exactly; another run differs by the published exponents."""
    law = PaperLaw(efficiency="published")
    calibration = anchored(published("paper-table3"), runs().take([0]).with_columns(energy_j=[5000.0]))
    pair = runs(compute_proxy=[1e15, 2e15], memory_proxy=[1e8, 3e8])
    energy_j = law.estimate(calibration, pair).energy_j
    assert energy_j[0] == pytest.approx(5000, rel=1e-12)
    assert energy_j[1] / energy_j[0] == pytest.approx(2**0.1955 * 3**0.0980, rel=1e-12)
    assert calibration.provenance["anchor"] == "1 measured runs"


def test_several_anchors_agree_in_the_geometric_mean():
    """Two anchors that are off by a factor of two each way leave the law in the middle."""
    table = runs(compute_proxy=[1e15, 1e15]).with_columns(energy_j=[1000.0, 4000.0])
    calibration = anchored(published("paper-table3"), table)
    np.testing.assert_allclose(PaperLaw().estimate(calibration, table).energy_j, 2000, rtol=1e-12)


def test_proxies_of_the_large_models_as_printed():
    """C_epoch and M_proxy follow from L, d, the tokens and the length, to the three digits printed."""
    table = large_models_table()
    for row in table.models:
        per_token = compute_proxy_per_token(row.num_layers, row.hidden_size, row.seq_len)
        assert table.tokens_per_epoch * per_token == pytest.approx(row.compute_per_epoch, rel=5e-3), row.model
        traffic = memory_proxy(table.tokens_per_epoch, row.seq_len, row.hidden_size, row.num_layers)
        assert traffic == pytest.approx(row.memory_proxy, rel=5e-3), row.model


def test_large_models_within_two_percent():
    """Table of section 6: ratios of three digits within 2 %, all other cells exactly as they round."""
    error = large_models_error()
    assert error.largest_relative_error <= 0.02
    assert error.num_ratios == 8
    assert (error.num_outside_rounding, error.num_rounded) == (0, 7)


def test_tensor_parallel_costs_about_forty_times_fsdp():
    """exp(7.6487 - 5.3839) (0.370 / 0.098)^1.0601 is about 40, the same for every model."""
    expected = math.exp(7.6487 - 5.3839) * (0.3701 / 0.098) ** 1.0601
    for row in large_models():
        assert row.tp_epoch_mwh / row.fsdp_epoch_mwh == pytest.approx(expected, rel=1e-3)


def test_anchors_say_how_sure_the_level_is():
    """Four runs or more leave residuals, each left out in turn; fewer have the error that was published."""
    table = Table({
        "compute_proxy": [1e15] * 4, "memory_proxy": [1e8] * 4, "data_parallel": [1] * 4, "tensor_parallel": [1] * 4,
        "strategy": ["single"] * 4, "energy_j": [1000.0, 1000.0, 1000.0, 1000.0 * math.e], "boundary": ["node"] * 4,
    })  # fmt: skip
    calibration = anchored(published("paper-table3"), table)
    assert calibration.boundary == "node"
    assert sorted(calibration.residuals.energy) == pytest.approx([-1 / 3] * 3 + [1.0])
    assert calibration.domain["compute_proxy"] == (1e15, 1e15)
    one = anchored(published("paper-table3"), table.take([0]))
    assert np.std(one.residuals.energy) == pytest.approx(0.3846 * math.sqrt(2), rel=0.02)
    assert one.domain == {}
    assert any("1 measured run;" in warning for warning in one.warnings)


def test_anchored_on_records_it_predicts(records):
    """The geometric mean of the anchors comes back; another law's level cannot be set."""
    single = [one for one in records if one.spec.layout.num_devices == 1]
    found = anchored_fit(published("paper-table3"), single)
    assert (found.num_records, found.num_left_out) == (8, 0)
    predictions = predict([one.spec for one in single], found.calibration)
    errors = [
        math.log(one.energies[0].energy_j / said.energy_j.mid) for one, said in zip(single, predictions, strict=True)
    ]
    assert np.mean(errors) == pytest.approx(0, abs=1e-9)
    assert all(said.boundary == "node" and not said.cold for said in predictions)
    with pytest.raises(ConfigError, match="paper, power"):
        anchored_fit(published("paper-table2"), single)
    with pytest.raises(DataError, match="no record"):
        anchored_fit(published("paper-table3"), [])
