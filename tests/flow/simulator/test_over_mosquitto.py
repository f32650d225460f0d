"""Simulator, a real Mosquitto and a monitor, as processes, with what can happen to them."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.monitor.state import stored_difference
from support.processes.programs import Program, run
from support.processes.waiting import eventually, running, take_until

from trnfleet.domain.metrics import SIMULATED, Scope
from trnfleet.errors import BrokerError
from trnfleet.monitor.freshness import Freshness
from trnfleet.services.live_monitor import LiveMonitor, monitor_fleet
from trnfleet.services.session import BrokerSession
from trnfleet.tasks import background
from trnfleet.transport.mqtt import MqttSource
from trnfleet.wire.ports import CONTENT_TYPE_JSON

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess


pytestmark = pytest.mark.broker


@pytest.fixture
def simulator(mosquitto: MosquittoProcess, tmp_path: Path) -> Iterator[Program]:
    with Program(
        tmp_path, "simulate", "--broker", str(mosquitto.url), "--fleet", "demo", "--seed", "7"
    ) as program:
        yield program


def watch(mosquitto: MosquittoProcess, fleet: str = "demo") -> LiveMonitor:
    return monitor_fleet(BrokerSession(mosquitto.url), fleet)


def status(mosquitto: MosquittoProcess, *more: str) -> tuple[int, dict[str, Any]]:
    result = run("status", "--broker", str(mosquitto.url), "--json", *more)
    assert result.stdout, result.stderr
    return result.returncode, json.loads(result.stdout)


async def test_what_a_subscriber_sees(mosquitto: MosquittoProcess, simulator: Program) -> None:
    """A second has 192 chip and 12 instance messages of flat JSON.

    They have the metric table's names.
    """
    assert simulator.process.poll() is None
    source = MqttSource(mosquitto.url, [("trnfleet/v1/+/telemetry/#", 0)])
    async with running(source.run()):
        taken = await take_until(source, lambda batch: len(batch) >= 5 * 204, within_s=15)
    by_seq: dict[int, list[dict[str, Any]]] = {}
    for envelope in taken:
        assert envelope.content_type == CONTENT_TYPE_JSON
        assert not envelope.retain
        got = json.loads(envelope.payload)
        by_seq.setdefault(got["seq"], []).append(got)
    whole = sorted(by_seq)[1:-1]
    assert len(whole) >= 3
    for seq in whole:
        chips = [got for got in by_seq[seq] if "chip" in got]
        instances = [got for got in by_seq[seq] if "chip" not in got]
        assert (len(chips), len(instances)) == (192, 12)
        for scope, messages in ((Scope.CHIP, chips), (Scope.INSTANCE, instances)):
            names = {metric.name for metric in SIMULATED if metric.scope is scope}
            assert all(names <= got.keys() for got in messages)


def test_status(mosquitto: MosquittoProcess, simulator: Program) -> None:
    """Status reports the fleet's size and figures, no loss, and good health."""
    assert simulator.process.poll() is None
    code, got = status(mosquitto, "--wait", "10s", "--name", "demo")
    assert code == 0
    expected = {
        "fleet": "demo",
        "chips": 192,
        "instances": 12,
        "ultraservers": 2,
        "stale_chips": 0,
        "lost": 0,
    }
    assert {key: got[key] for key in expected} == expected
    for key in (
        "nc_util_pct",
        "power_w",
        "tflops",
        "hbm_traffic_bytes_per_s",
        "link_tx_bytes_per_s",
    ):
        assert got[key] > 0, key
    assert 192 * 90 < got["power_w"] < 192 * 500


def test_status_of_nothing(mosquitto: MosquittoProcess) -> None:
    """A broker without a fleet, and no broker at all, are explained in one line."""
    nothing = run("status", "--broker", str(mosquitto.url), "--wait", "1s")
    assert nothing.returncode == 1
    assert "no fleet" in nothing.stderr
    assert nothing.stderr.count("\n") == 1
    named = run("status", "--broker", str(mosquitto.url), "--wait", "1s", "--name", "prod")
    assert named.returncode == 1
    assert "prod" in named.stderr
    mosquitto.stop()
    gone = run("status", "--broker", str(mosquitto.url))
    assert gone.returncode == 1
    assert "refused" in gone.stderr


