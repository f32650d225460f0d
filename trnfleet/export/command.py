"""A program run for each notification, without a shell.

In order for each alert, and a few at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import signal
from collections import deque
from typing import TYPE_CHECKING

from trnfleet import logs
from trnfleet.errors import ConfigError
from trnfleet.export.notification import Notification, facts
from trnfleet.export.receiver import MOST_WAITING, Receiver, finished_within, pause_s

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trnfleet.clock import Clock

log = logs.get_logger(__name__)

LIMIT_S = 30.0
"""Longest run of a program in seconds; then it and its children are killed."""
AT_ONCE = 4
RETRIES = 3
PREFIX = "TRNFLEET_ALERT_"
_VARIABLES = (
    "state",
    "alertname",
    "severity",
    "fleet",
    "target",
    "place",
    "summary",
    "runbook",
    "runbook_url",
    "generator_url",
    "cause",
    "value",
    "value_text",
    "fingerprint",
    "ack",
    "since",
    "fired",
    "resolved",
)


def split_command(text: str) -> tuple[str, ...]:
    """Return a program and its arguments, split as by a shell.

    Raises:
        ConfigError: a quote is missing, or there is no program; the message has no arguments, which
            may be secret.
    """
    try:
        argv = tuple(shlex.split(text))
    except ValueError as error:
        raise ConfigError(str(error).lower()) from None
    if not argv:
        raise ConfigError("it names no program")
    return argv


def find_command(text: str) -> tuple[str, ...]:
    """Return an installed program and its arguments.

    Raises:
        ConfigError: a quote is missing, or there is no such program.
    """
    argv = split_command(text)
    if shutil.which(argv[0]) is None:
        raise ConfigError(f"--exec {argv[0]!r}: no such program")
    return argv


class CommandReceiver(Receiver):
    """Runs a program with a notification as JSON on stdin, and its fields in variables."""

    def __init__(self, name: str, argv: Sequence[str], clock: Clock) -> None:
        """Describe the receiver.

        Args:
            name: Its name.
            argv: The program and its arguments.
            clock: The time to go by.
        """
        super().__init__(name, clock)
        self._argv = tuple(argv)
        self._waiting: dict[str, deque[Notification]] = {}
        """Notifications by alert; the first is being delivered."""
        self._ready: asyncio.Queue[str] = asyncio.Queue()
        """Alerts whose first notification waits for a worker."""

    def notify(self, notifications: Sequence[Notification]) -> int:
        accepted = notifications[: max(0, MOST_WAITING - self.tally.waiting)]
        self.tally.waiting += len(accepted)
        for notification in accepted:
            waiting = self._waiting.setdefault(notification.fingerprint, deque())
            waiting.append(notification)
            if len(waiting) == 1:
                self._ready.put_nowait(notification.fingerprint)
        return len(accepted)

    async def run(self) -> None:
        """Run the program for queued notifications until cancelled."""
        self._ready = asyncio.Queue()
        for fingerprint in self._waiting:
            self._ready.put_nowait(fingerprint)
        async with asyncio.TaskGroup() as group:
            for number in range(AT_ONCE):
                group.create_task(self._work(), name=f"{self.name}-{number}")

    async def _work(self) -> None:
        while True:
            fingerprint = await self._ready.get()
            waiting = self._waiting[fingerprint]
            await self._deliver(waiting[0])
            waiting.popleft()
            self.tally.waiting -= 1
            if waiting:
                self._ready.put_nowait(fingerprint)
            else:
                del self._waiting[fingerprint]

    async def _deliver(self, notification: Notification) -> None:
        for attempt in range(1 + RETRIES):
            why = await run_program(self._argv, notification, self.clock)
            if not why:
                self.tally.delivered += 1
                self.tally.last_error = ""
                self.confirm(notification)
                return
            self.tally.last_error = why
            log.warning(
                "program_failed",
                receiver=self.name,
                program=self._argv[0],
                alert=notification.fingerprint,
                attempt=attempt + 1,
                reason=why,
            )
            if attempt < RETRIES:
                await self.clock.sleep(pause_s(attempt))
        self.tally.failed += 1


async def run_program(argv: Sequence[str], notification: Notification, clock: Clock) -> str:
    """Run a program to its end; return why it failed, or nothing."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            # What it prints must not get between our own lines; its complaints go where ours go.
            stdout=asyncio.subprocess.DEVNULL,
            env=variables(notification, os.environ),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return str(error)
    given = json.dumps(facts(notification), ensure_ascii=True).encode() + b"\n"

    is_over = False
    try:
        is_over = await finished_within(process.communicate(given), clock, LIMIT_S)
    finally:
        if not is_over:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            # Also where this task is cancelled: a process that nobody waits for stays as a zombie.
            await process.wait()
    if not is_over:
        return f"not over within {LIMIT_S:g} s"
    return "" if process.returncode == 0 else f"exit status {process.returncode}"


def variables(notification: Notification, given: Mapping[str, str]) -> dict[str, str]:
    """Return a program's environment: our own without passwords, with the notification's parts."""
    inherited = {
        name: value
        for name, value in given.items()
        if not (name.startswith("TRNFLEET_") and name.endswith("_PASSWORD"))
    }
    parts = facts(notification)
    texts = {name: "" if parts[name] is None else str(parts[name]) for name in _VARIABLES}
    return inherited | {
        f"{PREFIX}{name.upper()}": text.replace("\0", "") for name, text in texts.items()
    }
