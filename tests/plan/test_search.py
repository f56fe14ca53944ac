"""The search against a loop over run specs, and what must hold of any plan."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wattlaw.errors import ConfigError
from wattlaw.law.prediction import predict
from wattlaw.parallel.layout import Layout
from wattlaw.parallel.memory import device_memory
from wattlaw.plan import Limits, Space, plan
from wattlaw.plan.costs import costed
from wattlaw.plan.limits import excess, needed
from wattlaw.plan.points import Points, first, pareto_front
from wattlaw.plan.search import search
from wattlaw.plan.space import groups
from wattlaw.run.spec import RunSpec, check_runnable
from wattlaw.workload import from_sizes, step_cost

ALL = 10**6


def everything(problem, calibration):
    """The run specs that a search costs and finds to fit, with their energy and time."""
    found = search(problem, calibration, keep=ALL).best
    every = groups(problem.run, problem.space)
    specs = [every[int(row["group"])].spec(row) for row in (found.row(place) for place in range(len(found)))]
    return dict(zip(specs, zip(found["energy_j"], found["duration_s"], strict=True), strict=True))


def naive(problem, calibration):
    """The same by loops over every number, one run spec and one prediction each."""
    run, space, found = problem.run, problem.space, []
    batch = int(run.recipe.batch_size * run.recipe.grad_accumulation * run.layout.data_parallel)
    for offer in space.offers:
        counts = range(1, offer.num_devices + 1)
        contexts = counts if "cp" in space.also else (1,)
        degrees = itertools.product(counts, counts, counts, contexts, counts)
        stages = (0, 1, 2, 3) if "zero1" in space.also else (0, 2, 3)
        caps = (None, *offer.power_caps_w)
        names = itertools.product(space.precisions or (run.recipe.precision,), space.checkpointings, stages, caps)
        for (data, tensor, pipeline, context, experts), (precision, checkpointing, stage, cap) in itertools.product(
            degrees, names
        ):
            devices = data * tensor * pipeline * context
            per_node = devices if offer.node is None else offer.node.accelerators_per_node
            nodes = -(-devices // per_node)
            if devices > offer.num_devices or devices % nodes or (stage and data * context == 1) or batch % data:
                continue
            if (data * context) % experts:
                continue
            for micro in range(1, batch // data + 1):
                if (batch // data) % micro:
                    continue
                spec = RunSpec(
                    architecture=run.architecture,
                    recipe=replace(
                        run.recipe,
                        batch_size=micro,
                        grad_accumulation=batch // data // micro,
                        precision=precision,
                        checkpointing=checkpointing,
                    ),
                    layout=Layout(
                        data_parallel=data,
                        tensor_parallel=tensor,
                        pipeline_parallel=pipeline,
                        context_parallel=context,
                        expert_parallel=experts,
                        zero_stage=stage,
                        num_nodes=nodes,
                    ),
                    accelerator=offer.accelerator,
                    node=offer.node,
                    power_limit_w=cap,
                    name=run.name,
                )
                try:
                    check_runnable(spec)
                except ConfigError:
                    continue
                cost = step_cost(spec.architecture, spec.recipe, attention="full", head="counted")
                memory = device_memory(cost, spec.layout, micro_batches=spec.recipe.grad_accumulation)
                free = problem.limits.memory_free_fraction
                if memory.reserved_bytes <= (1 - free) * offer.accelerator.memory_bytes:
                    found.append(spec)
    predictions = predict(found, calibration)
    return {spec: (each.energy_j.mid, each.duration_s.mid) for spec, each in zip(found, predictions, strict=True)}


def test_the_search_is_a_loop_over_run_specs_and_predictions(problem, offer, calibration):
    """The same configurations, and of each the same energy and time, on one machine and in two nodes, with caps."""
    asked = problem(
        offers=(offer(count=4, power_caps_w=(160.0,)), offer("a100-sxm4-40gb", 2)),
        precisions=("fp16", "fp32"),
    )
    fast, slow = everything(asked, calibration), naive(asked, calibration)
    assert set(fast) == set(slow)
    assert len(fast) > 300
    for spec, values in slow.items():
        assert fast[spec] == pytest.approx(values, rel=1e-9)


def test_the_search_divides_states_sequences_and_experts(problem, offer, calibration, run):
    """A model of four experts on twelve devices in two nodes, with sharded states and divided sequences asked for."""
    experts = from_sizes(
        "mixtral", num_layers=2, hidden_size=64, num_heads=2, num_kv_heads=2, ffn_size=128, vocab_size=500,
        num_experts=4, experts_per_token=2,
    )  # fmt: skip
    model = replace(run, architecture=experts, recipe=replace(run.recipe, batch_size=4, grad_accumulation=1))
    asked = problem(
        model=model, offers=(offer(count=12, node="pcie-box"),), also=("zero1", "cp"), checkpointings=("full",)
    )
    fast, slow = everything(asked, calibration), naive(asked, calibration)
    assert set(fast) == set(slow)
    names = {spec.layout.strategy for spec in fast}
    assert {"zero1 x tp x cp x ep", "cp x ep", "fsdp x cp", "ddp x pp x ep"} <= names
    assert all(fast[spec] == pytest.approx(values, rel=1e-9) for spec, values in slow.items())


def test_the_search_agrees_where_memory_binds_and_nodes_are_several(problem, offer, calibration, run):
    """Twelve devices in nodes of eight, with almost no memory left: some fit and some do not."""
    bigger = replace(run, recipe=replace(run.recipe, batch_size=96))
    asked = problem(
        model=bigger,
        offers=(offer(count=12, node="pcie-box"),),
        limits=Limits(memory_free_fraction=0.7),
        checkpointings=("none",),
        micro_batches=(),
        device_counts=(),
    )
    found = search(asked, calibration)
    assert 0 < found.num_fitting < found.num_configurations
    fast, slow = everything(asked, calibration), naive(asked, calibration)
    assert set(fast) == set(slow)
    assert all(fast[spec] == pytest.approx(values, rel=1e-9) for spec, values in slow.items())


def test_what_a_law_learnt_beside_its_formula_counts_too(problem):
    """With the shipped calibration as it is, the costs are those of predictions one by one."""
    from wattlaw.law.bundled import bundled

    asked = problem(strategies=("single", "fsdp"), checkpointings=("none",))
    found = everything(asked, bundled())
    predictions = predict(list(found), bundled())
    for each, values in zip(predictions, found.values(), strict=True):
        assert (each.energy_j.mid, each.duration_s.mid) == pytest.approx(values, rel=1e-9)


def test_chunks_and_the_number_kept_change_nothing(problem, calibration):
    """The best, the front and the counts are the same for chunks of 10 as for one."""
    asked = problem(limits=Limits(deadline_s=30.0))
    small, large = search(asked, calibration, chunk=10, keep=5), search(asked, calibration, keep=ALL)
    assert (small.num_configurations, small.num_fitting, small.num_feasible) == (
        large.num_configurations,
        large.num_fitting,
        large.num_feasible,
    )
    for name in ("energy_j", "duration_s", "batch_size", "group"):
        assert small.best[name].tolist() == large.best[name][:5].tolist()
        assert small.front[name].tolist() == large.front[name].tolist()


def taken_whole(problem, calibration):
    """What a search should find, from the time, energy and upper ends of every configuration."""
    parts = [part for part in costed(problem, calibration) if len(part.points)]
    points = Points.joined([part.points for part in parts])
    over = excess(points, problem.limits)
    worst = np.max(list(over.values()), axis=0)
    kept = points.take(worst <= 0)
    cost = problem.objective.value(points)
    trades = {}
    for limit in dict.fromkeys(("deadline", "devices", *problem.limits.bounds())):
        others = np.max([by for name, by in over.items() if name != limit], axis=0) <= 0
        part = points.take(others).with_columns(needed=needed(points, limit)[others], cost=cost[others])
        trades[limit] = pareto_front(part, across="needed", along="cost")
    return {
        "best": first(kept, problem.objective.value(kept), 5),
        "front": pareto_front(kept),
        "open_front": pareto_front(points),
        "nearest": first(points, worst, 1 if not len(kept) else 0),
        "counts": (len(points), len(kept)),
        **trades,
    }


@settings(max_examples=60)
@given(data=st.data())
def test_what_is_not_costed_is_of_no_use(data, problem, offer, calibration):
    """Caps and upper ends are computed where bounds leave a chance; the result is that of computing them all."""
    goal = data.draw(st.sampled_from(GOALS))
    limits = Limits(
        deadline_s=data.draw(st.sampled_from([None, 25.0, 31.0, 33.0, 36.0, 45.0, 80.0])),
        max_energy_j=data.draw(st.sampled_from([None, 3000.0, 4600.0, 6600.0, 12000.0])),
        max_devices=data.draw(st.sampled_from([None, 2])),
        confidence=data.draw(st.sampled_from([None, 0.6, 0.95])),
    )
    caps = data.draw(st.lists(st.sampled_from([70.0, 110.0, 160.0, 240.0]), max_size=3, unique=True))
    asked = problem(
        objective=goal,
        energy_weight=0.3 if goal == "weighted" else None,
        limits=limits,
        offers=(offer(power_caps_w=tuple(caps)),),
        strategies=("single", "ddp", "fsdp", "pp"),
        checkpointings=("none",),
        micro_batches=(1, 3, 6, 24),
    )
    found = search(asked, calibration, keep=5, chunk=data.draw(st.sampled_from([7, 10**4])))
    whole = taken_whole(asked, calibration)
    assert (found.num_fitting, found.num_feasible) == whole.pop("counts")
    for name, points in whole.items():
        kept = found.trades.get(name) if name in ("deadline", "devices", "energy") else getattr(found, name)
        assert (0 if kept is None else len(kept)) == len(points), name
        for column in ("energy_j", "duration_s", "batch_size", "power_cap_w") if len(points) else ():
            assert kept[column].tolist() == pytest.approx(points[column].tolist(), rel=1e-12), name


def test_lower_bounds_spare_most_of_the_work(problem, offer, calibration):
    """Under a deadline and three caps, less than half of the capped configurations are looked at closely."""
    caps = (100.0, 150.0, 200.0)
    asked = problem(limits=Limits(deadline_s=40.0), offers=(offer(count=16, power_caps_w=caps),), also=("zero1", "cp"))
    collection = []

    class Watched:
        """Let nothing pass but what keeps the deadline."""

        def may_keep(self, floors):
            return floors["duration_s"] <= 40.0

        def may_lead(self, floors):
            return np.zeros(len(floors), dtype=bool)

    for part in costed(asked, calibration, hopes=Watched()):
        collection.append((len(part.points), 0 if part.dropped is None else len(part.dropped)))
        if part.dropped is not None and len(part.dropped):
            assert part.dropped["duration_s"].min() > 40.0
    assert sum(dropped for _, dropped in collection) > sum(kept for kept, _ in collection) / 2


@example(share=0.26953125, row=0)  # where the governor switches at nearly the lowest clock
@settings(max_examples=20)
@given(share=st.floats(0.26, 0.99), row=st.integers(0, 10**6))
def test_bounds_under_a_cap_are_below_what_a_run_takes(problem, offer, calibration, share, row):
    """Energy and time of every configuration under a cap are no less than what the search takes for their least."""
    cap_w = share * 250.0
    asked = problem(offers=(offer(power_caps_w=(cap_w,)),), checkpointings=("none",), also=("zero1", "cp"))

    class Nothing:
        """Let nothing pass."""

        def may_keep(self, floors):
            return np.zeros(len(floors), dtype=bool)

        may_lead = may_keep

    dropped = [part.dropped for part in costed(asked, calibration, hopes=Nothing()) if part.dropped is not None]
    whole = [part.points for part in costed(asked, calibration) if part.points["power_cap_w"][0] == cap_w]
    floors, points = Points.joined(dropped), Points.joined(whole)
    place = row % len(points)
    assert len(floors) == len(points)
    for name in ("energy_j", "duration_s"):
        assert (floors[name] <= points[name]).all()
        assert floors[name][place] > 0.2 * points[name][place]


OFFERS = [("rtx-2080-ti", 2), ("rtx-2080-ti", 4), ("a100-sxm4-40gb", 3), ("l4", 4), ("v100-sxm2-32gb", 4)]
GOALS = ["energy", "time", "weighted"]
COSTS = {"energy": "energy_j", "time": "duration_s"}


def best_cost(problem, calibration):
    """What the best costs; infinite where nothing keeps the limits."""
    found = search(problem, calibration).best
    return np.inf if found is None else float(problem.objective.value(found)[0])


@settings(max_examples=12)
@given(data=st.data())
def test_more_to_choose_from_never_makes_the_best_worse(data, problem, offer, calibration):
    """Another kind of device, another precision, another cap: the best costs as much as before, or less."""
    names = data.draw(st.lists(st.sampled_from(OFFERS), min_size=2, max_size=3, unique_by=lambda one: one[0]))
    goal = data.draw(st.sampled_from(GOALS))
    deadline_s = data.draw(st.sampled_from([None, 10.0, 25.0, 60.0, 200.0]))
    asked = {
        "objective": goal,
        "energy_weight": 0.4 if goal == "weighted" else None,
        "limits": Limits(deadline_s=deadline_s),
        "checkpointings": ("none",),
    }
    few = problem(offers=tuple(offer(*one) for one in names[:-1]), **asked)
    more = problem(offers=tuple(offer(*one) for one in names), **asked)
    capped = problem(offers=tuple(offer(*one, power_caps_w=(60.0,)) for one in names), **asked)
    costs = [best_cost(one, calibration) for one in (few, more, capped)]
    assert costs == sorted(costs, reverse=True)


@settings(max_examples=12)
@given(data=st.data())
def test_a_looser_limit_never_makes_the_best_worse(data, problem, calibration):
    """Deadline, energy, devices or memory: what is twice as loose costs as much, or less."""
    limit = data.draw(st.sampled_from(["deadline_s", "max_energy_j", "max_devices", "memory_free_fraction"]))
    goal = "energy" if limit != "max_energy_j" else "time"
    tight = {
        "deadline_s": data.draw(st.floats(5.0, 100.0)),
        "max_energy_j": data.draw(st.floats(3000.0, 30000.0)),
        "max_devices": data.draw(st.integers(1, 2)),
        "memory_free_fraction": 0.9,
    }[limit]
    loose = tight / 2 if limit == "memory_free_fraction" else 2 * tight
    costs = [
        best_cost(problem(objective=goal, limits=Limits(**{limit: bound})), calibration) for bound in (tight, loose)
    ]
    assert costs[1] <= costs[0]


@settings(max_examples=8)
@given(st.permutations(OFFERS[1:]))
def test_the_order_of_the_inputs_changes_nothing(problem, offer, calibration, names):
    """Devices, strategies and precisions in any order give the same ranking and the same front."""
    strategies = ("fsdp", "single", "ddp", "tp")
    forward = problem(
        offers=tuple(offer(*one) for one in names), strategies=strategies, checkpointings=("none", "full")
    )
    backward = replace(
        forward,
        space=Space(offers=forward.space.offers[::-1], strategies=strategies[::-1], checkpointings=("full", "none")),
    )
    one, other = search(forward, calibration), search(backward, calibration)
    for kept in ("best", "front"):
        a, b = getattr(one, kept), getattr(other, kept)
        assert all(a[name].tolist() == b[name].tolist() for name in a.columns)


@settings(max_examples=10)
@given(deadline_s=st.floats(4.0, 200.0), confidence=st.sampled_from([None, 0.5, 0.9]))
def test_no_plan_misses_its_deadline(problem, calibration, deadline_s, confidence):
    """Neither the best nor what comes next nor the front; with a confidence, the upper end of the interval keeps it."""
    asked = problem(
        limits=Limits(deadline_s=deadline_s, confidence=confidence),
        strategies=("single", "ddp", "fsdp"),
        checkpointings=("none",),
    )
    found = plan(asked, calibration)
    for option in (*found.ranking, *found.front):
        time = option.prediction.duration_s
        assert (time.mid if confidence is None else time.high) <= deadline_s * (1 + 1e-9)
        assert confidence is None or time.level == confidence
    assert (found.best is None) == (found.infeasible is not None)


@given(
    times=st.lists(st.integers(1, 20), min_size=1, max_size=40),
    seed=st.integers(0, 10**6),
)
def test_the_front_is_what_nothing_beats(times, seed):
    """A point is on the front, or another is as fast and as green and one of both more so, or equal to it."""
    energies = np.random.default_rng(seed).integers(1, 20, len(times)).astype(float)
    points = Points({"duration_s": np.array(times, float), "energy_j": energies, "group": np.zeros(len(times))})
    front = pareto_front(points)
    kept = set(zip(front["duration_s"], front["energy_j"], strict=True))
    pairs = list(zip(points["duration_s"], points["energy_j"], strict=True))
    for time, energy in pairs:
        beaten = any(t <= time and e <= energy and (t, e) != (time, energy) for t, e in pairs)
        assert ((time, energy) in kept) != beaten
    assert sorted(front["duration_s"]) == front["duration_s"].tolist()


def test_equal_costs_stand_in_an_order_of_their_own():
    """Of two that cost the same, the faster one stands first, wherever it stood before."""
    columns = {"duration_s": np.array([3.0, 2.0, 1.0]), "energy_j": np.array([1.0, 1.0, 2.0]), "group": np.zeros(3)}
    points = Points(columns)
    for order in itertools.permutations(range(3)):
        shuffled = points.take(list(order))
        assert first(shuffled, shuffled["energy_j"], 2)["duration_s"].tolist() == [2.0, 3.0]
