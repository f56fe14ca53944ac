"""CodeCarbon's emissions.csv."""

from __future__ import annotations

import pytest

from wattlaw.errors import UnknownNameError
from wattlaw.run.importers import import_codecarbon

ROW = {
    "timestamp": "2026-01-01T00:00:00", "run_id": "r1", "duration": "3600", "emissions": "0.1", "cpu_energy": "0.05",
    "gpu_energy": "0.9", "ram_energy": "0.05", "energy_consumed": "1.0", "country_iso_code": "FRA", "gpu_count": "4",
    "gpu_model": "4 x NVIDIA GeForce RTX 2080 Ti", "codecarbon_version": "2.3.4", "tracking_mode": "machine",
    "pue": "1.0",
}  # fmt: skip


@pytest.fixture
def import_rows(write_csv, spec):
    """Import rows given as tables, with a spec of four RTX 2080 Ti."""
    return lambda *rows: import_codecarbon(write_csv(ROW, *(row.values() for row in rows)), spec=spec)


def test_worked_row(import_rows, spec):
    """GPUs are one energy and the node another, each with how it was found; parts are observed in joules."""
    (record,) = import_rows(ROW).records
    assert record.spec == spec
    assert record.record_id == "r1"
    assert record.duration_s == 3600.0
    accelerators, node = record.energies
    assert (accelerators.energy_j, accelerators.boundary, accelerators.method) == (
        pytest.approx(3.24e6),
        "accelerators",
        "counter",
    )
    assert (node.energy_j, node.boundary, node.method) == (pytest.approx(3.6e6), "node", "mixed")
    assert record.observed["cpu_energy_j"] == pytest.approx(0.18e6)
    assert record.environment["tracking_mode"] == "machine"


def test_zero_is_unknown(import_rows):
    """A component of 0 kWh was not measured: it is no energy, and the node without it is none either."""
    (record,) = import_rows({**ROW, "gpu_energy": "0", "energy_consumed": "0.1"}).records
    assert record.energies == ()
    assert record.observed["total_energy_j"] == pytest.approx(0.36e6)
    assert "gpu_energy_j" not in record.observed


def test_pue_is_told_apart(import_rows):
    """CodeCarbon multiplies each part by the PUE before it adds them: only the total is the facility's."""
    written = {"gpu_energy": "1.35", "cpu_energy": "0.075", "ram_energy": "0.075", "energy_consumed": "1.5"}
    (record,) = import_rows({**ROW, **written, "pue": "1.5"}).records
    assert record.energy("accelerators").energy_j == pytest.approx(0.9 * 3.6e6)
    assert record.energy("node").energy_j == pytest.approx(3.6e6)
    assert record.energy("facility").energy_j == pytest.approx(1.5 * 3.6e6)
    assert record.observed["gpu_energy_j"] == pytest.approx(0.9 * 3.6e6)


def test_a_gpu_beside_an_unknown_part_is_without_the_pue_too(import_rows):
    """Where RAM was not read there is no node, and the GPUs' own energy is what their counters said."""
    written = {"gpu_energy": "1.8", "ram_energy": "0", "energy_consumed": "1.9"}
    (record,) = import_rows({**ROW, **written, "pue": "2"}).records
    assert [one.boundary for one in record.energies] == ["accelerators"]
    assert record.energies[0].energy_j == pytest.approx(0.9 * 3.6e6)


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"energy_consumed": "3.0"}, "column energy_consumed: not the sum of its parts"),
        ({"pue": "0.5"}, "column pue: a facility takes no less"),
        ({"gpu_count": "8"}, "column gpu_count: the row and the spec disagree; given 8; allowed 4"),
        ({"gpu_model": "4 x NVIDIA A100-SXM4-40GB"}, "column gpu_model: the row and the spec disagree"),
        ({"duration": "nan"}, "column duration: not a finite number"),
    ],
)
def test_rows_that_contradict(import_rows, cells, reason):
    """A row that measured other devices than the spec has, or does not add up, is skipped with the reason."""
    found = import_rows({**ROW, **cells})
    assert found.records == ()
    assert reason in found.skipped[0].reason


def test_unknown_device_names_are_kept(import_rows):
    """A device that cannot be told from its name is not checked, and its name is kept."""
    (record,) = import_rows({**ROW, "gpu_model": "Some GPU"}).records
    assert record.environment["gpu_model"] == "Some GPU"


def test_last_reading_of_a_run_counts(import_rows):
    """CodeCarbon may write a run several times, each time the total so far: only the last is a record."""
    found = import_rows({**ROW, "duration": "60"}, ROW, {**ROW, "run_id": "r2"})
    assert [(record.record_id, record.duration_s) for record in found.records] == [("r1", 3600), ("r2", 3600)]
    assert [one.row for one in found.skipped] == [2]


def test_old_versions(write_csv, spec):
    """Files of versions that did not write the PUE or the tracking mode are read as well."""
    row = {key: value for key, value in ROW.items() if key not in ("pue", "tracking_mode", "gpu_count", "gpu_model")}
    assert len(import_codecarbon(write_csv(row, row.values()), spec=spec).records) == 1


def test_another_file(write_csv, spec):
    """A file that is not CodeCarbon's is an error that names a column it lacks."""
    with pytest.raises(UnknownNameError, match="unknown column; given 'run_id'"):
        import_codecarbon(write_csv(["a", "b"], ["1", "2"]), spec=spec)
