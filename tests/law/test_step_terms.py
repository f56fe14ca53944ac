"""The terms of the step law: one run by hand, sums and limits, and what grows with what."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattlaw.features.physical import physical_columns
from wattlaw.hardware import accelerator, node_type
from wattlaw.law.step_terms import COLUMNS, PARAMETERS, SPREAD_BY_SCOPE, smooth_max, terms
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunSpec
from wattlaw.workload import Recipe, from_sizes, preset

START = {parameter.name: parameter.start for parameter in PARAMETERS}
#: From nothing, or a nanosecond, to days.
SECONDS = st.just(0.0) | st.floats(1e-9, 1e6)


def evaluate(specs, parameters=START):
    """Evaluate the law for some runs."""
    table = physical_columns(specs)
    return terms(parameters, {name: table.numbers(name) for name in COLUMNS})


def totals(spec, parameters=START):
    """Seconds and joules of one run."""
    found = evaluate([spec], parameters)
    return float(found.duration_s[0]), float(found.energy_j[0])


def steady(spec, **changes):
    """The same workload without evaluation, by its number of optimizer steps."""
    amount = {"steps": 1000, "samples": None, "tokens": None, "epochs": None, "evaluation_fraction": 0.0}
    return replace(spec, recipe=replace(spec.recipe, **amount | changes))


def by_hand(p, c):  # noqa: PLR0915 - a formula told in one piece
    """Retell ``docs/laws/step.md`` for one run in plain numbers: seconds and joules."""
    cube = lambda a, b: (a**3 + b**3) ** (1 / 3)  # noqa: E731
    attention = c["attention_share"] * c["block_flop"]
    flop_block = (c["block_flop"] - attention) / (p["matrix_fraction"] * c["peak_flop_per_s"])
    flop_block += attention / (0.7 * p["matrix_fraction"] * c["unquantised_flop_per_s"])
    flop_head = c["head_flop"] / (p["head_matrix_fraction"] * c["unquantised_flop_per_s"])
    factor = p["fused_traffic_factor"] if c["fused"] else p["traffic_factor"]
    memory_block = factor * c["block_traffic_bytes"] / c["bandwidth_bytes_per_s"]
    memory_head = p["head_traffic_factor"] * c["head_traffic_bytes"] / c["bandwidth_bytes_per_s"]
    block, head = flop_block + memory_block, flop_head + memory_head
    sharded = 1 if c["shard_collectives"] > 0 else 0
    link = p["link_fraction"] * c["link_bytes_per_s"]
    port = p["network_fraction"] * c["network_bytes_per_s"]
    unsharded = c["unshard_bytes"] * p["unshard_factor"]
    wire = max((c["shard_bytes"] + unsharded) / link, c["shard_port_bytes"] / port)
    tensor_wire = max(c["tensor_bytes"] / link, c["tensor_port_bytes"] / port)
    stage_wire = max(c["stage_bytes"] / link, c["stage_port_bytes"] / port)
    wire += c["tensor_beside"] * tensor_wire + c["stage_beside"] * stage_wire
    wire += max(c["context_bytes"] / link, c["context_port_bytes"] / port)
    tensor_wire *= 1 - c["tensor_beside"]
    stage_wire *= 1 - c["stage_beside"]
    tensor_wire += max(c["expert_bytes"] / link, c["expert_port_bytes"] / port)
    gradient_wire = max(c["gradient_bytes"] / link, c["gradient_port_bytes"] / port)
    pace = c["host_share"]
    latency = pace * p["collective_s"] * (c["shard_collectives"] + c["expert_collectives"])
    host = p["launch_step_s"] + p["launch_kernel_s"] * c["block_kernels"]
    host = pace * (host + p["tensor_collective_s"] * c["tensor_collectives"])
    busy = block + tensor_wire
    covered = cube(cube(busy, wire) + latency, host)
    blocks = covered + p["tensor_hop_s"] * c["tensor_hops"] + stage_wire
    blocks += pace * p["stage_message_s"] * c["stage_messages"]
    reduced = cube(busy, wire + gradient_wire) + latency + pace * p["collective_s"] * c["gradient_collectives"]
    wait = cube(reduced, host) - covered
    update_memory = c["optimizer_traffic_bytes"] / (0.8 * c["bandwidth_bytes_per_s"])
    update = cube(update_memory, pace * (p["update_step_s"] + p["update_tensor_s"] * c["weight_tensors"]))
    training = c["micro_steps"] * (blocks + head) + c["bubble_micro_steps"] * blocks
    training += c["optimizer_steps"] * (update + wait)
    forward_passes = c["evaluation_micro_steps"] / 3
    evaluation = forward_passes * (block + head) + forward_passes / 8 * (host + latency)
    setup = p["setup_epoch_s"] * c["num_epochs"] * sharded
    duration = training + evaluation + setup

    stages = c["pipeline_parallel"]
    compute = c["micro_steps"] * (flop_block + flop_head / stages)
    memory = c["micro_steps"] * (memory_block + memory_head / stages) + c["optimizer_steps"] * update_memory
    said = c["micro_steps"] * (wire + tensor_wire + stage_wire) + c["optimizer_steps"] * gradient_wire
    talk = min(said, training)
    share = (compute + memory + talk) / training
    raised = 1 / (1 + math.exp(min((p["clock_threshold"] - share) / (0.1 * p["clock_threshold"]), 500)))
    clock = p["low_clock_fraction"] + (1 - p["low_clock_fraction"]) * raised
    device_joules = p["active_fraction"] * (training + evaluation)
    device_joules += clock * (p["compute_fraction"] * compute + p["memory_fraction"] * memory)
    device_joules += p["memory_fraction"] * forward_passes * (block + head) + p["talk_fraction"] * talk
    limit = c["power_limit_w"] * c["num_devices"]
    host_w = c["node_host_w"] or p["host_power_w"]
    return duration, limit * device_joules + host_w * c["num_nodes"] * duration


@settings(max_examples=60, deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_the_law_is_what_it_is_by_hand(data, seed, run_specs):
    """Written again for one run in plain numbers, for any run and parameters around the priors."""
    spec = data.draw(run_specs)
    random = np.random.default_rng(seed)
    drawn = {
        each.name: min(each.start * math.exp(each.spread * random.standard_normal()), each.upper) for each in PARAMETERS
    }
    table = physical_columns([spec])
    expected = by_hand(drawn, {name: float(table.numbers(name)[0]) for name in COLUMNS})
    assert totals(spec, drawn) == pytest.approx(expected, rel=1e-10)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_run_takes_time_and_energy_that_are_the_sums_of_their_parts(data, run_specs):
    """No run crashes; totals are finite and above zero, parts are not negative and sum to the totals."""
    specs = data.draw(st.lists(run_specs, min_size=1, max_size=5))
    found = evaluate(specs)
    for total, parts in ((found.duration_s, found.terms_s), (found.energy_j, found.terms_j)):
        assert np.all(np.isfinite(total) & (total > 0))
        np.testing.assert_allclose(sum(parts.values()), total, rtol=1e-12)
        for name, part in parts.items():
            assert np.all(part >= -1e-12 * total), name


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_order_and_company_change_nothing(data, run_specs):
    """Each run's prediction is its own, to the last bit."""
    specs = data.draw(st.lists(run_specs, min_size=2, max_size=6))
    order = data.draw(st.permutations(range(len(specs))))
    together = evaluate([specs[position] for position in order])
    for row, position in enumerate(order):
        alone = evaluate([specs[position]])
        assert alone.duration_s[0] == together.duration_s[row]
        assert alone.energy_j[0] == together.energy_j[row]


