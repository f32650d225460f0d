"""Writes to a broker that cannot refuse them: MQTT 3.1.1, with an access list."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING

import pytest
from support.processes.programs import run
from support.processes.waiting import running

from trnfleet.errors import NotConfirmedError
from trnfleet.services import read_back
from trnfleet.services.alerts_client import open_operator
from trnfleet.services.read_back import ReadBackPublisher
from trnfleet.services.session import BrokerSession
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    from collections.abc import Callable
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


async def test_what_is_not_given_back_is_not_confirmed(
    mosquitto_with: Callable[..., MosquittoProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that the broker dropped without a word is told; one that it keeps, and one that clears, are done."""
    monkeypatch.setattr(read_back, "READ_BACK_S", 0.5)
    lists = tmp_path / "acl"
    lists.write_text(ACCESS, encoding="utf-8")
    lists.chmod(0o600)
    broker = mosquitto_with(f"acl_file {lists}")
    viewer = BrokerSession(broker.url, protocol="3.1.1")
    operator = dataclasses.replace(viewer, url=dataclasses.replace(broker.url, user="operator"))
    simulate = ("simulate", "--fleet", "lab", "--ticks", "1", "--mqtt", "3.1.1", "--broker")
    seeing, blind = (
        asyncio.create_task(
            asyncio.to_thread(run, *simulate, str(dataclasses.replace(broker.url, user=user)))
        )
        for user in ("simulator", "blind")
    )
    assert await silence(operator)
    with pytest.raises(NotConfirmedError) as refused:
        await silence(viewer)
    assert str(refused.value).startswith("not confirmed: trnfleet/v1/lab/silence/")
    assert f" at {broker.url}: not given back within 0.5 s" in str(refused.value)
    assert ((await seeing).returncode, "not confirmed" in seeing.result().stderr) == (0, False)
    assert (await blind).returncode == 4
    assert "not confirmed: trnfleet/v1/lab/node/" in blind.result().stderr
