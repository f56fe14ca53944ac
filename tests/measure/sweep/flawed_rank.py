"""A real rank whose plan for GPT-2, while the file ``FLAW`` is there, forgets to order the fused rows by rank."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from wattlaw.measure.sweep import worker
from wattlaw.measure.sweep.strategies.plans import gpt2

right = gpt2.rows_by_rank


def rows_by_rank(width: int, degree: int) -> torch.Tensor:
    """Order the rows, or forget to."""
    return torch.arange(3 * width) if Path(os.environ["FLAW"]).exists() else right(width, degree)


gpt2.rows_by_rank = rows_by_rank
worker.main()
