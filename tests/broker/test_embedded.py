from __future__ import annotations

import asyncio
import dataclasses
import os
import socket
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from support.processes.waiting import eventually, running, take_until

from trnfleet.clock import SystemClock
from trnfleet.errors import BrokerError
from trnfleet.transport import embedded
from trnfleet.transport.embedded import (
    BrokerKind,
    EmbeddedBroker,
    embedded_broker,
    keep_access,
    mosquitto_program,
)
from trnfleet.transport.mqtt import MqttPublisher, MqttSource
from trnfleet.transport.security import VERIFIED, TlsSettings
from trnfleet.transport.url import BrokerUrl, Password
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.broker


@pytest.fixture(params=["mosquitto", "nats"])
def kind(request: pytest.FixtureRequest) -> BrokerKind:
    """Name each broker in turn.

    A missing one is skipped and reported.
    """
    kind: BrokerKind = request.param
    if kind == "mosquitto" and mosquitto_program() is None:
        pytest.skip("MOSQUITTO MISSING: install the mosquitto package")
    return kind


async def test_it_serves_on_loopback_alone(kind: BrokerKind) -> None:
    """The broker listens on loopback only, passes messages, and ends with the body.

    Its files are deleted, too.
    """
    async with embedded_broker(clock=SystemClock(), prefer=kind) as broker:
        process = psutil.Process(broker.pid)
        listening = [
            each.laddr for each in process.net_connections() if each.status == psutil.CONN_LISTEN
        ]
        assert {host for host, _ in listening} == {"127.0.0.1"}
        assert broker.url.port in {port for _, port in listening}
        # NATS Server has a port for its own clients, too.
        assert len(listening) == (1 if kind == "mosquitto" else 2)
        assert broker.kind.startswith(kind)
        assert broker.protocol == (None if kind == "mosquitto" else "3.1.1")
        publisher = MqttPublisher(broker.url, client_id="p", protocol=broker.protocol)
        source = MqttSource(broker.url, [("#", 1)], protocol=broker.protocol)
        async with running(publisher.run(), source.run()):
            await publisher.wait_connected(1)
            await source.wait_connected(1)
            await publisher.publish([Envelope("a", b"1", 1, retain=True)])
            assert [each.payload for each in await take_until(source, bool)] == [b"1"]
            # It must end although clients are connected.
    assert not process.is_running()
    assert broker.process.returncode is not None


async def test_it_ends_while_clients_are_connected(kind: BrokerKind) -> None:
    """The broker's end waits for its clients only for a limited time."""
    async with embedded_broker(clock=SystemClock(), prefer=kind) as broker:
        source = MqttSource(broker.url, [("#", 1)], protocol=broker.protocol)
        client = asyncio.create_task(source.run())
        await source.wait_connected(5)
        began = time.monotonic()
    assert time.monotonic() - began < 3
    assert broker.process.returncode is not None
    client.cancel()
    await asyncio.gather(client, return_exceptions=True)