@given(first=st.lists(SECONDS, min_size=3, max_size=3), second=st.lists(SECONDS, min_size=3, max_size=3))
def test_smooth_max_lies_between_the_larger_and_a_quarter_more(first, second):
    """At least the larger, at most 2^(1/3) of it, the same both ways, and larger where either is."""
    a, b = np.array(first), np.array(second)
    found, larger = smooth_max(a, b), np.maximum(a, b)
    assert np.all(found >= larger * (1 - 1e-15))
    assert np.all(found <= larger * 2 ** (1 / 3) * (1 + 1e-15))
    np.testing.assert_array_equal(found, smooth_max(b, a))
    assert np.all(smooth_max(a + 1, b) > found * (1 - 1e-15))


def test_smooth_max_by_hand():
    """(3^3 + 4^3 + 5^3) = 6^3; nothing beside a time is the time."""
    assert smooth_max(smooth_max(np.array([3.0]), np.array([4.0])), np.array([5.0]))[0] == pytest.approx(6, rel=1e-15)
    assert smooth_max(np.array([7.0]), np.array([0.0]))[0] == pytest.approx(7, rel=1e-15)


@pytest.mark.parametrize("strategy", ["single", "ddp", "fsdp", "tp"])
def test_one_device_communicates_nothing(spec, strategy):
    """No second and no joule of communication, whatever the strategy is called, and no set-up of shards."""
    found = evaluate([replace(spec, layout=Layout.of(strategy, num_devices=1))])
    for parts, name in ((found.terms_s, "communication"), (found.terms_j, "communication"), (found.terms_s, "setup")):
        assert parts[name][0] == pytest.approx(0, abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(data=st.data(), factor=st.integers(2, 9))
def test_steps_multiply_the_steady_run(data, factor, run_specs):
    """Twice the steps take twice the time and energy but for the set-up, which happens once."""
    spec = steady(data.draw(run_specs))
    once, more = evaluate([spec]), evaluate([steady(spec, steps=factor * 1000)])
    setup_s = once.terms_s["setup"]
    np.testing.assert_array_equal(more.terms_s["setup"], setup_s)
    np.testing.assert_allclose(more.duration_s - setup_s, factor * (once.duration_s - setup_s), rtol=1e-9)
    host_w = START["host_power_w"] if spec.node is None else spec.node.host_power_w
    host_j = host_w * spec.layout.num_nodes * setup_s
    np.testing.assert_allclose(more.energy_j - host_j, factor * (once.energy_j - host_j), rtol=1e-9)


def grown(spec, what, factor):
    """The run with more of something."""
    if what == "layers":
        model = spec.architecture
        stacks = tuple(replace(stack, num_layers=factor * stack.num_layers) for stack in model.stacks)
        return replace(spec, architecture=replace(model, stacks=stacks))
    if what == "ffn_size":
        model = spec.architecture
        stacks = tuple(replace(stack, ffn_size=factor * stack.ffn_size) for stack in model.stacks)
        return replace(spec, architecture=replace(model, stacks=stacks))
    return replace(spec, recipe=replace(spec.recipe, **{what: factor * getattr(spec.recipe, what)}))


@pytest.mark.parametrize("what", ["layers", "ffn_size", "batch_size", "steps", "grad_accumulation"])
@settings(max_examples=25, deadline=None)
@given(data=st.data(), factor=st.integers(2, 4))
def test_more_work_takes_more_time_and_energy(what, data, factor, run_specs):
    """More layers, width, sequences or steps never cost less."""
    spec = steady(data.draw(run_specs))
    before, after = totals(spec), totals(grown(spec, what, factor))
    assert after[0] > before[0]
    assert after[1] > before[1]


@settings(max_examples=25, deadline=None)
@given(data=st.data(), factor=st.integers(2, 50))
def test_more_tokens_take_more_time_and_energy(data, factor, run_specs):
    """A longer run of the same micro-steps never costs less."""
    spec = steady(data.draw(run_specs), steps=None, tokens=10**7)
    before, after = totals(spec), totals(grown(spec, "tokens", factor))
    assert after[0] > before[0]
    assert after[1] > before[1]


@pytest.mark.parametrize(
    "column", ["peak_flop_per_s", "bandwidth_bytes_per_s", "link_bytes_per_s", "network_bytes_per_s"]
)
@settings(max_examples=30, deadline=None)
@given(data=st.data(), factor=st.floats(1.01, 10))
def test_faster_hardware_never_takes_longer_or_more_energy(column, data, factor, run_specs):
    """Time and energy fall, or stay, as a peak rate rises."""
    table = physical_columns([data.draw(run_specs)])
    columns = {name: table.numbers(name) for name in COLUMNS}
    before, after = terms(START, columns), terms(START, columns | {column: factor * columns[column]})
    assert after.duration_s[0] <= before.duration_s[0] * (1 + 1e-12)
    assert after.energy_j[0] <= before.energy_j[0] * (1 + 1e-12)


def test_where_work_dominates_time_is_work_over_peak_and_bandwidth(spec):
    """Without launches and on huge batches: twice the batch takes twice the time, twice the rates half of it."""
    huge = steady(replace(spec, layout=Layout()), batch_size=10**6)
    table = physical_columns([huge])
    columns = {name: table.numbers(name) for name in COLUMNS}
    free = START | {"launch_step_s": 0.0, "launch_kernel_s": 0.0, "update_step_s": 0.0, "update_tensor_s": 0.0}
    before = terms(free, columns).duration_s[0]
    rates = ("peak_flop_per_s", "unquantised_flop_per_s", "bandwidth_bytes_per_s")
    faster = {name: 2 * columns[name] for name in rates}
    assert terms(free, columns | faster).duration_s[0] == pytest.approx(before / 2, rel=1e-12)
    doubled = totals(steady(huge, batch_size=2 * 10**6), free)[0]
    assert doubled == pytest.approx(2 * before, rel=1e-5)


def test_where_launches_dominate_time_grows_with_layers_and_not_with_width(spec):
    """A tiny micro-step on a fast device: four times the MLP changes nearly nothing, twice the layers nearly double."""
    tiny = replace(spec, layout=Layout(), accelerator=accelerator("h100-sxm5-80gb"))
    tiny = steady(tiny, batch_size=1, seq_len=8, grad_accumulation=1000)
    once = totals(tiny)[0]
    assert totals(grown(tiny, "ffn_size", 4))[0] == pytest.approx(once, rel=0.01)
    assert 1.8 * once < totals(grown(tiny, "layers", 2))[0] < 2 * once


def test_a_hidden_link_costs_nothing_and_a_slow_one_its_bytes(spec):
    """Where kernels take long the wire is hidden behind them; where the link is slow the step is its bytes over it."""
    table = physical_columns([steady(spec, batch_size=4096, grad_accumulation=1)])
    columns = {name: table.numbers(name) for name in COLUMNS}
    quiet = START | {"collective_s": 0.0, "setup_epoch_s": 0.0}
    hidden = terms(quiet, columns)
    assert hidden.terms_s["communication"][0] < 1e-3 * hidden.duration_s[0]
    slow = terms(quiet, columns | {"link_bytes_per_s": np.array([1e6])})
    sent = columns["shard_bytes"] + columns["unshard_bytes"] * START["unshard_factor"]
    assert slow.duration_s[0] == pytest.approx(1000 * sent[0] / (START["link_fraction"] * 1e6), rel=1e-2)


@pytest.fixture
def gpt():
    """GPT-2 on two nodes of eight A100, eight micro-batches to an optimizer step."""
    return RunSpec(
        architecture=preset("gpt2"),
        recipe=Recipe(batch_size=4, seq_len=1024, precision="fp16", grad_accumulation=8, steps=100),
        layout=Layout(data_parallel=2, tensor_parallel=4, pipeline_parallel=2, sequence_parallel=1, num_nodes=2),
        accelerator=accelerator("a100-sxm4-80gb"),
        node=node_type("dgx-a100"),
    )


#: Parameters of a machine that loses no time but by work: launches, latencies and updates are free.
FREE = START | {name: 0.0 for name in START if name.endswith("_s")}


@pytest.mark.parametrize(("stages", "runs"), [(2, 1), (3, 1), (4, 1), (4, 3), (2, 6)])
def test_the_bubble_is_a_share_of_the_blocks(gpt, stages, runs):
    """(p - 1) / (v m) of the ideal time of the blocks: Narayanan et al. 2021, section 2.2.2, here m = 8."""
    found = evaluate([replace(gpt, layout=Layout(pipeline_parallel=stages, pipeline_interleaving=runs))], FREE)
    columns = physical_columns([replace(gpt, layout=Layout(pipeline_parallel=stages, pipeline_interleaving=runs))])
    head_s = columns.numbers("head_flop") / (FREE["head_matrix_fraction"] * 312e12)
    head_s += (
        FREE["head_traffic_factor"] * columns.numbers("head_traffic_bytes") / gpt.accelerator.bandwidth_bytes_per_s
    )
    ideal_s = found.duration_s - found.terms_s["pipeline"] - found.terms_s["update"] - 800 * head_s / stages
    waited_s = found.terms_s["pipeline"] - 800 * head_s * (1 - 1 / stages)
    assert waited_s[0] / ideal_s[0] == pytest.approx((stages - 1) / (runs * 8), rel=1e-9)


def test_more_micro_batches_fill_the_pipeline(gpt):
    """The bubble is paid once per update: with ever more micro-batches its share tends to nothing."""
    piped = replace(gpt, layout=Layout(pipeline_parallel=4))
    shares = []
    for micro_batches in (1, 8, 64, 4096):
        found = evaluate([replace(piped, recipe=replace(piped.recipe, grad_accumulation=micro_batches))], FREE)
        alone = evaluate(
            [replace(piped, recipe=replace(piped.recipe, grad_accumulation=1, steps=100 * micro_batches))], FREE
        )
        shares.append((found.duration_s / alone.duration_s)[0])
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 1
    assert shares[-1] < 0.5


def test_interleaving_trades_the_bubble_for_messages(gpt):
    """Free messages: a shorter run. Messages of ten milliseconds: a longer one."""
    plain, interleaved = (
        replace(gpt, layout=Layout(pipeline_parallel=4, pipeline_interleaving=runs)) for runs in (1, 3)
    )
    assert totals(interleaved, FREE)[0] < totals(plain, FREE)[0]
    slow = FREE | {"stage_message_s": 1e-2}
    assert totals(interleaved, slow)[0] > totals(plain, slow)[0]


def test_without_pipeline_nodes_and_tensor_parallelism_the_new_terms_vanish(spec):
    """A network or hops of any kind change nothing on one node, and no second is waited for a pipeline."""
    specs = [spec, replace(spec, layout=Layout.of("ddp", num_devices=4)), replace(spec, layout=Layout())]
    before = evaluate(specs)
    odd = START | {"network_fraction": 1e-6, "tensor_hop_s": 1e3, "stage_message_s": 1e3}
    after = evaluate(specs, odd)
    np.testing.assert_array_equal(after.duration_s, before.duration_s)
    np.testing.assert_array_equal(after.energy_j, before.energy_j)
    np.testing.assert_array_equal(before.terms_s["pipeline"], 0)
    tensor = replace(spec, layout=Layout.of("tp", num_devices=4))
    slow = {"network_fraction": 1e-6, "stage_message_s": 1e3}
    assert totals(tensor, START | slow) == totals(tensor)


def test_hops_and_messages_are_added_by_hand(gpt):
    """Hops: per all-reduce 2 (t - 1) steps of the ring; messages: two per run of blocks; both are hidden by nothing."""
    columns = physical_columns([gpt])
    once = totals(gpt)[0]
    micro_steps = 800 + 100  # of a stage, with the bubble of one stage per update
    hops, messages = 6 * 4 * 2 * 3, 2
    assert (columns.numbers("tensor_hops")[0], columns.numbers("stage_messages")[0]) == (hops, messages)
    longer = totals(gpt, START | {"tensor_hop_s": START["tensor_hop_s"] + 1e-5})[0]
    assert longer - once == pytest.approx(micro_steps * hops * 1e-5, rel=1e-9)
    longer = totals(gpt, START | {"stage_message_s": START["stage_message_s"] + 1e-3})[0]
    assert longer - once == pytest.approx(micro_steps * messages * 1e-3, rel=1e-9)


@pytest.mark.parametrize(
    ("layout", "column"),
    [
        (Layout(data_parallel=16, zero_stage=3, num_nodes=2), "shard_port_bytes"),
        (Layout(data_parallel=16, num_nodes=2), "gradient_port_bytes"),
        (Layout(tensor_parallel=16, num_nodes=2), "tensor_port_bytes"),
        (Layout(pipeline_parallel=2, num_nodes=2), "stage_port_bytes"),
    ],
)
def test_a_slow_network_is_waited_for(gpt, layout, column):
    """As the network slows the run never gets faster, and in the end takes the bytes of a port over its rate."""
    table = physical_columns([replace(gpt, layout=layout)])
    columns = {name: table.numbers(name) for name in COLUMNS}
    rates = (1e12, 1e11, 1e10, 1e9, 1e7, 1e5)
    found = [terms(FREE, columns | {"network_bytes_per_s": np.array([rate])}).duration_s[0] for rate in rates]
    assert found == sorted(found)
    often = 100 if column == "gradient_port_bytes" else 800 + columns["bubble_micro_steps"][0]
    assert found[-1] == pytest.approx(often * columns[column][0] / (FREE["network_fraction"] * 1e5), rel=1e-3)


def test_tensor_parallelism_is_not_hidden_by_kernels_and_sharding_is(gpt):
    """The next kernel needs what was reduced: kernels and wire add up under tp; under fsdp the longer one counts."""
    quiet = FREE | {"unshard_factor": 0.0}
    for layout, name, added in (
        (Layout(tensor_parallel=8), "tensor_bytes", 1.0),
        (Layout(data_parallel=8, zero_stage=3), "shard_bytes", 2 ** (1 / 3) - 1),
    ):
        table = physical_columns([replace(gpt, layout=layout)])
        columns = {column: table.numbers(column) for column in COLUMNS}
        silent = terms(quiet, columns | {name: np.zeros(1)})
        slowness = 1 + columns["attention_share"] * (1 / 0.7 - 1)
        kernels_s = slowness * columns["block_flop"] / (quiet["matrix_fraction"] * 312e12)
        kernels_s += quiet["traffic_factor"] * columns["block_traffic_bytes"] / columns["bandwidth_bytes_per_s"]
        link = columns[name] / (kernels_s * quiet["link_fraction"])  # as long on the wire as the kernels take
        talking = terms(quiet, columns | {"link_bytes_per_s": link})
        assert (talking.duration_s - silent.duration_s)[0] == pytest.approx(800 * added * kernels_s[0], rel=1e-6)


def test_only_one_stage_spends_the_energy_of_the_head(gpt):
    """All stages wait for the last one's head; of their joules of computing it is a p-th of each."""
    table = physical_columns([replace(gpt, layout=Layout(pipeline_parallel=4))])
    columns = {name: table.numbers(name) for name in COLUMNS}
    high = FREE | {"low_clock_fraction": 1.0}
    with_head, without = terms(high, columns), terms(high, columns | {"head_flop": np.zeros(1)})
    head_s = 800 * columns["head_flop"] / (high["head_matrix_fraction"] * columns["peak_flop_per_s"])
    joules = with_head.terms_j["compute"] - without.terms_j["compute"]
    assert joules[0] == pytest.approx((400 * high["compute_fraction"] * head_s)[0], rel=1e-9)
    assert (with_head.duration_s - without.duration_s)[0] == pytest.approx(head_s[0], rel=1e-9)


def test_mean_power_stays_below_what_all_parts_together_could_draw(spec):
    """A device computing all the time draws its active and its compute share, the host its own power."""
    huge = steady(replace(spec, layout=Layout(), architecture=preset("llama-2-7b")), batch_size=64)
    duration_s, energy_j = totals(huge, START | {"matrix_fraction": 1e-3})
    limit_w = START["active_fraction"] + START["compute_fraction"]
    assert energy_j / duration_s == pytest.approx(250 * limit_w + START["host_power_w"], rel=0.01)


def test_parameters_are_positive_within_their_bounds_and_said_in_words():
    """Every prior's median is one that is allowed, every scope has a spread, every name is there once."""
    assert len({parameter.name for parameter in PARAMETERS}) == len(PARAMETERS) == 25
    for parameter in PARAMETERS:
        assert 0 < parameter.start < parameter.upper
        assert parameter.scope in SPREAD_BY_SCOPE
        assert parameter.meaning
    fractions = [parameter for parameter in PARAMETERS if parameter.name.endswith("_fraction")]
    assert all(parameter.upper == 1 for parameter in fractions)


def test_every_parameter_and_every_column_matters(spec):
    """None of them is carried along without use: a change of any changes time or energy of some run."""
    fused = replace(spec.recipe, software="fused")
    specs = [
        spec,
        replace(spec, layout=Layout.of("ddp", num_devices=4)),
        replace(spec, layout=Layout.of("tp", num_devices=4)),
        *(replace(spec, layout=Layout.of(strategy, num_devices=4)) for strategy in ("pp", "cp", "ep")),
        # Two nodes of two devices each: every axis in turn is the one that leaves the node.
        *(
            replace(spec, layout=Layout.of(strategy, num_devices=4, num_nodes=2), node=node_type("pcie-box"))
            for strategy in ("fsdp", "ddp", "tp", "pp", "cp", "ep")
        ),
        # Fused software, of which some messages travel beside the kernels, in fp8, and under a cap.
        replace(spec, layout=Layout(tensor_parallel=4, sequence_parallel=1), recipe=fused),
        replace(spec, layout=Layout(pipeline_parallel=4, pipeline_interleaving=3), recipe=fused),
        replace(spec, recipe=replace(fused, precision="fp8"), accelerator=accelerator("h100-sxm5-80gb")),
        replace(spec, power_limit_w=120.0),
    ]
    sizes = {"num_layers": 4, "hidden_size": 256, "num_heads": 4, "ffn_size": 512, "vocab_size": 1000}
    mixture = from_sizes("mixtral", num_experts=8, experts_per_token=2, **sizes)
    specs = [replace(one, architecture=mixture) if one.layout.expert_parallel > 1 else one for one in specs]
    before = evaluate(specs)
    for parameter in PARAMETERS:
        after = evaluate(specs, START | {parameter.name: 0.9 * parameter.start})
        assert np.any(after.duration_s != before.duration_s) or np.any(after.energy_j != before.energy_j)
    table = physical_columns(specs)
    columns = {name: table.numbers(name) for name in COLUMNS}
    for name in COLUMNS:
        changed = 1 - columns[name] if name == "fused" else 0.9 * columns[name]
        after = terms(START, columns | {name: changed})
        assert np.any(after.energy_j != before.energy_j), name
