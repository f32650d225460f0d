"""A socket like systemd's for `Type=notify`, with the services' reports."""

from __future__ import annotations

import secrets
import socket
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path


class NotifySocket:
    """A datagram socket with a file, or an abstract one."""

    def __init__(self, folder: Path | None) -> None:
        """Listen; without a folder on an abstract address."""
        name = f"trnfleet-{secrets.token_hex(6)}"
        self.address = f"@{name}" if folder is None else str(folder / name)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{name}" if folder is None else self.address)
        self._socket.setblocking(False)
        self.told: list[str] = []
        """All lines so far."""

    def read(self) -> list[str]:
        """Return the lines received since the last call."""
        lines: list[str] = []
        while True:
            try:
                lines += self._socket.recv(4_096).decode().splitlines()
            except BlockingIOError:
                self.told += lines
                return lines

    def wait_for(self, start: str, limit_s: float = 20.0) -> str:
        """Return the next line with this beginning."""
        until_s = time.monotonic() + limit_s
        while time.monotonic() < until_s:
            for line in self.read():
                if line.startswith(start):
                    return line
            time.sleep(0.02)
        raise AssertionError(f"no {start} within {limit_s:g} s; {self.told[-3:]}")

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
