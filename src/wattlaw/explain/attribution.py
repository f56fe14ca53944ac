"""The law's terms of a run, shared out to its operations and phases.

Every term is divided in proportion to weights, so that the parts sum to it whatever the weights are. The weights:

    compute         flop of each operation and phase, at the rate of the blocks or of what is outside of them
    memory          traffic of each, likewise
    launch          what an operation would wait for its own launches, smooth_max(kernels, launches) - kernels
    communication   by kind of message what it would add alone; within a kind by the weights that are gathered or whose
                    gradients are sent, or by the collectives that an operation asks for
    update          its traffic by the weights; what is left, the host's walk, by the weight tensors
    joules          of compute, memory and communication as the seconds; of being on, and of the host, by time
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from wattlaw.errors import DataError
from wattlaw.explain.alone import MESSAGES, Alone, alone
from wattlaw.explain.node import Bottleneck, Phase
from wattlaw.explain.work import RUNNING, Work, works
from wattlaw.features.physical import physical_columns
from wattlaw.law.step_terms import smooth_max

if TYPE_CHECKING:
    from wattlaw.features.table import Table
    from wattlaw.law.calibration import Calibration
    from wattlaw.law.prediction import Prediction
    from wattlaw.run.spec import RunSpec


@dataclass(slots=True)
class Leaf:
    """One phase of one operation, or what belongs to no operation; the law's terms are added to it one by one.

    Attributes:
        work: the operation, ``None`` for what belongs to none.
        phase: of the run.
        name: of what belongs to no operation.
        flop: of all devices in the whole run.
        traffic_bytes: the same.
        terms_s: seconds by the law's terms.
        terms_j: joules by the law's terms.
        bound_s: seconds by what they are spent on or waited for.
    """

    work: Work | None
    phase: Phase
    name: str = ""
    flop: float = 0.0
    traffic_bytes: float = 0.0
    terms_s: dict[str, float] = field(default_factory=dict)
    terms_j: dict[str, float] = field(default_factory=dict)
    bound_s: dict[Bottleneck, float] = field(default_factory=dict)

    @property
    def time_s(self) -> float:
        """All terms together."""
        return sum(self.terms_s.values())

    @property
    def is_empty(self) -> bool:
        """Whether nothing was given to it."""
        return not (any(self.terms_s.values()) or any(self.terms_j.values()) or self.flop or self.traffic_bytes)


Shares = Sequence[tuple[Leaf, float]]

#: What seconds of a term are spent on or waited for; those of updates and evaluation are divided further.
BOUND: Mapping[str, Bottleneck] = {
    "compute": "compute",
    "memory": "memory",
    "communication": "communication",
    "launch": "launch",
    "pipeline": "communication",
    "setup": "communication",
}


def attribute(spec: RunSpec, calibration: Calibration, prediction: Prediction) -> list[Leaf]:
    """Share a prediction's terms out; the leaves' terms sum to the prediction's.

    Raises:
        DataError: the prediction has a term that no rule here shares out.
    """
    table = physical_columns([spec])
    ledger = _Ledger(alone(calibration, table), works(spec))
    ledger.count(table)
    ledger.share_seconds(prediction.terms_s)
    ledger.share_joules(prediction.terms_j)
    return ledger.leaves()


class _Ledger:
    """The leaves of one run, and the rules by which terms are shared out to them."""

    def __init__(self, parts: Alone, found: tuple[Work, ...]) -> None:
        self.alone = parts
        self.works = found
        self._leaves: dict[tuple[int, Phase, str], Leaf] = {}
        self._block = _Rates(
            _over(parts.weight_flop_s, block_flop := _sum_of(found, _flop_of, in_block=True)),
            _over(parts.block_traffic_s, _sum_of(found, _bytes_of, in_block=True)),
            _over(parts.kernels_s, _sum_of(found, lambda one: one.kernels, in_block=True)),
        )
        self._pairs = replace(self._block, flop_s=_over(parts.attention_flop_s, block_flop))
        self._head = _Rates(
            _over(parts.head_flop_s, _sum_of(found, _flop_of, in_block=False)),
            _over(parts.head_traffic_s, _sum_of(found, _bytes_of, in_block=False)),
            0.0,
        )

    def leaves(self) -> list[Leaf]:
        """Return the leaves that something was given to, in the order of the operations."""
        order = {id(work): position for position, work in enumerate(self.works)}
        kept = [leaf for leaf in self._leaves.values() if not leaf.is_empty]
        return sorted(kept, key=lambda leaf: order[id(leaf.work)] if leaf.work is not None else len(order))

    def leaf(self, work: Work | None, phase: Phase, name: str = "") -> Leaf:
        """Return the leaf of an operation's phase, or of what has that name and belongs to none."""
        return self._leaves.setdefault((id(work), phase, name), Leaf(work=work, phase=phase, name=name))

    def count(self, table: Table) -> None:
        """Count flop and traffic of all devices over the whole run."""
        steps, updates, evaluations = (
            float(table[name][0]) for name in ("micro_steps", "optimizer_steps", "evaluation_micro_steps")
        )
        moved_bytes = float(table["optimizer_traffic_bytes"][0])
        weights = sum(one.trained_weights for one in self.works)
        evaluated = self.leaf(None, "evaluation", "evaluation")
        for work in self.works:
            devices = float(table["num_devices"][0]) * work.executing_fraction
            for phase in RUNNING:
                leaf = self.leaf(work, phase)
                leaf.flop += steps * devices * work.flop[phase]
                leaf.traffic_bytes += steps * devices * work.traffic_bytes[phase]
            evaluated.flop += evaluations * devices * work.flop["forward"]
            evaluated.traffic_bytes += evaluations * devices * work.traffic_bytes["forward"]
            updated = self.leaf(work, "optimizer")
            updated.flop += updates * devices * work.update_flop
            updated.traffic_bytes += updates * devices * moved_bytes * _over(work.trained_weights, weights)

    # ------------------------------------------------------------------ seconds

    def share_seconds(self, terms_s: Mapping[str, float]) -> None:
        """Share the seconds out, term by term."""
        rules: dict[str, Callable[[], Shares]] = {
            "compute": lambda: self._running(lambda work, phase: self._rates(work).flop_s * work.flop[phase]),
            "memory": lambda: self._running(lambda work, phase: self._rates(work).byte_s * work.traffic_bytes[phase]),
            "launch": self._waiting,
            "communication": lambda: self._messages(self.alone.messages_s),
            "pipeline": lambda: [(self.leaf(None, "pipeline", "pipeline"), 1.0)],
            "evaluation": lambda: [(self.leaf(None, "evaluation", "evaluation"), 1.0)],
            "setup": lambda: [(self.leaf(None, "setup", "set-up"), 1.0)],
        }
        for term, total_s in terms_s.items():
            if term == "update":
                self._share_update(total_s)
                continue
            shares = self._checked(_rule(rules, term)(), term)
            for leaf, given_s in _divided(total_s, shares):
                _add(leaf.terms_s, term, given_s)
                for bound, share in self._bounds(term).items():
                    _add(leaf.bound_s, bound, given_s * share)

    def _share_update(self, total_s: float) -> None:
        """The traffic takes what it takes; what is left, the host walks through the tensors."""
        parts = self.alone
        traffic_s = min(parts.update_traffic_s, total_s)
        by_weights = [(self.leaf(one, "optimizer"), one.trained_weights) for one in self.works]
        tensors = sum(one.tensors for one in self.works)
        by_tensors = [(self.leaf(one, "optimizer"), _over(one.tensors, tensors)) for one in self.works]
        walk = [(leaf, parts.update_tensors_s * share) for leaf, share in by_tensors]
        walk.append((self.leaf(None, "host", "host"), parts.update_step_s))
        bounds: tuple[tuple[Bottleneck, float, Shares], ...] = (
            ("memory", traffic_s, by_weights),
            ("launch", total_s - traffic_s, walk),
        )
        for bound, part_s, shares in bounds:
            for leaf, given_s in _divided(part_s, self._checked(shares, "update")):
                _add(leaf.terms_s, "update", given_s)
                _add(leaf.bound_s, bound, given_s)

    def _bounds(self, term: str) -> Mapping[Bottleneck, float]:
        """What the seconds of a term are bound by; those of the evaluation like the kernels of a step."""
        if term in BOUND:
            return {BOUND[term]: 1.0}
        compute_s = self.alone.weight_flop_s + self.alone.head_flop_s
        memory_s = self.alone.block_traffic_s + self.alone.head_traffic_s
        share = _over(compute_s, compute_s + memory_s)
        return {"compute": share, "memory": 1 - share}

    def _running(self, weight: Callable[[Work, Phase], float]) -> Shares:
        return [(self.leaf(work, phase), weight(work, phase)) for work in self.works for phase in RUNNING]

    def _waiting(self) -> Shares:
        """What each operation would wait if it were alone with its launches, by the law's own rule of overlap."""
        found = [(self.leaf(None, "host", "host"), self.alone.loop_s)]
        requests = sum(one.reductions for one in self.works)
        for one in self.works:
            rates = self._rates(one)
            running_s = rates.flop_s * _flop_of(one) + rates.byte_s * _bytes_of(one)
            launching_s = rates.kernel_s * one.kernels + self.alone.reductions_s * _over(one.reductions, requests)
            longer_s = float(smooth_max(np.array(running_s), np.array(launching_s)))
            found.append((self.leaf(one, "launch"), longer_s - running_s))
        return found

    def _messages(self, by_kind: Mapping[str, float]) -> Shares:
        found: list[tuple[Leaf, float]] = []
        for kind in MESSAGES:
            if by_kind[kind] > 0:
                found += _divided(by_kind[kind], self._senders(kind))
        return found

    def _senders(self, kind: str) -> Shares:
        """What causes the messages of a kind."""
        weight: dict[str, Callable[[Work], float]] = {
            "shard": lambda one: one.weights,
            "gradient": lambda one: one.trained_weights,
            "tensor": lambda one: one.reductions,
            "expert": lambda one: float(one.routed),
            "context": lambda one: float(one.pairs_tokens),
        }
        if kind in weight:
            shares = [(self.leaf(one, "communication"), weight[kind](one)) for one in self.works]
            if sum(share for _, share in shares) > 0:
                return shares
        name = {"stage": "between stages", "context": "around the context"}.get(kind, f"messages ({kind})")
        return [(self.leaf(None, "communication", name), 1.0)]

    # ------------------------------------------------------------------ joules

    def share_joules(self, terms_j: Mapping[str, float]) -> None:
        """Share the joules out, after the seconds."""
        leaves = list(self._leaves.values())
        everywhere = [(leaf, leaf.time_s) for leaf in leaves]
        training = [(leaf, leaf.time_s) for leaf in leaves if leaf.phase != "setup"]
        rules: dict[str, Callable[[], Shares]] = {
            "compute": lambda: [(leaf, leaf.terms_s.get("compute", 0.0)) for leaf in leaves],
            "memory": lambda: self._moving(leaves),
            "communication": lambda: self._messages(self.alone.messages_j),
            "active": lambda: training,
            "host": lambda: everywhere,
        }
        for term, total_j in terms_j.items():
            shares = self._checked(_rule(rules, term)(), term)
            for leaf, given_j in _divided(total_j, shares):
                _add(leaf.terms_j, term, given_j)

    def _moving(self, leaves: Sequence[Leaf]) -> Shares:
        """Traffic of steps and updates by its time, and the evaluation, whose kernels the law bills as memory."""
        weights = sum(one.trained_weights for one in self.works)
        found = [(leaf, leaf.terms_s.get("memory", 0.0)) for leaf in leaves]
        found += [
            (self.leaf(one, "optimizer"), self.alone.update_traffic_s * _over(one.trained_weights, weights))
            for one in self.works
        ]
        trained = sum(share for _, share in found)
        evaluated = min(max(self.alone.evaluated_share, 0.0), 1.0)
        if evaluated == 1.0:
            return [(self.leaf(None, "evaluation", "evaluation"), 1.0)]
        found.append((self.leaf(None, "evaluation", "evaluation"), trained * evaluated / (1 - evaluated)))
        return found

    # ------------------------------------------------------------------ both

    def _rates(self, work: Work) -> _Rates:
        if not work.num_blocks:
            return self._head
        return self._pairs if work.pairs_tokens else self._block

    def _checked(self, shares: Shares, term: str) -> Shares:
        """Return the shares, or a leaf of the term's name where nobody has a share: nothing is lost."""
        return shares if sum(share for _, share in shares) > 0 else [(self.leaf(None, "other", term), 1.0)]


