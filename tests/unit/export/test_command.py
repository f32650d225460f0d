from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import pytest
from support.monitor.alert_messages import fingerprint, notification
from support.processes.waiting import eventually, running

from trnfleet.clock import Clock, ManualClock
from trnfleet.errors import ConfigError
from trnfleet.export import command
from trnfleet.export.command import LIMIT_S, CommandReceiver, find_command, run_program, variables

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trnfleet.export.notification import Notification


def test_a_command_is_read_without_a_shell() -> None:
    """Quotes are read like a shell; no program or an open quote is refused."""
    assert find_command("sh -c 'a b'") == ("sh", "-c", "a b")
    for bad in ("", "no-such-program-here x", "sh 'a"):
        with pytest.raises(
            ConfigError, match=r"names no program|no such program|no closing quotation"
        ):
            find_command(bad)


async def test_a_program_gets_the_alert(tmp_path: Path) -> None:
    """JSON on its standard input, parts in variables; no password of ours reaches it."""
    script = tmp_path / "note.py"
    script.write_text(
        "import json, os, sys\n"
        "told = {k: v for k, v in os.environ.items() if k.startswith('TRNFLEET_')}\n"
        "json.dump([json.load(sys.stdin), told, sys.argv[2:]], open(sys.argv[1], 'w'))\n"
    )
    out = tmp_path / "out.json"
    argv = (sys.executable, str(script), str(out), "$HOME; x")
    assert await run_program(argv, notification(1, summary="a\0b $(x)"), ManualClock()) == ""
    told, seen, arguments = json.loads(out.read_text())
    assert told["fingerprint"] == fingerprint(1)
    assert seen["TRNFLEET_ALERT_STATE"] == "firing"
    assert seen["TRNFLEET_ALERT_SUMMARY"] == "ab $(x)"
    assert seen["TRNFLEET_ALERT_RESOLVED"] == ""
    assert arguments == ["$HOME; x"]
    given = {"TRNFLEET_MQTT_PASSWORD": "x", "PATH": "/bin"}
    assert "TRNFLEET_MQTT_PASSWORD" not in variables(notification(1), given)


async def test_a_program_that_fails_or_never_ends(tmp_path: Path) -> None:
    """The reason of a failure is reported; an endless program is killed with its children."""
    assert (
        await run_program(("sh", "-c", "exit 7"), notification(), ManualClock()) == "exit status 7"
    )
    assert await run_program(("/no/such",), notification(), ManualClock()) != ""
    clock = ManualClock()
    started = tmp_path / "started"
    said: list[str] = []

    async def hang() -> None:
        said.append(
            await run_program(("sh", "-c", f"touch {started}; sleep 1000"), notification(), clock)
        )

    async with running(hang()):
        await eventually(started.exists)
        await clock.advance(LIMIT_S)
        await eventually(lambda: said)
    assert said == [f"not over within {LIMIT_S:g} s"]


async def test_a_program_ends_with_the_watch(tmp_path: Path) -> None:
    """Cancelled, it leaves neither the program nor a zombie of it."""
    started = tmp_path / "started"

    async def hang() -> None:
        await run_program(
            ("sh", "-c", f"echo $$ > {started}; exec sleep 1000"), notification(), ManualClock()
        )

    async with running(hang()):
        await eventually(lambda: started.exists() and started.read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


async def test_one_after_the_other_for_one_alert_and_four_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An alert's notifications are in order, and at most four programs run.

    A failure is repeated three times.
    """
    clock = ManualClock()
    under_way: list[str] = []
    most = 0
    done: list[tuple[str, str]] = []

    async def program(_: Sequence[str], told: Notification, clock: Clock) -> str:
        nonlocal most
        assert told.fingerprint not in under_way
        under_way.append(told.fingerprint)
        most = max(most, len(under_way))
        await clock.sleep(1)
        under_way.remove(told.fingerprint)
        done.append((told.message.state, told.fingerprint[-1]))
        return "no" if told.fingerprint == fingerprint(9) else ""

    monkeypatch.setattr(command, "run_program", program)
    receiver = CommandReceiver("exec", ("x",), clock)
    told: list[str] = []
    receiver.confirm = lambda each: told.append(each.fingerprint)
    receiver.notify([notification(number) for number in (1, 2, 3, 4, 5, 9)])
    receiver.notify([notification(1, resolved_s=3)])
    async with running(receiver.run()):
        await clock.advance(30)
    assert most == 4
    assert [state for state, number in done if number == "1"] == ["firing", "resolved"]
    assert [number for _, number in done].count("9") == 4
    assert (receiver.tally.failed, receiver.tally.delivered, receiver.tally.waiting) == (1, 6, 0)
    assert fingerprint(9) not in told


async def test_programs_end_with_the_watch(tmp_path: Path) -> None:
    """Cancellation leaves no program behind."""
    receiver = CommandReceiver(
        "exec", ("sh", "-c", f"echo $$ > {tmp_path / 'pid'}; exec sleep 1000"), ManualClock()
    )
    receiver.notify([notification()])
    async with running(receiver.run()):
        await eventually(
            lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip()
        )
        pid = int((tmp_path / "pid").read_text())
    await eventually(lambda: not _runs(pid))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123  a file of the kernel's
        return stat.read().split()[2] != "Z"
