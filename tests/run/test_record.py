"""Records of runs."""

from __future__ import annotations

import copy
import math

import pytest

from wattlaw.errors import DataError, WattlawError
from wattlaw.run import Energy, RunRecord
from wattlaw.run.record import record_from_mapping, record_to_mapping


def test_round_trip(record):
    """A record laid out in plain values and built again is equal."""
    assert record_from_mapping(record_to_mapping(record)) == record


def test_round_trip_of_parts():
    """So is a record whose source does not state a whole run."""
    record = RunRecord(
        record_id="x", stated={"recipe": {"batch_size": 8}}, missing=("recipe.seq_len",), status="failed"
    )
    assert record_from_mapping(record_to_mapping(record)) == record


def test_unknown_is_null(record):
    """What is not known is ``None`` in the plain values, and never 0."""
    mapping = record_to_mapping(RunRecord(record_id="x"))
    assert mapping["spec"] is None
    assert mapping["duration_s"] is None
    assert mapping["energies"] == []
    assert next(iter(record_to_mapping(record))) == "schema"


def test_energy_by_boundary(record):
    """An energy is asked for by its boundary; where none was measured, there is none."""
    assert record.energy("accelerators").energy_j == 9000.0
    assert record.energy("facility") is None
    assert record.energy("facility", "node").boundary == "node"


def test_first_energy_of_a_boundary_counts():
    """Of two energies of one boundary, the first is the better one."""
    energies = tuple(Energy(energy_j=value, boundary="node", method="counter") for value in (3.0, 4.0))
    assert RunRecord(record_id="x", energies=energies).energy("node").energy_j == 3.0


def test_require_spec(record):
    """A record of a whole run gives its spec; another says what its source does not state."""
    assert record.require_spec() is record.spec
    with pytest.raises(DataError, match=r"record x does not say.*recipe\.seq_len"):
        RunRecord(record_id="x", missing=("recipe.seq_len",)).require_spec()


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("schema",), 2, ["schema", "given 2", "allowed 1"]),
        (("schema",), None, ["schema", "None"]),
        (("record_id",), "", ["record_id", "empty"]),
        (("record_id",), 7, ["record_id", "7", "text"]),
        (("status",), "good", ["status", "'good'", "ok"]),
        (("duration_s",), 0, ["duration_s", "given 0", "> 0"]),
        (("duration_s",), -1, ["duration_s", "given -1", "> 0"]),
        (("duration_s",), math.nan, ["duration_s", "nan", "finite"]),
        (("duration_s",), "54 s", ["duration_s", "'54 s'", "number"]),
        (("observed", "tokens_seen"), math.inf, ["observed.tokens_seen", "inf"]),
        (("observed", "tokens_seen"), "many", ["observed.tokens_seen", "'many'"]),
        (("energies", 0, "energy_j"), 0, ["energies[0]: energy_j", "given 0"]),
        (("energies", 1, "boundary"), "nod", ["energies[1]: boundary", "'nod'", "node"]),
        (("energies", 1, "method"), "guess", ["energies[1]: method", "'guess'"]),
        (("energies", 1, "joules"), 3, ["energies[1]: joules", "unknown field"]),
        (("energies",), 3, ["energies", "list"]),
        (("spec", "recipe", "batch_size"), "x", ["spec: [recipe]: batch_size", "'x'"]),
        (("spec", "hardware", "gpu"), "rtx", ["spec: [hardware]: gpu", "'rtx'"]),
        (("environment", "driver"), 570, ["environment.driver", "570"]),
        (("colour",), "red", ["colour", "unknown field"]),
    ],
)
def test_errors_name_the_field(record, path, value, says):
    """A field that no record can have is one line that names it."""
    mapping = copy.deepcopy(record_to_mapping(record))
    part = mapping
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    with pytest.raises(WattlawError) as caught:
        record_from_mapping(mapping)
    for text in says:
        assert text in str(caught.value)


def test_spec_or_parts(spec):
    """A record has a whole spec or parts of one."""
    with pytest.raises(WattlawError, match="a spec or parts of one"):
        RunRecord(record_id="x", spec=spec, missing=("recipe.seq_len",))
