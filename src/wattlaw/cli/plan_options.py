"""Options of ``wattlaw plan`` that say what may vary, and how quantities, shares and lists are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click

from wattlaw.cli.options import DEVICES, Name, Number, option_of
from wattlaw.errors import ConfigError, UnknownNameError


class Share(Number):
    """A share, as 10% or 0.1."""

    def __init__(self) -> None:
        super().__init__(at_least=0, below=1)
        self.name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the share; with a per cent sign it is a hundredth."""
        if isinstance(value, str) and value.strip().endswith("%"):
            return Number(at_least=0, below=100).scaled(value.strip()[:-1].strip(), 1.0, value, param) / 100
        return super().convert(value, param, ctx)


class Several(click.ParamType[tuple[Any, ...]]):
    """Values between commas, each of one kind."""

    def __init__(self, kind: click.ParamType[Any], *, name: str = "list") -> None:
        self.name = name
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        """Read each value."""
        if not isinstance(value, str):
            return tuple(value)
        parts = [part.strip() for part in value.split(",")]
        if not all(parts):
            raise ConfigError("an empty value in a list", given=repr(value), allowed="values between commas").at(
                option_of(param)
            )
        return tuple(self.kind.convert(part, param, ctx) for part in parts)


class _Cap(click.ParamType[tuple[float, bool]]):
    """A power cap in W, or as a share of each board's own limit."""

    name = "cap"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, bool]:
        """Return the number, and whether it is a share."""
        text = str(value).strip()
        if text.endswith("%"):
            return Number(above=0, at_most=100).scaled(text[:-1].strip(), 1.0, text, param) / 100, True
        return Number(above=0).scaled(text.removesuffix("W").strip(), 1.0, text, param), False


def _names(kind: str, module: str, attribute: str) -> Name:
    def known() -> Iterable[str]:
        import importlib

        return tuple(getattr(importlib.import_module(module), attribute))

    return Name(kind, known)


RECIPE = "wattlaw.workload.recipe"


class _Strategy(click.ParamType[str]):
    """A strategy or a product of several."""

    name = "strategy"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the strategy's own name."""
        from wattlaw.plan.layouts import canonical_strategy

        try:
            return canonical_strategy(str(value))
        except UnknownNameError as error:
            raise error.at(option_of(param)) from None


_SPACE: tuple[tuple[str, Any, str], ...] = (
    ("strategies", Several(_Strategy()), "Strategies and products to choose from; all where none is named."),
    (
        "also",
        Several(_names("axis to search besides", "wattlaw.plan.space", "ALSO")),
        "Also zero1 (unasked of fused frameworks only) and cp (unasked of long sequences of causal models only).",
    ),
    ("devices", Several(DEVICES), "Numbers of devices to choose from; every number where none is named."),
    ("tensor-parallel", Several(DEVICES), "Tensor-parallel degrees to choose from."),
    ("pipeline-parallel", Several(DEVICES), "Numbers of pipeline stages to choose from."),
    (
        "context-parallel",
        Several(DEVICES),
        "Context-parallel degrees to choose from; those with 4,096 tokens of a causal model each where none is named.",
    ),
    ("expert-parallel", Several(DEVICES), "Ranks to deal experts out to; every divisor of them where none is named."),
    ("interleaving", Several(DEVICES), "Runs of blocks per pipeline stage to choose from; 1 where none is named."),
    ("micro-batches", Several(DEVICES), "Sequences per device and micro-step to choose from."),
    (
        "checkpointing",
        Several(_names("checkpointing", RECIPE, "CHECKPOINTINGS")),
        "Recomputations to choose from; none and full where none is named.",
    ),
    (
        "attention-kernel",
        Several(_names("attention kernel", RECIPE, "ATTENTION_KERNELS")),
        "Attention kernels to choose from; the run's own where none is named.",
    ),
    (
        "precision",
        Several(_names("precision", RECIPE, "PRECISIONS")),
        "Precisions to choose from, which changes the result; the run's own where none is named.",
    ),
    (
        "optimizer",
        Several(_names("optimizer", RECIPE, "OPTIMIZERS")),
        "Optimizers to choose from, which changes the result; the run's own where none is named.",
    ),
    (
        "adapter-rank",
        Several(Number(whole=True, at_least=0)),
        "Ranks of adapters to choose from (0 trains all weights), which changes the result.",
    ),
    ("cap", Several(_Cap()), "Power caps to choose from, beside none: watts, or per cent of each board's limit."),
)


def space_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a verb."""
    for name, kind, text in reversed(_SPACE):
        command = click.option(f"--{name}", metavar="LIST", type=kind, help=text)(command)
    return command
