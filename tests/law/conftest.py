"""Rows that the tests of several laws use: simulated from a known law, and the measured ones."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from wattlaw.features.table import Table

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "paper_figures.py"


@pytest.fixture(scope="session")
def paper_figures():
    """The script that recomputes the paper's figures, as a module."""
    specification = importlib.util.spec_from_file_location("paper_figures", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def paper_rows(shared_data, paper_figures):
    """The measured rows of BERT and GPT on one and several GPUs."""
    return paper_figures.read_rows(shared_data / "bert_gpt_multi_gpu.csv")


@pytest.fixture(scope="session")
def bert_2080ti(paper_rows):
    """The 116 measured rows of BERT on RTX 2080 Ti."""
    return paper_rows.take(paper_rows["architecture"] == "bert")


def simulate(*, num_runs: int, seed: int, noise: float = 0.1) -> Table:
    """Draw runs whose energy follows the paper's law exactly, but for normal noise in its logarithm.

    ln E = 2 + 0.3 ln C + 0.2 ln M - 1.1 ln eta + 0.5 [fsdp] + 0.9 [tp].
    """
    random = np.random.default_rng(seed)
    strategy = random.permutation(np.resize(["single", "fsdp", "tp"], num_runs))
    devices = np.where(strategy == "single", 1.0, random.choice([2.0, 4.0, 8.0], num_runs))
    compute, memory = np.exp(random.uniform(30, 36, num_runs)), np.exp(random.uniform(14, 20, num_runs))
    efficiency = np.where(strategy == "single", 1.0, devices ** -random.uniform(0.1, 0.8, num_runs))
    effects = 0.5 * (strategy == "fsdp") + 0.9 * (strategy == "tp")
    ln_energy = 2 + 0.3 * np.log(compute) + 0.2 * np.log(memory) - 1.1 * np.log(efficiency) + effects
    return Table({
        "energy_j": np.exp(ln_energy + noise * random.standard_normal(num_runs)),
        "duration_s": np.exp(random.uniform(2, 6, num_runs)),
        "compute_proxy": compute,
        "memory_proxy": memory,
        "efficiency": efficiency,
        "num_devices": devices,
        "data_parallel": np.where(strategy == "fsdp", devices, 1.0),
        "tensor_parallel": np.where(strategy == "tp", devices, 1.0),
        "num_steps": np.full(num_runs, 100.0) + random.integers(0, 900, num_runs),
        "strategy": strategy,
        "architecture": random.choice(["bert", "gpt"], num_runs),
        "machine": np.full(num_runs, "RTX 2080 Ti"),
        "group": np.array([f"family {number}" for number in random.integers(0, max(num_runs // 4, 2), num_runs)]),
    })  # fmt: skip


@pytest.fixture(scope="session")
def simulated():
    """The function that draws runs from a known law."""
    return simulate
