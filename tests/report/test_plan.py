"""Plans as text and as figures."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from wattlaw.hardware import accelerator
from wattlaw.law.bundled import bundled
from wattlaw.parallel.layout import Layout
from wattlaw.plan import Limits, Objective, Offer, Problem, Space, plan
from wattlaw.plan.curves import by_device_count, by_power_cap, crossovers
from wattlaw.plan.limits import Miss
from wattlaw.report.machine import as_json
from wattlaw.report.plan import plan_mapping, plan_text
from wattlaw.report.plan_limits import missed
from wattlaw.run.spec import RunSpec
from wattlaw.workload import Recipe, preset


@pytest.fixture(scope="module")
def problem():
    """BERT on up to four cards of two kinds, within a quarter of an hour."""
    run = RunSpec(
        architecture=preset("bert-base-uncased", head="classification"),
        recipe=Recipe(batch_size=32, seq_len=128, precision="fp16", samples=67349),
        layout=Layout(),
        accelerator=accelerator("rtx-2080-ti"),
        name="BERT",
    )
    offers = tuple(Offer(accelerator=accelerator(name), num_devices=4) for name in ("rtx-2080-ti", "a100-sxm4-40gb"))
    space = Space(offers=offers, strategies=("single", "ddp", "fsdp", "tp"))
    return Problem(run=run, space=space, limits=Limits(deadline_s=900.0))


@pytest.fixture(scope="module")
def found(problem):
    """The plan."""
    return plan(problem, bundled())


def drawn(chart):
    """The rows of every inline table of a chart."""
    spec = json.loads(chart.to_json())
    rows = [row for dataset in spec.pop("datasets", {}).values() for row in dataset]

    def walk(node):
        if isinstance(node, dict):
            if isinstance(node.get("values"), list):
                rows.extend(row for row in node["values"] if isinstance(row, dict))
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(spec)
    return rows


@pytest.mark.parametrize(
    ("miss", "text"),
    [
        (Miss(limit="deadline", allowed=3600.0, needed=5400.0), "1.50 h, 30.0 min over the 1.00 h allowed"),
        (Miss(limit="memory", allowed=8 * 2**30, needed=9 * 2**30), "9.00 GiB, 1.00 GiB over the 8.00 GiB allowed"),
        (Miss(limit="energy", allowed=3.6e6, needed=7.2e6), "2.00 kWh, 1.00 kWh over the 1.00 kWh allowed"),
        (Miss(limit="carbon", allowed=1000.0, needed=1500.0), "1.50 kg, 500 g over the 1.00 kg allowed"),
        (Miss(limit="money", allowed=10.0, needed=12.5), "12.5, 2.50 over the 10.0 allowed"),
        (Miss(limit="devices", allowed=4, needed=8), "8, 4 over the 4 allowed"),
    ],
)
def test_a_miss_is_written_in_the_unit_that_fits(miss, text):
    """What is needed, what is too much and what is allowed."""
    assert missed(miss) == f"{miss.limit}: needs {text}"


def test_the_text_has_the_mapping_in_words(found, capsys):
    """The same best, counts and chance."""
    from rich.console import Console

    Console(width=100).print(plan_text(found, None))
    text = capsys.readouterr().out
    mapping = plan_mapping(found, None)
    assert f"{mapping['num_configurations']:,} configurations" in text
    assert f"a chance of {mapping['first_place']['chance']:.0%}" in text
    assert f"{mapping['best']['num_devices']} x NVIDIA" in text
    assert json.loads(as_json(mapping))["best"]["energy_j"] == mapping["best"]["energy_j"]


def test_the_front_is_drawn_with_its_limits_and_its_best(found):
    """Every point of the front is drawn where it is, beside the deadline in hours and the ring around the best."""
    pytest.importorskip("altair")
    from wattlaw.report.plan_figures import FRONT, front_figure

    rows = drawn(front_figure(found))
    times = sorted({row["time_h"] for row in rows if row.get("place") == FRONT})
    assert times == pytest.approx([one.prediction.duration_s.mid / 3600 for one in found.front])
    assert {"bound": 0.25, "label": "deadline"} in rows


def test_curves_are_drawn_with_their_crossovers(found, problem):
    """Every option of a strategy that is shown, and each crossover once."""
    pytest.importorskip("altair")
    from wattlaw.report.plan_figures import devices_figure

    curve = by_device_count(problem, bundled(), level=0.95)
    crossed = crossovers(curve)
    rows = drawn(devices_figure(found, curve, crossed))
    points = {(row["accelerator"], row["strategy"], row["devices"]) for row in rows if "strategy" in row}
    layouts = [(one.spec.accelerator.name, one.spec.layout) for one in curve]
    assert points == {(name, layout.strategy, layout.num_devices) for name, layout in layouts}
    assert {row["label"] for row in rows if row["mark"]} == {f"{one.after} from {one.num_devices}" for one in crossed}


def test_a_power_cap_curve_says_what_is_saved(found, tmp_path):
    """The least energy, against that at the board's own limit; the file is a picture."""
    pytest.importorskip("vl_convert")
    from wattlaw.report.figures.saving import save
    from wattlaw.report.plan_figures import caps_figure

    spec = replace(found.best.spec, accelerator=accelerator("a100-sxm4-40gb"))
    curve = by_power_cap(spec, bundled(), level=0.95, fractions=(0.5, 0.75, 1.0))
    chart = caps_figure(found, curve, board_limit_w=400.0)
    energies = {cap: one.energy_j.mid for cap, one in curve}
    least = min(energies, key=energies.get)
    assert f"at {least:.0f} of 400 W" in json.dumps(json.loads(chart.to_json())["title"])
    save(chart, tmp_path / "caps.png")
    assert (tmp_path / "caps.png").read_bytes()[:4] == b"\x89PNG"
    assert "<svg" in (tmp_path / "caps.svg").read_text()


