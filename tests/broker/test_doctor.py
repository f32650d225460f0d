"""`trnfleet doctor` at a real Mosquitto."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from support.paths import ROOT
from support.processes.mosquitto import MosquittoProcess, free_port
from support.processes.programs import Program
from support.processes.waiting import running

from trnfleet.cli.main import run
from trnfleet.services.doctor.broker import telemetry_findings
from trnfleet.services.doctor.findings import Health
from trnfleet.services.session import BatchReader, BrokerSession
from trnfleet.transport.mqtt import MqttPublisher
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.processes.certificates import Certificates

pytestmark = pytest.mark.broker


def examined(
    capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0
) -> dict[str, dict[str, Any]]:
    """Return the findings about the broker, by name."""
    assert run(["doctor", "--json", "--listen", "100ms", "--retained", "200", *arguments]) == status
    facts = json.loads(capsys.readouterr().out)
    assert facts["healthy"] is (status == 0)
    return {each["name"]: each for each in facts["findings"] if "://" in each["group"]}


async def retained(url: Any) -> list[str]:
    """Return the topics of what the broker retains."""
    session = BrokerSession(url)
    source = session.source([("#", 0)])
    async with running(source.run()):
        await source.wait_connected(10)
        batch = await BatchReader(source, session.clock, limit_s=0.3).next()
        return [each.topic for each in batch if each.payload]


def test_a_mosquitto_can_all(
    mosquitto: MosquittoProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    """A Mosquitto passes all checks.

    There are no fleets, so clocks are unknown.
    """
    found = examined(capsys, "--broker", str(mosquitto.url))
    assert {name: each["health"] for name, each in found.items() if each["health"] != "ok"} == {
        "clocks": "unknown"
    }
    assert found["broker"]["value"].startswith("mosquitto version ")
    assert found["MQTT"]["value"] == "5"
    assert found["many retained"]["value"].startswith("200 of 200 ")
    assert (
        found["largest message"]["value"] == "128 KiB comes through, the largest that is ever sent"
    )
    assert found["fleets"]["value"] == "none under trnfleet/ yet"


async def test_nothing_is_left_at_the_broker(mosquitto: MosquittoProcess, tmp_path: Path) -> None:
    """A trial ended by a signal clears its messages, too."""
    program = Program(tmp_path, "doctor", "--broker", str(mosquitto.url), "--retained", "4000")
    with program:
        session = BrokerSession(mosquitto.url)
        source = session.source([("trnfleet/v1/+/probe/many/#", 0)])
        async with running(source.run()):
            await source.wait_connected(10)
            assert await BatchReader(source, session.clock, limit_s=10).next()
        assert program.end() == 128 + 15
    assert await retained(mosquitto.url) == []


@pytest.mark.parametrize(
    ("line", "name", "health"),
    [
        ("retain_available false", "retained", "problem"),
        ("message_size_limit 20000", "largest message", "warning"),
    ],
)
def test_what_a_mosquitto_is_told_not_to_do_is_found(
    line: str,
    name: str,
    health: str,
    mosquitto_with: Callable[..., MosquittoProcess],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A problem ends with status 3, a warning with 0; each says what to do."""
    broker = mosquitto_with(line)
    found = examined(capsys, "--broker", str(broker.url), status=3 if health == "problem" else 0)
    assert found[name]["health"] == health
    assert found[name]["advice"]


def test_a_viewer_is_not_tried_to_write_with(
    mosquitto_with: Callable[..., MosquittoProcess], capsys: pytest.CaptureFixture[str]
) -> None:
    """A viewer's write checks are unknown and no problem.

    The shipped access list lets it only read.
    """
    broker = mosquitto_with(
        f"acl_file {ROOT / 'config' / 'brokers' / 'mosquitto.acl'}", user="viewer"
    )
    found = examined(capsys, "--broker", str(broker.url))
    assert found["round trip"]["health"] == "unknown"
    assert "not authorised" in found["round trip"]["value"]
    assert "last will" not in found


