"""Devices read in a thread with a limit."""

from __future__ import annotations

import os
import shutil
import threading
from typing import TYPE_CHECKING

import pytest
from support.sysfs import DEVICES, write_tree

from trnfleet.clock import ManualClock
from trnfleet.services.agent.devices import CORES_EVERY_S, Devices, LimitedCalls

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_call_that_does_not_return_stops_no_other() -> None:
    """It is not repeated before it has returned."""
    go_on = threading.Event()
    made: list[str] = []

    def stuck() -> str:
        made.append("stuck")
        go_on.wait(30)
        return "late"

    calls = LimitedCalls(polls=2)
    work = {"first": lambda: 1, "stuck": stuck, "last": lambda: 3}

    assert await calls.call(work) == {"first": 1, "last": 3}
    assert await calls.call(work) == {"first": 1, "last": 3}
    assert made == ["stuck"]
    go_on.set()
    while "stuck" not in await calls.call(work):
        pass


async def test_a_call_that_fails_stops_no_other() -> None:
    """Its error is there for its caller."""
    error = OSError("no such counter")

    def fail() -> int:
        raise error

    calls = LimitedCalls()
    assert await calls.call({"bad": fail, "good": lambda: 1}) == {"good": 1}
    assert calls.errors == {"bad": error}
    with pytest.raises(OSError, match="no such counter"):
        await calls.one("bad", fail)


async def test_a_device_that_cannot_be_read_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path)
    devices = Devices(tmp_path, ManualClock(), LimitedCalls())
    await devices.read()

    def broken(**_: bool) -> None:
        raise ValueError("not a device")

    monkeypatch.setattr(devices._tree.devices[0], "read", broken)
    await devices.read()
    values, events = await devices.read()
    assert values.devices.keys() == {1}
    assert [(event.name, event.chip) for event in events] == [("device_not_answering", 0)]

    def forbidden() -> None:
        raise PermissionError(13, "Permission denied", "/sys/devices")

    monkeypatch.setattr(devices._tree, "look", forbidden)
    await devices.read()
    assert devices.problem == "/sys/devices: Permission denied"


async def test_a_device_that_does_not_answer_is_told_once(tmp_path: Path) -> None:
    """The values of the others go on; a second event follows when it answers."""
    write_tree(tmp_path, devices=3)
    devices = Devices(tmp_path, ManualClock(), LimitedCalls(polls=2))
    values, events = await devices.read()
    assert values.devices.keys() == {0, 1, 2}
    assert (events, devices.problem) == ([], "")

    (health,) = (tmp_path / DEVICES / "neuron1").rglob("unhealthy_components")
    health.unlink()
    os.mkfifo(health)
    values, events = await devices.read()
    assert (set(values.devices), events, devices.problem) == ({0, 2}, [], "")
    # Once could be a busy machine.
    values, events = await devices.read()
    assert values.devices.keys() == {0, 2}
    assert [(event.name, event.chip) for event in events] == [("device_not_answering", 1)]
    assert devices.problem == "neuron1 does not answer"
    assert (await devices.read())[1] == []

    # The reader that waits for the pipe goes on when somebody writes it.
    descriptor = os.open(health, os.O_WRONLY)
    health.unlink()
    health.write_text("hbm\n")
    os.close(descriptor)
    events = []
    while not events:
        values, events = await devices.read()
    assert [(event.name, event.chip) for event in events] == [("device_answers", 1)]
    while "health" not in values.devices[1]:
        values, _ = await devices.read()
    assert values.devices[1]["health"] == 1


async def test_a_lost_heartbeat_and_a_lost_device_are_told(tmp_path: Path) -> None:
    write_tree(tmp_path, devices=3)
    devices = Devices(tmp_path, ManualClock(), LimitedCalls())
    await devices.read()
    for number in (0, 1):
        (heartbeat,) = (tmp_path / DEVICES / f"neuron{number}").rglob("healthcheck_heartbeat")
        heartbeat.write_text("0\n")
    shutil.rmtree(tmp_path / DEVICES / "neuron2")

    values, events = await devices.read()

    # The rule on firmware is about chips, so each has its event.
    assert [(event.name, event.text, event.chip) for event in events] == [
        ("firmware_heartbeat_lost", "device 0 has no firmware heartbeat", 0),
        ("firmware_heartbeat_lost", "device 1 has no firmware heartbeat", 1),
        ("device_gone", "device 2 is gone", 2),
    ]
    assert "mem_ecc_uncorrected" not in values.devices[0]


async def test_a_driver_that_is_unloaded_is_one_event(tmp_path: Path) -> None:
    """And one when it is back: 16 each would push all else from the screen."""
    write_tree(tmp_path, devices=3)
    devices = Devices(tmp_path, ManualClock(), LimitedCalls())
    await devices.read()
    shutil.rmtree(tmp_path / DEVICES)
    _, gone = await devices.read()
    write_tree(tmp_path, devices=3)
    _, back = await devices.read()
    assert [(event.name, event.text, event.chip) for event in (*gone, *back)] == [
        ("device_gone", "3 devices are gone: 0, 1, 2", None),
        ("device_answers", "3 devices answer: 0, 1, 2", None),
    ]


async def test_the_cores_are_read_each_15_s(tmp_path: Path) -> None:
    write_tree(tmp_path)
    clock = ManualClock()
    devices = Devices(tmp_path, clock, LimitedCalls())
    await devices.read()
    for path in (tmp_path / DEVICES / "neuron0").rglob("success/total"):
        path.write_text("500\n")

    await clock.advance(CORES_EVERY_S - 1)
    assert (await devices.read())[0].devices[0]["exec_completed"] == 200
    await clock.advance(1)
    assert (await devices.read())[0].devices[0]["exec_completed"] == 1_000
