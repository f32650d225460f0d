"""The driver's tree, read in a thread: a device that does not answer stops no other."""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from trnfleet import logs
from trnfleet.bridge.neuron.sysfs import DeviceReading, DriverTree, SysfsValues
from trnfleet.bridge.neuron.telemetry import HostEvent
from trnfleet.domain.severity import Severity
from trnfleet.tasks import POLL_S, in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping
    from pathlib import Path

    from trnfleet.clock import Clock

log = logs.get_logger(__name__)

ResultT = TypeVar("ResultT")

LIMIT_S = 2.0
"""Longest wait for a device. The driver tries again for up to 15 s where firmware hangs: published
(its source)."""
CORES_EVERY_S = 15.0
"""Time between two readings of the cores' files, 50 times as many as the device's, and of pods."""

STATES = {
    "": ("answers", "answer"),
    "device_not_answering": ("does not answer", "do not answer"),
    "firmware_heartbeat_lost": ("has no firmware heartbeat", ""),
    "device_gone": ("is gone", "are gone"),
}
"""Condition of a device and of several ones, by the event that tells it."""


class _CallRun:
    """Calls that one thread makes, one after another."""

    def __init__(self, calls: Mapping[Any, Callable[[], Any]]) -> None:
        self.waiting = deque(calls.items())
        self.results: dict[Any, Any] = {}
        self.errors: dict[Any, Exception] = {}
        self.current: Hashable = None
        self.is_over = False

    def work(self) -> None:
        """Make the calls, until all are made or this one took too long."""
        while self.waiting and not self.is_over:
            self.current, call = self.waiting.popleft()
            try:
                result = call()
            except Exception as error:  # noqa: BLE001  the others go on; its caller gets it
                self.errors[self.current] = error
                continue
            if not self.is_over:
                self.results[self.current] = result


class LimitedCalls:
    """Blocking calls in a thread, each by a key and with a time limit.

    One that has not returned is left to its thread, and not repeated; the others go on in a new
    one.
    """

    def __init__(self, polls: int = round(LIMIT_S / POLL_S)) -> None:
        """Nothing is called yet.

        Args:
            polls: Looks without progress after which a call does not answer. They are counted
                instead of time, because on a busy machine both threads are late.
        """
        self._polls = polls
        self._stuck: dict[Hashable, asyncio.Future[None]] = {}
        self.errors: dict[Any, Exception] = {}
        """Errors of the last calls that failed."""

    async def one(self, key: Hashable, call: Callable[[], ResultT]) -> ResultT | None:
        """Return the result of one call; None if it does not answer.

        Raises:
            Exception: it failed.
        """
        results: dict[Hashable, ResultT] = await self.call({key: call})
        if key in self.errors:
            raise self.errors[key]
        return results.get(key)

    async def call(
        self, calls: Mapping[Any, Callable[[], Any]], progress: Callable[[], int] = lambda: 0
    ) -> dict[Any, Any]:
        """Return the results of calls that answered; `errors` has the failed calls.

        Args:
            calls: The calls by key.
            progress: Returns a number that changes while a call gets on.
        """
        self.errors = {}
        self._stuck = {key: future for key, future in self._stuck.items() if not future.done()}
        run = _CallRun({key: call for key, call in calls.items() if key not in self._stuck})
        results: dict[Any, Any] = {}
        while run.waiting:
            future = asyncio.ensure_future(in_thread(run.work))
            quiet = 0
            while not future.done() and quiet < self._polls:
                before = (run.current, progress())
                await asyncio.wait({future}, timeout=POLL_S)
                quiet = quiet + 1 if (run.current, progress()) == before else 0
            if not future.done():
                run.is_over = True
                self._stuck[run.current] = future
            results |= run.results
            self.errors |= run.errors
            run = _CallRun(dict(run.waiting))
        return results


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
        self._late: set[int] = set()
        """Devices that did not answer in the last reading."""
        self._mode = ""
        self._error = ""

    @property
    def problem(self) -> str:
        """Reason why there are no values, or not all; empty without one."""
        if self._error:
            return self._error
        if not self._tree.devices:
            return "no neuronN/ in sys/devices/virtual/neuron_device: is the driver loaded?"
        names = [
            f"neuron{number} {STATES[state][0]}" for number, state in self._states.items() if state
        ]
        return ", ".join(names)

    async def read(self) -> tuple[SysfsValues, list[HostEvent]]:
        """Return the present values, and the events since the last reading."""
        try:
            await self._calls.one("tree", self._tree.look)
            self._error = ""
        except OSError as error:
            self._error = f"{error.filename}: {error.strerror}"
        devices = self._tree.devices
        now_s = self._clock.monotonic_s()
        due = {
            number
            for number in devices
            if now_s - self._cores_s.get(number, -CORES_EVERY_S) >= CORES_EVERY_S
        }
        results = await self._calls.call(
            {
                device: functools.partial(device.read, with_cores=number in due)
                for number, device in devices.items()
            },
            lambda: sum(device.reads for device in devices.values()),
        )
        readings: dict[int, DeviceReading] = {
            number: results[device] for number, device in devices.items() if device in results
        }
        for device, failure in self._calls.errors.items():
            log.warning("device_not_read", device=device.name, reason=str(failure))
        self._cores_s |= dict.fromkeys(due & readings.keys(), now_s)
        values = self._tree.values(readings)
        return values, self._events(devices.keys() - readings.keys(), values)

    def _events(self, late: set[int], values: SysfsValues) -> list[HostEvent]:
        # On a busy machine a device is late once; one that hangs is so in the next reading, too.
        stuck = late & self._late
        states = {
            **{number: self._states.get(number, "") for number in late},
            **dict.fromkeys(values.devices, ""),
            **dict.fromkeys(values.silent, "firmware_heartbeat_lost"),
            **dict.fromkeys(stuck, "device_not_answering"),
        }
        self._late = late
        changed: dict[str, list[int]] = {}
        for number in sorted(self._states.keys() | states.keys()):
            state = states.get(number, "device_gone")
            if state != self._states.get(number, ""):
                changed.setdefault(state, []).append(number)
        # Firmware is a matter of each chip, as in its rule.
        lost = changed.pop("firmware_heartbeat_lost", [])
        events = [_event("firmware_heartbeat_lost", [number]) for number in lost]
        events += [_event(state, numbers) for state, numbers in changed.items()]
        if self._mode and values.mode != self._mode:
            words = f"modes of the UltraServer: {self._mode}, now {values.mode or 'none'}"
            events.append(HostEvent("ultraserver_mode", words, Severity.WARNING, "driver"))
        self._states |= dict.fromkeys(self._states, "device_gone") | states
        self._mode = values.mode
        return events


def _event(state: str, numbers: list[int]) -> HostEvent:
    """Return the event of devices that are in another state now: one for all of them."""
    severity = Severity.CRITICAL if state else Severity.INFO
    one, several = STATES[state]
    words = f"device {numbers[0]} {one}"
    if len(numbers) > 1:
        words = f"{len(numbers)} devices {several}: {', '.join(map(str, numbers))}"
    chip = numbers[0] if len(numbers) == 1 else None
    return HostEvent(state or "device_answers", words, severity, "driver", chip)
