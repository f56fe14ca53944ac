"""A command under ``wattlaw run`` behaves as without it, and leaves one record."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from wattlaw.hardware import accelerator
from wattlaw.measure.command import without_secrets
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunSpec, read_records, read_spec, write_spec
from wattlaw.workload import Recipe, preset

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")

COMMAND_LINE = "import sys; from wattlaw.cli.run import command as c; sys.exit(c.main(standalone_mode=False))"
WATTLAW = [sys.executable, "-c", COMMAND_LINE]
#: Counts the signals that it gets, until it is asked to stop by SIGTERM or has lived for a while.
COUNTING = """
    import signal, sys, time
    counts = {"INT": 0, "USR1": 0, "TERM": 0}
    def count(name):
        def handle(number, frame):
            counts[name] += 1
        return handle
    for name in counts:
        signal.signal(getattr(signal, f"SIG{name}"), count(name))
    print("ready", flush=True)
    end = time.monotonic() + 20
    while not counts["TERM"] and time.monotonic() < end:
        time.sleep(0.02)
    print(counts, flush=True)
    sys.exit(3)
"""


@pytest.fixture
def store(tmp_path):
    """Where the records go."""
    return tmp_path / "runs" / "records.jsonl"


def wattlaw_run(store, *arguments, **options):
    """Run the command line to its end."""
    command = [*WATTLAW, "-o", str(store), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


def python(script):
    """A command that runs a script."""
    return ["--", sys.executable, "-c", textwrap.dedent(script)]


def test_input_output_and_exit_code_are_the_commands_own(store):
    """Standard input reaches it, its output comes back unmixed, its exit code is ours, one line tells the record."""
    script = "import sys; print(sys.stdin.read().upper(), end=''); print('oops', file=sys.stderr); sys.exit(7)"
    done = wattlaw_run(store, *python(script), input="hello\n")
    assert (done.returncode, done.stdout) == (7, "HELLO\n")
    (record,) = read_records(store)
    assert done.stderr.startswith("oops\n")
    assert done.stderr.count("\n") == 2
    assert "energy not measured" in done.stderr
    assert (record.status, record.observed["exit_code"], record.notes) == ("failed", 7, "exit code 7")
    assert record.energies == ()
    assert record.duration_s > 0
    assert record.spec is None
    assert record.stated == {}


def test_a_command_needs_no_dashes_and_keeps_its_options(store):
    """What follows the command's name is the command's, also if it looks like an option of ours."""
    done = wattlaw_run(store, "echo", "--spec", "-o", "x")
    assert (done.returncode, done.stdout) == (0, "--spec -o x\n")
    assert read_records(store)[0].environment["command"] == "echo --spec -o x"


def test_a_killed_command_is_recorded(store):
    """Out of memory or kill -9: its record says so, and the exit code is a shell's."""
    done = wattlaw_run(store, "--", "sh", "-c", "kill -9 $$")
    assert done.returncode == 128 + signal.SIGKILL
    (record,) = read_records(store)
    assert (record.status, record.notes) == ("failed", "ended by SIGKILL")


def test_a_command_that_is_not_there_is_no_run(store):
    """A shell's exit code and one line; no record, and nothing left to recover."""
    done = wattlaw_run(store, "--", "no-such-command")
    assert done.returncode == 127
    assert done.stderr == "wattlaw: cannot run 'no-such-command': No such file or directory\n"
    assert not store.exists()
    assert list(store.parent.glob(".*/*")) == []


def test_a_spec_makes_the_record_whole(store, tmp_path, spec):
    """With --spec the record says what was run; with --declare-power it has an energy that is labelled."""
    write_spec(spec, tmp_path / "run.toml")
    done = wattlaw_run(store, "--spec", str(tmp_path / "run.toml"), "--declare-power", "65W", "--", "sleep", "0.1")
    assert done.returncode == 0
    (record,) = read_records(store)
    assert record.spec == read_spec(tmp_path / "run.toml")
    assert [(one.boundary, one.method) for one in record.energies] == [("node", "declared")]


@pytest.mark.parametrize("name", ["TERM", "INT", "USR1"])
def test_signals_are_handed_on_once(store, name):
    """A scheduler's signal reaches the command, which decides what it means; the record is written after it."""
    process = start(store)
    process.send_signal(getattr(signal, f"SIG{name}"))
    if name != "TERM":
        time.sleep(0.3)
        process.terminate()
    output, _ = process.communicate(timeout=30)
    assert f"'{name}': 1" in output
    assert process.returncode == 3
    assert read_records(store)[0].observed["exit_code"] == 3


