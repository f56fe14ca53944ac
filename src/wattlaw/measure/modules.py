"""Times of a real model's modules and operations, forward and backward, for the energy tree to be checked against.

A model is built from its sizes, as in a sweep, and makes training steps. Forward hooks note when a module begins and
ends; what a module does between its children is its own. In the backward pass every node of torch's graph has a hook,
and belongs to the module in which it was made: torch's full backward hooks would miss modules whose inputs are passed
by keyword, and those, such as embeddings, whose inputs need no gradient. What torch does between two nodes is added to
the first, but for what follows a norm: there the gradients of a residual connection are summed, which is the
connection's work. Time inside of hooks is not counted. Steps without hooks are made in turns with those with hooks, so
that one can see what hooking costs.

On one thread of a processor the clock is that thread's own, which stands still while others have the processor: the
times are those of a machine that does nothing else. On a GPU every hook waits for the device: times are then of kernels
one after the other, without the overlap of a step.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING, Any

from wattlaw.errors import ConfigError
from wattlaw.measure.module_times import ModuleTimes, PartTime, Place
from wattlaw.run import RunSpec

if TYPE_CHECKING:
    import torch
    from torch import nn

WARMUP_STEPS = 2
STEPS = 7

#: Names of modules (regular expressions; the group is the block's number) -> the parts whose operations they do
#: themselves, beside their children. Where there are two parts, the module does as much of the one as of the other.
Names = Mapping[str, tuple[str, ...]]

_BLOCK = r"bert\.encoder\.layer\.(\d+)"
_BERT: Names = {
    "": ("head",),
    r"bert": ("embeddings",),
    r"bert\.pooler|classifier|cls|dropout": ("head",),
    _BLOCK: ("attention.residual", "mlp.residual"),
    rf"{_BLOCK}\.attention\.self": ("attention.core",),
    rf"{_BLOCK}\.attention\.self\.(?:query|key|value)": ("attention.qkv",),
    rf"{_BLOCK}\.attention\.output": ("attention.residual",),
    rf"{_BLOCK}\.attention\.output\.dense": ("attention.output",),
    rf"{_BLOCK}\.(?:attention\.)?output\.LayerNorm": ("norm",),
    rf"{_BLOCK}\.intermediate": ("mlp.activation",),
    rf"{_BLOCK}\.intermediate\.dense": ("mlp.up",),
    rf"{_BLOCK}\.output": ("mlp.residual",),
    rf"{_BLOCK}\.output\.dense": ("mlp.down",),
}
_GPT2: Names = {
    "": ("head",),
    r"transformer": ("embeddings",),
    r"lm_head": ("head",),
    r"transformer\.ln_f": ("final_norm",),
    r"transformer\.h\.(\d+)": ("attention.residual", "mlp.residual"),
    r"transformer\.h\.(\d+)\.ln_[12]": ("norm",),
    r"transformer\.h\.(\d+)\.attn": ("attention.core",),
    r"transformer\.h\.(\d+)\.attn\.c_attn": ("attention.qkv",),
    r"transformer\.h\.(\d+)\.attn\.c_proj": ("attention.output",),
    r"transformer\.h\.(\d+)\.attn\.resid_dropout": ("attention.residual",),
    r"transformer\.h\.(\d+)\.mlp": ("mlp.activation",),
    r"transformer\.h\.(\d+)\.mlp\.c_fc": ("mlp.up",),
    r"transformer\.h\.(\d+)\.mlp\.c_proj": ("mlp.down",),
    r"transformer\.h\.(\d+)\.mlp\.dropout": ("mlp.residual",),
}
_LLAMA: Names = {
    "": ("head",),
    r"model": ("embeddings",),
    r"lm_head": ("head",),
    r"model\.norm": ("final_norm",),
    r"model\.layers\.(\d+)": ("attention.residual", "mlp.residual"),
    r"model\.layers\.(\d+)\.(?:input|post_attention)_layernorm": ("norm",),
    r"model\.layers\.(\d+)\.self_attn": ("attention.core",),
    r"model\.layers\.(\d+)\.self_attn\.[qkv]_proj": ("attention.qkv",),
    r"model\.layers\.(\d+)\.self_attn\.o_proj": ("attention.output",),
    r"model\.layers\.(\d+)\.mlp": ("mlp.activation",),
    r"model\.layers\.(\d+)\.mlp\.(?:gate|up)_proj": ("mlp.up",),
    r"model\.layers\.(\d+)\.mlp\.down_proj": ("mlp.down",),
}
FAMILIES: Mapping[str, Names] = {"bert": _BERT, "gpt2": _GPT2, "llama": _LLAMA}


def check_modules(spec: RunSpec) -> RunSpec:
    """Return the spec, or refuse a run whose modules cannot be timed; needs no torch.

    Raises:
        ConfigError: several devices, another family, or activations that are computed again.
    """
    from wattlaw.measure.sweep.training import check_training

    if spec.layout.num_devices != 1:
        raise ConfigError("modules are timed on one device", given=f"{spec.layout.num_devices} devices", allowed="1")
    if spec.architecture.family not in FAMILIES:
        raise ConfigError("the modules of this family are not known", given=spec.architecture.family,
                          allowed=", ".join(FAMILIES))  # fmt: skip
    if spec.recipe.checkpointing != "none":
        raise ConfigError("modules are timed without checkpointing", given=spec.recipe.checkpointing, allowed="none")
    check_training(spec)
    return spec


def time_modules(
    specs: Sequence[RunSpec],
    *,
    num_steps: int = STEPS,
    threads: int = 1,
    seed: int = 0,
    watch: Callable[[int], None] = lambda _: None,
) -> tuple[ModuleTimes, ...]:
    """Time the modules of several configurations in turns, a step of each after the other.

    A disturbance of the machine that lasts longer than a round meets all of them.

    Args:
        specs: the runs, each on one device.
        num_steps: measured of each, with and without hooks.
        threads: of the processor.
        seed: of weights, dropout and tokens.
        watch: told the number of each round as it ends.

    Returns:
        the times, in the order of the specs.

    Raises:
        ConfigError: as ``check_modules``.
    """
    import torch

    for spec in specs:
        check_modules(spec)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        timed = [_Timed(spec, threads=threads, seed=seed) for spec in specs]
        for number in range(WARMUP_STEPS + num_steps):
            for one in timed:
                one.step(kept=number >= WARMUP_STEPS)
            watch(number)
    finally:
        torch.set_num_threads(before)
    return tuple(one.result(threads=threads) for one in timed)


class _Timed:
    """One configuration while it is timed."""

    def __init__(self, spec: RunSpec, *, threads: int, seed: int) -> None:
        import torch

        from wattlaw.measure.sweep.data import make_batches
        from wattlaw.measure.sweep.models import build_model

        self.spec = spec
        self.device = torch.device("cpu" if spec.accelerator.architecture == "CPU" else "cuda")
        torch.manual_seed(seed)
        self.model = build_model(spec.architecture, spec.recipe, self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        (self.batch,) = make_batches(spec, data_rank=0, count=1, device=self.device, seed=seed)
        on_gpu = self.device.type == "cuda"
        self.wait: Callable[[], None] = torch.cuda.synchronize if on_gpu else lambda: None
        self.clock = time.thread_time if threads == 1 and not on_gpu else time.perf_counter
        self.places = places_of(spec.architecture.family, [name for name, _ in self.model.named_modules()])
        self.passes: list[float] = []
        self.updates: list[float] = []
        self.forward: list[dict[Place, float]] = []
        self.backward: list[dict[Place, float]] = []

    def step(self, *, kept: bool) -> None:
        """Make one step without hooks and one with them."""
        start_s = self._now()
        self.model(**self.batch).loss.backward()
        passed_s = self._now()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        updated_s = self._now()
        forward, backward = self._hooked()
        self.optimizer.zero_grad(set_to_none=True)
        if kept:
            self.passes.append(passed_s - start_s)
            self.updates.append(updated_s - passed_s)
            self.forward.append(forward)
            self.backward.append(backward)

    def result(self, *, threads: int) -> ModuleTimes:
        """Take the medians."""
        places = sorted({place for step in (*self.forward, *self.backward) for place in step})
        parts = tuple(
            PartTime(
                part=part,
                block=block,
                forward_s=median(step.get((part, block), 0.0) for step in self.forward),
                backward_s=median(step.get((part, block), 0.0) for step in self.backward),
            )
            for part, block in places
        )
        return ModuleTimes(
            spec=self.spec,
            parts=parts,
            pass_s=median(self.passes),
            update_s=median(self.updates),
            num_steps=len(self.passes),
            threads=threads,
        )

    def _now(self) -> float:
        self.wait()
        return self.clock()

    def _hooked(self) -> tuple[dict[Place, float], dict[Place, float]]:
        """Make a forward and a backward pass with hooks; return seconds by place of either."""
        forward = Stopwatch(self.wait, self.clock)
        with _watched(self.model, self.places, forward) as made:
            loss = self.model(**self.batch).loss
            forward.close()
        backward = Stopwatch(self.wait, self.clock)
        handles = []
        for node in _graph(loss.grad_fn):
            if type(node).__name__ == "AccumulateGrad":  # belongs to whatever computed the gradient
                continue
            own = made.place_of(node._sequence_nr())  # noqa: SLF001 - there is no public one
            handles.append(node.register_prehook(_switch(backward, own)))
            if own[0][0] in SUMMED and own[0][1] >= 0:
                handles.append(node.register_hook(_switch(backward, _residuals(own[0][1]))))
        backward.begin(self.places[""])
        loss.backward()
        backward.close()
        for handle in handles:
            handle.remove()
        return forward.seconds, backward.seconds


#: Parts behind whose backward pass the gradients of both branches of a residual connection are added up.
SUMMED = ("norm",)


def _residuals(block: int) -> tuple[Place, ...]:
    return (("attention.residual", block), ("mlp.residual", block))


def places_of(family: str, names: Sequence[str]) -> dict[str, tuple[Place, ...]]:
    """Tell of each module that does operations of its own which parts they are; its children's are left out.

    >>> places_of("gpt2", ["", "transformer.h.3.attn.c_attn", "transformer.wte"])
    {'': (('head', -1),), 'transformer.h.3.attn.c_attn': (('attention.qkv', 3),)}
    """
    found = {}
    for name in names:
        for pattern, parts in FAMILIES[family].items():
            match = re.fullmatch(pattern, name)
            if match is not None:
                block = next((int(group) for group in match.groups() if group is not None), -1)
                found[name] = tuple((part, block) for part in parts)
                break
    return found


class Stopwatch:
    """Seconds by place: at any time one place runs, and time spent between a stop and a start belongs to none.

    Args:
        wait: for the device, before the clock is read.
        clock: replaced in tests.
    """

    def __init__(self, wait: Callable[[], None] = lambda: None, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds: dict[Place, float] = {}
        self._wait = wait
        self._clock = clock
        self._open: list[tuple[Place, ...]] = []
        self._since_s = clock()

    def begin(self, places: tuple[Place, ...]) -> None:
        """Let a place run; the one that ran goes on when this one ends."""
        self._stop()
        self._open.append(places)
        self._start()

    def end(self) -> None:
        """End what was begun last."""
        self._stop()
        self._open.pop()
        self._start()

    def switch(self, places: tuple[Place, ...]) -> None:
        """Let a place run in place of the one that ran."""
        self._stop()
        self._open[-1:] = [places]
        self._start()

    def close(self) -> None:
        """Stop for good."""
        self._stop()
        self._open.clear()

    def _stop(self) -> None:
        self._wait()
        if self._open:
            elapsed_s = self._clock() - self._since_s
            for place in self._open[-1]:
                self.seconds[place] = self.seconds.get(place, 0.0) + elapsed_s / len(self._open[-1])

    def _start(self) -> None:
        self._since_s = self._clock()


class _Made:
    """Which places made the nodes of the graph, by the numbers that torch gives to nodes in the order of their making.

    A node is made by the module that runs last before its number is given.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._places: list[tuple[Place, ...]] = []

    def note(self, number: int, places: tuple[Place, ...]) -> None:
        """Nodes from this number on are made by these places."""
        self._starts.append(number)
        self._places.append(places)

    def place_of(self, number: int) -> tuple[Place, ...]:
        """The places that made a node."""
        return self._places[max(0, bisect_right(self._starts, number) - 1)]


