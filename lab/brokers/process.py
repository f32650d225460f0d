"""A broker as a child process on a fixed free loopback port: started, killed, restarted."""

from __future__ import annotations

import abc
import contextlib
import os
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Self

import psutil
from support.processes.mosquitto import free_port

from trnfleet.transport.url import BrokerUrl, Password

if TYPE_CHECKING:
    from pathlib import Path

    from trnfleet.transport.connection import ProtocolName

HOST = "127.0.0.1"
VIEWER = "viewer"
PASSWORD = "only-for-tests"  # noqa: S105  of brokers that live for a test, on loopback
START_S = 120.0
"""Longest wait until connections are accepted. Brokers in Erlang and Java need up to a minute on a
busy machine."""


class BrokerProcess(abc.ABC):
    """A broker.

    Everybody may do everything, except a viewer: it may only read.
    """

    name: str
    """As the table has it."""
    speaks: ProtocolName
    """The version of MQTT that a client finds."""
    has_users = True
    """Whether it knows users and their rights."""
    at_once = 20
    """Cases that are played at once: all."""
    needs_user: str | None = None
    """The user to name where nobody comes in without one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / self.name.replace(" ", "-")
        self.folder.mkdir()
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @classmethod
    @abc.abstractmethod
    def version(cls) -> str | None:
        """Return the installed version.

        None if not installed.
        """

    @abc.abstractmethod
    def command(self) -> list[str]:
        """Write the configuration, and return what runs it."""

    def environment(self) -> dict[str, str]:
        """Return variables for the process, beside ours."""
        return {}

    @property
    def url(self) -> BrokerUrl:
        """The address for everybody."""
        return BrokerUrl(HOST, self.port, self.needs_user)

    @property
    def viewer_url(self) -> BrokerUrl:
        """The address for who may only read."""
        return BrokerUrl(HOST, self.port, VIEWER)

    @property
    def password(self) -> Password | None:
        """The password of every user."""
        return Password(PASSWORD)

    @property
    def pid(self) -> int:
        """The process id; only while it runs."""
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        """Start, and wait until connections are accepted."""
        with (self.folder / "output.log").open("ab") as output:
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **self.environment()},
                cwd=self.folder,
                start_new_session=True,
            )
        self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until connections are accepted."""
        until = time.monotonic() + START_S
        while not self.accepts():
            assert self.process is not None
            assert self.process.poll() is None, self.output()
            assert time.monotonic() < until, self.output()
            time.sleep(0.05)

    def accepts(self) -> bool:
        """Return whether a TCP connection is accepted."""
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self.port)) == 0

    def answers(self) -> bool:
        """Return whether a CONNECT of MQTT 3.1.1 is answered, within a second."""
        with (
            contextlib.suppress(OSError),
            socket.create_connection((HOST, self.port), 1.0) as probe,
        ):
            probe.sendall(b"\x10\x11\x00\x04MQTT\x04\x02\x00\x0a\x00\x05probe")
            return probe.recv(4)[:1] == b"\x20"
        return False

    def output(self) -> str:
        """Return what it printed."""
        return (self.folder / "output.log").read_text(errors="replace")

    def kill(self) -> None:
        """Kill it and its children with -9.

        Nothing happens if it does not run.
        """
        if self.process is None:
            return
        # Some start what has a session of its own.
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=10)
        self.process = None

    def restart(self) -> None:
        """Kill it and start it again on the same port and the same files."""
        self.kill()
        self.start()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def first_word_with_digit(*command: str) -> str | None:
    """Return a program's printed version.

    None if it is missing.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    words = (done.stdout + done.stderr).replace("v", " ").split()
    return next((word.strip(",") for word in words if word[0].isdigit() and "." in word), None)
