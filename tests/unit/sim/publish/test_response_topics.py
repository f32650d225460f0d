"""Reply topics requested by MQTT 5 properties of commands."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.sim.publish.commands import CommandHandler
from trnfleet.wire.ports import Envelope, MessageProperties

WALL_NS = 1_767_600_000_000_000_000


class Announcing:
    """A simulation that counts requests for its state.

    It does nothing else.
    """

    announced = 0

    def rebirth(self) -> str:
        self.announced += 1
        return "announced"


def ask(properties: MessageProperties | None) -> tuple[Envelope, int]:
    """Send a command; return the reply, and how often it was carried out."""
    control: Any = Announcing()
    commands = CommandHandler(control, "demo", allowed=True, simulator="sim-1")
    request = {
        "id": "9",
        "client": "ops",
        "action": "rebirth",
        "expires": format_rfc3339(WALL_NS + 5 * NS_PER_S),
    }
    envelope = Envelope(
        "trnfleet/v1/demo/command/fleet",
        json.dumps(request).encode(),
        1,
        received_s=1.0,
        properties=properties,
    )
    (reply,) = commands.handle(envelope, WALL_NS)
    return reply, control.announced


def test_a_response_topic_gets_the_reply_with_its_correlation_data() -> None:
    """The reply goes below the fleet's replies, with the correlation data and nothing else."""
    topic = "trnfleet/v1/demo/reply/rr/some/where"
    reply, announced = ask(MessageProperties((("a", "b"),), topic, b"\x00\xff", 5))
    assert (reply.topic, announced) == (topic, 1)
    assert reply.properties == MessageProperties(correlation=b"\x00\xff")


@pytest.mark.parametrize("properties", [None, MessageProperties((("a", "b"),))])
def test_without_a_response_topic_the_usual_one_is_taken(
    properties: MessageProperties | None,
) -> None:
    """User properties are the asker's own."""
    reply, announced = ask(properties)
    assert (reply.topic, reply.properties, announced) == ("trnfleet/v1/demo/reply/ops/9", None, 1)


def test_correlation_data_alone_comes_back_on_the_usual_topic() -> None:
    """Correlation data identifies the request on any topic."""
    reply, _ = ask(MessageProperties(correlation=b"c"))
    assert reply.topic == "trnfleet/v1/demo/reply/ops/9"
    assert reply.properties == MessageProperties(correlation=b"c")


@pytest.mark.parametrize(
    "response_topic",
    [
        "trnfleet/v1/demo/telemetry/uc1/us-0001",
        "trnfleet/v1/other/reply/rr/1",
        "site/v1/demo/reply/rr/1",
        "trnfleet/v1/demo/reply",
        "trnfleet/v1/demo/reply/#",
        "trnfleet/v1/demo/reply/../node/x",
        "trnfleet/v1/demo/reply/a/b/c/d/e",
        "",
    ],
)
def test_no_response_topic_leads_out_of_the_replies(response_topic: str) -> None:
    """A command with a response topic outside the replies is refused.

    Otherwise its sender could write anywhere. The refusal goes to the usual reply topic.
    """
    reply, announced = ask(MessageProperties(response_topic=response_topic))
    assert (reply.topic, reply.properties, announced) == ("trnfleet/v1/demo/reply/ops/9", None, 0)
    assert (
        json.loads(reply.payload)["reason"]
        == "its response topic is not below trnfleet/v1/demo/reply/"
    )