@contextmanager
def _watched(model: nn.Module, places: Mapping[str, tuple[Place, ...]], watch: Stopwatch) -> Iterator[_Made]:
    """Hook the modules that have places; forget the hooks at the end."""
    from torch.autograd import _get_sequence_nr  # type: ignore[attr-defined]  # no public way to the numbers of nodes

    made = _Made()
    running: list[tuple[Place, ...]] = []
    handles = []

    def enter(own: tuple[Place, ...]) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            running.append(own)
            made.note(_get_sequence_nr(), own)
            watch.begin(own)

        return hook

    def leave(*_: Any) -> None:
        watch.end()
        running.pop()
        if running:
            made.note(_get_sequence_nr(), running[-1])

    for name, module in model.named_modules():
        if name in places:
            handles.append(module.register_forward_pre_hook(enter(places[name])))
            handles.append(module.register_forward_hook(leave))
    try:
        yield made
    finally:
        for handle in handles:
            handle.remove()


def _switch(watch: Stopwatch, places: tuple[Place, ...]) -> Callable[..., None]:
    return lambda *_: watch.switch(places)


def _graph(root: Any) -> Iterator[torch.autograd.graph.Node]:
    """Yield every node of a graph once."""
    seen, waiting = {root}, [root]
    while waiting:
        node = waiting.pop()
        yield node
        for below, _ in node.next_functions:
            if below is not None and below not in seen:
                seen.add(below)
                waiting.append(below)
