"""systemd as the manager of this process (`Type=notify`): readiness, status, end, the watchdog, and credentials.

Reports are datagrams to the socket that `NOTIFY_SOCKET` names; where there is none, nothing is sent. The watchdog is fed only while
every loop that does the work goes on: a process whose event loop turns while its work hangs is ended by systemd and started again.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from trnfleet import logs
from trnfleet.errors import ConfigError
from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping, Sequence

    from trnfleet.clock import Clock

log = logs.get_logger(__name__)

STATUS_EVERY_S = 5.0
"""Longest time between two looks at the work and its status."""
LOOKS = 4
"""Looks at the work within the watchdog's time."""
STILL_S = 30.0
"""Time without progress after which work counts as hanging: passes, ticks and elections come each second or more often, unless a
broker lets two messages wait for its acknowledgement."""
LINK_STILL_S = 90.0
"""The same of a connection that is being made: twice the longest pause between two attempts, and the time that one takes."""
LONGEST_STATUS = 300
PASSWORD = "mqtt-password"  # noqa: S105  the credential's name
"""Name of the credential with the password of the broker's user."""


class Work(NamedTuple):
    """A loop that has to go on."""

    name: str
    progress: Callable[[], object]
    """Returns a value that changes as the loop works."""
    is_idle: Callable[[], bool] = bool
    """Returns whether it has nothing to do; by default it always has."""
    still_s: float = STILL_S
    """Longest time without a change."""


class Link(Protocol):
    """State of a connection."""

    attempts: int
    """Attempts to connect so far."""
    connected: bool


def link_works(name: str, links: Sequence[Link]) -> list[Work]:
    """Return the work of connections: each stands, where its own keepalive watches over it, or is tried again and again."""
    return [_link_work(f"{name} {number}", link) for number, link in enumerate(links, 1)]


def _link_work(name: str, link: Link) -> Work:
    return Work(name, lambda: link.attempts, lambda: link.connected, LINK_STILL_S)


class ServiceManager:
    """The manager that has started this process, if any."""

    def __init__(self, clock: Clock, environ: MutableMapping[str, str] | None = None) -> None:
        """Take what systemd has put into the environment out of it, so that no program that is started here feeds the watchdog."""
        environ = os.environ if environ is None else environ
        address = environ.pop("NOTIFY_SOCKET", "")
        # A name that begins with @ has no file: Linux's abstract sockets.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._watchdog_s = _watchdog_s(environ)
        self._clock = clock
        self._hanging: set[str] = set()

    @property
    def is_there(self) -> bool:
        """Whether anybody is told."""
        return bool(self._address)

    async def run(self, works: Sequence[Work], status: Callable[[], str]) -> None:
        """Report readiness, then the status as it changes, and feed the watchdog while all works go on; cancelled, report the end."""
        if not self.is_there:
            return
        clock = self._clock
        every_s = min(STATUS_EVERY_S, (self._watchdog_s or STATUS_EVERY_S) / LOOKS)
        seen: dict[str, tuple[object, float]] = {}
        is_ready, told = False, ""
        try:
            while True:
                state = _status_line(status())
                # What finds no room in the manager's queue is told with the next look.
                is_ready = is_ready or self._send("READY=1")
                if state != told and self._send(state):
                    told = state
                if self._go_on(works, seen, clock.monotonic_s()) and self._watchdog_s:
                    self._send("WATCHDOG=1")
                await clock.sleep(every_s)
        finally:
            self._send("STOPPING=1")

    def _go_on(
        self, works: Sequence[Work], seen: dict[str, tuple[object, float]], now_s: float
    ) -> bool:
        """Return whether all works go on; one that does not is logged once."""
        for work in works:
            value = work.progress()
            if work.name not in seen or work.is_idle() or value != seen[work.name][0]:
                seen[work.name] = value, now_s
                self._hanging.discard(work.name)
            elif now_s - seen[work.name][1] > work.still_s and work.name not in self._hanging:
                self._hanging.add(work.name)
                log.error(
                    "work_hangs", work=work.name, still_s=round(now_s - seen[work.name][1], 1)
                )
        return not self._hanging

    def _send(self, line: str) -> bool:
        """Send a line, and return whether it was; a manager that does not read must not hold the work up."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
                channel.setblocking(False)
                channel.sendto(line.encode(), self._address)
        except OSError as error:
            log.warning("service_manager_not_told", reason=error.strerror or str(error))
            return False
        return True


def read_credential(name: str, environ: Mapping[str, str] | None = None) -> str:
    """Return a credential that systemd has passed (`LoadCredential=`), without the line break at its end; empty where there is none.

    Raises:
        ConfigError: it cannot be read.
    """
    file = credential_file(name, environ)
    if file is None:
        return ""
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise ConfigError(f"credential {name}: {reason}") from None


def credential_file(name: str, environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the file of a credential, should systemd have passed it; None where this process is no service with credentials."""
    folder = (os.environ if environ is None else environ).get("CREDENTIALS_DIRECTORY")
    return Path(folder) / name if folder else None


def is_credential(file: str) -> bool:
    """Return whether a file is one of the service's credentials: systemd keeps others out of their folder, whatever their modes say."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    return bool(folder) and Path(file).parent == Path(folder or "")


def _watchdog_s(environ: MutableMapping[str, str]) -> float:
    """Return the time within which the watchdog has to be fed; 0 where there is none, or it is for another process."""
    text, process = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
    if not text.isdecimal() or process not in {"", str(os.getpid())}:
        return 0.0
    return int(text) / 1e6


def _status_line(status: str) -> str:
    return f"STATUS={plain(status, LONGEST_STATUS)}"
