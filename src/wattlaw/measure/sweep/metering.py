"""Meters and power limits for the devices that one configuration uses, and no others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol

from wattlaw.errors import ConfigError, MeterError
from wattlaw.measure.machine import machine_meter
from wattlaw.measure.meters import nvml
from wattlaw.measure.power_limit import power_limit

if TYPE_CHECKING:
    from wattlaw.measure.meter import SampledMeter
    from wattlaw.measure.reading import Reading
    from wattlaw.measure.sensor import DeviceState


class SweepMeter(Protocol):
    """A meter that can also tell how long a window must be, and how the devices are."""

    @property
    def shortest_window_s(self) -> float:
        """The shortest window that it can measure."""
        ...

    def start(self) -> None:
        """Open a window."""
        ...

    def stop(self) -> Reading:
        """Close it."""
        ...

    def cancel(self) -> None:
        """Close it without a reading, if it is open."""
        ...

    def states(self) -> tuple[DeviceState, ...]:
        """Read temperatures and clocks."""
        ...


#: From a number of devices to what measures exactly those, ``None`` where nothing here measures.
MeterOf = Callable[[int], SweepMeter | None]


def no_meter(num_devices: int) -> SweepMeter | None:
    """Measure no energy."""
    return None


class MachineMeters:
    """The meters of this machine, one per number of devices, made when they are first asked for.

    Args:
        device: what the ranks compute on; with ``cuda`` a configuration on two of eight GPUs is metered on two.
        declared_power_w: power of the node as the user states it.
    """

    def __init__(self, device: str, *, declared_power_w: float | None = None) -> None:
        self._device = device
        self._declared_power_w = declared_power_w
        self._meters: dict[int, SampledMeter | None] = {}

    def __call__(self, num_devices: int) -> SweepMeter | None:
        """Return the meter, ``None`` where there is no sensor."""
        if num_devices not in self._meters:
            environ = first_devices(os.environ, num_devices) if self._device == "cuda" else os.environ
            meter = machine_meter(short_window="refuse", declared_power_w=self._declared_power_w, environ=environ)
            self._meters[num_devices] = meter if meter.sensors else None
        return self._meters[num_devices]


class Metering:
    """One window of a meter, or of none; a meter that fails leaves a doubt and the times all the same.

    Args:
        meter: that measures.
    """

    def __init__(self, meter: SweepMeter | None) -> None:
        self._meter = meter
        self.reading: Reading | None = None
        self.states: tuple[DeviceState, ...] = ()
        self.doubt = ""

    def start(self) -> None:
        """Open the window."""
        self._try(lambda meter: meter.start())

    def stop(self) -> None:
        """Close the window and keep its reading."""
        self._try(self._read)

    def close(self) -> None:
        """Close the window if it was left open."""
        if self._meter is not None:
            self._meter.cancel()

    def _read(self, meter: SweepMeter) -> None:
        self.reading = meter.stop()
        self.states = meter.states()

    def _try(self, action: Callable[[SweepMeter], None]) -> None:
        if self._meter is None or self.doubt:
            return
        try:
            action(self._meter)
        except MeterError as error:
            self.doubt = f"energy not measured: {error}"


def first_devices(environ: Mapping[str, str], num_devices: int) -> dict[str, str]:
    """Return the environment in which only the first of the visible GPUs are visible, in the driver's order.

    >>> first_devices({"CUDA_VISIBLE_DEVICES": "3,1,2"}, 2)["CUDA_VISIBLE_DEVICES"]
    '3,1'
    """
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(number) for number in range(num_devices)] if visible is None else visible.split(",")
    return {
        **environ,
        "CUDA_VISIBLE_DEVICES": ",".join(names[:num_devices]),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


@contextmanager
def power_limits(num_devices: int, limit_w: float | None) -> Iterator[None]:
    """Hold the first devices' power limits for the length of a block; without a limit, touch nothing.

    Raises:
        MeterError: fewer GPUs are visible, or a limit may not be set.
        ConfigError: a GPU does not allow this limit.
    """
    with ExitStack() as limits:
        if limit_w is not None:
            sensors = nvml.discover(first_devices(os.environ, num_devices)).sensors
            if len(sensors) != num_devices:
                raise MeterError("not as many NVIDIA GPUs as power limits are asked for",
                                 given=f"{len(sensors)} visible", allowed=f"{num_devices}")  # fmt: skip
            for sensor in sensors:
                limits.enter_context(power_limit(sensor.info.device, limit_w))
        yield


def same_device(stated: str, aliases: tuple[str, ...], found: str) -> None:
    """Refuse to record one device's numbers under another one's name.

    Raises:
        ConfigError: the device that the driver names is not the one that the sweep states.
    """
    if found not in (stated, *aliases):
        raise ConfigError("the sweep states another accelerator than the one that is here", given=stated,
                          allowed=found, hint=f"gpu = {found!r} under [hardware], or --gpu")  # fmt: skip