def test_trades_are_told_as_text_and_as_a_mapping(problem, capsys):
    """A deadline that the greenest way misses: by how much, and what keeping it costs."""
    from rich.console import Console

    greenest = plan(replace(problem, limits=Limits()), bundled()).best
    bound_s = 0.92 * greenest.prediction.duration_s.mid
    found = plan(replace(problem, limits=Limits(deadline_s=bound_s)), bundled())
    trade = plan_mapping(found, None)["trades"]["deadline"]
    assert trade["allowed"] == bound_s
    last = trade["options"][-1]
    assert last["needed"] > bound_s
    assert last["cost_fraction"] == pytest.approx(greenest.cost / found.best.cost - 1, rel=1e-6)
    Console(width=120).print(plan_text(found, None))
    text = capsys.readouterr().out
    assert "one limit moved, all others kept" in text
    assert f"(+{100 * (last['needed'] / bound_s - 1):.2g} %)" in text


def test_an_infeasible_plan_says_what_would_make_it_possible(problem, capsys):
    """A deadline moved, or more devices than are offered, each with its number."""
    from rich.console import Console

    fastest = plan(replace(problem, objective=Objective(goal="time")), bundled()).best
    few = replace(problem.space, offers=tuple(replace(one, num_devices=1) for one in problem.space.offers))
    bound_s = 1.05 * fastest.prediction.duration_s.mid
    found = plan(replace(problem, space=few, limits=Limits(deadline_s=bound_s)), bundled())
    Console(width=160).print(plan_text(found, None))
    text = capsys.readouterr().out
    (option,) = found.infeasible.more_devices
    assert f"with {option.spec.layout.num_devices} {option.spec.accelerator.name}, where 1 are offered" in text
    assert "with all other limits kept, deadline: needs" in text
    mapping = plan_mapping(found, None)["infeasible"]
    assert [one["num_devices"] for one in mapping["more_devices"]] == [option.spec.layout.num_devices]
