"""The rate limits of commands: per client, per kind, and of parsing and answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.sim.publish.commands import CommandHandler
from trnfleet.wire.commands.server import (
    CLIENT_RATE,
    MOST_CLIENTS,
    READ_RATE,
    TOTAL_RATE,
    CommandRates,
)
from trnfleet.wire.messages import ReplyMessage, decode_message
from trnfleet.wire.ports import Envelope

_, BURST = CLIENT_RATE
_, TOTAL_BURST = TOTAL_RATE
_, READ_BURST = READ_RATE
WALL_NS = 1_767_600_000_000_000_000


class Stage:
    """Commands of a simulation with counted actions."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.commands = CommandHandler(self, "demo", allowed=True, simulator="sim-1")  # type: ignore[arg-type]
        self._number = 0

    def rebirth(self) -> str:
        self.done.append("rebirth")
        return "announced"

    def inject(self, *_: Any, **__: Any) -> str:
        self.done.append("inject")
        return "injected"

    def flood(
        self, count: int, now_s: float, client: str = "ops", action: str = "inject"
    ) -> list[ReplyMessage]:
        """Send commands at one instant and return the replies."""
        replies = []
        for _ in range(count):
            self._number += 1
            command = {
                "id": f"id-{self._number}",
                "client": client,
                "action": action,
                "args": {"fault": "straggler"} if action == "inject" else {},
                "expires": format_rfc3339(WALL_NS + 5 * NS_PER_S),
            }
            envelope = Envelope(
                "trnfleet/v1/demo/command/fleet", json.dumps(command).encode(), 1, received_s=now_s
            )
            replies += [
                decode_message(each.payload, ReplyMessage)
                for each in self.commands.handle(envelope, WALL_NS)
            ]
        return replies


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_flood_of_one_client_is_limited(stage: Stage) -> None:
    """Commands beyond a burst and two a second are refused with the reason.

    Only the first refusals of a flood are answered.
    """
    replies = stage.flood(1_000, 10.0)
    assert len(stage.done) == BURST
    assert sum(reply.ok for reply in replies) == BURST
    assert len(replies) == BURST + TOTAL_BURST
    assert (
        replies[BURST].reason
        == "more than 2 commands a second (bursts of 20) of one client; try again in 0.5 s"
    )
    assert stage.commands.counts.flooded == 1_000 - BURST
    assert sum(reply.ok for reply in stage.flood(10, 12.0)) == 4
    assert sum(reply.ok for reply in stage.flood(1_000, 1_000.0)) == BURST


def test_a_refused_command_may_be_sent_again(stage: Stage) -> None:
    """A command refused for the rate is carried out later under the same id."""
    stage.flood(BURST, 10.0)
    stage._number = 500
    assert not stage.flood(1, 10.0)[0].ok
    stage._number = 500
    assert stage.flood(1, 11.0)[0].ok


def test_one_client_does_not_crowd_out_another(stage: Stage) -> None:
    """While one floods, another is served; a total holds for all of them."""
    stage.flood(30, 10.0, "noisy")
    assert stage.flood(1, 10.0, "ops")[0].ok
    for number in range(4):
        stage.flood(10, 10.0, f"c{number}")
    assert stage.done.count("inject") == TOTAL_BURST
    (reply,) = stage.flood(1, 10.0, "last")
    assert "all clients together; try again in 0.2 s" in reply.reason


def test_rebirths_leave_room_for_faults(stage: Stage) -> None:
    """3,000 rebirths of as many clients do not keep a fault from being injected."""
    for number in range(3_000):
        stage.flood(1, 10.0 + number / 1_000, f"ask-{number}", "rebirth")
    assert stage.done.count("rebirth") <= TOTAL_BURST + 4 * 3
    assert stage.flood(1, 13.1, "ask-me")[0].ok
    assert stage.done[-1] == "inject"


def test_only_so_much_is_parsed_and_kept(stage: Stage) -> None:
    """A flood is not even parsed, and the least recently used clients are dropped."""
    for _ in range(READ_BURST + 5):
        stage.commands.handle(
            Envelope("trnfleet/v1/demo/command/fleet", b"{", 1, received_s=1.0), WALL_NS
        )
    assert (stage.commands.counts.undecodable, stage.commands.counts.flooded) == (READ_BURST, 5)
    rates = CommandRates()
    for number in range(MOST_CLIENTS + 5):
        rates.refusal(f"c{number}", float(number), changes=True)
    assert len(rates._clients) == MOST_CLIENTS
    assert "c4" not in rates._clients
