"""The power law recovers itself, and is what least squares says."""

from __future__ import annotations

import numpy as np
import pytest

from wattlaw.features.table import Table
from wattlaw.law.paper import PowerLaw


def exact(num_runs: int) -> Table:
    """Runs with E = 5 C^0.3 M^0.6, without noise."""
    random = np.random.default_rng(0)
    compute, memory = np.exp(random.uniform(20, 30, num_runs)), np.exp(random.uniform(10, 15, num_runs))
    return Table({"compute_proxy": compute, "memory_proxy": memory, "energy_j": 5 * compute**0.3 * memory**0.6})


def test_recovers_an_exact_law():
    """Recovery: without noise, the exponents and the factor come back to ten digits."""
    law, table = PowerLaw(), exact(20)
    calibration = law.fit(table)
    assert calibration.parameters["ln_compute_proxy"] == pytest.approx(0.3, rel=1e-10)
    assert calibration.parameters["ln_memory_proxy"] == pytest.approx(0.6, rel=1e-10)
    one = Table({"compute_proxy": [1e12], "memory_proxy": [1e5]})
    assert law.estimate(calibration, one).energy_j[0] == pytest.approx(5 * 1e12**0.3 * 1e5**0.6, rel=1e-9)


def test_scalings():
    """Doubling compute multiplies the energy by 2^aC, and the intercept is the mean of ln E."""
    law, table = PowerLaw(), exact(20)
    calibration = law.fit(table)
    doubled = table.with_columns(compute_proxy=2 * table["compute_proxy"])
    ratio = law.estimate(calibration, doubled).energy_j / law.estimate(calibration, table).energy_j
    np.testing.assert_allclose(ratio, 2**0.3, rtol=1e-9)
    assert calibration.parameters["intercept"] == pytest.approx(np.log(table["energy_j"]).mean())


def test_matches_least_squares_by_another_route(paper_rows):
    """Reference: on the measured rows the exponents are those of numpy's solver without centring."""
    calibration = PowerLaw().fit(paper_rows)
    design = np.column_stack([
        np.ones(len(paper_rows)), np.log(paper_rows["compute_proxy"]), np.log(paper_rows["memory_proxy"])
    ])  # fmt: skip
    expected = np.linalg.lstsq(design, np.log(paper_rows["energy_j"]), rcond=None)[0]
    assert calibration.parameters["ln_compute_proxy"] == pytest.approx(expected[1], rel=1e-9)
    assert calibration.parameters["ln_memory_proxy"] == pytest.approx(expected[2], rel=1e-9)
