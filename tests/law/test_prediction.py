"""From run specs to predictions: sums, intervals, doubts, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattlaw.errors import ConfigError, DataError, UnknownNameError
from wattlaw.hardware import accelerator, node_type, node_types
from wattlaw.law.bundled import bundled
from wattlaw.law.calibration import Calibration, Residuals
from wattlaw.law.fitting import fit_records
from wattlaw.law.laws import LAWS
from wattlaw.law.paper import AdditiveLaw, PaperLaw, PowerLaw
from wattlaw.law.prediction import LARGEST_NODE, columns_of, predict
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunSpec
from wattlaw.workload import Recipe, preset


def sst2():
    """BERT-base fine-tuned on SST-2 with four RTX 2080 Ti under FSDP: a run like those of the calibration."""
    return RunSpec(
        architecture=preset("bert-base-uncased", head="classification"),
        recipe=Recipe(batch_size=32, seq_len=128, padded_len=40.0, precision="fp16", samples=67349, epochs=3),
        layout=Layout.of("fsdp", num_devices=4),
        accelerator=accelerator("NVIDIA GeForce RTX 2080 Ti"),
    )


@pytest.fixture
def spec():
    """The run as a fixture."""
    return sst2()


def one(spec, **options):
    """Predict one run with the shipped calibration."""
    (found,) = predict([spec], bundled(), **options)
    return found


def test_a_prediction_adds_up(spec):
    """Terms sum to the middles, power is energy over time, and the boundary is that of the measurements."""
    found = one(spec)
    assert sum(found.terms_j.values()) == pytest.approx(found.energy_j.mid, rel=1e-12)
    assert sum(found.terms_s.values()) == pytest.approx(found.duration_s.mid, rel=1e-12)
    assert found.power_w == pytest.approx(found.energy_j.mid / found.duration_s.mid, rel=1e-15)
    assert found.boundary == "node"
    assert found.calibration.startswith("step: 518 fine-tuning runs")
    assert (found.cold, found.in_domain, found.outside, found.warnings) == (False, True, (), ())


def test_a_run_like_the_measured_ones_is_predicted_within_a_few_percent_at_half_a_level(spec):
    """Minutes and a fraction of a kilowatt-hour, on four boards of 250 W; the ends lie around the middle."""
    found = one(spec, level=0.5)
    assert 100 < found.duration_s.mid < 1000
    assert 4 * 60 < found.power_w < 4 * 250 + 60
    assert found.energy_j.low < found.energy_j.mid < found.energy_j.high < 1.1 * found.energy_j.low


def test_a_higher_level_gives_an_interval_around_the_lower_ones(spec):
    """The same middle, wider ends."""
    half, most = one(spec, level=0.5), one(spec, level=0.99)
    for inner, outer in ((half.energy_j, most.energy_j), (half.duration_s, most.duration_s)):
        assert outer.low < inner.low < inner.mid == outer.mid < inner.high < outer.high
    assert most.energy_j.level == 0.99


def test_no_runs_have_no_predictions():
    """Nothing is asked, nothing is said."""
    assert predict([], bundled()) == ()


@pytest.mark.parametrize("level", [0, 1, -1, 95])
def test_a_level_must_be_a_share(spec, level):
    """Refused even where there is nothing to predict."""
    for specs in ([spec], []):
        with pytest.raises(ConfigError, match=r"a level is a share of runs; given .*; allowed between 0 and 1"):
            predict(specs, bundled(), level=level)


def test_an_unknown_machine_is_cold_and_said_so(spec):
    """An H100 host: not in the domain, a warning that names it, and a wider interval than the known hosts have."""
    found = one(replace(spec, accelerator=accelerator("h100-sxm5-80gb")))
    assert (found.cold, found.in_domain) == (True, False)
    assert "cold: nothing was measured on hosts with h100-sxm5-80gb" in found.warnings[0]
    known = one(spec)
    assert found.energy_j.high / found.energy_j.low > known.energy_j.high / known.energy_j.low


def test_a_run_outside_of_the_measured_range_is_named_by_its_columns(spec):
    """Replicas exchange gradients, which no measured run did; two nodes were never seen either."""
    found = one(replace(spec, layout=Layout.of("ddp", num_devices=4)))
    assert found.outside == ("gradient_bytes", "strategy")
    assert not found.in_domain
    assert found.warnings == (
        "none of the runs on hosts with rtx-2080-ti was ddp: what it adds is known from other machines",
        "outside of the range that the calibration saw: gradient_bytes",
    )
    assert found.energy_j.high / found.energy_j.mid > one(spec).energy_j.high / one(spec).energy_j.mid
    nodes = replace(spec, layout=Layout.of("fsdp", num_devices=8, num_nodes=2), node=node_type("pcie-box"))
    assert {"num_devices", "num_nodes"} <= set(one(nodes).outside)


def test_a_strategy_that_was_never_run_on_the_machine_is_said_to_be_of_others(spec):
    """No run on an A100 was tensor parallel, though two on an RTX 2080 Ti were: warm there, and outside of what is."""
    tp = replace(spec, layout=Layout.of("tp", num_devices=2))
    seen, unseen = predict([tp, replace(tp, accelerator=accelerator("a100-sxm4-40gb"))], bundled())
    assert not seen.cold
    assert (seen.in_domain, "strategy" in seen.outside) == (True, False)
    assert not unseen.cold
    assert not unseen.in_domain
    assert "strategy" in unseen.outside
    assert any("none of the runs on hosts with a100-sxm4-40gb was tp" in warning for warning in unseen.warnings)
    assert seen.num_runs == {"fsdp": 154, "single": 82, "tp": 38}


def test_a_power_limit_below_the_boards_own_is_obeyed_and_outside_of_what_was_seen(spec):
    """Less power and no less time, with the column that no fit saw; a limit that changes nothing is none."""
    capped, free = one(replace(spec, power_limit_w=120.0)), one(spec)
    assert capped.outside == ("cap_share",)
    boards_w = (capped.energy_j.mid - capped.terms_j["host"]) / capped.duration_s.mid
    assert boards_w < spec.layout.num_devices * 120.0
    assert capped.duration_s.mid > free.duration_s.mid
    assert one(replace(spec, power_limit_w=250.0)) == free


def test_a_cap_that_no_board_keeps_and_one_that_changes_nothing_are_said(spec):
    """10 W is below what a board can be set to, 400 W above what one of 250 W draws; 150 W is neither."""

    def said(cap_w):
        return " ".join(one(replace(spec, power_limit_w=cap_w)).warnings)

    assert "a cap of 10 W cannot be set on a rtx-2080-ti board: below 25% of its own 250 W" in said(10.0)
    assert "a cap of 400 W is above the 250 W of a rtx-2080-ti board, and changes nothing" in said(400.0)
    assert "cap of" not in said(150.0)


def test_a_named_node_brings_its_declared_host(spec):
    """The energy's host is what the node type declares, not what the fit found where none was named."""
    node = node_type("pcie-box")
    found = one(replace(spec, node=node))
    assert found.terms_j["host"] == pytest.approx(node.host_power_w * found.duration_s.mid, rel=1e-9)
    boards = replace(bundled(), boundary="accelerators")
    (alone,) = predict([replace(spec, node=node)], boards)
    assert alone.terms_j["host"] < 0.5 * found.terms_j["host"]