def test_tls_is_told_with_the_end_of_the_certificate(
    mosquitto_with: Callable[..., MosquittoProcess],
    certificates: Certificates,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The agreed version and cipher are reported, with the certificate's end.

    Without verification nothing is known of the certificate.
    """
    broker = mosquitto_with(*certificates.listener())
    url = f"mqtts://localhost:{broker.port}"
    found = examined(capsys, "--broker", url, "--ca", certificates.pem("ca"), "--retained", "0")
    assert found["encryption"]["value"].startswith("TLSv1.3, TLS_")
    assert re.fullmatch(
        r"valid until \d{4}-\d\d-\d\d, [\d,]+ days from now", found["certificate"]["value"]
    )
    found = examined(capsys, "--broker", url, "--insecure", "--retained", "0")
    assert (found["certificate"]["health"], found["certificate"]["value"]) == (
        "warning",
        "not verified",
    )
    assert run(["doctor", "--json", "--broker", url]) == 1
    (finding,) = [
        each for each in json.loads(capsys.readouterr().out)["findings"] if each["group"] == url
    ]
    assert "unknown authority" in finding["value"]
    assert finding["advice"].startswith("its port answers: change what the reason names")


def test_clocks_that_differ_are_found_by_telemetry(
    mosquitto: MosquittoProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A publisher's clock half an hour ahead is a warning with the fleet's name."""
    start = (datetime.now(UTC) + timedelta(minutes=30)).isoformat()
    arguments = (
        "--broker",
        str(mosquitto.url),
        "--fleet",
        "lab",
        "--start",
        start,
        "--period",
        "20ms",
    )
    with Program(tmp_path, "simulate", *arguments) as simulator:
        simulator.wait_for("publishing")
        found = examined(capsys, "--broker", str(mosquitto.url), "--listen", "2s")
    assert found["clocks"]["health"] == "warning"
    assert "ahead when it comes" in found["clocks"]["value"]
    assert found["fleets"]["value"] == "1 fleet: lab (live)"


async def test_two_publishers_of_one_topic_are_a_problem(mosquitto: MosquittoProcess) -> None:
    """Alternating boots are named with a topic.

    A replacing boot is not.
    """
    session, publisher = (
        BrokerSession(mosquitto.url),
        MqttPublisher(mosquitto.url, client_id="twins"),
    )
    shared, restarted = ("trnfleet/v1/lab/telemetry/uc1/standalone/" + host for host in ("a", "b"))

    async def publish() -> None:
        await publisher.wait_connected(10)
        for turn in range(1_000):
            for topic, boot in ((shared, f"boot-{turn % 2}"), (restarted, f"boot-{min(turn, 1)}")):
                sample = (
                    f'{{"v":1,"boot":"{boot}","seq":{turn},"ts":"2026-01-05T09:00:00Z","cluster":"uc1",'
                    f'"ultraserver":"standalone","instance":"{topic[-1]}","vcpu_util_pct":1.0}}'
                )
                await publisher.publish([Envelope(topic, sample.encode())])
            await asyncio.sleep(0.02)

    async with running(publisher.run(), publish()):
        found = await telemetry_findings(session, "broker", listen_s=1.0)
    [contested] = [each for each in found if each.name == "publishers"]
    assert contested.health is Health.PROBLEM
    assert contested.value == f"two publishers take turns on 1 topic, such as {shared}"


def test_a_broker_that_is_not_there_ends_with_status_1(
    mosquitto: MosquittoProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of several brokers the others are looked at all the same."""
    away = f"mqtt://127.0.0.1:{free_port()}"
    assert (
        run(
            [
                "doctor",
                "--json",
                "--listen",
                "10ms",
                "--broker",
                away,
                "--broker",
                str(mosquitto.url),
            ]
        )
        == 1
    )
    findings = json.loads(capsys.readouterr().out)["findings"]
    said = {
        each["group"]: (each["health"], each["value"])
        for each in findings
        if each["name"] == "connection"
    }
    assert said[away] == ("problem", "connection refused")
    assert next(each["advice"] for each in findings if each["group"] == away).startswith(
        "is it running"
    )
    assert said[str(mosquitto.url)][0] == "ok"


def test_settings_that_are_wrong_are_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Faulty settings or an unreadable password file do not stop other checks."""
    file = tmp_path / "settings.toml"
    file.write_text("[common\n")
    for words, said in (
        (["--config", str(file)], f"{file}: not valid TOML"),
        (
            ["--broker", "mqtt://u@127.0.0.1", "--password-file", str(tmp_path / "none")],
            "--password-file",
        ),
    ):
        assert run(["doctor", "--json", *words]) == 3
        findings = json.loads(capsys.readouterr().out)["findings"]
        wrong = next(each for each in findings if each["health"] == "problem")
        assert said in wrong["value"]
        assert any(each["group"] == "folders" for each in findings)
    assert run(["doctor"]) == 0
    assert "  unknown  broker           none given" in capsys.readouterr().out
