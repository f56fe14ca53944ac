"""A power limit is given back, to what it was, on every way out."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import subprocess

    from tests.measure.conftest import FakeDriver

#: The limit before: neither the default (400 W) nor the largest.
BEFORE_W = 310


@pytest.fixture
def gpu(driver: FakeDriver) -> str:
    """One GPU with a limit that somebody set."""
    return driver.gpu(0, limit_w=BEFORE_W)


HOLD = """
    from wattlaw.measure import power_limit
    with power_limit("GPU-0000-fake", 200):
        print("held", flush=True)
        time.sleep(30)
"""


def wait_until_held(process: subprocess.Popen[str]) -> None:
    """Wait for the script to say that it holds the limit."""
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"


def test_limit_holds_in_the_block_and_the_previous_one_comes_back(driver: FakeDriver, gpu: str) -> None:
    """Inside 200 W, afterwards the 310 W of before and not the default; the user's handler is back as well."""
    del gpu
    inside: Any = driver.run(
        """
        import signal
        from wattlaw.measure import power_limit
        mine = lambda *_: None
        signal.signal(signal.SIGTERM, mine)
        limit = Path(os.environ["FAKE_NVML_DIR"]) / "limit0"
        with power_limit("GPU-0000-fake", 200):
            inside = int(limit.read_text())
        notes = list((Path(os.environ["WATTLAW_STATE"]) / "power-limits").iterdir())
        show({"inside": inside, "notes": len(notes), "handler": signal.getsignal(signal.SIGTERM) is mine})
        """
    )
    assert inside == {"inside": 200_000, "notes": 0, "handler": True}
    assert driver.limit_w(0) == BEFORE_W


@pytest.mark.parametrize("ending", ["raise ValueError", "sys.exit(3)", "raise KeyboardInterrupt"])
def test_exceptions_give_it_back(driver: FakeDriver, gpu: str, ending: str) -> None:
    """An error, an exit or Ctrl-C in the block gives the limit back."""
    del gpu
    process = driver.start(
        f"""
        from wattlaw.measure import power_limit
        with power_limit("GPU-0000-fake", 200):
            {ending}
        """
    )
    process.communicate(timeout=30)
    assert process.returncode != 0
    assert driver.limit_w(0) == BEFORE_W


def test_exit_of_the_interpreter_gives_it_back(driver: FakeDriver, gpu: str) -> None:
    """A block that is never left, because the process ends while a thread is in it, is left by atexit."""
    del gpu
    driver.run(
        """
        import threading
        from wattlaw.measure import power_limit
        held = threading.Event()
        def work():
            with power_limit("GPU-0000-fake", 200):
                held.set()
                time.sleep(30)
        threading.Thread(target=work, daemon=True).start()
        held.wait(10)
        show(None)
        """
    )
    assert driver.limit_w(0) == BEFORE_W


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_give_it_back_and_still_end_the_process(driver: FakeDriver, gpu: str, number: int) -> None:
    """Without a handler of the user's, the process ends by the signal, as it would have."""
    del gpu
    process = driver.start(HOLD)
    wait_until_held(process)
    assert driver.limit_w(0) == 200
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == -number
    assert driver.limit_w(0) == BEFORE_W


def test_users_handler_still_runs(driver: FakeDriver, gpu: str) -> None:
    """The user's SIGTERM handler is called after the limit is back, and decides what happens."""
    del gpu
    process = driver.start(
        """
        import signal
        from wattlaw.measure import power_limit
        limit = Path(os.environ["FAKE_NVML_DIR"]) / "limit0"
        def handler(*_):
            print(limit.read_text().strip(), flush=True)
            os._exit(9)
        signal.signal(signal.SIGTERM, handler)
        with power_limit("GPU-0000-fake", 200):
            print("held", flush=True)
            time.sleep(30)
        """
    )
    wait_until_held(process)
    process.terminate()
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 9
    assert output.strip() == str(BEFORE_W * 1000)


def test_ignored_signal_stays_ignored(driver: FakeDriver, gpu: str) -> None:
    """A process that ignores SIGTERM keeps its limit and goes on."""
    del gpu
    told: Any = driver.run(
        """
        import signal
        from wattlaw.measure import power_limit
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        limit = Path(os.environ["FAKE_NVML_DIR"]) / "limit0"
        with power_limit("GPU-0000-fake", 200):
            os.kill(os.getpid(), signal.SIGTERM)
            show(int(limit.read_text()))
        """
    )
    assert told == 200_000


