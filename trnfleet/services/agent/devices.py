"""The driver's tree, read in threads: a device that does not answer stops no other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from trnfleet.bridge.neuron.sysfs import DeviceReading, DriverTree, SysfsValues
from trnfleet.bridge.neuron.telemetry import HostEvent
from trnfleet.domain.severity import Severity
from trnfleet.tasks import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from pathlib import Path

    from trnfleet.clock import Clock

LIMIT_S = 2.0
"""Longest wait for a device. The driver tries again for up to 15 s where firmware hangs: published
(its source)."""
CORES_EVERY_S = 15.0
"""Time between two readings of the cores' files, which take 50 times as long as the device's."""

_STATES = {
    "": "answers",
    "device_not_answering": "does not answer",
    "firmware_heartbeat_lost": "has no firmware heartbeat",
    "device_gone": "is gone",
}
"""Condition of a device, by the event that tells it."""

Result = TypeVar("Result")


class LimitedCalls:
    """Blocking calls in threads, each by a key and with a time limit.

    A call that has not returned is not repeated.
    """

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._calls: dict[Hashable, asyncio.Future[Any]] = {}

    async def call(self, key: Hashable, call: Callable[[], Result]) -> Result | None:
        """Return the result; None if there is none in time.

        Raises:
            OSError: the call failed.
        """
        if key in self._calls and not self._calls[key].done():
            return None
        future: asyncio.Future[Result] = asyncio.ensure_future(in_thread(call))
        self._calls[key] = future
        future.add_done_callback(_look_at)
        await asyncio.wait({future}, timeout=self._limit_s)
        if not future.done():
            return None
        del self._calls[key]
        return future.result()


class Devices:
    """The devices of a host."""

    def __init__(self, root: Path, clock: Clock, calls: LimitedCalls) -> None:
        self._tree = DriverTree(root / "sys")
        self._clock = clock
        self._calls = calls
        self._cores_s: dict[int, float] = {}
        """Time of the last reading of each device's cores."""
        self._states: dict[int, str] = {}
        """Name of the present event of each device; empty for one that answers."""
        self._mode = ""

    @property
    def problem(self) -> str:
        """Reason why there are no values, or not all; empty without one."""
        if not self._tree.devices:
            return "no neuronN/ in sys/devices/virtual/neuron_device: is the driver loaded?"
        names = [
            f"neuron{number} {_STATES[state]}" for number, state in self._states.items() if state
        ]
        return ", ".join(names)

    async def read(self) -> tuple[SysfsValues, list[HostEvent]]:
        """Return the present values, and the events since the last reading."""
        await self._calls.call("tree", self._tree.look)
        devices = dict(self._tree.devices)
        results = await asyncio.gather(*(self._read(number) for number in devices))
        readings = {
            number: reading
            for number, reading in zip(devices, results, strict=True)
            if reading is not None
        }
        values = self._tree.values(readings)
        return values, self._events(devices.keys() - readings.keys(), values)

    async def _read(self, number: int) -> DeviceReading | None:
        device = self._tree.devices[number]
        now_s = self._clock.monotonic_s()
        is_due = now_s - self._cores_s.get(number, -CORES_EVERY_S) >= CORES_EVERY_S
        reading = await self._calls.call(device, lambda: device.read(with_cores=is_due))
        if is_due and reading is not None:
            self._cores_s[number] = now_s
        return reading

    def _events(self, stuck: set[int], values: SysfsValues) -> list[HostEvent]:
        states = {
            **dict.fromkeys(values.devices, ""),
            **dict.fromkeys(values.silent, "firmware_heartbeat_lost"),
            **dict.fromkeys(stuck, "device_not_answering"),
        }
        events = []
        for number in sorted(self._states.keys() | states.keys()):
            before = self._states.get(number, "")
            state = states.get(number, "device_gone")
            if state != before:
                severity = Severity.CRITICAL if state else Severity.INFO
                words = f"device {number} {_STATES[state]}"
                events.append(
                    HostEvent(state or "device_answers", words, severity, "driver", number)
                )
        if self._mode and values.mode != self._mode:
            words = f"modes of the UltraServer: {self._mode}, now {values.mode or 'none'}"
            events.append(HostEvent("ultraserver_mode", words, Severity.WARNING, "driver"))
        self._states |= dict.fromkeys(self._states, "device_gone") | states
        self._mode = values.mode
        return events


def _look_at(future: asyncio.Future[Any]) -> None:
    """Mark the exception of a call that was given up as seen."""
    if not future.cancelled():
        future.exception()
