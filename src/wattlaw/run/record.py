"""What was seen of one run: time, energies with their boundary and method, and whatever else the source states."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from wattlaw.errors import ConfigError, DataError, FileError, WattlawError
from wattlaw.run.fields import (
    expect_list,
    expect_mapping,
    expect_number,
    expect_one_of,
    expect_positive,
    expect_text,
    expect_texts,
    refuse_unknown,
)
from wattlaw.run.spec_file import spec_from_mapping, spec_to_mapping

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wattlaw.run.spec import RunSpec

Status = Literal["ok", "failed"]
Boundary = Literal["accelerators", "node", "facility"]
Method = Literal["counter", "integrated", "modelled", "declared", "mixed"]

STATUSES: tuple[Status, ...] = get_args(Status)
BOUNDARIES: tuple[Boundary, ...] = get_args(Boundary)
METHODS: tuple[Method, ...] = get_args(Method)

#: The version of the record's form that this version of wattlaw writes and reads.
SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Energy:
    """One energy of a run, in joules, with what it includes and how it was found.

    Attributes:
        energy_j: above zero; an energy that is not known is absent and never 0.
        boundary: ``accelerators`` (the boards), ``node`` (hosts included) or ``facility`` (node times PUE,
            switches included).
        method: ``counter`` (an energy counter was read), ``integrated`` (sampled power was), ``modelled``
            (no sensor), ``declared`` (published without saying how) or ``mixed`` (parts of several methods).
        source: which instrument or publication.
    """

    energy_j: float
    boundary: Boundary
    method: Method
    source: str = ""

    def __post_init__(self) -> None:
        """Refuse an energy that is none, and names that nobody else would understand."""
        object.__setattr__(self, "energy_j", expect_positive("energy_j", self.energy_j))
        expect_one_of("boundary", self.boundary, BOUNDARIES)
        expect_one_of("method", self.method, METHODS)
        expect_text("source", self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run that somebody made, and what they saw.

    A source that does not state enough for a whole run spec (a trace without the sequence length) leaves ``spec``
    ``None`` and keeps what it does state in ``stated``; ``require_spec`` says which run lacks what.

    Attributes:
        record_id: unlike any other in its store.
        spec: what was run, or ``None``.
        stated: where ``spec`` is ``None``, the parts of it that are known, in the tables of a spec file.
        missing: where ``spec`` is ``None``, the fields that a spec needs and the source lacks.
        assumed: fields of the spec that the source does not state and the importer's map fills in.
        status: ``ok``, or ``failed`` (out of memory, killed).
        duration_s: of the training, or ``None``.
        energies: where two have the same boundary, the first is the better one.
        observed: other numbers that the source states, with the unit at the end of the name.
        source: where the figures come from.
        notes: what else a reader should know.
        environment: versions, drivers, host.
    """

    record_id: str
    spec: RunSpec | None = None
    stated: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    status: Status = "ok"
    duration_s: float | None = None
    energies: tuple[Energy, ...] = ()
    observed: Mapping[str, float] = field(default_factory=dict)
    source: str = ""
    notes: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        """Refuse what cannot have been seen."""
        if not expect_text("record_id", self.record_id):
            raise ConfigError("record_id must not be empty", given="''", allowed="a text").at("record_id")
        if self.schema != SCHEMA:
            raise ConfigError("another version of the record's form", given=self.schema, allowed=SCHEMA).at("schema")
        expect_one_of("status", self.status, STATUSES)
        if self.duration_s is not None:
            object.__setattr__(self, "duration_s", expect_positive("duration_s", self.duration_s))
        if self.spec is not None and (self.stated or self.missing):
            raise ConfigError("a record has a spec or parts of one", given="spec and stated", allowed="one of them")
        numbers = {name: expect_number(f"observed.{name}", value) for name, value in self.observed.items()}
        object.__setattr__(self, "observed", numbers)

    def require_spec(self) -> RunSpec:
        """Return the spec, or raise a ``DataError`` that names the fields that the source does not state."""
        if self.spec is None:
            raise DataError(
                f"record {self.record_id} does not say what was run",
                given=f"no {', '.join(self.missing) or 'spec'}",
                hint="a column map that states them as assumptions",
            )
        return self.spec

    def energy(self, *boundaries: Boundary) -> Energy | None:
        """Return the first energy within one of the boundaries, in their order, or ``None`` where there is none."""
        for boundary in boundaries or BOUNDARIES:
            for energy in self.energies:
                if energy.boundary == boundary:
                    return energy
        return None


def record_to_mapping(record: RunRecord) -> dict[str, Any]:
    """Lay a record out in plain values, the schema first; what is not known is ``None``."""
    return {
        "schema": record.schema,
        "record_id": record.record_id,
        "status": record.status,
        "spec": None if record.spec is None else spec_to_mapping(record.spec),
        "stated": {name: dict(table) for name, table in record.stated.items()},
        "missing": list(record.missing),
        "assumed": list(record.assumed),
        "duration_s": record.duration_s,
        "energies": [
            {"energy_j": one.energy_j, "boundary": one.boundary, "method": one.method, "source": one.source}
            for one in record.energies
        ],
        "observed": dict(record.observed),
        "source": record.source,
        "notes": record.notes,
        "environment": dict(record.environment),
    }


_FIELDS = (
    "schema",
    "record_id",
    "status",
    "spec",
    "stated",
    "missing",
    "assumed",
    "duration_s",
    "energies",
    "observed",
    "source",
    "notes",
    "environment",
)


def record_from_mapping(mapping: object) -> RunRecord:
    """Build a record from plain values.

    Raises:
        FileError: a field is missing, unknown or of the wrong kind; the field is named.
        ConfigError: a value that no run can have; the field is named.
    """
    table = expect_mapping("record", mapping)
    if table.get("schema") != SCHEMA:
        raise FileError("a record of another form", given=repr(table.get("schema")), allowed=SCHEMA).at("schema")
    refuse_unknown("field", table, _FIELDS)
    return RunRecord(
        record_id=expect_text("record_id", table.get("record_id")),
        spec=_spec(table.get("spec")),
        stated={
            name: expect_mapping(f"stated.{name}", part)
            for name, part in expect_mapping("stated", table.get("stated", {})).items()
        },
        missing=expect_texts("missing", table.get("missing", ())),
        assumed=expect_texts("assumed", table.get("assumed", ())),
        status=table.get("status", "ok"),
        duration_s=table.get("duration_s"),
        energies=tuple(
            _energy(f"energies[{index}]", part)
            for index, part in enumerate(expect_list("energies", table.get("energies", [])))
        ),
        observed=expect_mapping("observed", table.get("observed", {})),
        source=expect_text("source", table.get("source", "")),
        notes=expect_text("notes", table.get("notes", "")),
        environment={
            name: expect_text(f"environment.{name}", value)
            for name, value in expect_mapping("environment", table.get("environment", {})).items()
        },
    )


def _spec(part: object) -> RunSpec | None:
    if part is None:
        return None
    try:
        return spec_from_mapping(expect_mapping("a run spec", part), already_run=True)
    except WattlawError as error:
        error.at("spec")
        raise


def _energy(place: str, part: object) -> Energy:
    try:
        table = expect_mapping("an energy", part)
        refuse_unknown("field", table, ("energy_j", "boundary", "method", "source"))
        for name in ("energy_j", "boundary", "method"):
            if name not in table:
                raise FileError("a field is missing", allowed="energy_j, boundary, method, source").at(name)
        return Energy(**table)
    except WattlawError as error:
        error.at(place)
        raise