def test_ctrl_c_reaches_the_command_once(store):
    """The terminal sends it to both; handing it on would be a second one, which many programs take for "at once"."""
    main, other = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", LEADER, *WATTLAW, "-o", str(store), *python(COUNTING)],
        stdin=other,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    os.close(other)
    assert process.stdout.readline() == "ready\n"
    # The command sees the terminal's signal first; ours, if there were one, would be a second.
    process.send_signal(signal.SIGSTOP)
    os.write(main, b"\x03")
    time.sleep(0.3)
    process.send_signal(signal.SIGCONT)
    process.terminate()
    output, _ = process.communicate(timeout=30)
    os.close(main)
    assert "'INT': 1" in output
    assert process.returncode == 3
    assert read_records(store)[0].observed["exit_code"] == 3


#: Takes standard input for its terminal, then becomes the command that follows.
LEADER = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"


def test_a_kill_of_the_meter_itself_leaves_a_trace(store):
    """After kill -9 of wattlaw the next run of the store records the job as failed, once; nothing is made up."""
    process = start(store)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    process.stderr.close()
    done = wattlaw_run(store, "--", "true")
    assert "had ended without a word; recorded as failed" in done.stderr
    killed, after = read_records(store)
    assert (killed.status, killed.duration_s, killed.energies) == ("failed", None, ())
    assert sys.executable in killed.environment["command"]
    assert after.status == "ok"
    assert list(store.parent.glob(".*/*")) == []


def test_a_rank_that_does_not_meter_passes_its_command_through(store):
    """Rank 1 of a node: exit code and output as they are, no record, no word."""
    ranks = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": "29500"}
    done = wattlaw_run(store, "--", "sh", "-c", "echo hi; exit 0", env={**os.environ, **ranks})
    assert (done.returncode, done.stdout, done.stderr) == (0, "hi\n", "")
    assert not store.exists()


def test_gpus_are_metered_while_the_command_runs(driver, store):
    """The real NVML client on a scripted driver: two GPUs at 100 W for the length of the command."""
    driver.gpu(0)
    driver.gpu(1)
    done = wattlaw_run(store, "--", "sleep", "1.5", env=driver.environment())
    assert done.returncode == 0, done.stderr
    (record,) = read_records(store)
    energy = record.energy("accelerators")
    assert energy.method == "counter"
    assert energy.energy_j == pytest.approx(200.0 * record.duration_s, rel=0.05)
    assert record.stated["hardware"] == {"gpu": "a100-sxm4-40gb"}


def test_a_command_that_is_too_short_has_no_energy(driver, store):
    """Ten updates of the counter do not fit: the energy is unknown rather than that of a longer window."""
    driver.gpu(0)
    done = wattlaw_run(store, "--", "true", env=driver.environment())
    assert done.returncode == 0
    (record,) = read_records(store)
    assert (record.status, record.energies) == ("ok", ())
    assert "too short to be measured" in record.notes


def test_secrets_are_blanked():
    """A record may be published: values of options that are called secret are not in it."""
    shown = without_secrets(
        ["WANDB_API_KEY=abc", "train.py", "--hf_token", "abc", "--password=abc", "--tokenizer", "x"]
    )
    assert shown == ["WANDB_API_KEY=***", "train.py", "--hf_token", "***", "--password=***", "--tokenizer", "x"]


def start(store):
    """Start the counting command, and wait until it counts."""
    process = subprocess.Popen(
        [*WATTLAW, "-o", str(store), *python(COUNTING)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.fixture
def spec():
    """A spec that is written to a file and read again."""
    return RunSpec(
        architecture=preset("bert-base-uncased", head="classification"),
        recipe=Recipe(batch_size=8, seq_len=64, steps=10, precision="fp16"),
        layout=Layout(),
        accelerator=accelerator("a100-sxm4-40gb"),
    )


def test_a_machine_reads_the_record_from_the_last_line_of_errors(tmp_path):
    """The command's own output is left alone, its exit code too; a command that cannot start is a fault."""
    store = tmp_path / "records.jsonl"
    script = "import sys; print('mine'); print('loud', file=sys.stderr); sys.exit(3)"
    ran = subprocess.run(
        [*WATTLAW, "--json", "-o", str(store), "--", sys.executable, "-c", script],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    *others, last = ran.stderr.splitlines()
    said = json.loads(last)
    (record,) = read_records(store)
    assert (ran.stdout, others, ran.returncode) == ("mine\n", ["loud"], 3)
    assert (said["exit_code"], said["fault"], said["output"]) == (3, None, str(store))
    assert (said["record"]["record_id"], said["record"]["status"]) == (record.record_id, "failed")
    absent = [*WATTLAW, "--json", "-o", str(store), "--", str(tmp_path / "none")]
    ran = subprocess.run(absent, capture_output=True, text=True, check=False)
    assert ran.returncode == 127
    assert "No such file" in json.loads(ran.stderr)["fault"]