def test_an_energy_beside_measured_times_is_cold_and_said_so(spec):
    """A machine whose times alone were measured has an energy all the same, which no sensor saw: that is said."""
    law = bundled()
    own = law.machines["rtx-2080-ti"]
    timed = replace(own, residuals=Residuals(duration=own.residuals.duration))
    (found,) = predict([spec], replace(law, machines={**law.machines, "rtx-2080-ti": timed}))
    assert found.energy_j.low < found.energy_j.mid < found.energy_j.high
    assert [warning for warning in found.warnings if "the energy is cold" in warning]
    assert (found.cold, found.energy_cold) == (False, True)
    assert not one(spec).energy_cold
    assert not [warning for warning in one(spec).warnings if "the energy is cold" in warning]


def test_doubts_of_the_fit_go_with_every_prediction(spec):
    """A parameter on its bound is told to whoever uses the calibration."""
    doubtful = replace(bundled(), warnings=("matrix_fraction leans on its bound",))
    assert predict([spec], doubtful)[0].warnings == ("matrix_fraction leans on its bound",)


def test_a_batch_that_does_not_fit_is_refused_with_its_parts(spec):
    """One line: what it takes and of what parts, what the device has, what to try."""
    large = replace(spec, recipe=replace(spec.recipe, batch_size=4096, padded_len=None))
    with pytest.raises(ConfigError) as caught:
        predict([spec, large], bundled())
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert "the run does not fit into a device's memory; given at least " in message
    for part in ("weights", "gradients", "optimizer", "activations", "11 GiB on rtx-2080-ti", "a smaller batch_size"):
        assert part in message


def test_a_batch_that_leaves_no_room_for_the_framework_is_doubted(spec):
    """Between what tensors need and what a framework reserves a run may fit or not."""
    sizes = range(32, 4096, 32)
    doubted = []
    for batch_size in sizes:
        larger = replace(spec, recipe=replace(spec.recipe, batch_size=batch_size, samples=None, epochs=None, steps=10))
        try:
            doubted.append(any(warning.startswith("may not fit") for warning in one(larger).warnings))
        except ConfigError:
            break
    assert not doubted[0]
    assert doubted[-1]
    assert doubted == sorted(doubted)


def test_several_nodes_without_a_node_type_are_refused(spec):
    """The network decides, and nothing is guessed about it."""
    with pytest.raises(ConfigError, match="several nodes need a node type"):
        one(replace(spec, layout=Layout.of("fsdp", num_devices=4, num_nodes=2)))


