"""A host's calibration from a probe."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattlaw.errors import ConfigError, DataError
from wattlaw.features.physical import physical_columns
from wattlaw.hardware import accelerator
from wattlaw.law import anchoring
from wattlaw.law.bundled import bundled
from wattlaw.law.calibration import Anchor, Calibration
from wattlaw.law.loading import load_law
from wattlaw.law.prediction import predict
from wattlaw.law.probed import calibrate_host, condition, covariance_before, within_bounds
from wattlaw.law.spread import spreads
from wattlaw.law.step_terms import COMMON_PACE, PARAMETERS, SPREAD_BY_SCOPE, between_machines
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunSpec
from wattlaw.workload import Recipe, preset

COVARIANCE = between_machines()
NAMES = [parameter.name for parameter in PARAMETERS]


@dataclass(frozen=True)
class Number:
    """A measured number without a unit."""

    value: float
    error: float = 0.0


@pytest.fixture(scope="module")
def prior() -> Calibration:
    """The shipped calibration without the machines that later ones may add."""
    shipped = bundled()
    kept = {name: shipped.machines[name] for name in ("a100-sxm4-40gb", "rtx-2080-ti")}
    return replace(shipped, machines=kept)


@pytest.fixture(scope="module")
def h100():
    """A device that the shipped calibration has not seen."""
    return accelerator("h100-sxm5-80gb")


def run_on(device) -> RunSpec:
    """BERT-base on one device."""
    recipe = Recipe(batch_size=32, seq_len=128, precision="bf16", steps=100)
    return RunSpec(
        architecture=preset("bert-base-uncased"),
        recipe=recipe,
        layout=Layout.of("single", num_devices=1),
        accelerator=device,
    )


def test_a_processor_may_be_farther_from_what_gpus_have_in_common(h100, prior) -> None:
    """The same measurement counts for more on a CPU, of which the common parameters say less."""
    of_gpu, of_cpu = (covariance_before(prior, device) for device in (h100, accelerator("generic-cpu")))
    anchor = Anchor(parameter="traffic_factor", value=20.0, spread=0.25)
    moved = [
        {one.name: one.value for one in condition([anchor], prior.parameters, covariance)}["traffic_factor"]
        for covariance in (of_gpu, of_cpu)
    ]
    assert prior.parameter("traffic_factor") < moved[0] < moved[1] < 20.0
    alone = replace(prior, machines={})
    np.testing.assert_allclose(covariance_before(alone, h100), 2 * between_machines())


def test_shares_above_one_are_told(h100) -> None:
    """Above a data sheet a share is held at 1 and told; a time has no bound."""
    high = Anchor(parameter="matrix_fraction", value=1.3, spread=0.1)
    slow = Anchor(parameter="launch_kernel_s", value=7.0, spread=0.1)
    kept, (note,) = within_bounds([high, slow], h100)
    assert kept == (replace(high, value=1.0), slow)
    assert "measured as 1.3 and is held at its bound 1" in note


def test_a_sure_anchor_is_met_and_a_vague_one_changes_nothing(prior) -> None:
    """The two limits of an anchor's uncertainty."""
    before = prior.parameters
    for spread, expected in ((1e-6, 0.9), (1e6, before["matrix_fraction"])):
        anchor = Anchor(parameter="matrix_fraction", value=0.9, spread=spread)
        found = {one.name: one for one in condition([anchor], before, COVARIANCE)}
        assert found["matrix_fraction"].value == pytest.approx(expected, rel=1e-4)
        others = {name: one.value for name, one in found.items() if name != "matrix_fraction"}
        assert others == pytest.approx({name: before[name] for name in others})
        assert found["traffic_factor"].origin == "prior"


def test_a_slow_host_is_slow_in_all_that_it_works_on(prior) -> None:
    """Launches measured twice as slow make updates slower by 2 to the power of the correlation of the pace, 0.877."""
    anchor = Anchor(parameter="launch_kernel_s", value=2 * prior.parameter("launch_kernel_s"), spread=1e-6)
    found = {one.name: one for one in condition([anchor], prior.parameters, COVARIANCE)}
    correlation = COMMON_PACE**2 / (COMMON_PACE**2 + SPREAD_BY_SCOPE["pace"] ** 2)
    update = found["update_tensor_s"]
    assert update.value / update.before == pytest.approx(2**correlation, rel=1e-4)
    assert update.origin == "moved along"
    assert found["link_fraction"].value == pytest.approx(found["link_fraction"].before)


@settings(max_examples=40)
@given(st.data())
def test_anchors_never_make_a_parameter_less_sure(data) -> None:
    """Every anchor takes uncertainty away, and what is measured ends between what it was and what was measured."""
    chosen = data.draw(st.sets(st.sampled_from(sorted(anchoring.RULES)), min_size=1, max_size=1))
    spread = data.draw(st.floats(0.01, 2.0))
    value = data.draw(st.floats(1e-6, 1.0))
    calibration = bundled()
    found = [Anchor(parameter=name, value=value, spread=spread) for name in chosen]
    before = condition([replace(found[0], spread=1e9)], calibration.parameters, COVARIANCE)
    after = condition(found, calibration.parameters, COVARIANCE)
    for one, other in zip(before, after, strict=True):
        assert other.spread <= one.spread * (1 + 1e-9)
        if other.name in chosen:
            low, high = sorted((other.before, value))
            assert low * (1 - 1e-6) <= other.value <= high * (1 + 1e-6)