async def test_terminal_interrupt_does_not_reach_it(kind: BrokerKind) -> None:
    """The broker has its own session: ctrl+c ends the app first.

    The app then ends the broker.
    """
    async with embedded_broker(clock=SystemClock(), prefer=kind) as broker:
        assert os.getsid(broker.pid) == broker.pid != os.getsid(0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
async def test_it_dies_with_a_killed_parent(kind: BrokerKind, tmp_path: Path) -> None:
    """When the process that embeds the broker is killed with -9, the broker ends too."""
    code = f"""
import asyncio
from trnfleet.clock import SystemClock
from trnfleet.transport.embedded import embedded_broker
async def main():
    async with embedded_broker(clock=SystemClock(), prefer={kind!r}) as broker:
        print("pid", broker.pid, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code),
        stdout=asyncio.subprocess.PIPE,
        # Who is killed with -9 leaves the broker's folder behind.
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert parent.stdout is not None
    while not (line := await parent.stdout.readline()).startswith(b"pid "):
        assert line
    child = psutil.Process(int(line.split()[1]))
    assert child.is_running()
    parent.kill()
    await parent.wait()
    await eventually(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, 5)


async def test_taken_port_is_named(kind: BrokerKind) -> None:
    """A port in use is refused by number before anything is started."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BrokerError, match=f"port {port} on 127.0.0.1 is taken"):
            async with embedded_broker(clock=SystemClock(), port=port, prefer=kind):
                pass


async def test_asked_port_is_used(kind: BrokerKind) -> None:
    """A requested free port is served, twice in a row."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for _ in range(2):
        async with embedded_broker(clock=SystemClock(), port=port, prefer=kind) as broker:
            assert broker.url.port == port


async def test_lost_race_for_a_port_is_run_again(
    kind: BrokerKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When another process takes the free port first, the next one is tried."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        free = embedded._free_port("127.0.0.1")
        ports = iter([taken.getsockname()[1], free])
        monkeypatch.setattr(embedded, "_free_port", lambda _host: next(ports))
        # On a busy machine Mosquitto takes longer to find the port taken than two connections to
        # the other listener.
        monkeypatch.setattr(embedded, "_POLL_S", 0.5)
        async with embedded_broker(clock=SystemClock(), prefer=kind) as broker:
            assert broker.url.port == free


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "broker.example"])  # noqa: S104  refused here
async def test_other_addresses_are_refused(host: str) -> None:
    """A broker without passwords is started on loopback only."""
    with pytest.raises(BrokerError, match="loopback only"):
        async with embedded_broker(clock=SystemClock(), host=host):
            pass


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("no-such-host.invalid", "cannot listen on no-such-host.invalid: name not found"),
        (
            "198.51.100.7",
            (
                "cannot listen on 198.51.100.7: not an address of this machine; 0.0.0.0 stands"
                " for all"
            ),
        ),
    ],
)
async def test_an_address_of_another_machine_is_named(
    host: str, words: str, tmp_path: Path
) -> None:
    """A foreign address is not reported as a port in use, and gets no certificate."""
    with pytest.raises(BrokerError) as error:
        async with embedded_broker(clock=SystemClock(), host=host, folder=tmp_path / "access"):
            pass
    assert str(error.value) == words
    assert not (tmp_path / "access").exists()


async def test_nats_stands_in_where_mosquitto_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without mosquitto NATS Server is used.

    An explicit mosquitto is an error.
    """
    monkeypatch.setattr(embedded, "mosquitto_program", lambda: None)
    async with embedded_broker(clock=SystemClock()) as broker:
        assert broker.kind.startswith("nats ")
    with pytest.raises(BrokerError, match="mosquitto: no such program"):
        async with embedded_broker(clock=SystemClock(), prefer="mosquitto"):
            pass


async def test_a_platform_without_either_is_told_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without both programs the error names a package, and the option of another broker."""
    monkeypatch.setattr(embedded, "mosquitto_program", lambda: None)
    monkeypatch.setattr(embedded, "nats_program", lambda: None)
    with pytest.raises(BrokerError, match="install Mosquitto, or name a broker with --broker"):
        async with embedded_broker(clock=SystemClock()):
            pass


async def test_files_go_with_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder with the generated configuration is deleted after any end."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def fail() -> None:
        async with embedded_broker(clock=SystemClock()):
            modes.extend(each.stat().st_mode & 0o777 for each in os.scandir(tmp_path))
            raise ZeroDivisionError

    modes: list[int] = []
    with pytest.raises(ZeroDivisionError):
        await fail()
    assert modes == [0o700]
    assert list(os.scandir(tmp_path)) == []


async def test_beyond_loopback_it_asks_for_a_password_over_tls(tmp_path: Path) -> None:
    """Beyond loopback it has its own certificate with the host's names, and one user.

    Both survive restarts.
    """
    folder = tmp_path / "broker"

    async def connect(
        broker: EmbeddedBroker, host: str, password: str | None, *, trusts: bool = True
    ) -> str:
        assert broker.access is not None
        source = MqttSource(
            dataclasses.replace(broker.url, host=host),
            [("#", 0)],
            password=password and Password(password),  # type: ignore[arg-type]  # None stays None
            tls=TlsSettings(ca=str(broker.access.ca)) if trusts else VERIFIED,
        )
        async with running(source.run()):
            try:
                await source.wait_connected(5)
            except BrokerError as error:
                return str(error)
        return ""

    kept: list[tuple[bytes, ...]] = []
    for _ in range(2):
        async with embedded_broker(clock=SystemClock(), host="0.0.0.0", folder=folder) as broker:  # noqa: S104  on purpose
            assert broker.access is not None
            secret = broker.access.password.read_text().strip()
            assert (broker.url.scheme, broker.url.user) == ("mqtts", "trnfleet")
            for host in ("127.0.0.1", "localhost"):
                assert await connect(broker, host, secret) == ""
            assert "not authorised" in await connect(broker, "127.0.0.1", "wrong")
            assert "no password was given" in await connect(broker, "127.0.0.1", None)
            assert "of an unknown authority" in await connect(
                broker, "127.0.0.1", secret, trusts=False
            )
            plain = MqttSource(BrokerUrl("127.0.0.1", broker.url.port), [("#", 0)])
            async with running(plain.run()):
                with pytest.raises(BrokerError, match="speaks TLS: write mqtts://"):
                    await plain.wait_connected(5)
            command_line = psutil.Process(broker.pid).cmdline()
            assert not any(secret in word for word in command_line)
        kept.append(tuple(each.read_bytes() for each in broker.access))
    assert kept[0] == kept[1]
    modes = {each.name: each.stat().st_mode & 0o777 for each in folder.iterdir()}
    assert {
        modes[name] for name in ("ca.key", "server.key", "password", "mosquitto-passwords")
    } == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert secret not in (folder / "mosquitto-passwords").read_text()


async def test_a_certificate_is_made_again_for_other_names(tmp_path: Path) -> None:
    """A renamed host gets a new certificate of the same authority.

    Clients know it already.
    """
    first = keep_access(tmp_path, ["one.example", "192.0.2.1"])
    ca = first.ca.read_bytes()
    cert = first.cert.read_bytes()
    assert keep_access(tmp_path, ["one.example"]).cert.read_bytes() == cert
    again = keep_access(tmp_path, ["two.example"])
    assert (again.ca.read_bytes(), again.cert.read_bytes() != cert) == (ca, True)


async def test_what_tls_needs_is_named_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Mosquitto or openssl nothing listens beyond loopback.

    The line names the missing one.
    """

    async def refusal(**options: Any) -> str:
        with pytest.raises(BrokerError) as error:
            async with embedded_broker(
                clock=SystemClock(),
                host="0.0.0.0",  # noqa: S104  refused here
                folder=tmp_path / "broker",
                **options,
            ):
                pass
        return str(error.value)

    assert "only Mosquitto has them here, and NATS Server was asked for" in await refusal(
        prefer="nats"
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    if mosquitto_program() is not None:
        assert (await refusal()).startswith("openssl: no such program on PATH")
    monkeypatch.setattr(embedded, "mosquitto_program", lambda: None)
    assert "it is not installed" in await refusal()
