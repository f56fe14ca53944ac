"""``wattlaw report`` and ``wattlaw app`` as they are typed."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from wattlaw.law.bundled import bundled
from wattlaw.run.store import append_records

SPEC = Path(__file__).resolve().parents[2] / "examples" / "bert-base-sst2.toml"


def test_a_run_becomes_a_page(wattlaw, tmp_path):
    """One file, which says what ``predict`` says."""
    result = wattlaw("report", SPEC, "-o", tmp_path / "report.html", "--json")
    found = json.loads(result.out)
    assert (result.code, found["kind"], found["files"]) == (0, "prediction", [str(tmp_path / "report.html")])
    page = (tmp_path / "report.html").read_text()
    expected = json.loads(wattlaw("predict", SPEC, "--json").out)
    assert f"{expected['energy_j']['mid'] / 3600:.1f} Wh" in page


def test_records_and_a_fit_become_markdown(wattlaw, tmp_path, records):
    """Figures lie in a folder beside the text; with their law the report is of the fit."""
    append_records(tmp_path / "records.jsonl", records[:20])
    bundled().save(tmp_path / "law.json")
    result = wattlaw("report", tmp_path / "records.jsonl", tmp_path / "law.json", "-o", tmp_path / "fit.md", "--json")
    found = json.loads(result.out)
    assert (result.code, found["kind"]) == (0, "fit")
    images = re.findall(r"\((fit-figures/.+?)\)", (tmp_path / "fit.md").read_text())
    assert len(images) == len(found["files"]) - 1
    assert all((tmp_path / image).is_file() for image in images)


def test_a_law_without_time_is_reported(wattlaw, tmp_path, records):
    """The paper's law knows no duration: terms and totals are there, and no comparison with time."""
    pytest.importorskip("statsmodels")
    append_records(tmp_path / "records.jsonl", records)
    assert wattlaw("fit", tmp_path / "records.jsonl", "--law", "paper", "-o", tmp_path / "law.json").code == 0
    result = wattlaw("report", SPEC, "--law", tmp_path / "law.json", "-o", tmp_path / "a.html", "--json")
    assert result.code == 0, result.err
    page = (tmp_path / "a.html").read_text()
    assert 'figure id="terms"' in page
    assert 'figure id="comparison"' not in page


def test_a_plan_becomes_a_page(wattlaw, tmp_path):
    """What ``plan --json`` prints is drawn: the best, its spec, the front."""
    result = wattlaw("plan", SPEC, "--gpus", "rtx-2080-ti:2", "--json")
    assert result.code == 0, result.err
    (tmp_path / "plan.json").write_text(result.out)
    result = wattlaw("report", tmp_path / "plan.json", "-o", tmp_path / "plan.html", "--json")
    assert (result.code, json.loads(result.out)["kind"]) == (0, "plan")
    page = (tmp_path / "plan.html").read_text()
    assert 'id="the-best-way"' in page
    assert 'figure id="front"' in page


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{spec}", "-o", "report.pdf"], "allowed .html, .htm, .md"),
        (["{spec}", "{spec}", "-o", "a.html"], "a report is of one thing"),
        (["{plan}", "-o", "a.html"], "not a plan"),
        (["{spec}", "-o", "a.md", "--interactive"], "only a page is interactive"),
        (["missing.toml", "-o", "a.html"], "missing.toml"),
    ],
)
def test_what_is_no_report_is_refused(wattlaw, tmp_path, monkeypatch, arguments, said):
    """One line, exit code 2, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.json").write_text('{"run": "x"}')
    result = wattlaw("report", *(one.format(spec=SPEC, plan=tmp_path / "plan.json") for one in arguments))
    assert result.code == 2
    assert said in result.err
    assert len(result.err.splitlines()) == 1
    assert not list(tmp_path.glob("*.html"))


def test_the_app_listens_on_this_machine(tmp_path):
    """It prints where it is, answers there, and ends with Ctrl-C."""
    server = subprocess.Popen(
        [sys.executable, "-m", "wattlaw.cli", "app", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, cwd=tmp_path,
    )  # fmt: skip
    try:
        line = server.stdout.readline()
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", line)[1])
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
            connection.request("GET", "/")
            assert "wattlaw" in connection.getresponse().read().decode()
    finally:
        server.send_signal(signal.SIGINT)
        _, complaints = server.communicate(timeout=60)
    assert complaints == ""
    assert server.returncode in (0, 130)


def test_a_port_in_use_is_said(wattlaw):
    """One line names the address and the way out."""
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = wattlaw("app", "--port", taken.getsockname()[1])
    assert result.code == 2
    assert "--port 0" in result.err


def test_the_app_says_what_it_needs(wattlaw, monkeypatch):
    """Without its libraries, one line says how to get them."""
    for name in ("starlette", "starlette.applications"):
        monkeypatch.setitem(sys.modules, name, None)
    result = wattlaw("app", "--port", "0")
    assert result.code == 2
    assert "pip install 'wattlaw[app]'" in result.err


def test_a_law_of_the_paper_is_fitted_and_reported(wattlaw, refused, store, tmp_path):
    """By its name, with its choices; the choices say nothing of a law that is not fitted here."""
    page = tmp_path / "paper.html"
    found = wattlaw("report", store, "--law", "power", "--covariance", "cluster", "-o", page, "--json")
    assert found.code == 0, found.err
    assert json.loads(found.out)["kind"] == "fit"
    assert "error by family" in page.read_text()
    refused("report", store, "--efficiency", "none", "-o", page, words=["--efficiency", "--law paper"])
    refused("report", "examples/bert-base-sst2.toml", "--law", "paper", "-o", page, words=["--law", "records"])
