"""A run as the command that predicts it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from wattlaw.app.bodies import PriceTable, Run

#: Keys of a run's tables whose options have other names.
OPTIONS = {
    "preset": "model",
    "num_devices": "num-gpus",
    "power_limit_w": "power-limit",
    "price_per_device_hour": "price-per-gpu-hour",
}
#: A config.json that came as its fields is a file again where the command is run.
CONFIG = "config.json"


def command_line(run: Run, prices: PriceTable, *, level: float = 0.95) -> str:
    """Write a run as the command that predicts it; a config.json is the one in the folder where it is run.

    >>> from wattlaw.app.bodies import PriceTable, Run
    >>> recipe = {"batch_size": 8, "seq_len": 512, "steps": 10}
    >>> run = Run(model={"preset": "gpt2"}, recipe=recipe, hardware={"gpu": "t4"})
    >>> command_line(run, PriceTable())
    'wattlaw predict --model gpt2 --batch-size 8 --seq-len 512 --steps 10 --gpu t4'
    """
    words = ["wattlaw", "predict"]
    for table in (run.model, run.recipe, run.hardware, run.layout, msgspec.to_builtins(prices)):
        for key, value in table.items():
            if value is not None:
                words += [f"--{OPTIONS.get(key, key).replace('_', '-')}", CONFIG if key == "config" else _text(value)]
    if level != 0.95:
        words += ["--level", _text(level)]
    return shlex.join(words)


def _text(value: Any) -> str:
    return (
        repr(value)
        if isinstance(value, float) and value % 1
        else str(int(value) if isinstance(value, float) else value)
    )