def test_more_devices_than_one_are_faster_and_a_longer_run_costs_more(spec):
    """Physics that a user would miss first."""
    single = replace(spec, layout=Layout())
    assert one(spec).duration_s.mid < one(single).duration_s.mid
    longer = replace(single, recipe=replace(spec.recipe, epochs=6))
    assert one(longer).energy_j.mid == pytest.approx(2 * one(single).energy_j.mid, rel=1e-9)


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_order_and_company_of_runs_change_nothing(data, run_specs):
    """A prediction is of its run alone; whatever is drawn, it is finite, ordered and adds up, or is refused."""
    drawn = data.draw(st.lists(run_specs, min_size=1, max_size=4))
    specs = []
    for each in drawn:
        try:
            predict([each], bundled())
        except ConfigError as error:
            assert "does not fit into a device's memory" in str(error)  # noqa: PT017 - both ends are right
        else:
            specs.append(each)
    specs.append(sst2())
    order = data.draw(st.permutations(range(len(specs))))
    together = predict([specs[position] for position in order], bundled())
    for position, found in zip(order, together, strict=True):
        assert found == one(specs[position])
        assert 0 < found.energy_j.low <= found.energy_j.mid <= found.energy_j.high < float("inf")
        assert sum(found.terms_j.values()) == pytest.approx(found.energy_j.mid, rel=1e-12)


@pytest.mark.parametrize("law", [PowerLaw(), PaperLaw(), AdditiveLaw()], ids=lambda law: law.name)
def test_a_law_that_knows_no_time_gives_none(law, step_specs, measured):
    """No duration, no power, no seconds by part; the energy has its interval, in the domain of the records."""
    specs = step_specs(num_configurations=12, seed=1)
    calibration = law.fit(measured(specs, noise=0.05, seed=1))
    found = predict(specs[:1], calibration)[0]
    assert (found.cold, found.in_domain, found.outside) == (False, True, ())
    assert (found.duration_s, found.power_w, dict(found.terms_s)) == (None, None, {})
    assert found.energy_j.low < found.energy_j.mid < found.energy_j.high
    assert found.calibration == f"{law.name}: fit"


def test_a_strategy_that_a_law_has_not_seen_is_refused_by_name(step_specs, measured):
    """The paper's law has one effect per strategy; the error names the strategy and what would know it."""
    specs = step_specs(num_configurations=12, seed=1)
    table = measured(specs, noise=0.05, seed=1)
    calibration = PaperLaw(efficiency="none").fit(table.take(table.text("strategy") != "tp"))
    with pytest.raises(DataError, match=r"paper law knows nothing of such a run; given strategy tp; try the step law"):
        predict(specs, calibration)


def test_each_law_is_given_its_own_columns(spec):
    """Physics for the step law, proxies for the others."""
    paper = Calibration(law="paper", parameters={}, options={"compute": "eq2"})
    assert "block_flop" in columns_of([spec], bundled())
    assert "block_flop" not in columns_of([spec], paper)
    assert "compute_proxy" in columns_of([spec], paper)


def test_compute_is_counted_as_in_the_fit(spec):
    """A calibration names its definition of compute, predictions follow it, and without a name there is none."""
    tables = {
        definition: columns_of([spec], Calibration(law="power", parameters={}, options={"compute": definition}))
        for definition in ("eq2", "artifact")
    }
    assert tables["eq2"]["compute_definition"][0] == "eq2"
    assert tables["eq2"]["compute_proxy"][0] != tables["artifact"]["compute_proxy"][0]
    with pytest.raises(DataError, match="does not say how its compute is counted; given nothing; allowed eq2"):
        columns_of([spec], Calibration(law="power", parameters={}))


def test_a_calibration_of_an_unknown_law_is_refused(spec):
    """A file from elsewhere is answered with the laws there are."""
    with pytest.raises(UnknownNameError, match=r"unknown law; given 'stepp'; allowed step"):
        predict([spec], replace(bundled(), law="stepp"))


def test_how_sure_a_prediction_is_must_be_known(spec):
    """A calibration without residuals predicts nothing, rather than a number without an interval."""
    blind = replace(bundled(), machines={}, noise={}, residuals=Residuals(), outside=Residuals(), cold=Residuals())
    with pytest.raises(DataError, match="too few held-out residuals for an interval"):
        predict([spec], blind)


@pytest.mark.parametrize("law_name", LAWS)
def test_every_law_that_can_be_fitted_predicts(records, law_name):
    """Whatever terms it has, and whether or not it knows time: an interval around a positive middle."""
    calibration = fit_records(records, law_name=law_name).calibration
    (found,) = predict([records[0].spec], calibration)
    assert 0 <= found.energy_j.low <= found.energy_j.mid <= found.energy_j.high
    assert sum(found.terms_j.values()) == pytest.approx(found.energy_j.mid)
    assert found.duration_s is None or 0 < found.duration_s.low <= found.duration_s.mid


def test_more_devices_than_a_machine_holds_are_said(spec):
    """No kind of node that is known holds more than eight."""
    assert max(node.accelerators_per_node for node in node_types()) == LARGEST_NODE
    said = "no network between machines is counted"
    for num_devices, doubted in ((8, False), (9, True)):
        layout = Layout.of("ddp", num_devices=num_devices)
        found = one(replace(spec, layout=layout, node=None))
        assert any(said in warning for warning in found.warnings) == doubted