def test_a_forked_worker_that_is_ended_changes_nothing(driver: FakeDriver, gpu: str) -> None:
    """A data loader's worker inherits the handlers; ending it must not lift the limit of the training."""
    del gpu
    told: Any = driver.run(
        """
        import signal
        from wattlaw.measure import power_limit
        limit = Path(os.environ["FAKE_NVML_DIR"]) / "limit0"
        with power_limit("GPU-0000-fake", 200):
            worker = os.fork()
            if worker == 0:
                time.sleep(30)
            time.sleep(0.1)
            os.kill(worker, signal.SIGTERM)
            _, status = os.waitpid(worker, 0)
            show({"limit": int(limit.read_text()), "signal": os.WTERMSIG(status)})
        """
    )
    assert told == {"limit": 200_000, "signal": signal.SIGTERM}
    assert driver.limit_w(0) == BEFORE_W


def test_kill_leaves_a_note_from_which_the_limit_is_restored(driver: FakeDriver, gpu: str) -> None:
    """After kill -9 the limit of before is in a note; restoring gives back that one, once."""
    process = driver.start(HOLD)
    wait_until_held(process)
    process.kill()
    process.communicate(timeout=30)
    assert driver.limit_w(0) == 200
    told: Any = driver.run(
        """
        from wattlaw.measure.power_limit import left_over, restore_left_over
        show([left_over(), restore_left_over(), left_over(), restore_left_over()])
        """
    )
    entry = {"device": gpu, "previous_w": 310.0, "set_w": 200.0, "process": process.pid}
    assert told == [[entry], [entry], [], []]
    assert driver.limit_w(0) == BEFORE_W


def test_next_use_restores_what_a_kill_left_behind(driver: FakeDriver, gpu: str) -> None:
    """The limit of a killed process is not taken for the user's: afterwards there are 310 W and not 200 W."""
    del gpu
    process = driver.start(HOLD)
    wait_until_held(process)
    process.kill()
    process.communicate(timeout=30)
    driver.run("from wattlaw.measure import power_limit\nwith power_limit('GPU-0000-fake', 250):\n    show(None)\n")
    assert driver.limit_w(0) == BEFORE_W


def test_limit_of_a_running_process_is_not_left_over(driver: FakeDriver, gpu: str) -> None:
    """As long as the process that set a limit runs, nobody else gives it back."""
    del gpu
    process = driver.start(HOLD)
    wait_until_held(process)
    told: Any = driver.run("from wattlaw.measure.power_limit import restore_left_over\nshow(restore_left_over())\n")
    assert told == []
    assert driver.limit_w(0) == 200
    process.terminate()
    process.communicate(timeout=30)


@pytest.mark.parametrize(
    ("keys", "watts", "kind", "said"),
    [
        ({}, 90, "ConfigError", "allowed 100 to 400 W"),
        ({}, 500, "ConfigError", "given 500 W"),
        ({"settable": 0}, 200, "MeterError", "may not be set"),
        ({"limit_w": None}, 200, "MeterError", "no power limit to set"),
        ({"lost": 0}, 200, "UnknownNameError", "unknown GPU"),
    ],
)
def test_impossible_limits_change_nothing(
    driver: FakeDriver, keys: dict[str, Any], watts: int, kind: str, said: str
) -> None:
    """Outside of what the GPU allows, without permission or without a limit: one line, and nothing is set."""
    driver.gpu(0, **({"limit_w": BEFORE_W} | keys))
    device = "GPU-none" if kind == "UnknownNameError" else "GPU-0000-fake"
    told: Any = driver.run(
        f"""
        from wattlaw.errors import WattlawError
        from wattlaw.measure import power_limit
        try:
            with power_limit("{device}", {watts}):
                raise AssertionError
        except WattlawError as error:
            show([type(error).__name__, str(error)])
        """
    )
    assert told[0] == kind
    assert said in told[1]
    if keys.get("limit_w", BEFORE_W):
        assert driver.limit_w(0) == BEFORE_W


def test_works_outside_of_the_main_thread(driver: FakeDriver, gpu: str) -> None:
    """Where no signal handler may be set, the block's end gives the limit back all the same."""
    del gpu
    driver.run(
        """
        import threading
        from wattlaw.measure import power_limit
        def work():
            with power_limit("GPU-0000-fake", 200):
                pass
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        show(None)
        """
    )
    assert driver.limit_w(0) == BEFORE_W
