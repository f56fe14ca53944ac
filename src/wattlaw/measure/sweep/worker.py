"""One rank of the pool: ``python -m wattlaw.measure.sweep.worker '{"rank": 0, ...}'``.

Commands come in as lines of JSON on standard input, answers go out as lines of JSON on standard output; what libraries
print goes to standard error. The rank ends when its input does, also in the middle of a step: a parent that was
killed leaves no processes behind.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import queue
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn, Protocol

from wattlaw.errors import WattlawError
from wattlaw.measure.sweep.steadiness import Window, is_steady, num_measured_steps

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from wattlaw.measure.sweep.ranks import Ranks
    from wattlaw.measure.sweep.training import Training
    from wattlaw.run import RunSpec

#: Batches that a configuration goes round and round.
NUM_BATCHES = 4
SEED = 1


class Channel:
    """The rank's end of the two pipes."""

    def __init__(self, commands: IO[str], answers: IO[str]) -> None:
        self._answers = answers
        self._received: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._listen, args=(commands,), daemon=True).start()

    def _listen(self, commands: IO[str]) -> None:
        for line in commands:
            self._received.put(json.loads(line))
        os._exit(3)

    def receive(self) -> dict[str, Any]:
        """Wait for the next command."""
        return self._received.get()

    def send(self, **message: Any) -> None:
        """Tell the parent something."""
        self._answers.write(json.dumps(message) + "\n")
        self._answers.flush()


@dataclass(slots=True)
class Meshes:
    """The meshes that were made, kept for later configurations: making one takes all ranks of the pool."""

    rank: int
    device: torch.device
    made: dict[tuple[int, int], Ranks] = field(default_factory=dict)

    def of(self, data_parallel: int, tensor_parallel: int) -> Ranks:
        """Return the ranks of this mesh; every rank of the pool must ask for the same meshes in the same order."""
        shape = (data_parallel, tensor_parallel)
        if shape not in self.made:
            self.made[shape] = self._make(*shape)
        return self.made[shape]

    def _make(self, data_parallel: int, tensor_parallel: int) -> Ranks:
        import torch
        import torch.distributed as dist
        from torch.distributed.device_mesh import DeviceMesh

        from wattlaw.measure.sweep.ranks import Ranks

        count = data_parallel * tensor_parallel
        places = torch.arange(count).view(data_parallel, tensor_parallel)
        return Ranks(
            rank=self.rank,
            device=self.device,
            data_parallel=data_parallel,
            tensor_parallel=tensor_parallel,
            mesh=DeviceMesh(self.device.type, places, mesh_dim_names=("data", "tensor")),
            group=dist.new_group(list(range(count))),
        )


class Rank:
    """One rank: joins the pool, then serves commands."""

    def __init__(self, settings: dict[str, Any], channel: Channel) -> None:
        import torch
        import torch.distributed as dist
        import transformers

        self._channel = channel
        self._number = int(settings["rank"])
        torch.set_num_threads(int(settings["threads"]))
        transformers.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
        cuda = settings["device"] == "cuda"
        self._device = torch.device("cuda", self._number) if cuda else torch.device("cpu")
        if cuda:
            torch.cuda.set_device(self._device)
        world_size = int(settings["world_size"])
        store = dist.FileStore(settings["store"], world_size)  # type: ignore[attr-defined]
        dist.init_process_group("nccl" if cuda else "gloo", store=store, rank=self._number, world_size=world_size)
        self._meshes = Meshes(self._number, self._device)
        self._tokens: dict[str, Any] = {}
        _import_models(transformers)
        # Collecting between configurations would otherwise walk through all objects of the libraries each time.
        gc.collect()
        gc.freeze()

    def describe(self) -> dict[str, str]:
        """Tell what the numbers of this rank depend on."""
        import torch
        import transformers

        described = {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "backend": "nccl" if self._device.type == "cuda" else "gloo",
            "threads_per_rank": str(torch.get_num_threads()),
        }
        if self._device.type == "cuda":
            described["device_name"] = torch.cuda.get_device_name(self._device)
            described["cuda"] = str(torch.version.cuda)
        return described

    def serve(self, command: dict[str, Any]) -> dict[str, Any]:
        """Do what a command says and return the answer; what goes wrong is an answer too."""
        import torch

        actions: dict[str, Callable[[RunSpec, Ranks, dict[str, Any]], dict[str, Any]]] = {
            "gate": self._gate,
            "measure": self._measure,
        }
        try:
            spec, ranks = self._join(command)
            if ranks is None:
                return {"answer": "done"}
            return {"answer": "done", **actions[command["do"]](spec, ranks, command)}
        except WattlawError as error:
            return {"answer": "failed", "kind": "refused", "reason": str(error)}
        except (MemoryError, torch.OutOfMemoryError) as error:
            return {"answer": "failed", "kind": "out of memory", "reason": _first_line(error)}
        except Exception as error:  # noqa: BLE001 - what a configuration raises is its result, not this rank's end
            return {"answer": "failed", "kind": _kind(error), "reason": f"{type(error).__name__}: {_first_line(error)}"}
        finally:
            self._forget()

    def _join(self, command: dict[str, Any]) -> tuple[RunSpec, Ranks | None]:
        """Return the run and the ranks that take part, ``None`` where this one does not."""
        from wattlaw.measure.sweep.ranks import Ranks
        from wattlaw.run import spec_from_mapping

        spec = spec_from_mapping(command["spec"], already_run=True)
        layout = spec.layout
        if layout.strategy == "single":
            ranks = Ranks(rank=0, device=self._device)
        else:
            ranks = self._meshes.of(int(layout.data_parallel), int(layout.tensor_parallel))
        return spec, ranks if self._number < layout.num_devices else None

    def _gate(self, spec: RunSpec, ranks: Ranks, command: dict[str, Any]) -> dict[str, Any]:
        from wattlaw.measure.sweep.gate import compare

        return {"difference": compare(spec, ranks)}

    def _measure(self, spec: RunSpec, ranks: Ranks, command: dict[str, Any]) -> dict[str, Any]:
        import torch

        from wattlaw.measure.sweep.data import make_batches
        from wattlaw.measure.sweep.training import Training

        window = Window(**command["window"])
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
        batches = make_batches(
            spec, data_rank=ranks.data_rank, count=NUM_BATCHES, device=self._device, seed=SEED,
            tokens=self._read(command.get("tokens")),
        )  # fmt: skip
        training = Training(spec, ranks, batches, seed=SEED)
        warmup_s, steady = _warm_up(training, ranks, window)
        steps = int(ranks.agree(num_measured_steps(warmup_s, window)))
        if command["metered"] and ranks.rank == 0:
            self._channel.send(answer="ready")
            self._channel.receive()
        result, loss = _measure_steps(training, ranks, steps)
        if command["metered"] and ranks.rank == 0:
            self._channel.send(answer="measured")
        result["loss"] = ranks.mean(float(loss))
        if self._device.type == "cuda":
            result["peak_memory_bytes"] = torch.cuda.max_memory_allocated(self._device)
        return {**result, "warmup_steps": len(warmup_s), "steady": steady}

    def _read(self, path: str | None) -> Any:
        if path is None:
            return None
        if path not in self._tokens:
            from wattlaw.measure.sweep.data import read_tokens

            self._tokens[path] = read_tokens(Path(path))
        return self._tokens[path]

    def _forget(self) -> None:
        import torch

        gc.collect()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()


