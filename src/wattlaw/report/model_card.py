"""The emissions of a run as the metadata of a model card: the ``co2_eq_emissions`` of the Hugging Face Hub.

The form is that of https://huggingface.co/docs/hub/model-cards-co2: emissions in grams, where they come from, the type
of training, the place and the hardware. Only the electricity is in it; what the hardware took to make is not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, get_args

from wattlaw.errors import ConfigError, DataError
from wattlaw.footprint.prices import Prices, carbon_g, facility_energy_j
from wattlaw.law.footprint import Footprint
from wattlaw.law.prediction import Prediction
from wattlaw.report import quantities
from wattlaw.run.record import RunRecord
from wattlaw.run.spec import RunSpec

TrainingType = Literal["pre-training", "fine-tuning"]
TRAINING_TYPES: tuple[TrainingType, ...] = get_args(TrainingType)


def card_of_prediction(
    spec: RunSpec,
    prediction: Prediction,
    footprint: Footprint,
    *,
    carbon_source: str,
    training_type: TrainingType | None = None,
    location: str | None = None,
) -> dict[str, Any]:
    """Return the fields of a run that was predicted, and say that it was.

    Args:
        spec: of the run.
        prediction: of its energy.
        footprint: with its carbon.
        carbon_source: where the intensity comes from.
        training_type: left out where nobody said it.
        location: where the run takes place; left out where nobody said it.

    Raises:
        ConfigError: the carbon is not known.
    """
    if footprint.carbon_g is None:
        raise ConfigError(
            "the carbon of this run is not known", allowed="--region, --carbon-g-per-kwh or --carbon-series as well"
        )
    interval = quantities.interval(footprint.carbon_g, quantities.mass)
    state = "nothing measured on such a machine" if prediction.cold else "calibrated on such a machine"
    source = (
        f"predicted by {_program()} ({state}; {100 * footprint.carbon_g.level:g} % interval {interval}; "
        f"electricity of the {footprint.counted_boundary or 'unnamed boundary'}; {carbon_source})"
    )
    return _fields(footprint.carbon_g.mid, source, hardware_of(spec), training_type, location)


def card_of_record(
    record: RunRecord,
    prices: Prices,
    *,
    carbon_source: str,
    training_type: TrainingType | None = None,
    location: str | None = None,
) -> dict[str, Any]:
    """Return the fields of a run that was made, from its energy: the facility's, the nodes', or the boards'.

    Raises:
        DataError: the record has no energy, or does not say on what it was made.
        ConfigError: the carbon intensity is not known, or a PUE is given for an energy that is not of nodes.
    """
    energy = record.energy("facility", "node", "accelerators")
    if energy is None:
        raise DataError(f"record {record.record_id} has no energy", allowed="a record of a metered run")
    if prices.pue is not None and energy.boundary != "node":
        raise ConfigError("a PUE multiplies the energy of nodes", given=energy.boundary, allowed="node")
    grams = carbon_g(facility_energy_j(energy.energy_j, prices), prices)
    if grams is None:
        raise ConfigError("the carbon of this run is not known", allowed="a region, or carbon_g_per_kwh")
    counted = energy.boundary if prices.pue is None else "facility"
    source = f"{_program()}, energy {energy.method}; electricity of the {counted}; {carbon_source}"
    return _fields(float(grams), source, hardware_of(record.require_spec()), training_type, location)


def hardware_of(spec: RunSpec) -> str:
    """Name the devices of a run, and how many.

    ``4 x NVIDIA A100 SXM4 40GB``
    """
    return f"{int(spec.layout.num_devices)} x {spec.accelerator.full_name or spec.accelerator.name}"


def card_text(fields: Mapping[str, Any]) -> str:
    """Write the fields as YAML, to be put between the two ``---`` at the head of a README.md.

    >>> print(card_text({"co2_eq_emissions": {"emissions": 12.5, "source": "a: b"}}), end="")
    co2_eq_emissions:
      emissions: 12.5
      source: "a: b"
    """
    lines = []
    for name, table in fields.items():
        lines.append(f"{name}:")
        lines += [f"  {key}: {_scalar(value)}" for key, value in table.items()]
    return "\n".join([*lines, ""])


def _scalar(value: object) -> str:
    """Write a text or a number: JSON's are YAML's, once all that YAML takes for the end of a line is escaped."""
    return json.dumps(value, ensure_ascii=not str(value).isprintable())


def _program() -> str:
    from importlib.metadata import version

    return f"wattlaw {version('wattlaw')}"


def _fields(
    grams: float, source: str, hardware: str, training_type: TrainingType | None, location: str | None
) -> dict[str, Any]:
    found = {
        "emissions": float(f"{grams:.4g}"),
        "source": source,
        "training_type": training_type,
        "geographical_location": location,
        "hardware_used": hardware,
    }
    return {"co2_eq_emissions": {name: value for name, value in found.items() if value is not None}}