def test_two_fleets_ask_for_a_name(
    mosquitto: MosquittoProcess, simulator: Program, tmp_path: Path
) -> None:
    """With several fleets on a broker, status lists them and exits 2.

    A named one is shown.
    """
    assert simulator.process.poll() is None
    with Program(
        tmp_path, "simulate", "--broker", str(mosquitto.url), "--fleet", "lab", "--name", "other"
    ):
        assert status(mosquitto, "--name", "other", "--wait", "10s")[1]["chips"] == 1
        assert status(mosquitto, "--name", "demo", "--wait", "10s")[1]["chips"] == 192
        both = run("status", "--broker", str(mosquitto.url))
    assert both.returncode == 2
    assert "demo, other" in both.stderr


async def test_json_and_cbor_over_the_broker(mosquitto: MosquittoProcess, tmp_path: Path) -> None:
    """The same ticks as JSON and as CBOR of every granularity give equal stores."""
    # Training alone: the load of inference follows the time of day, which differs between the runs.
    fleet = tmp_path / "training.toml"
    fleet.write_text(
        'name = "t"\nclusters = [{ name = "uc1", ultraservers = [{ count = 2 }], instances = [{'
        ' type = "trn2.48xlarge", count = 4 }] }]\njobs = [{ kind = "training", name = "j", on ='
        ' ["uc1/us-0001"] }]\n'
    )
    ways = {
        "json": ["--format", "json"],
        "instance": ["--format", "cbor", "--granularity", "instance"],
        "us": ["--format", "cbor"],
        "block": ["--format", "cbor", "--granularity", "block"],
    }
    watches = {name: watch(mosquitto, name) for name in ways}
    works = [work for each in watches.values() for work in (each.source.run(), each.monitor.run())]
    async with running(*works):
        for each in watches.values():
            await each.source.wait_connected(5)
        for name, options in ways.items():
            with Program(
                tmp_path,
                "simulate",
                "--broker",
                str(mosquitto.url),
                "--fleet",
                str(fleet),
                "--seed",
                "7",
                "--name",
                name,
                "--ticks",
                "3",
                "--period",
                "300ms",
                *options,
            ) as program:
                assert await asyncio.to_thread(program.process.wait, 20) == 0, program.output
        await asyncio.sleep(0.3)
    stores = {name: each.monitor.store for name, each in watches.items()}
    for name, each in watches.items():
        assert (
            each.monitor.counts.lost
            == each.monitor.counts.undescribed
            == each.monitor.counts.undecodable
            == 0
        ), name
        assert stored_difference(stores["json"], stores[name]) == [], name
        assert stores[name].layout.chips == 192


async def test_the_broker_killed_and_started_again(
    mosquitto: MosquittoProcess, simulator: Program
) -> None:
    """Both sides return within 10 s, losses are counted, and stale is shown meanwhile."""
    assert simulator.process.poll() is None
    source, monitor = watch(mosquitto)
    async with running(source.run(), monitor.run()):
        await eventually(lambda: monitor.store.count(Freshness.LIVE) == 192, 15)
        mosquitto.kill()
        await eventually(lambda: not source.status.connected, 5)
        await eventually(lambda: monitor.store.count(Freshness.STALE) == 192, 5)
        assert monitor.store.count(Freshness.LIVE) == 0
        mosquitto.start()
        begun = time.monotonic()
        await eventually(lambda: monitor.store.count(Freshness.LIVE) == 192, 10)
        assert time.monotonic() - begun < 10
        await eventually(lambda: monitor.counts.lost >= 3 * 204, 5)
        # Whole ticks are missing, so every topic has lost the same number.
        assert monitor.counts.lost % 204 == 0
        assert monitor.counts.undecodable == 0
    assert simulator.end() == 0
    assert "dropped" in simulator.output


