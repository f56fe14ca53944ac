"""AMD GPUs through amdsmi (ROCm 6.2 or later): the energy accumulator, else socket power.

On cards with two dies (MI250) one die tells the power of the whole card and the other nothing; the card is then
one device. The accumulator of some driver versions stands still or has a wrong scale: like every counter it is
held against integrated power. Not tried on a real GPU yet.
"""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wattlaw.errors import MeterError
from wattlaw.measure.devices import Gpu, Place, place, ranks_unmetered, visible_gpus
from wattlaw.measure.processes import foreign, job_root
from wattlaw.measure.reading import MeterWarning
from wattlaw.measure.sensor import (
    DeviceLostError,
    DeviceState,
    Discovery,
    Finding,
    FindingState,
    QueryUnsupportedError,
    ReadFailedError,
    SensorInfo,
)

SUBJECT = "AMD GPUs (amdsmi)"
MEANING = "energy of whole GPU sockets with their memory, without host and cooling"
COUNTER = "amdsmi_get_energy_count"

#: amdsmi's status codes (amdsmi.h).
_NEVER = {2: "not supported", 10: "no permission"}
_LOST = {31: "GPU not found", 32: "amdsmi shut down", 34: "driver unloaded"}
_LIBRARY = "libamd_smi.so"


class AmdSensor:
    """One GPU socket."""

    def __init__(self, library: Any, handle: Any, gpu: Gpu, *, whole_card: bool, root: int) -> None:
        self._library = library
        self._handle = handle
        self._root = root
        power = next((name for name in ("current_socket_power", "average_socket_power") if self._has(name)), None)
        self._power_name = power
        self._info = SensorInfo(
            device=gpu.uuid,
            name=gpu.name,
            boundary="accelerators",
            domain="card" if whole_card else "socket",
            counter=COUNTER if _maybe(self.energy_j) is not None else None,
            power=None if power is None else f"amdsmi_get_power_info {power}",
        )

    @property
    def info(self) -> SensorInfo:
        """Tell what is measured."""
        return self._info

    def energy_j(self) -> float:
        """Read the accumulator; its resolution is in microjoules."""
        counted = self._ask(self._library.amdsmi_get_energy_count, self._handle)
        return float(counted["energy_accumulator"]) * float(counted["counter_resolution"]) * 1e-6

    def power_w(self) -> float:
        """Read the power of the socket."""
        power = self._ask(self._library.amdsmi_get_power_info, self._handle)[self._power_name]
        if not isinstance(power, int | float):
            raise ReadFailedError("amdsmi tells no power", given=power)
        return float(power)

    def inspect(self) -> Sequence[MeterWarning]:
        """Look for processes on the GPU that are not of this job."""
        running = _maybe(lambda: self._ask(self._library.amdsmi_get_gpu_process_list, self._handle))
        others = foreign((process["pid"] for process in running or ()), self._root)
        if not others:
            return ()
        text = f"processes {', '.join(map(str, others))} are on this GPU too: the energy is the whole GPU's"
        return (MeterWarning(kind="foreign-process", device=self._info.device, text=text),)

    def state(self) -> DeviceState:
        """Read the power limit, in microwatts at amdsmi."""
        cap = _maybe(lambda: self._ask(self._library.amdsmi_get_power_cap_info, self._handle))
        limit_w = None if cap is None else cap["power_cap"] * 1e-6
        return DeviceState(device=self._info.device, name=self._info.name, power_limit_w=limit_w)

    def _has(self, power_name: str) -> bool:
        told = _maybe(lambda: self._ask(self._library.amdsmi_get_power_info, self._handle))
        return told is not None and isinstance(told.get(power_name), int | float)

    def _ask(self, query: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return query(*arguments)
        except self._library.AmdSmiLibraryException as error:
            code = int(error.get_error_code())
            if code in _LOST:
                raise DeviceLostError(f"amdsmi: {_LOST[code]}") from error
            if code in _NEVER:
                raise QueryUnsupportedError(f"amdsmi: {_NEVER[code]}") from error
            raise ReadFailedError(f"amdsmi: {error}") from error


def discover(environ: Mapping[str, str] | None = None, *, here: Place | None = None, library: Any = None) -> Discovery:
    """Find the GPUs that this process sees.

    Args:
        environ: where ``HIP_VISIBLE_DEVICES``, else ``CUDA_VISIBLE_DEVICES``, is read.
        here: where the process stands in its job; found out if ``None``.
        library: amdsmi; imported if ``None`` and its C library is there.
    """
    environ = os.environ if environ is None else environ
    here = place(environ) if here is None else here
    if library is None:
        try:
            library = _load()
        except MeterError as error:
            return Discovery(findings=(_finding("absent", str(error), "install ROCm 6.2 or later, if a GPU is there"),))
        except ImportError as error:
            remedy = "pip install the amdsmi that comes with ROCm"
            return Discovery(findings=(_finding("not installed", str(error), remedy),))
    try:
        library.amdsmi_init()
        handles = list(library.amdsmi_get_processor_handles())
        listed = [(_gpu(library, handle), handle) for handle in handles]
    except library.AmdSmiLibraryException as error:
        return Discovery(findings=(_finding("absent", f"amdsmi does not start: {error}", "amd-smi list"),))
    by_uuid = {gpu.uuid: (gpu, handle) for gpu, handle in listed}
    asked = environ.get("HIP_VISIBLE_DEVICES", environ.get("CUDA_VISIBLE_DEVICES"))
    in_order = sorted((gpu for gpu, _ in listed), key=lambda gpu: gpu.index)
    visible = visible_gpus(in_order, asked, order="PCI_BUS_ID")
    cards = _cards(library, listed)
    sensors, warnings = [], [*visible.warnings, *ranks_unmetered(here, visible)]
    for uuid, silent in _measuring(cards, [gpu.uuid for gpu in visible.gpus]):
        gpu, handle = by_uuid[uuid]
        sensors.append(AmdSensor(library, handle, gpu, whole_card=bool(silent), root=job_root(here)))
        if silent:
            text = f"the card's other die ({', '.join(silent)}) has no meter: the energy is the whole card's"
            warnings.append(MeterWarning(kind="scope", device=uuid, text=text))
    findings = [_of_sensor(sensor) for sensor in sensors] or [_finding("absent", "amdsmi lists no visible GPU", None)]
    return Discovery(sensors=tuple(sensors), findings=tuple(findings), warnings=tuple(warnings))


def _load() -> Any:
    """Import amdsmi, which prints and fails if its C library is missing, only if that is there."""
    in_rocm = Path(os.environ.get("ROCM_PATH", "/opt/rocm")) / "lib" / _LIBRARY
    for library in (str(in_rocm), _LIBRARY):
        try:
            ctypes.CDLL(library)
        except OSError:
            continue
        return importlib.import_module("amdsmi")
    raise MeterError(f"{_LIBRARY} is not on this machine")


def _gpu(library: Any, handle: Any) -> Gpu:
    """Describe one GPU; its index is HIP's, which need not be amdsmi's order."""
    asic = library.amdsmi_get_gpu_asic_info(handle)
    return Gpu(
        index=int(library.amdsmi_get_gpu_enumeration_info(handle)["hip_id"]),
        uuid=f"GPU-{library.amdsmi_get_gpu_device_uuid(handle)}".replace("GPU-GPU-", "GPU-"),
        name=str(asic["market_name"]),
    )


def _cards(library: Any, listed: Iterable[tuple[Gpu, Any]]) -> dict[str, dict[str, bool]]:
    """Group GPUs by card: serial number of the card -> UUID -> whether this die tells any power or energy."""
    cards: dict[str, dict[str, bool]] = {}
    for gpu, handle in listed:
        serial = str(library.amdsmi_get_gpu_asic_info(handle).get("asic_serial", gpu.uuid))
        sensor = AmdSensor(library, handle, gpu, whole_card=False, root=0)
        speaks = any(bool(_maybe(read)) for read in _reads(sensor))
        cards.setdefault(serial if serial not in ("", "N/A") else gpu.uuid, {})[gpu.uuid] = speaks
    return cards


def _reads(sensor: AmdSensor) -> list[Callable[[], float]]:
    reads = [(sensor.info.counter, sensor.energy_j), (sensor.info.power, sensor.power_w)]
    return [read for query, read in reads if query is not None]


def _measuring(cards: Mapping[str, Mapping[str, bool]], wanted: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Choose the dies to read so that each wanted one is covered once: (UUID to read, dies it also covers)."""
    chosen: dict[str, list[str]] = {}
    for dies in cards.values():
        here = [uuid for uuid in wanted if uuid in dies]
        speaking = [uuid for uuid, speaks in dies.items() if speaks]
        silent = [uuid for uuid, speaks in dies.items() if not speaks]
        if silent and speaking and here:
            chosen.update((uuid, silent) for uuid in speaking)
        else:
            chosen.update((uuid, []) for uuid in here)
    return list(chosen.items())


def _maybe(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except MeterError:
        return None


def _finding(
    state: FindingState, detail: str, remedy: str | None, *, subject: str = SUBJECT, device: str | None = None
) -> Finding:
    return Finding(subject=subject, state=state, detail=detail, meaning=MEANING, remedy=remedy, device=device)


def _of_sensor(sensor: AmdSensor) -> Finding:
    info = sensor.info
    queries = " and ".join(query for query in (info.counter, info.power) if query)
    subject = f"{info.name} {info.device}"
    if not queries:
        remedy = "amd-smi metric --power, to see whether the driver tells any"
        return _finding("absent", "neither energy counter nor power", remedy, subject=subject, device=info.device)
    return _finding("works", queries, None, subject=subject, device=info.device)
