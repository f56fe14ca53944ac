"""One rank of a probe: ``python -m wattlaw.measure.probe.rank '{"rank": 0, ...}'``.

It speaks with its parent as the ranks of a sweep do: commands and answers are lines of JSON (``measure.sweep.worker``),
and it ends when its input does.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from wattlaw.errors import WattlawError
from wattlaw.measure.probe import bandwidth, collectives, launch, layer, load, matrix
from wattlaw.measure.sweep.worker import Channel, Meshes, serve_commands

if TYPE_CHECKING:
    from wattlaw.measure.probe.figure import Figure

Command = dict[str, Any]
#: What the first rank does while the others wait.
ALONE = ("matrix", "bandwidth", "launch", "layer", "load")


class Rank:
    """Joins the others if there are any, then serves commands.

    Args:
        settings: ``rank``, ``world_size``, ``device``, ``threads`` and ``store``.
        channel: to the parent.
    """

    def __init__(self, settings: dict[str, Any], channel: Channel) -> None:
        import torch
        import transformers

        self._channel = channel
        self._number = int(settings["rank"])
        torch.set_num_threads(int(settings["threads"]))
        transformers.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
        kind = settings["device"]
        if kind == "auto":
            kind = "cuda" if torch.cuda.is_available() else "cpu"
        self._device = torch.device(kind, self._number) if kind == "cuda" else torch.device(kind)
        if kind == "cuda":
            torch.cuda.set_device(self._device)
        if int(settings["world_size"]) > 1:
            _join(settings, kind)
        _import_what_is_timed(transformers)
        self._meshes = Meshes(self._number, self._device)
        self._groups: dict[int, Any] = {}

    def describe(self) -> dict[str, str]:
        """Tell what the numbers depend on, and how many devices there are."""
        import torch

        described = {
            "torch": torch.__version__,
            "device": self._device.type,
            "threads_per_rank": str(torch.get_num_threads()),
        }
        if self._device.type == "cuda":
            described["backend"] = "nccl"
            described["device_name"] = torch.cuda.get_device_name(self._device)
            described["num_visible_devices"] = str(torch.cuda.device_count())
            described["cuda"] = str(torch.version.cuda)
        else:
            described["backend"] = "gloo"
        return described

    def serve(self, command: Command) -> dict[str, Any]:
        """Do what a command says and return the answer; what goes wrong is an answer too."""
        actions: dict[str, Callable[[Command], dict[str, Figure]]] = {
            "matrix": self._matrix,
            "bandwidth": self._bandwidth,
            "launch": self._launch,
            "layer": self._layer,
            "load": self._load,
            "collectives": self._collectives,
            "strategy": self._strategy,
        }
        if command["do"] in ALONE and self._number > 0:
            return {"answer": "done", "figures": {}}
        try:
            found = actions[command["do"]](command)
        except WattlawError as error:
            return {"answer": "failed", "kind": "refused", "reason": str(error)}
        except Exception as error:  # noqa: BLE001 - what a part raises is its result, not this rank's end
            text = " ".join(str(error).split())[:300]
            return {"answer": "failed", "kind": "error", "reason": f"{type(error).__name__}: {text}"}
        finally:
            self._forget()
        return {"answer": "done", "figures": msgspec.to_builtins(found)}

    def _wait(self) -> None:
        import torch

        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def _matrix(self, command: Command) -> dict[str, Figure]:
        return matrix.measure(self._device, tuple(command["precisions"]), command["budget_s"], wait=self._wait)

    def _bandwidth(self, command: Command) -> dict[str, Figure]:
        return bandwidth.measure(self._device, command["budget_s"], wait=self._wait)

    def _launch(self, command: Command) -> dict[str, Figure]:
        return launch.measure(self._device, tuple(command["precisions"]), command["budget_s"], wait=self._wait)

    def _layer(self, command: Command) -> dict[str, Figure]:
        return layer.measure(self._device, tuple(command["precisions"]), command["budget_s"], wait=self._wait)

    def _load(self, command: Command) -> dict[str, Figure]:
        """Be busy for a while, and say when that begins and ends."""
        with matrix.rounding(command["precision"]):
            call = load.make_load(command["kind"], self._device, command["precision"])
            load.keep_busy(call, command["warmup_s"], wait=self._wait)
            self._channel.send(answer="ready")
            self._channel.receive()
            load.keep_busy(call, command["duration_s"], wait=self._wait)
            self._channel.send(answer="measured")
        return {}

    def _collectives(self, command: Command) -> dict[str, Figure]:
        import torch.distributed as dist

        count = int(command["num_devices"])
        if count not in self._groups:
            self._groups[count] = dist.new_group(list(range(count)))  # all ranks take part in making it
        if self._number >= count:
            return {}
        return collectives.measure(self._device, count, self._groups[count], command["budget_s"])

    def _strategy(self, command: Command) -> dict[str, Figure]:
        from wattlaw.measure.probe import strategies
        from wattlaw.measure.sweep.ranks import Ranks

        spec = strategies.spec_of(command["strategy"], command["accelerator"])
        layout = spec.layout
        if layout.strategy == "single":
            ranks = Ranks(rank=0, device=self._device)
        else:
            ranks = self._meshes.of(int(layout.data_parallel), int(layout.tensor_parallel))
        return {} if self._number >= layout.num_devices else strategies.measure(spec, ranks, command["budget_s"])

    def _forget(self) -> None:
        import torch

        gc.collect()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()


def _import_what_is_timed(transformers: Any) -> None:
    """Import now what takes seconds, so that no part's time is spent on it."""
    from wattlaw.measure.probe import strategies  # noqa: F401
    from wattlaw.measure.sweep.models import FAMILIES

    for name, head in launch.HEADS.items():
        getattr(transformers, FAMILIES[name].model_classes[head])


def _join(settings: dict[str, Any], kind: str) -> None:
    import torch.distributed as dist

    world_size = int(settings["world_size"])
    store = dist.FileStore(settings["store"], world_size)  # type: ignore[attr-defined]
    backend = "nccl" if kind == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=int(settings["rank"]), world_size=world_size)


if __name__ == "__main__":
    serve_commands(Rank)
