"""`trnfleet forget` on a real broker: cleared and remaining messages of a gone fleet."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

import pytest
from support.processes.mosquitto import MosquittoProcess, retain, retained
from support.processes.programs import Program, run

from trnfleet.wire.messages import (
    STANDARD_COLUMNS,
    ClaimMessage,
    ClaimSpec,
    ClockSpec,
    Descriptor,
    InstanceSpec,
    PublisherMessage,
    encode_message,
)

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.broker

ROOT = "trnfleet/v1/lab"


def presence(
    client: str,
    state: Literal["online", "offline"],
    role: Literal["telemetry", "watch"] = "telemetry",
) -> dict[str, bytes]:
    message = PublisherMessage(client=client, state=state, boot="b", role=role)
    return {f"{ROOT}/publisher/{client}": encode_message(message)}


def described(client: str, *hosts: int) -> dict[str, bytes]:
    found = {}
    for number in hosts:
        path = f"uc1/standalone/trn2-{number:05d}"
        descriptor = Descriptor(
            path=path,
            publisher=client,
            boot="b",
            period_s=1.0,
            clock=ClockSpec(epoch="2026-01-05T09:00:00Z"),
            instances=(InstanceSpec(path=path, type="trn2.48xlarge"),),
            columns=STANDARD_COLUMNS,
        )
        found[f"{ROOT}/node/{path}"] = encode_message(descriptor)
    return found


def claimed(*hosts: int) -> dict[str, bytes]:
    """Return the claims of hosts."""
    paths = [f"uc1/standalone/trn2-{number:05d}" for number in hosts]
    claim = ClaimSpec(job="train", chips=(0,), source="process-tag")
    return {
        f"{ROOT}/claim/{path}": encode_message(
            ClaimMessage(path=path, boot="b", ts="2026-01-05T09:00:00Z", claims=(claim,))
        )
        for path in paths
    }


def forget(mosquitto: MosquittoProcess, *arguments: str) -> tuple[int, str, str]:
    ended = run("forget", "--broker", str(mosquitto.url), "--name", "lab", *arguments)
    return ended.returncode, ended.stdout, ended.stderr


def test_a_dead_fleet_is_listed_and_taken_away(mosquitto: MosquittoProcess, tmp_path: Path) -> None:
    """A live fleet is refused by name.

    A dead one is listed, and --yes clears all of it.
    """
    simulate = (
        "simulate",
        "--fleet",
        "lab",
        "--client-id",
        "sim-1",
        "--broker",
        str(mosquitto.url),
    )
    with Program(tmp_path, *simulate) as running:
        running.wait_for("publishing")
        status, _, said = forget(mosquitto, "--yes")
        assert (status, "fleet 'lab' is live, published by sim-1" in said) == (1, True), said
        running.end()
    retain(mosquitto.url, {f"{ROOT}/silence/1": b"{}", "trnfleet/v1/other/job/a": b"{}"})
    before = retained(mosquitto.url)
    status, listed, said = forget(mosquitto)
    assert (status, "--yes clears it" in said) == (1, True), said
    assert "offline: sim-1" in listed
    assert "silence" in listed
    assert retained(mosquitto.url) == before
    status, printed, said = forget(mosquitto, "--yes", "--json")
    assert (status, said) == (0, "")
    facts = json.loads(printed)
    assert facts["cleared"] == facts["found"]
    assert {"node": 1, "publisher": 1, "silence": 1}.items() <= facts["cleared"].items()
    assert retained(mosquitto.url) == {"trnfleet/v1/other/job/a": b"{}"}
    status, _, said = forget(mosquitto, "--yes")
    assert (status, "no fleet 'lab'" in said or "retains nothing" in said) == (1, True), said


def test_more_than_a_broker_hands_out_at_once(mosquitto: MosquittoProcess) -> None:
    """More than Mosquitto's first 1,000 messages of a class are cleared, step by step."""
    hosts = 1_500
    for number in range(hosts):
        if number % 500 == 0:
            some = range(number, number + 500)
            retain(mosquitto.url, {t: p for n in some for t, p in described(f"h{n}", n).items()})
            retain(
                mosquitto.url, {t: p for n in some for t, p in presence(f"h{n}", "offline").items()}
            )
    status, printed, said = forget(mosquitto, "--yes", "--json")
    assert status == 0, said
    assert json.loads(printed)["cleared"] == {"node": hosts, "publisher": hosts}
    assert retained(mosquitto.url) == {}


def test_one_publisher_of_a_live_fleet(mosquitto: MosquittoProcess) -> None:
    """An offline publisher's messages can be cleared while others are live.

    Theirs stay.
    """
    live = {**presence("host-1", "online"), **described("host-1", 1), **claimed(1)}
    dead = {**presence("sim-9", "offline"), **described("sim-9", 7, 8), **claimed(7)}
    retain(mosquitto.url, {**live, **dead})
    status, _, said = forget(mosquitto, "--publisher", "host-1", "--yes")
    assert (status, "published by host-1" in said) == (1, True), said
    status, _, said = forget(mosquitto, "--publisher", "sim-8", "--yes")
    assert (status, "did you mean 'sim-9'" in said) == (1, True), said
    status, _, said = forget(mosquitto, "--publisher", "sim-9", "--yes")
    assert status == 0, said
    assert retained(mosquitto.url) == live


def test_alerts_are_a_watchs_while_it_is_online(mosquitto: MosquittoProcess) -> None:
    """An online watch's messages are named and not cleared, and the status reports it.

    It would write them again.
    """
    kept = {**presence("watch-1", "online", "watch"), f"{ROOT}/alert/0123456789abcdef": b"{}"}
    retain(mosquitto.url, {**kept, **presence("sim-1", "offline"), **described("sim-1", 1)})
    status, printed, said = forget(mosquitto, "--yes")
    assert status == 1, said
    assert "watch-1: a watch that is online clears its alerts itself" in printed
    assert retained(mosquitto.url) == kept
