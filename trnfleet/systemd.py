"""systemd as the manager of this process (`Type=notify`).

It covers readiness, status, end, the watchdog and credentials. Reports are datagrams to the socket
in `NOTIFY_SOCKET`; without it nothing is sent. The watchdog is fed only while every working loop
makes progress: a process with a running event loop but hanging work is ended and restarted by
systemd.
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
"""Seconds without progress before work counts as hanging. Passes, ticks and elections come each
second or more often, unless a broker delays two messages until its acknowledgement."""
LINK_STILL_S = 90.0
"""The same for a connection attempt. Twice the longest pause between two attempts, plus the
duration of one."""
PASSWORD = "mqtt-password"  # noqa: S105  the credential's name
"""Name of the credential with the password of the broker's user."""


class Work(NamedTuple):
    """A loop required to make progress."""

    name: str
    progress: Callable[[], object]
    """Returns a value. It changes while the loop works."""
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
    """Return the work of connections.

    Each is either connected, with its own keepalive, or tries again and again.
    """
    return [_link_work(f"{name} {number}", link) for number, link in enumerate(links, 1)]


def _link_work(name: str, link: Link) -> Work:
    return Work(name, lambda: link.attempts, lambda: link.connected, LINK_STILL_S)


class ServiceManager:
    """The manager of this process, if any."""

    def __init__(self, clock: Clock, environ: MutableMapping[str, str] | None = None) -> None:
        """Remove systemd's variables from the environment and store them.

        No program started from here can then feed the watchdog.
        """
        environ = os.environ if environ is None else environ
        address = environ.pop("NOTIFY_SOCKET", "")
        # A name with a leading @ has no file: Linux's abstract sockets.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._watchdog_s = _watchdog_s(environ)
        self._clock = clock
        self._hanging: set[str] = set()

    @property
    def is_there(self) -> bool:
        """Whether anybody is told."""
        return bool(self._address)

    async def run(self, works: Sequence[Work], status: Callable[[], str]) -> None:
        """Report readiness and status, and feed the watchdog while all works make progress.

        Cancelled: report the end.
        """
        if not self.is_there:
            return
        clock = self._clock
        every_s = min(STATUS_EVERY_S, (self._watchdog_s or STATUS_EVERY_S) / LOOKS)
        seen: dict[str, tuple[object, float]] = {}
        is_ready = False
        told = ""
        try:
            while True:
                state = _status_line(status())
                # If the manager's queue is full, the report is sent in the next round.
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
        """Return whether all works make progress.

        A hanging one is logged once.
        """
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
        """Send a line, and return whether it was sent.

        A manager that does not read must not block the work.
        """
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
                channel.setblocking(False)
                channel.sendto(line.encode(), self._address)
        except OSError as error:
            log.warning("service_manager_not_told", reason=error.strerror or str(error))
            return False
        return True


def read_credential(name: str, environ: Mapping[str, str] | None = None) -> str:
    """Return a systemd credential (`LoadCredential=`) without its final line break.

    Empty if missing.

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
    """Return the file of a credential, existing or not.

    None if this process is not a service with credentials.
    """
    folder = (os.environ if environ is None else environ).get("CREDENTIALS_DIRECTORY")
    return Path(folder) / name if folder else None


def is_credential(file: str) -> bool:
    """Return whether a file is one of the service's credentials.

    systemd protects their folder, whatever the files' modes are.
    """
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    return bool(folder) and Path(file).parent == Path(folder or "")


def _watchdog_s(environ: MutableMapping[str, str]) -> float:
    """Return the watchdog's interval in seconds; 0 if off or for another process."""
    text = environ.pop("WATCHDOG_USEC", "")
    process = environ.pop("WATCHDOG_PID", "")
    if not text.isdecimal() or process not in {"", str(os.getpid())}:
        return 0.0
    return int(text) / 1e6


def _status_line(status: str) -> str:
    return f"STATUS={plain(status)}"
