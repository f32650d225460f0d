"""Events delivered by EventBridge, and events already published by the bridge."""

from __future__ import annotations

import pytest
from support.ec2_account import END, INTERRUPTION, NOW_NS, block, line, made, reading, sorted_out

from trnfleet.clock import NS_PER_S


def test_an_instance_s_warning_comes_from_eventbridge() -> None:
    """An instance's warning has EventBridge's id, time, resources and detail.

    It also names the instance's block.
    """
    bridge = made()
    bridge.apply(reading(), NOW_NS)
    _, (event,) = sorted_out(bridge.notify(INTERRUPTION, NOW_NS))
    assert event["id"] == "0a1b2c3d-0000-4000-8000-000000000001"
    assert (event["name"], event["severity"]) == ("capacity_block_interruption_warning", "warning")
    assert (event["ts"], event["reservation"]) == (
        "2026-01-09T10:50:02.000Z",
        "cb-0123456789abcdef0",
    )
    assert event["resources"] == ["arn:aws:ec2:us-east-2:111122223333:instance/i-2"]
    assert event["detail"]["instance-id"] == "i-2"
    assert event["text"].startswith(
        "EC2 interrupts i-2 of cb-0123456789abcdef0 at 2026-01-09T11:00:00Z"
    )


@pytest.mark.parametrize("is_clock_first", [True, False])
@pytest.mark.parametrize(
    "name", ["Capacity Block Expiration Warning", "Capacity Block Reservation Expiration Warning"]
)
def test_one_end_is_warned_of_once(name: str, is_clock_first: bool) -> None:
    """The first warning, by the clock or EventBridge, is published.

    EventBridge's may have its usual or its older name.
    """
    bridge = made()
    bridge.apply(reading(), NOW_NS)
    due_ns = int(END.timestamp()) * NS_PER_S - 2_300 * NS_PER_S
    if is_clock_first:
        _, (event,) = sorted_out(bridge.warn(due_ns))
        assert bridge.notify(line(name), due_ns) == []
    else:
        _, (event,) = sorted_out(bridge.notify(line(name), due_ns))
        assert bridge.warn(due_ns) == []
    assert event["detail_type"] == "Capacity Block Expiration Warning"
    assert event["detail"] == {
        "capacity-reservation-id": "cr-1",
        "end-date": "2026-01-09T11:30:00Z",
    }


@pytest.mark.parametrize("old", ["2026-01-02T11:30:00Z", "soon"])
def test_a_warning_of_another_end_does_not_replace_the_present_one(old: str) -> None:
    """A queued warning of an earlier end, or without a time, is published, too.

    The earlier end is the one before an extension.
    """
    bridge = made()
    bridge.apply(reading(), NOW_NS)
    detail = {"capacity-reservation-id": "cr-1", "end-date": old}
    _, (event,) = sorted_out(bridge.notify(line(detail=detail), NOW_NS))
    assert event["detail"] == detail
    _, (event,) = sorted_out(bridge.warn(int(END.timestamp()) * NS_PER_S - 2_300 * NS_PER_S))
    assert event["detail"]["end-date"] == "2026-01-09T11:30:00Z"


@pytest.mark.parametrize("is_reading_first", [True, False])
def test_one_delivery_is_published_once(is_reading_first: bool) -> None:
    """A delivery reported by EventBridge and by a reading is published once."""
    bridge = made()
    bridge.apply(reading(blocks=[block("scheduled")]), NOW_NS)
    notified = [] if is_reading_first else bridge.notify(line("Capacity Block Delivered"), NOW_NS)
    taken = bridge.apply(reading(), NOW_NS)
    notified = notified or bridge.notify(line("Capacity Block Delivered"), NOW_NS)
    by_reading, by_eventbridge = (
        [each["name"] for each in sorted_out(found)[1]] for found in (taken, notified)
    )
    told = ["capacity_block_delivered"]
    assert (by_reading, by_eventbridge) == ((told, []) if is_reading_first else ([], told))


def test_events_about_what_is_not_known_are_published() -> None:
    """An event of another account's reservation has its Capacity Reservation.

    An event of an unknown instance has none.
    """
    bridge = made()
    other = {"capacity-reservation-id": "cr-9", "end-date": "2026-01-09T11:30:00Z"}
    _, (event,) = sorted_out(bridge.notify(line(detail=other), NOW_NS))
    assert event["reservation"] == "cr-9"
    strange = {**other, "capacity-reservation-id": "no/name"}
    _, (event,) = sorted_out(bridge.notify(line(detail=strange, id="\x1b[2J"), NOW_NS))
    assert (event["reservation"], event["id"].startswith("boot-1-")) == (None, True)
    _, (event,) = sorted_out(bridge.notify(INTERRUPTION, NOW_NS))
    assert event["reservation"] is None


def test_lines_that_are_no_events_are_counted() -> None:
    """Invalid lines are logged once and dropped; other events are skipped."""
    bridge = made()
    assert bridge.notify(b"{", NOW_NS) == bridge.notify(b"{", NOW_NS) == []
    assert bridge.skipped == 1
    assert bridge.notify(line("EC2 Instance State-change Notification"), NOW_NS) == []
    assert bridge.skipped == 1