@dataclass(frozen=True, slots=True)
class _Rates:
    """Seconds of a run per unit of a device's work in a micro-step."""

    flop_s: float
    byte_s: float
    kernel_s: float


def _rule(rules: Mapping[str, Callable[[], Shares]], term: str) -> Callable[[], Shares]:
    """Return how a term is shared out; a law that learnt a new one must not have it hidden among the rest."""
    if term not in rules:
        raise DataError("no rule shares out this term of the law", given=term, allowed=", ".join(rules))
    return rules[term]


def _divided(total: float, shares: Shares) -> list[tuple[Leaf, float]]:
    whole = sum(share for _, share in shares)
    return [(leaf, total * (share / whole)) for leaf, share in shares if share]


def _add(found: dict[str, float] | dict[Bottleneck, float], name: str, amount: float) -> None:
    found[name] = found.get(name, 0.0) + amount  # type: ignore[index, call-overload]


def _over(amount: float, whole: float) -> float:
    return amount / whole if whole else 0.0


def _sum_of(found: Iterable[Work], weight: Callable[[Work], float], *, in_block: bool) -> float:
    return sum(weight(one) for one in found if bool(one.num_blocks) is in_block)


def _flop_of(one: Work) -> float:
    return sum(one.flop.values())


def _bytes_of(one: Work) -> float:
    return sum(one.traffic_bytes.values())
