"""The report of one run that is predicted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wattlaw.report import quantities
from wattlaw.report.alternatives import alternatives
from wattlaw.report.document import Block, DataTable, Document, Section, Snippet
from wattlaw.report.figures.run import comparison_figure, roofline_figure, terms_figure
from wattlaw.report.prediction import TERMS, title
from wattlaw.run.spec_file import spec_to_mapping
from wattlaw.run.toml_text import toml_text

if TYPE_CHECKING:
    from wattlaw.law.calibration import Calibration
    from wattlaw.law.footprint import Footprint
    from wattlaw.law.interval import Interval
    from wattlaw.law.prediction import Prediction
    from wattlaw.run.spec import RunSpec


def run_document(
    spec: RunSpec,
    prediction: Prediction,
    footprint: Footprint,
    calibration: Calibration,
    *,
    carbon_source: str = "",
    location: str | None = None,
) -> Document:
    """Report a prediction: what the run takes, where that goes, what limits it, and other ways to run it.

    Args:
        spec: the run.
        prediction: of it.
        footprint: its money and carbon, as far as figures for them were given.
        calibration: that it was predicted with, for the other ways.
        carbon_source: where the carbon's intensity comes from.
        location: where the electricity comes from, as far as it was named.
    """
    sections = [
        Section(heading="What it takes", sentences=_doubts(prediction), blocks=(_totals(prediction, footprint),)),
        Section(heading="Where it goes", blocks=(terms_figure(prediction), _terms(prediction))),
        *_explained(spec, calibration),
        *_alternatives(spec, calibration, prediction.energy_j.level),
        Section(
            heading="The run",
            sentences=("Saved as run.toml, this is what `wattlaw predict run.toml` reads.",),
            blocks=(
                Snippet(caption="Run spec", language="toml", text=toml_text(spec_to_mapping(spec))),
                *_card(spec, prediction, footprint, carbon_source, location),
            ),
        ),
    ]
    return Document(
        title=f"Predicted: {title(spec)}",
        kind="prediction",
        summary=(_sentence(prediction),),
        sections=tuple(sections),
        provenance=provenance(calibration),
    )


def provenance(calibration: Calibration) -> dict[str, str]:
    """Say what a report was made with."""
    from importlib import metadata

    known = {name: value for name, value in calibration.provenance.items() if name in ("source", "date", "machines")}
    return {"wattlaw": metadata.version("wattlaw"), "law": calibration.law, **known}


def _card(
    spec: RunSpec, prediction: Prediction, footprint: Footprint, carbon_source: str, location: str | None
) -> tuple[Snippet, ...]:
    """The emissions as the metadata of a model card, where they are known."""
    from wattlaw.report.model_card import card_of_prediction, card_text

    if footprint.carbon_g is None:
        return ()
    fields = card_of_prediction(spec, prediction, footprint, carbon_source=carbon_source, location=location)
    caption = "For the head of a model card, between two lines of three hyphens"
    return (Snippet(caption=caption, language="yaml", text=card_text(fields)),)


def _sentence(prediction: Prediction) -> str:
    energy, level = prediction.energy_j, f"{100 * prediction.energy_j.level:g} %"
    said = f"{quantities.energy(energy.mid)} ({level} interval {quantities.interval(energy, quantities.energy)})"
    if prediction.duration_s is not None:
        time = prediction.duration_s
        said += f" in {quantities.duration(time.mid)} ({quantities.interval(time, quantities.duration)})"
    boundary = prediction.boundary or "a boundary that is not known"
    state = "cold: nothing was measured on such a machine" if prediction.cold else "warm: fitted on such machines"
    return f"{said}; energy within {boundary}, modelled before the run, {state}."


def _doubts(prediction: Prediction) -> tuple[str, ...]:
    return tuple(f"Doubt: {warning}." for warning in prediction.warnings)


def _totals(prediction: Prediction, footprint: Footprint) -> DataTable:
    level = f"{100 * prediction.energy_j.level:g} % interval"
    found: list[tuple[str, Interval | None, Any]] = [
        (f"energy ({prediction.boundary or 'boundary unknown'})", prediction.energy_j, quantities.energy),
        ("time", prediction.duration_s, quantities.duration),
        ("energy (facility)", footprint.facility_energy_j, quantities.energy),
        ("carbon", footprint.carbon_g, quantities.mass),
        ("carbon of making the hardware", footprint.embodied_g, quantities.mass),
        ("cost of electricity", footprint.electricity_cost, quantities.digits),
        ("cost of devices", footprint.device_cost, quantities.digits),
    ]
    rows = [(name, write(one.mid), quantities.interval(one, write)) for name, one, write in found if one is not None]
    if prediction.power_w is not None:
        rows.append(("mean power", quantities.power(prediction.power_w), ""))
    return DataTable(caption="Totals of the run", columns=("what", "expected", level), rows=tuple(rows))


def _terms(prediction: Prediction) -> DataTable:
    rows = [
        {"term": TERMS.get(name, name.replace("_", " ")),
         "energy, J": prediction.terms_j.get(name), "time, s": prediction.terms_s.get(name)}
        for name in dict.fromkeys([*prediction.terms_j, *prediction.terms_s])
    ]  # fmt: skip
    return DataTable.of("Terms of the law; they sum to the totals", rows)


def _explained(spec: RunSpec, calibration: Calibration) -> list[Section]:
    """The energy tree and the roofline, of a law that tells operations apart."""
    if calibration.law != "step":
        return []
    from wattlaw.explain import explain
    from wattlaw.report.tree_figure import tree_figure

    tree = explain(spec, calibration)
    blocks: tuple[Block, ...] = (tree_figure(tree), roofline_figure(spec, tree))
    return [Section(heading="Modules and operations", blocks=blocks)]


def _alternatives(spec: RunSpec, calibration: Calibration, level: float) -> list[Section]:
    rows = [row for row in alternatives(spec, calibration, level=level) if row[1].duration_s is not None]
    if len(rows) < 2:
        return []
    sentence = "The same tokens with the same batch per device; what does not divide or does not fit is left out."
    return [Section(heading="Other ways to run it", sentences=(sentence,), blocks=(comparison_figure(rows),))]
