"""NVIDIA GPUs through NVML: the energy counter, else power.

The counter (Volta and later) gives millijoules since the driver was loaded, updated every 20 to 100 ms. Without
it, power is sampled: the instantaneous reading where the driver has it, since the usual one is an average over up
to a second. Both are the board's, memory included, without the host (NVIDIA, NVML API reference).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wattlaw.errors import MeterError, MissingExtraError, UnknownNameError
from wattlaw.measure.devices import Gpu, Place, Visible, VisibleGpu, place, ranks_unmetered, visible_gpus
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

SUBJECT = "NVIDIA GPUs (NVML)"
MEANING = "energy of whole GPU boards with their memory, without host and cooling"
COUNTER = "nvmlDeviceGetTotalEnergyConsumption"
POWER_INSTANT = "NVML_FI_DEV_POWER_INSTANT"
POWER_USAGE = "nvmlDeviceGetPowerUsage"

#: NVML's return codes (nvml.h), by what they mean for a reading.
_LOST = {1: "NVML shut down", 9: "driver unloaded", 15: "GPU is lost", 16: "GPU needs a reset", 28: "GPU not found"}
_NEVER = {3: "not supported", 4: "no permission", 13: "the driver does not know the query"}
_SCOPE_GPU = 0

#: Bits of the clocks' event reasons that slow a GPU down (nvml.h).
_THROTTLES = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
}


class Nvml:
    """NVML, initialised; errors come out as errors of wattlaw.

    Raises:
        MissingExtraError: nvidia-ml-py is not installed.
        MeterError: there is no driver, or it may not be used.
    """

    def __init__(self) -> None:
        try:
            import pynvml
        except ImportError as error:
            raise MissingExtraError.of("measure", "reading NVIDIA GPUs") from error
        self.library: Any = pynvml
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise MeterError("NVML does not start", given=str(error), hint="nvidia-smi, to see the driver") from error

    def close(self) -> None:
        """Give NVML back."""
        try:
            self.library.nvmlShutdown()
        except self.library.NVMLError:
            return

    def ask(self, query: Callable[..., Any], *arguments: Any) -> Any:
        """Call one function of NVML.

        Raises:
            DeviceLostError: the device is gone.
            QueryUnsupportedError: the device will never answer this.
            ReadFailedError: it did not answer this time.
        """
        try:
            return query(*arguments)
        except self.library.NVMLError as error:
            code = int(error.value)
            name = getattr(query, "__name__", "an NVML query")
            if code in _LOST:
                raise DeviceLostError(f"{name}: {_LOST[code]}") from error
            if code in _NEVER:
                raise QueryUnsupportedError(f"{name}: {_NEVER[code]}", given=code) from error
            raise ReadFailedError(f"{name}: {error}") from error

    def maybe(self, query: Callable[..., Any], *arguments: Any) -> Any:
        """Call one function of NVML; ``None`` if the device does not answer."""
        try:
            return self.ask(query, *arguments)
        except MeterError:
            return None

    def handle(self, uuid: str) -> Any:
        """Return the driver's handle of a GPU.

        Raises:
            UnknownNameError: no such GPU.
        """
        handles = self._handles()
        if uuid not in handles:
            raise UnknownNameError.among("GPU", uuid, handles)
        return handles[uuid]

    def gpus(self) -> tuple[Gpu, ...]:
        """List the GPUs that this process may use; a container or a cgroup may hide others."""
        return tuple(self._gpu(index, uuid, handle) for index, (uuid, handle) in enumerate(self._handles().items()))

    def versions(self) -> dict[str, str]:
        """Tell the versions of driver and NVML."""
        found = {
            "nvidia_driver": self.maybe(self.library.nvmlSystemGetDriverVersion),
            "nvml": self.maybe(self.library.nvmlSystemGetNVMLVersion),
        }
        return {name: version for name, version in found.items() if version is not None}

    def _handles(self) -> dict[str, Any]:
        count = self.ask(self.library.nvmlDeviceGetCount)
        handles = [self.maybe(self.library.nvmlDeviceGetHandleByIndex, index) for index in range(count)]
        named = [(self.maybe(self.library.nvmlDeviceGetUUID, handle), handle) for handle in handles if handle]
        return {uuid: handle for uuid, handle in named if uuid is not None}

    def _gpu(self, index: int, uuid: str, handle: Any) -> Gpu:
        pci = self.maybe(self.library.nvmlDeviceGetPciInfo, handle)
        return Gpu(
            index=index,
            uuid=uuid,
            name=self.maybe(self.library.nvmlDeviceGetName, handle) or "NVIDIA GPU",
            pci_bus_id="" if pci is None else _text(pci.busId),
            slices=self._slices(handle),
        )

    def _slices(self, handle: Any) -> tuple[str, ...]:
        mode = self.maybe(self.library.nvmlDeviceGetMigMode, handle)
        if mode is None or mode[0] != 1:
            return ()
        most = self.maybe(self.library.nvmlDeviceGetMaxMigDeviceCount, handle) or 0
        parts = [self.maybe(self.library.nvmlDeviceGetMigDeviceHandleByIndex, handle, place) for place in range(most)]
        uuids = [self.maybe(self.library.nvmlDeviceGetUUID, part) for part in parts if part is not None]
        return tuple(uuid for uuid in uuids if uuid is not None)


class NvmlSensor:
    """One GPU: its counter and its power."""

    def __init__(self, nvml: Nvml, gpu: Gpu, *, root: int) -> None:
        self._nvml = nvml
        self._handle = nvml.handle(gpu.uuid)
        self._root = root
        self._power_query = self._probe_power()
        counter = nvml.maybe(nvml.library.nvmlDeviceGetTotalEnergyConsumption, self._handle) is not None
        self._info = SensorInfo(
            device=gpu.uuid,
            name=gpu.name,
            boundary="accelerators",
            domain="gpu",
            counter=COUNTER if counter else None,
            power=self._power_query,
        )

    @property
    def info(self) -> SensorInfo:
        """Tell what is measured."""
        return self._info

    def energy_j(self) -> float:
        """Read the counter, in joules since the driver was loaded."""
        millijoules = self._nvml.ask(self._nvml.library.nvmlDeviceGetTotalEnergyConsumption, self._handle)
        return float(millijoules) * 1e-3

    def power_w(self) -> float:
        """Read the power."""
        if self._power_query == POWER_INSTANT:
            return self._instant_power_w()
        return float(self._nvml.ask(self._nvml.library.nvmlDeviceGetPowerUsage, self._handle)) * 1e-3

    def inspect(self) -> Sequence[MeterWarning]:
        """Look for processes on the GPU that are not of this job: all that they draw is measured as well."""
        running = self._nvml.maybe(self._nvml.library.nvmlDeviceGetComputeRunningProcesses, self._handle)
        others = foreign((process.pid for process in running or ()), self._root)
        if not others:
            return ()
        text = (
            f"processes {', '.join(map(str, others))} are on this GPU too, or belong to this job in another PID "
            "namespace: the energy is the whole GPU's"
        )
        return (MeterWarning(kind="foreign-process", device=self._info.device, text=text),)

    def state(self) -> DeviceState:
        """Read temperature, clocks, power limit and what holds the clocks down."""
        library, handle = self._nvml.library, self._handle
        core_mhz = self._nvml.maybe(library.nvmlDeviceGetClockInfo, handle, library.NVML_CLOCK_SM)
        memory_mhz = self._nvml.maybe(library.nvmlDeviceGetClockInfo, handle, library.NVML_CLOCK_MEM)
        limit_mw = self._nvml.maybe(library.nvmlDeviceGetEnforcedPowerLimit, handle)
        reasons = self._nvml.maybe(library.nvmlDeviceGetCurrentClocksEventReasons, handle)
        throttles = None if reasons is None else ", ".join(text for bit, text in _THROTTLES.items() if reasons & bit)
        return DeviceState(
            device=self._info.device,
            name=self._info.name,
            temperature_c=self._nvml.maybe(library.nvmlDeviceGetTemperature, handle, library.NVML_TEMPERATURE_GPU),
            core_clock_hz=None if core_mhz is None else core_mhz * 1e6,
            memory_clock_hz=None if memory_mhz is None else memory_mhz * 1e6,
            power_limit_w=None if limit_mw is None else limit_mw * 1e-3,
            throttled_by=throttles,
        )

    def _probe_power(self) -> str | None:
        for name, query in (
            (POWER_INSTANT, self._instant_power_w),
            (POWER_USAGE, lambda: self._nvml.ask(self._nvml.library.nvmlDeviceGetPowerUsage, self._handle)),
        ):
            try:
                query()
            except MeterError:
                continue
            return name
        return None

    def _instant_power_w(self) -> float:
        library = self._nvml.library
        field = (library.NVML_FI_DEV_POWER_INSTANT, _SCOPE_GPU)

        def instant_power() -> float:
            value = library.nvmlDeviceGetFieldValues(self._handle, [field])[0]
            if value.nvmlReturn != 0:
                raise library.NVMLError(value.nvmlReturn)
            return float(value.value.uiVal) * 1e-3

        return float(self._nvml.ask(instant_power))


def discover(environ: Mapping[str, str] | None = None, *, here: Place | None = None) -> Discovery:
    """Find the GPUs that this process sees.

    Args:
        environ: where ``CUDA_VISIBLE_DEVICES`` and ``CUDA_DEVICE_ORDER`` are read; this process's if ``None``.
        here: where the process stands in its job; found out if ``None``.

    Raises:
        ConfigError: ``CUDA_VISIBLE_DEVICES`` lists a device twice.
        UnknownNameError: an entry of it fits several GPUs.
    """
    environ = os.environ if environ is None else environ
    here = place(environ) if here is None else here
    try:
        nvml = Nvml()
        gpus = nvml.gpus()
    except MissingExtraError as error:
        remedy = "pip install 'wattlaw[measure]'"
        return Discovery(findings=(_finding("not installed", str(error), remedy),))
    except MeterError as error:
        return Discovery(findings=(_finding("absent", str(error), "nvidia-smi must work first: install the driver"),))
    visible = visible_gpus(gpus, environ.get("CUDA_VISIBLE_DEVICES"), order=environ.get("CUDA_DEVICE_ORDER"))
    sensors = tuple(NvmlSensor(nvml, gpu, root=job_root(here)) for gpu in visible.gpus)
    findings = [_of_sensor(sensor) for sensor in sensors] or [_none_visible(gpus)]
    return Discovery(
        sensors=sensors,
        findings=(*findings, *_of_mapping(visible)),
        warnings=(*visible.warnings, *ranks_unmetered(here, visible), *_scope_warnings(nvml, visible)),
    )


def _finding(
    state: FindingState,
    detail: str,
    remedy: str | None,
    *,
    subject: str = SUBJECT,
    meaning: str = MEANING,
    device: str | None = None,
) -> Finding:
    return Finding(subject=subject, state=state, detail=detail, meaning=meaning, remedy=remedy, device=device)


def _none_visible(gpus: Sequence[Gpu]) -> Finding:
    if gpus:
        return _finding("absent", f"{len(gpus)} GPUs, none visible", "unset CUDA_VISIBLE_DEVICES, or list GPUs in it")
    return _finding("absent", "NVML works and lists no GPU", "give the container or job a GPU")


def _of_sensor(sensor: NvmlSensor) -> Finding:
    info = sensor.info
    subject = f"{info.name} {info.device}"
    if info.counter:
        check = f"; checked against {info.power}" if info.power else "; no power reading to check it against"
        return _finding("works", f"energy counter{check}", None, subject=subject, device=info.device)
    if info.power:
        meaning = f"{MEANING}, integrated from samples of power: short peaks are missed"
        detail = f"no energy counter; {info.power}"
        return _finding("works", detail, None, subject=subject, meaning=meaning, device=info.device)
    detail, remedy = "neither energy counter nor power", "if it is a virtual GPU, measure on its host"
    return _finding("absent", detail, remedy, subject=subject, meaning="not measured", device=info.device)


def _of_mapping(visible: Visible) -> tuple[Finding, ...]:
    """Print which device of the process is which GPU, where that is not one to one."""
    if all(device.asked is None for device in visible.devices) or not visible.devices:
        return ()
    mapped = "; ".join(f"cuda:{device.position} is {_called(device)}" for device in visible.devices)
    return (_finding("works", mapped, None, subject="CUDA_VISIBLE_DEVICES", meaning="which GPUs are measured"),)


def _called(device: VisibleGpu) -> str:
    within = "" if device.slice_uuid is None else f"slice {device.slice_uuid} of "
    return f"{within}{device.gpu.uuid} (driver's index {device.gpu.index})"


def _scope_warnings(nvml: Nvml, visible: Visible) -> list[MeterWarning]:
    """Say where a GPU's number covers more, or other things, than the process uses."""
    warnings = []
    for gpu in visible.gpus:
        if gpu.slices:
            text = "MIG is on: a slice has no meter, the energy is the whole GPU's with all its slices"
            warnings.append(MeterWarning(kind="mig-parent", device=gpu.uuid, text=text))
        linked = nvml.maybe(nvml.library.nvmlDeviceGetC2cModeInfoV, nvml.handle(gpu.uuid))
        if linked is not None and linked.isC2cEnabled:
            text = "GPU and CPU share a module: the power is the GPU's, the counter may be the module's"
            warnings.append(MeterWarning(kind="scope", device=gpu.uuid, text=text))
    return warnings


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
