"""The workload: an architecture and a recipe, and what one training step of it costs on paper.

::

    architecture  sizes of a model as a value       recipe      how it is trained
    families/     one family per file               config      Hugging Face config.json -> architecture
    operations    the model as a list of operations cost        parameters, flop, traffic, kernels, memory
    optimizer     the update of the weights         proxies     the paper's three proxies
    adapters      low-rank adapters, frozen bases
"""

from wattlaw.workload.architecture import Architecture, Head, Stack
from wattlaw.workload.config import from_config, from_mapping
from wattlaw.workload.cost import StepCost, step_cost
from wattlaw.workload.families import FAMILIES, from_sizes
from wattlaw.workload.operation import Operation
from wattlaw.workload.operations import operations
from wattlaw.workload.presets import preset, presets
from wattlaw.workload.recipe import Recipe

__all__ = [
    "FAMILIES",
    "Architecture",
    "Head",
    "Operation",
    "Recipe",
    "Stack",
    "StepCost",
    "from_config",
    "from_mapping",
    "from_sizes",
    "operations",
    "preset",
    "presets",
    "step_cost",
]