def _import_models(transformers: Any) -> None:
    """Import the models now: it takes seconds, which would be taken from the first configurations' time-out."""
    from wattlaw.measure.sweep.models import FAMILIES

    for family in FAMILIES.values():
        for name in family.model_classes.values():
            getattr(transformers, name)


def _warm_up(training: Training, ranks: Ranks, window: Window) -> tuple[list[float], bool]:
    """Step until steps no longer get faster; rank 0 decides for all."""
    times_s: list[float] = []
    steady = False
    while not steady and len(times_s) < window.max_warmup_steps:
        start_s = time.perf_counter()
        training.step()
        ranks.synchronize()
        times_s.append(time.perf_counter() - start_s)
        steady = bool(ranks.agree(is_steady(times_s, window)))
    return times_s, steady


def _measure_steps(training: Training, ranks: Ranks, steps: int) -> tuple[dict[str, Any], torch.Tensor]:
    """Step and take the time of each; a GPU's steps are timed by events, so that none is waited for."""
    import torch

    events: list[Any] = []
    if ranks.device.type == "cuda":
        events = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]  # type: ignore[no-untyped-call]
    marks_s = []
    ranks.barrier()
    start_s = time.perf_counter()
    for number in range(steps + 1):
        if events:
            events[number].record()
        else:
            marks_s.append(time.perf_counter())
        if number < steps:
            loss = training.step()
    ranks.synchronize()
    duration_s = time.perf_counter() - start_s
    if events:
        times_s = [a.elapsed_time(b) * 1e-3 for a, b in itertools.pairwise(events)]
    else:
        times_s = [b - a for a, b in itertools.pairwise(marks_s)]
    return {"duration_s": duration_s, "step_times_s": times_s}, loss


def _kind(error: Exception) -> str:
    # torch's allocator for the CPU raises a plain RuntimeError.
    return "out of memory" if "not enough memory" in str(error) or "can't allocate memory" in str(error) else "error"


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:300] if text else type(error).__name__


class Server(Protocol):
    """What runs in a rank: it says what it is, and answers one command after the other."""

    def describe(self) -> Any:
        """Say what the rank runs on."""
        ...

    def serve(self, command: dict[str, Any]) -> dict[str, Any]:
        """Answer one command."""
        ...


def serve_commands(rank_of: Callable[[dict[str, Any], Channel], Server]) -> NoReturn:
    """Be a rank of a pool: make it from the settings on the command line, and serve until the input ends."""
    # The terminal's Ctrl-C is the parent's to handle: what runs is to be finished.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    channel = Channel(sys.stdin, answers)
    rank = rank_of(json.loads(sys.argv[1]), channel)
    channel.send(answer="ready", environment=rank.describe())
    while True:
        channel.send(**rank.serve(channel.receive()))


def main() -> NoReturn:
    """Join the pool and serve until the input ends."""
    serve_commands(Rank)


if __name__ == "__main__":
    main()
