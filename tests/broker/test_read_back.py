"""Writes to a broker unable to refuse them: MQTT 3.1.1 with an access list."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import re
from typing import TYPE_CHECKING

import pytest
from support.processes.programs import run
from support.processes.waiting import running
from support.record.fixtures import RECORDINGS

from trnfleet.errors import NotConfirmedError
from trnfleet.services import read_back
from trnfleet.services.alerts_client import open_operator
from trnfleet.services.read_back import ReadBackPublisher, StateCheck
from trnfleet.services.session import BrokerSession
from trnfleet.tasks import Ending
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    import subprocess
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess

pytestmark = pytest.mark.broker

ACCESS = """
topic read #
user operator
topic readwrite trnfleet/v1/+/silence/#
user simulator
topic readwrite trnfleet/#
user blind
topic write trnfleet/#
"""


REPLAY = (
    "replay",
    str(RECORDINGS / "steady-training.mcap"),
    "--speed",
    "600",
    "--mqtt",
    "3.1.1",
    "--as",
)


async def silence(session: BrokerSession) -> str:
    """Write a silence, clear its topic, and return its id."""
    async with open_operator(session, "lab", "me") as operator:
        written = await operator.silence(["chip=a"], now_ns=0, lasts_s=60, why="swap")
    publisher = session.publisher("clears")
    async with running(publisher.run()):
        await publisher.wait_connected(5)
        topic = f"trnfleet/v1/lab/silence/{written}"
        await ReadBackPublisher(session, publisher).publish([Envelope(topic, b"", 1, retain=True)])
    return written


def guarded(mosquitto_with: Callable[..., MosquittoProcess], folder: Path) -> MosquittoProcess:
    """Return a broker with the access list."""
    lists = folder / "acl"
    lists.write_text(ACCESS, encoding="utf-8")
    lists.chmod(0o600)
    return mosquitto_with(f"acl_file {lists}")


async def test_what_is_not_given_back_is_not_confirmed(
    mosquitto_with: Callable[..., MosquittoProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silently dropped write is reported.

    A stored one and a clearing succeed.
    """
    monkeypatch.setattr(read_back, "ANSWER_S", 0.5)
    broker = guarded(mosquitto_with, tmp_path)
    viewer = BrokerSession(broker.url, protocol="3.1.1")
    operator = dataclasses.replace(viewer, url=dataclasses.replace(broker.url, user="operator"))
    simulate = ("simulate", "--fleet", "lab", "--ticks", "1", "--mqtt", "3.1.1", "--broker")

    def simulated_by(user: str) -> asyncio.Task[subprocess.CompletedProcess[str]]:
        url = str(dataclasses.replace(broker.url, user=user))
        return asyncio.create_task(asyncio.to_thread(run, *simulate, url))

    def replayed_by(user: str) -> asyncio.Task[subprocess.CompletedProcess[str]]:
        url = str(dataclasses.replace(broker.url, user=user))
        return asyncio.create_task(asyncio.to_thread(run, *REPLAY, f"of-{user}", "--broker", url))

    seeing, replaying, dropped = (
        simulated_by("simulator"),
        replayed_by("simulator"),
        replayed_by("operator"),
    )
    assert await silence(operator)
    with pytest.raises(NotConfirmedError) as refused:
        await silence(viewer)
    assert str(refused.value).startswith("not confirmed: trnfleet/v1/lab/silence/")
    assert f" at {broker.url}: not given back within 0.5 s" in str(refused.value)
    assert ((await seeing).returncode, "not confirmed" in seeing.result().stderr) == (0, False)
    assert ((await replaying).returncode, "not confirmed" in replaying.result().stderr) == (
        0,
        False,
    )
    assert (await dropped).returncode == 4
    assert "not confirmed: trnfleet/v1/of-operator/node/" in dropped.result().stderr
    # Both write the same topics: one after the other.
    blind = simulated_by("blind")
    assert (await blind).returncode == 4
    assert "not confirmed: trnfleet/v1/lab/node/" in blind.result().stderr


@contextlib.asynccontextmanager
async def contested(
    session: BrokerSession, topics: str, payload: bytes
) -> AsyncIterator[list[str]]:
    """Replace others' messages on some topics at once, and yield the replaced topics."""
    source, publisher = session.source([(topics, 1)]), session.publisher("contends")
    replaced: list[str] = []

    async def contend() -> None:
        while batch := await source.take():
            topics = [
                each.topic
                for each in batch
                if each.payload not in {b"", payload} and not each.retain
            ]
            replaced.extend(topics)
            await publisher.publish([Envelope(topic, payload, 1, retain=True) for topic in topics])

    async with running(source.run()), running(publisher.run()):
        await source.wait_connected(5)
        await publisher.wait_connected(5)
        async with running(contend()):
            yield replaced


async def test_another_publisher_is_no_reason_to_complain(
    mosquitto_with: Callable[..., MosquittoProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write replaced at once is done.

    A lasting foreign message is reported.
    """
    monkeypatch.setattr(read_back, "ANSWER_S", 1.0)
    broker = guarded(mosquitto_with, tmp_path)
    viewer = BrokerSession(broker.url, protocol="3.1.1")
    simulator = dataclasses.replace(viewer, url=dataclasses.replace(broker.url, user="simulator"))
    node = Envelope("trnfleet/v1/lab/node/uc1", b"ours", 1, retain=True)

    async def checked(session: BrokerSession) -> str:
        """Publish a descriptor, then an unreadable message, and return the report."""
        lines: list[str] = []
        publisher = session.publisher("ours")
        check = StateCheck(session, publisher, lines.append)
        presence = Envelope("trnfleet/v1/lab/publisher/ours", b"x", 1, retain=True)
        async with running(publisher.run()):
            await publisher.wait_connected(5)
            await publisher.publish([presence, node])
            await check.run()
            await check.finish(Ending())
        if lines:
            with pytest.raises(NotConfirmedError, match=re.escape(lines[0])):
                check.raise_if_lost()
        else:
            check.raise_if_lost()
        return "\n".join(lines)

    async with contested(simulator, "trnfleet/v1/lab/#", b"theirs") as replaced:
        assert await silence(simulator)
        replaced.clear()
        assert await checked(simulator) == ""
        # Sent once more, because theirs was there.
        assert replaced.count(node.topic) == 2
    said = await checked(viewer)
    assert said.startswith("not confirmed: trnfleet/v1/lab/node/uc1 at ")
    assert "another message is there, and stays there" in said
