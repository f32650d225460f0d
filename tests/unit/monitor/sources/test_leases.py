"""An app's leases: its messages over time, and the effect of replies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trnfleet.clock import NS_PER_S
from trnfleet.monitor.sources.leases import (
    AGAIN_S,
    ANSWER_S,
    GONE_S,
    HOLD_S,
    MOST_HELD,
    SOON_S,
    Leases,
    LeaseState,
)
from trnfleet.wire.commands.leases import RENEW_S
from trnfleet.wire.messages import ReplyMessage, message_envelope
from trnfleet.wire.ports import Envelope

ROW = "uc1/us-0001"
CHIP = "uc1/us-0001/trn2u-0001-2/chip05"
WALL_NS = 1_767_600_000 * NS_PER_S


class Viewer:
    """An app with a fleet on screen, second by second."""

    def __init__(self, why_not: str = "") -> None:
        self.leases = Leases("demo", client="viewer", by="ann", why_not=why_not)
        self.now_s = 100.0
        self.has_chips = True

    def sent(self, after_s: float = 0.0, looks_at: str = "") -> list[dict[str, Any]]:
        """Return the commands sent after some seconds of viewing an address."""
        until_s = self.now_s + after_s
        found: list[Envelope] = []
        while True:
            if looks_at:
                self.leases.look(looks_at, self.now_s)
            found += self.leases.due(self.now_s, WALL_NS, lambda _row: self.has_chips)
            if self.now_s >= until_s:
                break
            self.now_s += 0.5
        assert all(each.qos == 1 and not each.retain for each in found)
        return [json.loads(each.payload) | {"topic": each.topic} for each in found]

    def open(self, row: str = ROW) -> dict[str, Any]:
        """Return the command that asks for a row."""
        self.leases.open(row, "cell-a", self.now_s)
        (asked,) = self.sent()
        return asked

    def answer(self, command: dict[str, Any], *, ok: bool = True, reason: str = "") -> None:
        topic = f"trnfleet/v1/demo/reply/viewer/{command['id']}"
        message = ReplyMessage(id=command["id"], ok=ok, reason=reason)
        self.leases.take(message_envelope(topic, message, retain=False))

    @property
    def state(self) -> tuple[LeaseState, str] | None:
        lease = self.leases.of(CHIP)
        return None if lease is None else (lease.state, lease.reason)


def test_a_row_is_asked_for_once_held_while_it_is_looked_at_and_given_back() -> None:
    """A chip below it counts; going away for a moment does not."""
    viewer = Viewer()
    asked = viewer.open()
    assert (asked["topic"], asked["action"], asked["target"]) == (
        f"trnfleet/v1/demo/command/{ROW}",
        "forward",
        ROW,
    )
    assert (asked["args"], asked["client"], asked["by"]) == ({"lease_s": 60.0}, "viewer", "ann")
    assert viewer.sent() == []
    viewer.answer(asked)
    assert viewer.state == (LeaseState.GRANTED, "")
    renewed = viewer.sent(2 * RENEW_S + 1, looks_at=CHIP)
    assert [each["args"]["lease_s"] for each in renewed] == [60.0, 60.0]
    assert len({each["id"] for each in (asked, *renewed)}) == 3
    assert viewer.sent(HOLD_S - 1, looks_at="uc1/us-0002") == []
    viewer.sent(1.0, looks_at=ROW)
    *_, left = viewer.sent(HOLD_S, looks_at="uc1/us-0001x")
    assert (left["target"], left["args"]) == (ROW, {"lease_s": 0.0})
    assert viewer.state is None


def test_a_refusal_says_why_and_is_tried_again_while_it_is_looked_at() -> None:
    """Opened once more, it is asked for at once."""
    viewer = Viewer()
    viewer.answer(viewer.open(), ok=False, reason="no \x1b[2J room")
    assert viewer.state == (LeaseState.REFUSED, "no \\u001b[2J room")
    assert viewer.sent(AGAIN_S - 1, looks_at=ROW) == []
    (again,) = viewer.sent(1.0, looks_at=ROW)
    viewer.answer(again, ok=False, reason="full")
    again = viewer.open()
    viewer.answer(again)
    assert viewer.state == (LeaseState.GRANTED, "")


def test_no_answer_is_said_and_a_late_one_counts() -> None:
    viewer = Viewer()
    asked = viewer.open()
    viewer.sent(ANSWER_S, looks_at=ROW)
    assert viewer.state == (
        LeaseState.UNANSWERED,
        "no relay of cell cell-a has answered within 3 s",
    )
    viewer.answer(asked)
    assert viewer.state == (LeaseState.GRANTED, "")


@pytest.mark.parametrize(
    "changed", [{"id": "other"}, {"topic": "trnfleet/v1/demo/reply/viewer/other"}]
)
def test_a_reply_to_something_else_changes_nothing(changed: dict[str, str]) -> None:
    """Neither by its topic nor by its id, nor one that the broker has kept."""
    viewer = Viewer()
    asked = viewer.open()
    topic = changed.get("topic", f"trnfleet/v1/demo/reply/viewer/{asked['id']}")
    message = ReplyMessage(id=changed.get("id", asked["id"]), ok=True)
    viewer.leases.take(message_envelope(topic, message, retain=False))
    viewer.leases.take(message_envelope(topic, ReplyMessage(id=asked["id"], ok=True), retain=True))
    viewer.leases.take(Envelope(topic, b"{"))
    assert viewer.state == (LeaseState.ASKED, "")


def test_chips_that_are_gone_are_asked_for_again_soon() -> None:
    """A new active relay knows no lease, so it is requested again soon."""
    viewer = Viewer()
    viewer.has_chips = False
    viewer.answer(viewer.open())
    assert viewer.sent(GONE_S, looks_at=CHIP) == []
    viewer.has_chips = True
    assert viewer.sent(GONE_S, looks_at=CHIP) == []
    viewer.has_chips = False
    (again,) = viewer.sent(looks_at=CHIP)
    assert again["args"]["lease_s"] == 60.0
    viewer.sent(ANSWER_S, looks_at=CHIP)
    assert viewer.state == (
        LeaseState.UNANSWERED,
        "no relay of cell cell-a has answered within 3 s",
    )
    viewer.answer(viewer.sent(SOON_S, looks_at=CHIP)[-1])
    assert viewer.state == (LeaseState.GRANTED, "")


def test_rows_beyond_the_most_give_back_what_was_looked_at_longest_ago() -> None:
    viewer = Viewer()
    for number in range(MOST_HELD):
        viewer.answer(viewer.open(f"uc1/us-{number:04}"))
        viewer.now_s += 1.0
    viewer.leases.look("uc1/us-0000", viewer.now_s)
    viewer.leases.open("uc1/us-0009", "cell-a", viewer.now_s)
    commands = [(each["target"], each["args"]["lease_s"]) for each in viewer.sent()]
    assert commands == [("uc1/us-0001", 0.0), ("uc1/us-0009", 60.0)]
    assert len(viewer.leases.held) == MOST_HELD
    given_back = viewer.leases.leave_all(WALL_NS)
    assert {json.loads(each.payload)["args"]["lease_s"] for each in given_back} == {0.0}
    assert (len(given_back), viewer.leases.held) == (MOST_HELD, ())


def test_what_the_broker_refuses_is_the_reason() -> None:
    """A broker's refusal is the reason.

    A granted lease lasts as long as the relay said.
    """
    viewer = Viewer()
    viewer.answer(viewer.open())
    viewer.open("uc1/us-0002")
    viewer.leases.fail("the broker refuses x: not authorised")
    assert viewer.state == (LeaseState.GRANTED, "")
    refused = viewer.leases.of("uc1/us-0002")
    assert refused is not None
    assert refused.reason == "the broker refuses x: not authorised"


def test_an_app_that_only_reads_sends_nothing_and_says_why() -> None:
    viewer = Viewer("this app only reads")
    viewer.leases.open(ROW, "cell-a", viewer.now_s)
    assert viewer.sent(AGAIN_S, looks_at=ROW) == []
    assert viewer.state == (LeaseState.REFUSED, "this app only reads")
    assert viewer.leases.leave_all(WALL_NS) == []
