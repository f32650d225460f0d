from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from support.monitor.queue_source import QueueSource

from trnfleet.clock import SystemClock
from trnfleet.services.session import BatchReader
from trnfleet.services.simulator.client import Reply, collect_replies, read_reply
from trnfleet.wire.ports import Envelope

TOPIC = "trnfleet/v1/demo/reply/ops/42"


def reply(*, topic: str = TOPIC, retain: bool = False, **change: Any) -> Envelope:
    good = {"v": 1, "id": "42", "ok": True, "reason": "done", "result": {"simulator": "sim-1"}}
    return Envelope(topic, json.dumps(good | change).encode(), 1, retain)


def test_an_answer_says_who_and_what() -> None:
    """A reply to the command is read.

    Without a name it is from an unnamed simulator.
    """
    assert read_reply(reply(), TOPIC, "42") == Reply("sim-1", True, "done", {"simulator": "sim-1"})
    unnamed = read_reply(reply(result={"simulator": 7}), TOPIC, "42")
    assert unnamed is not None
    assert unnamed.simulator == "unnamed"


@pytest.mark.parametrize(
    "envelope",
    [
        reply(topic=TOPIC + "3"),
        reply(id="43"),
        reply(retain=True),
        reply(ok="yes"),
        Envelope(TOPIC, b"\xff"),
        Envelope(TOPIC, b"x" * 200_000),
    ],
)
def test_what_is_no_answer_is_passed_over(envelope: Envelope) -> None:
    """Other topics, other ids, retained messages and garbage are no answers."""
    assert read_reply(envelope, TOPIC, "42") is None


def test_an_answer_is_plain_text() -> None:
    """Text from the wire can neither move the cursor nor add a line."""
    nasty = "\x1b[2J\u202e\nok"
    answer = read_reply(reply(reason=nasty, result={"simulator": nasty}), TOPIC, "42")
    assert answer is not None
    assert answer.reason == answer.simulator == "\\u001b[2J\\u202e\\u000aok"


async def collect(*batches: list[Envelope], timeout_s: float) -> list[Reply]:
    reader = BatchReader(QueueSource(*batches), SystemClock(), limit_s=timeout_s)
    return await collect_replies(reader, TOPIC, "42")


async def test_all_who_answer_together_are_heard() -> None:
    """After the first reply others have a moment, much shorter than the first wait."""
    first = reply()
    second = reply(ok=False, reason="no", result={"simulator": "sim-2"})
    answers = await asyncio.wait_for(collect([reply(id="1")], [first], [second], timeout_s=60), 10)
    assert [(answer.simulator, answer.ok) for answer in answers] == [
        ("sim-1", True),
        ("sim-2", False),
    ]


async def test_nobody_answers_in_time() -> None:
    """Without an answer the wait ends at its limit."""
    assert await collect([reply(id="1")], timeout_s=0.05) == []