async def test_the_simulator_killed(mosquitto: MosquittoProcess, simulator: Program) -> None:
    """After kill -9 the last will marks the chips offline at once.

    In any case within three periods.
    """
    source, monitor = watch(mosquitto)
    async with running(source.run(), monitor.run()):
        await eventually(lambda: monitor.store.count(Freshness.LIVE) == 192, 15)
        simulator.end(signal.SIGKILL)
        await eventually(lambda: monitor.store.count(Freshness.OFFLINE) == 192, 2)
        await eventually(lambda: monitor.summary().offline_chips == 192, 2)
    code, got = status(mosquitto, "--wait", "2s")
    assert code == 3
    assert got["v"] == 1
    assert (got["healthy"], got["offline_chips"], got["stale_chips"]) == (False, 192, 0)
    states = ("live_chips", "stale_chips", "offline_chips", "unknown_chips", "unobserved_chips")
    assert sum(got[state] for state in states) == got["chips"] == 192


async def test_a_stopped_simulator_is_stale(
    mosquitto: MosquittoProcess, simulator: Program
) -> None:
    """A hanging publisher is stale after three periods, without any last will."""
    source, monitor = watch(mosquitto)
    async with running(source.run(), monitor.run()):
        await eventually(lambda: monitor.store.count(Freshness.LIVE) == 192, 15)
        simulator.process.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        await eventually(lambda: monitor.store.count(Freshness.STALE) == 192, 5)
        assert time.monotonic() - begun < 4.5
        simulator.process.send_signal(signal.SIGCONT)
        await eventually(lambda: monitor.store.count(Freshness.LIVE) == 192, 5)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_signals_end_the_simulator_in_order(
    mosquitto: MosquittoProcess, simulator: Program, number: signal.Signals
) -> None:
    """On every signal the simulator says goodbye and exits with 0 within 2 s."""
    source, monitor = watch(mosquitto)
    async with running(source.run(), monitor.run()):
        await eventually(lambda: monitor.store.count(Freshness.LIVE) == 192, 15)
        begun = time.monotonic()
        assert await asyncio.to_thread(simulator.end, number) == 0
        assert time.monotonic() - begun < 2
        await eventually(lambda: monitor.store.count(Freshness.OFFLINE) == 192, 2)
        assert monitor.counts.lost == 0


def password(text: str) -> dict[str, Any]:
    return {"TRNFLEET_MQTT_PASSWORD": text}


def test_users_and_passwords(mosquitto_with: Any, tmp_path: Path) -> None:
    """Passwords come from the variable, a private file or credentials.

    A wrong one is reported.
    """
    passwords = tmp_path / "passwords"
    subprocess.run(
        ["mosquitto_passwd", "-b", "-c", str(passwords), "ops", "s3cret"],
        check=True,
        capture_output=True,
    )
    broker = mosquitto_with(f"password_file {passwords}", anonymous=False, user="ops")
    simulate = ("simulate", "--broker", str(broker.url), "--fleet", "lab", "--ticks", "1")
    assert run(*simulate, **password("s3cret")).returncode == 0
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    secret.chmod(0o600)
    assert run(*simulate, "--password-file", str(secret)).returncode == 0
    (tmp_path / "mqtt-password").write_text("s3cret\n")
    assert run(*simulate, CREDENTIALS_DIRECTORY=str(tmp_path)).returncode == 0
    secret.chmod(0o644)
    open_file = run(*simulate, "--password-file", str(secret))
    assert open_file.returncode == 2
    assert "chmod 600" in open_file.stderr
    refused = run(*simulate, **password("wr0ng"))
    assert refused.returncode == 1
    assert "not authorised" in refused.stderr
    assert "wr0ng" not in refused.stderr


async def test_a_refusal_ends_all_that_connects_at_once(
    mosquitto_with: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two connections refused at the same time both end with the first refusal, silently."""
    passwords = tmp_path / "passwords"
    passwords.touch()
    broker = mosquitto_with(f"password_file {passwords}", anonymous=False)

    async def be_refused() -> None:
        one = MqttSource(broker.url, [("one", 0)])
        other = MqttSource(broker.url, [("other", 0)])
        with pytest.raises(BrokerError, match="not authorised"):
            async with background(one=one.run(), other=other.run()):
                await one.wait_connected(5)

    for _ in range(100):
        refused = asyncio.create_task(be_refused())
        await asyncio.wait({refused}, timeout=10)
        assert refused.done()
        await refused
    assert [record.message for record in caplog.records if record.name == "asyncio"] == []
