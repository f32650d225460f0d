"""A real Mosquitto for the suite, on loopback with a configuration of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING

from trnfleet.tasks import background
from trnfleet.transport.embedded import mosquitto_program
from trnfleet.transport.mqtt import MqttPublisher, MqttSource
from trnfleet.transport.url import BrokerUrl, Password
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    from pathlib import Path


MISSING = (
    "MOSQUITTO MISSING: install the mosquitto package; the tests against a real broker did not run"
)
_HOST = "127.0.0.1"


class MosquittoProcess:
    """One Mosquitto on a free loopback port, the same after restarts."""

    def __init__(
        self,
        folder: Path,
        *extra_lines: str,
        anonymous: bool = True,
        user: str | None = None,
        scheme: str = "mqtt",
    ) -> None:
        """Write the configuration.

        `extra_lines` follow the suite's own; `user` and `scheme` are for the URL.
        """
        program = mosquitto_program()
        if program is None:
            raise FileNotFoundError(MISSING)
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.url = BrokerUrl(_HOST, self.port, user).spoken(scheme)
        self._file = folder / f"mosquitto-{self.port}.conf"
        lines = [
            # Mosquitto 2.0 does not start with listeners for websockets alone.
            *([f"listener {free_port()} {_HOST}"] if self.url.is_websocket else []),
            f"listener {self.port} {_HOST}",
            f"allow_anonymous {'true' if anonymous else 'false'}",
            "persistence false",
            "set_tcp_nodelay true",
            "log_type error",
            *(["user root"] if os.geteuid() == 0 else []),
            *(["protocol websockets"] if self.url.is_websocket else []),
            *extra_lines,
        ]
        self._file.write_text("\n".join(lines) + "\n", encoding="utf-8")

    @property
    def pid(self) -> int:
        """The process id; only while it runs."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start and wait until connections are accepted."""
        self._process = subprocess.Popen(
            [self._program, "-c", str(self._file)],
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        until = time.monotonic() + 5
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex((_HOST, self.port)) == 0:
                    return
            assert self._process.poll() is None, f"mosquitto ended with {self._process.returncode}"
            time.sleep(0.02)
        raise TimeoutError(f"mosquitto does not accept connections on port {self.port}")

    def stop(self) -> None:
        """End it in an orderly way; nothing happens if it does not run."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it with -9.

        Retained messages are lost.
        """
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Kill it and start it again on the same port."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """Let it hold still with its connections open, as a half-open network does."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.send_signal(number)
        self._process.wait(timeout=5)
        self._process = None


def retained(
    url: BrokerUrl, under: str = "#", password: Password | None = None
) -> dict[str, bytes]:
    """Return what a broker retains, by topic."""

    async def read() -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        source = MqttSource(url, [(under, 1)], password=password)
        async with background(source=source.run()):
            await source.wait_connected(10)
            with contextlib.suppress(TimeoutError):
                while True:
                    for each in await asyncio.wait_for(source.take(), 0.5):
                        found |= {each.topic: each.payload} if each.retain else {}
        return found

    return asyncio.run(read())


def retain(url: BrokerUrl, messages: dict[str, bytes], password: Password | None = None) -> None:
    """Have a broker retain messages, by topic."""

    async def write() -> None:
        publisher = MqttPublisher(
            url, client_id=f"test-{random.getrandbits(32):x}", password=password
        )
        async with background(publisher=publisher.run()):
            await publisher.wait_connected(10)
            result = await publisher.publish(
                Envelope(topic, payload, 1, retain=True) for topic, payload in messages.items()
            )
            assert not result.unsent, result.error

    asyncio.run(write())


_given: set[int] = set()
"""Ports that `free_port` has returned. A program may not have bound its port yet."""


def free_port() -> int:
    """Return an unused loopback port.

    Parallel suites have separate port ranges.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = 20_000 + 1_000 * (worker % 12)
    ports = random.sample(range(first, first + 1_000), 1_000)
    for port in sorted(ports, key=_given.__contains__):
        with socket.socket() as probe:
            try:
                probe.bind((_HOST, port))
            except OSError:
                continue
            _given.add(port)
            return port
    raise OSError(f"no port from {first} on is free")
