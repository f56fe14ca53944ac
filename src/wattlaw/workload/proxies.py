"""The three proxies of arXiv 2606.23546, section 3.2, as it states them.

They are inputs of the paper's laws and nothing else. An exact count has 4 d^2 + 2 d ff parameters per layer, so (1)
counts 12 d^2, which already holds an MLP of 4 d, and the MLP once more; (2) overstates attention by half and has no
term for ff. The exact counts are ``wattlaw.workload.step_cost``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wattlaw.units import Quantity


def parameter_proxy(num_layers: Quantity, hidden_size: Quantity, ffn_size: Quantity) -> Quantity:
    """Equation (1): N(L, d, ff) = L (12 d^2 + 2 d ff), non-embedding parameters.

    >>> parameter_proxy(12, 768, 3072)
    141557760
    """
    return num_layers * (12 * hidden_size * hidden_size + 2 * hidden_size * ffn_size)


def compute_proxy_per_token(num_layers: Quantity, hidden_size: Quantity, seq_len: Quantity) -> Quantity:
    """Equation (2): C_tok(L, d, S) = 12 L d^2 + 3 L S d; the compute C is this times the tokens processed.

    >>> compute_proxy_per_token(12, 768, 128)
    88473600
    """
    return 12 * num_layers * hidden_size * hidden_size + 3 * num_layers * seq_len * hidden_size


def compute_proxy_per_token_artifact(num_layers: Quantity, hidden_size: Quantity, ffn_size: Quantity) -> Quantity:
    """Compute per token as the follow-up's public tables have it: C is N of equation (1) times the tokens."""
    return parameter_proxy(num_layers, hidden_size, ffn_size)


def memory_proxy(batch_size: Quantity, seq_len: Quantity, hidden_size: Quantity, num_layers: Quantity) -> Quantity:
    """Equation (3): M_proxy(B, S, d, L) = B S d L, traffic of activations per step, in numbers.

    >>> memory_proxy(32, 128, 768, 12)
    37748736
    """
    return batch_size * seq_len * hidden_size * num_layers