def test_a_machine_is_recovered_from_exact_figures(h100, prior) -> None:
    """Figures made from a drawn machine's own parameters bring its step's time within a tenth; cold it is far off."""
    generator = np.random.default_rng(5)
    truth = dict(prior.parameters)
    pace = math.exp(1.5 * COMMON_PACE)
    for name in ("launch_step_s", "launch_kernel_s", "update_step_s", "update_tensor_s"):
        truth[name] *= pace * math.exp(0.1 * generator.normal())
    truth["matrix_fraction"] = 0.25
    figures = {
        "matrix_bf16_flop_per_s": Number(0.25 * h100.peak_flop_per_s("bf16")),
        **{name: Number(truth[name]) for name in ("launch_step_s", "launch_kernel_s", "update_tensor_s")},
    }
    host = calibrate_host(figures, h100, prior)
    real = replace(prior, machines={h100.name: replace(host.calibration.machines[h100.name], parameters=truth)})
    times_s = [
        predict([run_on(h100)], calibration)[0].duration_s.mid for calibration in (real, host.calibration, prior)
    ]
    assert abs(math.log(times_s[1] / times_s[0])) < 0.1
    assert abs(math.log(times_s[2] / times_s[0])) > 0.5


def test_a_probed_machine_is_warm_and_surer_than_a_cold_one(h100, prior) -> None:
    """No run was measured, and a warning says so; what may be off narrows by what the probe tells, and no further."""
    host = calibrate_host({"launch_kernel_s": Number(1e-5)}, h100, prior, doubts=("busy",))
    (warm,), (cold,) = predict([run_on(h100)], host.calibration), predict([run_on(h100)], prior)
    assert (warm.cold, cold.cold) == (False, True)
    assert warm.duration_s.mid != cold.duration_s.mid
    table = physical_columns([run_on(h100)])
    before, after = (spreads(one, table, "duration")[0] for one in (prior, host.calibration))
    assert prior.noise["duration"] < after < before
    assert any("from a probe, not from runs" in warning for warning in warm.warnings)
    assert "probe of h100-sxm5-80gb: busy" in warm.warnings


def test_other_machines_stay_as_they_are(h100, prior) -> None:
    """A probe of one machine changes no prediction of another, seen or not."""
    host = calibrate_host({"launch_kernel_s": Number(1e-5)}, h100, prior)
    for name in ("a100-sxm4-40gb", "l4"):
        spec = run_on(accelerator(name))
        (before,), (after,) = predict([spec], prior), predict([spec], host.calibration)
        assert (after.energy_j, after.duration_s) == (before.energy_j, before.duration_s)


def test_a_seen_gpu_keeps_what_is_known_of_it(prior) -> None:
    """On a GPU that a fit has seen, what is not measured stays that machine's and not what machines have in common."""
    device = accelerator("a100-sxm4-40gb")
    host = calibrate_host({"link": Number(1.0), "launch_kernel_s": Number(3e-5)}, device, prior)
    own = {one.name: one for one in host.parameters}
    assert own["clock_threshold"].value == pytest.approx(prior.machines[device.name].parameters["clock_threshold"])
    assert not host.calibration.machines[device.name].residuals


def test_every_parameter_says_where_it_comes_from(h100, prior) -> None:
    """The three origins name every parameter once, in the value and in the file's provenance."""
    host = calibrate_host({"launch_kernel_s": Number(1e-5)}, h100, prior)
    provenance = host.calibration.provenance
    assert provenance["state"] == "probed"
    lists = [provenance[f"parameters_{origin}"] for origin in ("measured", "moved_along", "prior")]
    named = [name for names in lists for name in names.split(", ") if name]
    assert sorted(named) == sorted(NAMES)
    assert lists[0] == "launch_kernel_s"


def test_the_file_keeps_the_anchors(h100, prior, tmp_path) -> None:
    """Saved and loaded, the calibration is the same and holds what was measured, for a fit that starts from it."""
    host = calibrate_host({"launch_kernel_s": Number(1e-5, error=0.2)}, h100, prior)
    host.calibration.save(tmp_path / "host.json")
    loaded = Calibration.load(tmp_path / "host.json")
    assert loaded == host.calibration
    (anchor,) = loaded.machines[h100.name].anchors
    assert anchor.parameter == "launch_kernel_s"
    assert anchor.value == pytest.approx(1e-5)
    assert anchor.spread == pytest.approx(math.hypot(0.2, anchoring.TRANSFER_SPREAD["launch_kernel_s"]))
    assert all(not machine.anchors for name, machine in loaded.machines.items() if name != h100.name)


def test_a_host_is_a_law_that_commands_take(prior, tmp_path) -> None:
    """A share measured far above its data sheet still makes a file that ``predict`` and ``fit`` accept."""
    device = accelerator("generic-cpu")
    host = calibrate_host({"matrix_fp32_flop_per_s": Number(1e15)}, device, prior)
    host.calibration.save(tmp_path / "host.json")
    assert load_law(tmp_path / "host.json") == host.calibration
    assert host.calibration.machines["generic-cpu"].parameters["matrix_fraction"] <= 1


def test_a_prior_of_another_law_is_refused(h100, prior) -> None:
    """The anchors are the step law's."""
    with pytest.raises(ConfigError, match="step law"):
        calibrate_host({"launch_kernel_s": Number(1e-5)}, h100, replace(prior, law="paper"))


def test_figures_that_say_nothing_are_refused(h100, prior) -> None:
    """A file that would be the prior under another name is not written."""
    with pytest.raises(DataError, match="no figure"):
        calibrate_host({"enqueue_kernel_s": Number(1e-6)}, h100, prior)
