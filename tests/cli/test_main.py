"""The door: help, exit codes, warnings, and ways to leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import pytest

from wattlaw import cli

CONFIG = Path(__file__).parents[2] / "examples" / "bert-base-uncased"
COMMAND = [sys.executable, "-m", "wattlaw.cli"]


def test_no_arguments_show_the_help(wattlaw):
    """Who types only the name gets the list of verbs, and so does who types only a group."""
    for arguments, word in (((), "predict"), (("import",), "codecarbon"), (("hardware",), "show")):
        found = wattlaw(*arguments)
        assert (found.code, found.err) == (0, "")
        assert "Usage: wattlaw" in found.out
        assert word in found.out


def test_help_and_version(wattlaw):
    """Both are answers: standard output, exit code 0."""
    for option in ("--help", "-h"):
        assert wattlaw(option).out.startswith("Usage: wattlaw")
    assert metadata.version("wattlaw") in wattlaw("--version").out


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("predct",), "predict"),
        (("--versoin",), "--version"),
        (("predict", "--batchsize", "3"), "--batch-size"),
        (("hardware", "lst"), "list"),
        (("predict", "--model"), "--model"),
        (("predict", "a.toml", "b.toml"), "b.toml"),
        (("fit", "records.jsonl"), "--output"),
        (("import", "csv", "file.csv", "-o", "x.jsonl"), "--columns"),
    ],
)
def test_a_slip_of_the_pen_is_answered_with_what_was_meant(refused, arguments, word):
    """Unknown verbs and options name the nearest; what is missing is named."""
    refused(*arguments, words=[word])


def test_a_fault_of_ours_is_one_line_and_exit_code_1(wattlaw, monkeypatch):
    """What nobody foresaw shows no traceback either, unless it is asked for."""

    def fail(*_):
        raise ZeroDivisionError("by accident")

    monkeypatch.setattr(cli, "_run", fail)
    found = wattlaw("hardware", "list")
    assert found.code == 1
    assert found.err == (
        "wattlaw: a fault of wattlaw (ZeroDivisionError: by accident); WATTLAW_TRACEBACK=1 shows where\n"
    )
    monkeypatch.setenv("WATTLAW_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        cli.main()


def test_a_doubt_is_one_line_and_stops_nothing(wattlaw, store, tmp_path):
    """A record that was cut short is skipped with one line, not with two of Python's and a place in our source."""
    with store.open("ab") as file:
        file.write(b'{"schema":1,"record_id":"tor')
    found = wattlaw("fit", store, "--law", "power", "-o", tmp_path / "law.json")
    assert found.code == 0
    assert found.err == (
        f"wattlaw: warning: {store}: line 41: skipped a record that was cut short while it was written\n"
    )


def test_the_verbs_are_those_that_are_imported():
    """Every verb of the list is a command of that name."""
    context = cli.click.Context(cli.cli)
    for verb in cli.VERBS:
        command = cli.cli.get_command(context, verb)
        assert command.name == verb or verb in ("doctor", "measure", "probe", "run")


def test_a_reader_that_goes_away_is_no_error():
    """``wattlaw hardware list --json | head -1``: nothing on standard error, exit code 0."""
    with subprocess.Popen(
        [*COMMAND, "hardware", "list", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")  # noqa: PTH110
def test_a_full_disk_is_said_in_one_line():
    """What cannot be written is an error that names standard output."""
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        found = subprocess.run([*COMMAND, "hardware", "list"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert found.returncode == 2
    assert found.stderr.startswith(b"wattlaw: standard output: ")
    assert found.stderr.count(b"\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT between processes")
def test_ctrl_c_stops_with_one_line_and_exit_code_130(store):
    """An evaluation that takes long ends at once, as a shell expects."""
    with subprocess.Popen(
        [*COMMAND, "evaluate", store, "--splits", "10000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (130, b"", b"wattlaw: stopped\n")


def test_letters_that_the_terminal_lacks_do_not_stop_it(tmp_path):
    """An ASCII terminal gets codes in the place of other letters."""
    spec = (Path(__file__).parents[2] / "examples" / "bert-base-sst2.toml").read_text()
    (tmp_path / "run.toml").write_text(
        spec.replace("BERT-base on SST-2", "Läufe").replace('"bert-base-uncased"', f'"{CONFIG}"'), encoding="utf-8"
    )
    found = subprocess.run(
        [*COMMAND, "predict", "run.toml"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert (found.returncode, found.stderr) == (0, b"")
    assert found.stdout.startswith(b"L\\xe4ufe, fsdp on 4 x ")


@pytest.mark.parametrize("columns", ["0", "1"])
def test_a_terminal_of_no_width_is_as_wide_as_a_table_needs(columns):
    """Where COLUMNS is 0, as in some terminals that are none, everything is said, in whole words."""
    found = subprocess.run(
        [*COMMAND, "hardware", "show", "t4"],
        env={**os.environ, "COLUMNS": columns},
        capture_output=True,
        check=False,
        text=True,
    )
    assert found.returncode == 0
    assert "NVIDIA T4" in found.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="no shell that closes a stream")
def test_a_closed_standard_output_is_no_fault():
    """Who closes it wants no answer."""
    found = subprocess.run(
        ["/bin/sh", "-c", '"$@" >&-', "sh", *COMMAND, "hardware", "show", "t4"], capture_output=True, check=False
    )
    assert (found.returncode, found.stderr) == (0, b"")


@pytest.mark.parametrize("arguments", [["predict", "a\0b.toml"], ["fit", "\0"], ["hardware", "show", "\0.toml"]])
def test_a_file_name_that_no_system_has_is_refused(refused, arguments):
    """A null byte ends a name; nothing can be there."""
    refused(*arguments)


@pytest.mark.parametrize(("verb", "threads"), [("hardware", "1"), ("measure", None)])
def test_linear_algebra_has_one_thread_but_where_something_is_measured(monkeypatch, capsys, verb, threads):
    """Small matrices are slower with more; a training that is measured has what the user gave it."""
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.setattr(sys, "argv", ["wattlaw", verb, "--help"])
    with pytest.raises(SystemExit):
        cli.main()
    assert os.environ.get("OPENBLAS_NUM_THREADS") == threads
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    with pytest.raises(SystemExit):
        cli.main()
    assert os.environ["OPENBLAS_NUM_THREADS"] == "3"
