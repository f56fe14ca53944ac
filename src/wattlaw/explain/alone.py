"""What the law says of each part of a run by itself.

The law is asked, not copied: the same run is put to it again and again, each time without all but one kind of work.
So a term that is a sum is divided exactly as the law adds it up, and a term in which parts overlap is divided by what
each part would take alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattlaw.law.beyond import step_parameters
from wattlaw.law.step_terms import COLUMNS, StepTerms, terms

if TYPE_CHECKING:
    from wattlaw.features.table import Table
    from wattlaw.law.calibration import Calibration

#: Endings of columns that count messages; the word before them is the kind of message.
_COUNTS = ("_collectives", "_hops", "_messages", "_port_bytes")
#: Kinds of messages: of sharded weights, of gradients, of tensor parallelism, of a pipeline's stages, and whatever else
#: the law tells apart.
MESSAGES = tuple(dict.fromkeys(name.partition("_")[0] for name in COLUMNS if name.endswith(_COUNTS)))
_MESSAGE_COLUMNS = {
    kind: tuple(name for name in COLUMNS if name.startswith((f"{kind}_", f"un{kind}_"))) for kind in MESSAGES
}
_SAID = tuple(name for names in _MESSAGE_COLUMNS.values() for name in names)
_QUIET = (*_SAID, "block_flop", "head_flop", "block_traffic_bytes", "head_traffic_bytes", "block_kernels")
_HOST_UPDATE = ("update_step_s", "update_tensor_s")

#: What is asked -> the columns, or parameters, that are then 0. ``attention_share`` is 1 where all of the blocks' flop
#: are put to the law as attention's own products.
QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "whole": (),
    "weight_flop": ("head_flop", "attention_share"),
    "attention_flop": ("head_flop",),
    "head_flop": ("block_flop",),
    "block_traffic": ("head_traffic_bytes",),
    "head_traffic": ("block_traffic_bytes",),
    "loop": _QUIET,
    "kernels": tuple(name for name in _QUIET if name != "block_kernels"),
    "reductions": tuple(name for name in _QUIET if name != "tensor_collectives"),
    "update_step": ("optimizer_traffic_bytes", "weight_tensors"),
    "update_host": ("optimizer_traffic_bytes",),
    "update_traffic": _HOST_UPDATE,
    "training": ("evaluation_micro_steps",),
    **{kind: tuple(name for name in _SAID if name not in own) for kind, own in _MESSAGE_COLUMNS.items()},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """Seconds of a whole run, each part as if the others were not there.

    Attributes:
        weight_flop_s: operations of the blocks, if all were products with weights.
        attention_flop_s: operations of the blocks, if all were attention's own products.
        head_flop_s: operations outside of the blocks.
        block_traffic_s: memory traffic of the blocks.
        head_traffic_s: memory traffic outside of the blocks.
        loop_s: what the host does per micro-step, whatever the model.
        kernels_s: launching the kernels of the blocks.
        reductions_s: launching the collectives of tensor parallelism.
        update_step_s: what the host does per update, whatever the model.
        update_tensors_s: walking through the weight tensors.
        update_traffic_s: the traffic of the updates.
        messages_s: by kind, what it adds to the time of the kernels.
        messages_j: by kind, what moving it takes.
        evaluated_share: of the joules billed as memory, those of the evaluation.
    """

    weight_flop_s: float
    attention_flop_s: float
    head_flop_s: float
    block_traffic_s: float
    head_traffic_s: float
    loop_s: float
    kernels_s: float
    reductions_s: float
    update_step_s: float
    update_tensors_s: float
    update_traffic_s: float
    messages_s: Mapping[str, float]
    messages_j: Mapping[str, float]
    evaluated_share: float


def alone(calibration: Calibration, table: Table) -> Alone:
    """Ask the law about the parts of one run; ``table`` holds its columns, in one row."""
    found = _answers(calibration, table)
    row = {name: position for position, name in enumerate(QUESTIONS)}

    def seconds(term: str, question: str) -> float:
        return float(found.terms_s[term][row[question]]) if term in found.terms_s else 0.0

    def joules(term: str, question: str) -> float:
        return float(found.terms_j[term][row[question]]) if term in found.terms_j else 0.0

    loop_s, update_step_s = seconds("launch", "loop"), seconds("update", "update_step")
    memory_j = joules("memory", "whole")
    return Alone(
        weight_flop_s=seconds("compute", "weight_flop"),
        attention_flop_s=seconds("compute", "attention_flop"),
        head_flop_s=seconds("compute", "head_flop"),
        block_traffic_s=seconds("memory", "block_traffic"),
        head_traffic_s=seconds("memory", "head_traffic"),
        loop_s=loop_s,
        kernels_s=seconds("launch", "kernels") - loop_s,
        reductions_s=seconds("launch", "reductions") - loop_s,
        update_step_s=update_step_s,
        update_tensors_s=seconds("update", "update_host") - update_step_s,
        update_traffic_s=seconds("update", "update_traffic"),
        messages_s={kind: seconds("communication", kind) for kind in MESSAGES},
        messages_j={kind: joules("communication", kind) for kind in MESSAGES},
        evaluated_share=1 - joules("memory", "training") / memory_j if memory_j > 0 else 0.0,
    )


def _answers(calibration: Calibration, table: Table) -> StepTerms:
    """Evaluate the law, one row per question."""
    machine = str(table.text("machine")[0])
    columns = {name: float(table.numbers(name)[0]) for name in COLUMNS}
    parameters = {name: float(value) for name, value in step_parameters(calibration, machine, columns).items()}
    asked = _rows(columns)
    asked["attention_share"][list(QUESTIONS).index("attention_flop")] = 1.0
    return terms(_rows(parameters), asked)


def _rows(values: Mapping[str, float]) -> dict[str, NDArray[np.float64]]:
    return {name: _row(name, value, QUESTIONS.values()) for name, value in values.items()}


def _row(name: str, value: float, left_out: Iterable[tuple[str, ...]]) -> NDArray[np.float64]:
    return np.array([0.0 if name in names else value for names in left_out])
