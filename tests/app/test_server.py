"""The JSON interface: what it answers, what it refuses, and that nobody sees another one's data."""

from __future__ import annotations

import json
import shlex
import threading

import pytest
from click.testing import CliRunner

from wattlaw.app import bodies
from wattlaw.app.command import command_line
from wattlaw.app.openapi import ROUTES
from wattlaw.cli import cli
from wattlaw.cli.predict import PLACES
from wattlaw.law.bundled import bundled
from wattlaw.run.record import record_to_mapping
from wattlaw.run.spec_file import read_spec


def energy_of(answer):
    """Return the joules that an answer expects."""
    return answer["energy_j"]["mid"]


def ndjson(records):
    """Write records as the lines of a store."""
    return b"\n".join(json.dumps(record_to_mapping(one)).encode() for one in records)


def test_a_prediction_is_that_of_the_command_line(site, run, tmp_path):
    """The page says what ``wattlaw predict --json`` says of the TOML and of the command that it gives."""
    status, answer, _ = site.ask("api/predict", {"run": run, "prices": {"pue": 1.2, "price_per_kwh": 0.3}})
    assert status == 200
    command = shlex.split(answer["command"])
    assert command[:2] == ["wattlaw", "predict"]
    typed = json.loads(CliRunner().invoke(cli, [*command[1:], "--json"], catch_exceptions=False).output)
    shared = {key: value for key, value in answer.items() if key not in ("toml", "command")}
    assert typed == shared
    (tmp_path / "run.toml").write_text(answer["toml"])
    written = ["predict", str(tmp_path / "run.toml"), "--pue", "1.2", "--price-per-kwh", "0.3", "--json"]
    assert json.loads(CliRunner().invoke(cli, written, catch_exceptions=False).output) == shared


def test_every_key_of_a_run_has_its_option():
    """A command that is copied names options that there are, whatever the run says."""
    options = {option for parameter in cli.get_command(None, "predict").params for option in parameter.opts}
    tables = {"model": {}, "recipe": {}, "hardware": {}, "layout": {}}
    for table, key in PLACES.values():
        tables[table][key] = 1
    prices = bodies.PriceTable(**dict.fromkeys(bodies.PriceTable.__struct_fields__, 1))
    words = shlex.split(command_line(bodies.Run(**tables), prices, level=0.9))
    assert {word for word in words if word.startswith("--")} <= options
    assert len(words) == 2 + 2 * (len(PLACES) + len(bodies.PriceTable.__struct_fields__) + 1)


def test_a_config_comes_as_its_fields(site, run, tmp_path):
    """A config.json is data in the request; the TOML then holds the architecture in full."""
    config = {"model_type": "gpt2", "n_embd": 256, "n_layer": 4, "n_head": 4, "vocab_size": 50257, "n_positions": 512,
              "architectures": ["GPT2LMHeadModel"]}  # fmt: skip
    status, seen, _ = site.ask("api/config", {"text": json.dumps({**config, "transformers_version": "5"})})
    assert (status, seen["num_layers"]) == (200, 4)
    assert seen["config"] == config
    run["model"] = {"config": seen["config"]}
    status, answer, _ = site.ask("api/predict", {"run": run})
    assert status == 200
    (tmp_path / "run.toml").write_text(answer["toml"])
    assert read_spec(tmp_path / "run.toml").architecture.hidden_size == 256


@pytest.mark.parametrize(
    ("table", "values", "said"),
    [
        ("model", {"config": "/etc/hostname"}, "not a table"),
        ("hardware", {"gpu": "/etc/passwd.toml"}, "not read from files"),
        ("hardware", {"gpu": "rtx-2080-ti", "node": "../secret.TOML"}, "not read from files"),
        ("hardware", {"gpu": "no such thing"}, "unknown accelerator"),
        ("recipe", {"batch_size": 32}, "missing"),
        ("recipe", {"batch_size": "__import__('os')", "seq_len": 1, "steps": 1}, "not a number"),
        ("layout", {"strategy": "fsdp", "num_devices": 1e300}, "any one place"),
        ("recipe", {"batch_size": 10**6, "seq_len": 128, "steps": 1, "precision": "fp16"}, "memory"),
    ],
)
def test_inputs_are_data_and_refused_in_a_line(site, run, table, values, said):
    """Paths, code, unknown names and impossible runs are refused with what is wrong, and nothing is opened."""
    run[table] = values
    status, answer, _ = site.ask("api/predict", {"run": run})
    assert status == 422
    assert said in answer["error"]
    assert "\n" not in answer["error"]
    assert "root:" not in answer["error"]


