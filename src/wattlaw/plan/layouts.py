"""The layouts that devices allow, as columns of numbers, and the names of strategies."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import gcd
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattlaw.errors import UnknownNameError
from wattlaw.parallel.layout import DATA_STRATEGIES, STRATEGIES

if TYPE_CHECKING:
    from wattlaw.plan.space import Offer, Space
    from wattlaw.run.spec import RunSpec

Numbers = NDArray[np.float64]
Columns = Mapping[str, Numbers]

#: Columns that make a layout.
LAYOUT_COLUMNS = (
    "data_parallel",
    "tensor_parallel",
    "pipeline_parallel",
    "pipeline_interleaving",
    "context_parallel",
    "expert_parallel",
    "zero_stage",
    "num_nodes",
)
#: The axes beside the data-parallel one, by the column of their degree.
AXES = {"tp": "tensor_parallel", "pp": "pipeline_parallel", "cp": "context_parallel", "ep": "expert_parallel"}
#: Tokens that each device of a divided sequence keeps at least, where nobody asks for degrees: with fewer the ring has
#: little attention to travel behind (the paper on Llama 3, arXiv 2407.21783, table 4, keeps 8,192 on each).
LEAST_CONTEXT = 4096


def _named(data: str, *axes: str) -> str:
    """Join the parts of a name; without one that can be (experts need ranks to be dealt out to) it is empty."""
    impossible = "ep" in axes and not data and "cp" not in axes
    return "" if impossible else " x ".join(part for part in (data, *axes) if part) or "single"


#: Name of each strategy at the number that ``_code`` gives it.
_NAMES = tuple(
    _named(data, *axes)
    for data, *axes in product(("", *DATA_STRATEGIES.values()), *(("", axis) for axis in AXES))
)  # fmt: skip


def strategy_names() -> tuple[str, ...]:
    """Name all strategies and their products, as ``Layout.strategy`` does."""
    return tuple(name for name in _NAMES if name)


def canonical_strategy(text: str) -> str:
    """Write a strategy as ``Layout.strategy`` does: the data axis first, then tensor, pipeline, context and experts.

    Experts are dealt out to ranks that hold the same weights; where a name has none, these are those of ``ddp``.

    Raises:
        UnknownNameError: no such strategy.

    >>> canonical_strategy("tp x FSDP"), canonical_strategy("ep")
    ('fsdp x tp', 'ddp x ep')
    """
    parts = sorted(
        (part.strip().lower() for part in text.replace("×", "x").replace("*", "x").replace("+", "x").split("x")),
        key=lambda part: list(STRATEGIES).index(part) if part in STRATEGIES else -1,
    )
    if "ep" in parts and not {"cp", *DATA_STRATEGIES.values()} & set(parts):
        parts = ["ddp", *parts]
    name = " x ".join(parts)
    if name not in strategy_names():
        raise UnknownNameError.among("strategy", text.strip(), strategy_names())
    return name


def searched_strategies(run: RunSpec, space: Space) -> tuple[str, ...]:
    """Name the strategies that a space holds: those that it names, or all that its axes make."""
    if space.strategies:
        wanted = {canonical_strategy(name) for name in space.strategies}
        return tuple(name for name in strategy_names() if name in wanted)
    absent = {data for stage, data in DATA_STRATEGIES.items() if stage not in _stages(run, space)}
    absent |= {"cp"} if contexts(run, space).max(initial=1) == 1 else set()
    absent |= {"ep"} if _experts(run, space).max(initial=1) == 1 else set()
    return tuple(name for name in strategy_names() if not absent & set(name.split(" x ")))


def divisors(number: int) -> Numbers:
    """All divisors of a number, smallest first.

    >>> divisors(12).tolist()
    [1.0, 2.0, 3.0, 4.0, 6.0, 12.0]
    """
    small = np.arange(1, int(number**0.5) + 1)
    small = small[number % small == 0]
    return np.unique(np.concatenate([small, number // small])).astype(np.float64)


def layouts(run: RunSpec, batch: int, space: Space, offer: Offer) -> dict[str, Numbers]:
    """List the layouts that an offer's devices allow, one row each, in the columns of ``LAYOUT_COLUMNS``.

    Tensor parallelism divides heads and MLP, a pipeline the blocks, context parallelism each sequence, data
    parallelism the ``batch`` of all ranks; experts are dealt out among the ranks that data and context parallelism
    make; the devices fill their nodes evenly.
    """
    stacks, layers = run.architecture.stacks, int(run.architecture.num_layers)
    inner = gcd(*(int(size) for stack in stacks for size in (stack.num_heads, stack.num_kv_heads, stack.ffn_size)))
    # What is the same in a whole chunk costs no pass over a column, so that the rarest axes come first.
    axes = (
        _experts(run, space),
        contexts(run, space),
        _stages(run, space),
        chosen(divisors(layers), space.pipeline_parallel),
        chosen(divisors(inner), space.tensor_parallel),
        np.array(sorted(set(space.pipeline_interleavings)), dtype=np.float64),
        divisors(batch),
    )
    grid = np.meshgrid(*axes, indexing="ij")
    expert, context, zero, pipeline, tensor, interleaving, data = (axis.ravel() for axis in grid)
    replicas = data * context
    devices = replicas * tensor * pipeline
    nodes = offer.num_nodes(devices)
    possible = (devices <= offer.num_devices) & (devices % nodes == 0)
    possible &= (zero == 0) | (replicas > 1)
    possible &= replicas % expert == 0
    possible &= (interleaving == 1) | (pipeline > 1)
    possible &= layers % (pipeline * interleaving) == 0
    if space.device_counts:
        possible &= np.isin(devices, space.device_counts)
    found = {
        "data_parallel": data,
        "tensor_parallel": tensor,
        "pipeline_parallel": pipeline,
        "pipeline_interleaving": interleaving,
        "context_parallel": context,
        "expert_parallel": expert,
        "zero_stage": zero,
        "num_nodes": nodes,
    }
    if space.strategies:
        wanted = searched_strategies(run, space)
        possible &= np.array([name in wanted for name in _NAMES])[_code(found)]
    return {name: values[possible] for name, values in found.items()}


def _stages(run: RunSpec, space: Space) -> Numbers:
    """ZeRO stages: all but the first one, which joins them where it is asked for or of the run's kind of framework.

    Fused frameworks shard the optimizer's states of what they replicate (Megatron's distributed optimizer); an eager
    PyTorch seldom does, and no measured run of one says what that gains.
    """
    asked = "zero1" in space.also or _names("zero1", space) or run.layout.zero_stage == 1
    stages = [stage for stage in DATA_STRATEGIES if stage != 1 or asked or run.recipe.software != "eager"]
    return np.array(stages, dtype=np.float64)


def contexts(run: RunSpec, space: Space) -> Numbers:
    """Degrees of context parallelism: an early and a late part of each sequence for every device.

    Where nobody asks for them, those of causal models that leave each device ``LEAST_CONTEXT`` tokens.
    """
    length = int(run.recipe.seq_len)
    possible = divisors(length // 2) if length % 2 == 0 else np.ones(1)
    asked = "cp" in space.also or space.context_parallel or _names("cp", space) or run.layout.context_parallel > 1
    if not asked:
        causal = all(stack.role == "decoder" for stack in run.architecture.stacks)
        possible = possible[possible <= max(1.0, causal * length / LEAST_CONTEXT)]
    return chosen(possible, space.context_parallel)


def _experts(run: RunSpec, space: Space) -> Numbers:
    """Degrees of expert parallelism: divisors of the experts, 1 for models without them."""
    return chosen(divisors(gcd(*(int(stack.num_experts) for stack in run.architecture.stacks))), space.expert_parallel)


def _names(part: str, space: Space) -> bool:
    """Tell whether a space names a strategy with this part."""
    return any(part in canonical_strategy(name).split(" x ") for name in space.strategies)


def chosen(possible: Numbers, wanted: tuple[int, ...]) -> Numbers:
    """Keep of what is possible what is wanted; all of it where nothing is named."""
    return possible[np.isin(possible, wanted)] if wanted else possible


def _code(columns: Columns) -> NDArray[np.intp]:
    """Number the strategy of each row as its place in ``_NAMES``."""
    data, zero = columns["data_parallel"], columns["zero_stage"]
    code = np.where((data > 1) | (zero > 0), 1 + zero, 0)
    for axis in AXES.values():
        code = 2 * code + (columns[axis] > 1)
    found: NDArray[np.intp] = code.astype(np.intp)
    return found


def strategies_of(columns: Columns) -> NDArray[np.str_]:
    """Name the strategy of each configuration."""
    return np.array(_NAMES)[_code(columns)]
