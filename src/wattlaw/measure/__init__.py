"""Measuring: meters that say what they measured, how, and how far it can be trusted.

    machine.py      the meter of this machine, from every sensor that is found
    meter.py        the interface, and the meter made of sensors
    window.py       from single reads to an energy and its doubts
    reading.py      what a meter says
    sensor.py       what a file in ``meters`` offers
    meters/         one kind of device per file
    devices.py      which devices a process sees, which process of a job meters
    power_limit.py  setting a GPU's limit, and giving the previous one back
    record.py       from a reading to the fields of a run record
    doctor.py       what can be measured here
    job.py          one job of the user's, metered and recorded: ``measure``
    membership.py   which job and node a process belongs to
    parts.py        the parts of a job, one per node, until its record is written
    command.py      a command, metered
    callback.py     a training of transformers' Trainer; lightning.py: of Lightning's
    modules.py      times of a model's modules and operations; module_times.py: as values and as a file
    recorder.py     what both do; description.py, torch_training.py: what was trained

No driver's library is imported before it is used: ``import wattlaw.measure`` loads none of them.
"""

from wattlaw.measure.callback import trainer_callback
from wattlaw.measure.command import CommandResult, run_command
from wattlaw.measure.devices import Place, place
from wattlaw.measure.doctor import Diagnosis, diagnose
from wattlaw.measure.job import Job, measure
from wattlaw.measure.lightning import lightning_callback
from wattlaw.measure.machine import discover, machine_meter
from wattlaw.measure.meter import Meter, Metered, SampledMeter, ShortWindow, metering
from wattlaw.measure.power_limit import power_limit
from wattlaw.measure.reading import CrossCheck, DeviceEnergy, MeterWarning, Reading, Total, merge
from wattlaw.measure.record import energies_of, environment_of, observed_of
from wattlaw.measure.sensor import DeviceState, Discovery, Finding, Sensor, SensorInfo

__all__ = [
    "CommandResult",
    "CrossCheck",
    "DeviceEnergy",
    "DeviceState",
    "Diagnosis",
    "Discovery",
    "Finding",
    "Job",
    "Meter",
    "MeterWarning",
    "Metered",
    "Place",
    "Reading",
    "SampledMeter",
    "Sensor",
    "SensorInfo",
    "ShortWindow",
    "Total",
    "diagnose",
    "discover",
    "energies_of",
    "environment_of",
    "lightning_callback",
    "machine_meter",
    "measure",
    "merge",
    "metering",
    "observed_of",
    "place",
    "power_limit",
    "run_command",
    "trainer_callback",
]