def test_what_is_no_request_is_refused(site, run):
    """Other media types, other fields, no JSON, other hosts, other methods and bodies beyond the limit."""
    assert site.ask("api/predict", {"run": run}, media_type="text/plain")[0] == 422
    status, answer, _ = site.ask("api/predict", {"run": run, "path": "x"})
    assert (status, "path" in answer["error"]) == (422, True)
    assert site.ask("api/predict", b"{")[0] == 422
    assert site.ask("api/predict", b"[" * 100_000)[0] == 422
    assert site.ask("api/options", headers={"host": "evil.example"})[0] == 400
    assert site.ask("api/predict")[0] == 405
    assert site.ask("api/predict", b" " * (bodies.MOST_BYTES + 1))[0] == 413
    status, refusal, _ = site.ask("static/../server.py")
    assert (status, refusal["kind"]) == (404, "FileError")
    assert "nothing answers GET /" in refusal["error"]


def test_the_page_keeps_to_itself(site):
    """Nothing may be loaded from elsewhere, framed, or kept; and no cookie tells visitors apart."""
    for path in ("", "static/main.js", "api/options"):
        status, _, headers = site.ask(path)
        assert status == 200
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
        assert headers["set-cookie"] is None


def test_visitors_do_not_see_each_other(site, run):
    """Many ask different things at once, one of them with a law of their own: each gets the answer to their own."""
    law = bundled().to_mapping()
    law["machines"] = {"another": law["machines"]["rtx-2080-ti"]}
    asked = []
    for count in range(12):
        body = {"run": json.loads(json.dumps(run)), **({"law": law} if count % 3 == 0 else {})}
        body["run"]["recipe"]["batch_size"] = 8 + count
        asked.append(body)
    alone = [site.ask("api/predict", body)[1] for body in asked]
    found = [None] * len(asked)

    def ask(place):
        found[place] = site.ask("api/predict", asked[place])[1]

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(len(asked))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == alone
    assert {answer["cold"] for answer in found[::3]} == {True}
    assert {answer["cold"] for place, answer in enumerate(found) if place % 3} == {False}


def test_a_law_that_is_none_is_refused(site, run):
    """A law in a request is checked as a file is."""
    status, answer, _ = site.ask("api/predict", {"run": run, "law": {"format": "something else"}})
    assert (status, answer["error"].startswith("law: ")) == (422, True)


def test_a_comparison_and_a_tree_are_of_the_run(site, run):
    """The run stands first among its alternatives, and its tree's root takes what the prediction says."""
    energy = energy_of(site.ask("api/predict", {"run": run})[1])
    rows = site.ask("api/compare", {"run": run, "counts": [1, 2, 4]})[1]["rows"]
    assert energy_of(rows[0]) == pytest.approx(energy, rel=1e-12)
    assert [row["chosen"] for row in rows] == [True] + [False] * (len(rows) - 1)
    tree = site.ask("api/explain", {"run": run})[1]["tree"]
    assert tree["energy_j"] == pytest.approx(energy, rel=1e-9)
    assert sum(part["energy_j"] for part in tree["children"]) == pytest.approx(energy, rel=1e-9)
    assert site.ask("api/compare", {"run": run, "counts": list(range(1, 99))})[0] == 422


