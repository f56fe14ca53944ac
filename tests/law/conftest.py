"""Rows that the tests of several laws use: simulated from known laws, and the measured ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import paper_figures
import pytest

from wattlaw.features.physical import physical_columns
from wattlaw.features.records import record_columns
from wattlaw.features.table import Table
from wattlaw.hardware import accelerator
from wattlaw.law.step_terms import COLUMNS, PARAMETERS, StepTerms, terms
from wattlaw.parallel.layout import Layout
from wattlaw.run import Energy, RunRecord, RunSpec
from wattlaw.run.importers import import_csv, shipped_map
from wattlaw.workload import Recipe, from_sizes, preset


@pytest.fixture(scope="session")
def paper_rows(shared_data):
    """The measured rows of BERT and GPT on one and several GPUs."""
    return paper_figures.read_rows()


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


#: Parameters of the step law on two made-up hosts, away from the medians of its priors.
HOSTS = {
    "a100-sxm4-40gb": {"matrix_fraction": 0.45, "launch_kernel_s": 2e-5, "active_fraction": 0.3, "host_power_w": 60.0},
    "rtx-2080-ti": {"matrix_fraction": 0.6, "launch_kernel_s": 9e-5, "link_fraction": 0.6, "host_power_w": 20.0},
}


def host_parameters(machine: str, **changes: float) -> dict[str, float]:
    """All parameters of a made-up host."""
    return {parameter.name: parameter.start for parameter in PARAMETERS} | HOSTS.get(machine, {}) | changes


def draw_step_specs(*, num_configurations: int, seed: int, machines: Sequence[str] = tuple(HOSTS)) -> list[RunSpec]:
    """Draw small BERTs and GPT-2s, each on one device and, with the same tokens, on several in four ways."""
    random = np.random.default_rng(seed)
    layouts = [Layout.of("single")]
    layouts += [Layout.of(name, num_devices=devices) for name in ("fsdp", "tp") for devices in (2, 4)]
    specs = []
    for number in range(num_configurations):
        heads = int(random.choice([4, 8, 12]))
        model = from_sizes(
            ("bert", "gpt2")[number % 2],
            head=("classification", None)[number % 2],
            num_layers=int(random.choice([2, 4, 8, 12])),
            num_heads=heads,
            hidden_size=64 * heads,
            ffn_size=int(random.choice([2, 4])) * 64 * heads,
            vocab_size=30522,
        )
        recipe = Recipe(
            batch_size=int(random.choice([4, 8, 16, 64])),
            seq_len=int(random.choice([64, 128, 512])),
            grad_accumulation=int(random.choice([1, 4])),
            precision="fp16",
            tokens=float(round(10 ** random.uniform(6.5, 7.5))),
        )
        device = accelerator(machines[number // 2 % len(machines)])
        specs += [RunSpec(architecture=model, recipe=recipe, layout=one, accelerator=device) for one in layouts]
    return specs


def true_terms(specs: Sequence[RunSpec], **changes: float) -> StepTerms:
    """Evaluate the step law with the made-up hosts' parameters."""
    hosts = [host_parameters(spec.accelerator.name, **changes) for spec in specs]
    columns = physical_columns(specs)
    return terms(
        {parameter.name: np.array([host[parameter.name] for host in hosts]) for parameter in PARAMETERS},
        {name: columns.numbers(name) for name in COLUMNS},
    )


def measure(specs: Sequence[RunSpec], *, noise: float, seed: int) -> Table:
    """Simulate the runs: what the step law says, times normal noise in the logarithms, as columns of all laws."""
    random = np.random.default_rng(seed)
    true = true_terms(specs)
    alone = true_terms([replace(spec, layout=Layout()) for spec in specs])
    durations = true.duration_s * np.exp(noise * random.standard_normal(len(specs)))
    energies = true.energy_j * np.exp(noise * random.standard_normal(len(specs)))
    return record_columns([
        RunRecord(
            record_id=f"run {number}",
            spec=spec,
            duration_s=durations[number],
            energies=(Energy(energy_j=energies[number], boundary="node", method="mixed"),),
            observed={"single_device_duration_s": alone.duration_s[number]},
        )
        for number, spec in enumerate(specs)
    ])  # fmt: skip


@pytest.fixture
def spec():
    """BERT-base on four RTX 2080 Ti under FSDP, with an evaluation."""
    return RunSpec(
        architecture=preset("bert-base-uncased", head="classification"),
        recipe=Recipe(
            batch_size=32,
            seq_len=128,
            precision="fp16",
            grad_accumulation=2,
            samples=67349,
            epochs=3,
            evaluation_fraction=0.05,
        ),
        layout=Layout.of("fsdp", num_devices=4),
        accelerator=accelerator("rtx-2080-ti"),
    )


@pytest.fixture(scope="session")
def step_specs():
    """The function that draws runs for the step law."""
    return draw_step_specs


@pytest.fixture(scope="session")
def measured():
    """The function that simulates runs of the step law."""
    return measure


@pytest.fixture(scope="session")
def true_step():
    """The function that evaluates the step law with the parameters that the runs are simulated with."""
    return true_terms


@pytest.fixture(scope="session")
def true_parameters():
    """The function that returns the parameters that the runs of a machine are simulated with."""
    return host_parameters


@pytest.fixture(scope="session")
def shared_table(shared_data):
    """The measured runs of BERT and GPT-2 on A100 and RTX 2080 Ti, as columns of all laws."""
    imported = import_csv(shared_data / "bert_gpt_multi_gpu.csv", shipped_map("bert_gpt_multi_gpu"))
    return record_columns(imported.records)
