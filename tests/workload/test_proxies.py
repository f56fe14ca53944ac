"""The paper's proxies, as its section 3.2 states them."""

from __future__ import annotations

from wattlaw.workload import proxies


def test_parameter_proxy_is_equation_1():
    """N(2, 3, 5) = 2 (12 9 + 2 3 5) = 276, by hand."""
    assert proxies.parameter_proxy(2, 3, 5) == 276


def test_compute_proxy_is_equation_2():
    """C_tok(2, 3, 7) = 12 2 9 + 3 2 7 3 = 342, by hand."""
    assert proxies.compute_proxy_per_token(2, 3, 7) == 342


def test_the_artifact_computes_with_the_parameter_proxy():
    """The follow-up's tables take C as tokens times N, so that ff counts and the length does not."""
    assert proxies.compute_proxy_per_token_artifact(2, 3, 5) == proxies.parameter_proxy(2, 3, 5)


def test_memory_proxy_is_equation_3():
    """M_proxy(2, 3, 5, 7) = 210, by hand."""
    assert proxies.memory_proxy(2, 3, 5, 7) == 210


def test_the_published_table_of_large_models_uses_these_proxies():
    """Paper, appendix E: GPT-3 with 96 layers of 12288 has C_tok 1.81e11 per token up to the attention term."""
    assert abs(proxies.compute_proxy_per_token(96, 12288, 2048) / 1.81e11 - 1) < 0.01