def test_a_plan_keeps_its_deadline_and_its_size(site, run):
    """Nothing on the front takes longer than the deadline, and more devices than the limit are not searched."""
    free = site.ask("api/plan", {"run": run, "num_devices": 4, "caps": False})[1]
    deadline_s = 0.8 * free["best"]["duration_s"]["mid"]
    held = site.ask("api/plan", {"run": run, "num_devices": 4, "caps": False, "deadline_s": deadline_s})[1]
    assert free["best"]["duration_s"]["mid"] > deadline_s
    assert all(one["duration_s"]["mid"] <= deadline_s for one in [held["best"], *held["front"]])
    assert energy_of(held["best"]) >= energy_of(free["best"])
    none = site.ask("api/plan", {"run": run, "num_devices": 4, "caps": False, "deadline_s": 1e-3})[1]
    assert none["best"] is None
    assert none["infeasible"]["nearest"] is not None
    assert site.ask("api/plan", {"run": run, "num_devices": 10**6})[0] == 422


def test_no_size_makes_work_without_end(site, run):
    """A model of a billion blocks is not drawn, and no batch's divisors are searched beyond the limit."""
    sizes = {"num_layers": 10**9, "hidden_size": 64, "num_heads": 4, "ffn_size": 64, "vocab_size": 100}
    deep = {
        **run,
        "model": {"family": "bert", **sizes, "head": "mlm"},
        "recipe": {**run["recipe"], "precision": "fp16"},
    }
    for path in ("predict", "explain", "compare", "plan", "changes"):
        status, answer, _ = site.ask(f"api/{path}", {"run": deep})
        assert (status, "1000" in answer["error"]) == (422, True)
    run["recipe"] = {**run["recipe"], "batch_size": 2, "grad_accumulation": 2**20}
    status, answer, _ = site.ask("api/plan", {"run": run})
    assert (status, "batch of all devices" in answer["error"]) == (422, True)


def test_records_are_fitted_and_forgotten(site, run, records):
    """A fit comes back as a law that predicts, with its diagnostics drawn; a broken line is named."""
    status, found, _ = site.ask("api/fit?law=paper", ndjson(records[:20]), media_type="application/x-ndjson")
    assert (status, found["law"], found["num_records"]) == (200, "paper", 20)
    assert {"coverage", "leverage", "variance-inflation"} <= {one["name"] for one in found["figures"]}
    assert all(one["svg"].startswith("<svg") and one["alt"] and one["rows"] for one in found["figures"])
    assert found["report"].startswith("<!doctype html>")
    status, answer, _ = site.ask("api/predict", {"run": run, "law": found["calibration"]})
    assert (status, answer["calibration"].partition(":")[0]) == (200, "paper")
    status, answer, _ = site.ask("api/fit?law=paper", b'{"a": 1}\n', media_type="application/x-ndjson")
    assert (status, "line 1" in answer["error"]) == (422, True)
    status, answer, _ = site.ask("api/fit?law=magic", ndjson(records[:3]), media_type="application/x-ndjson")
    assert (status, "unknown law" in answer["error"]) == (422, True)


def test_the_description_names_every_route(site):
    """Each route of the description answers, and every schema that it refers to is there."""
    status, found, _ = site.ask("openapi.json")
    assert status == 200
    assert set(found["paths"]) == set(ROUTES)
    text = json.dumps(found)
    named = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert named <= set(found["components"]["schemas"])
    for path, (method, _, _) in ROUTES.items():
        status = site.ask(path.lstrip("/"), b"" if method == "post" else None)[0]
        assert status == (422 if method == "post" else 200)


def test_examples_stand_beside_what_was_published(site):
    """GPT-3's 1,287 MWh is there, with a finite prediction and the run that fills in the form."""
    rows = {row["name"]: row for row in site.ask("api/examples")[1]["rows"]}
    assert {"GPT-3 175B", "T5-11B", "BLOOM 176B", "LLaMA 65B", "OLMo 2 7B"} <= set(rows)
    assert rows["GPT-3 175B"]["published_j"] == pytest.approx(1287 * 3.6e9)
    for row in rows.values():
        if row["run"] is not None:
            assert site.ask("api/predict", {"run": row["run"], "prices": row["prices"]})[0] == 200
            assert 0 < row["energy_j"]["low"] < row["energy_j"]["high"]
