"""Changes between readings of EC2, as messages and events."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from support.ec2_account import (
    END,
    NOW_NS,
    block,
    extension,
    made,
    part,
    reading,
    sorted_out,
    status,
)

from trnfleet.clock import NS_PER_S

if TYPE_CHECKING:
    from trnfleet.bridge.ec2.client import Reading


def test_only_changes_are_published() -> None:
    """The first reading publishes all without events, a repetition nothing.

    A change publishes one message more.
    """
    bridge = made()
    first = bridge.apply(reading(), NOW_NS)
    assert [(envelope.retain, envelope.qos) for envelope in first] == [(True, 1)]
    assert bridge.apply(reading(), NOW_NS + NS_PER_S) == []
    states, events = sorted_out(bridge.apply(reading(statuses=[status("impaired", 1)]), NOW_NS))
    assert [(each["change"], each["interconnect"]) for each in states] == [(1, "impaired")]
    assert [(each["name"], each["severity"]) for each in events] == [
        ("capacity_block_interconnect_impaired", "warning"),
        ("capacity_block_instances_unavailable", "warning"),
    ]


@pytest.mark.parametrize(
    ("state", "name", "detail_type"),
    [
        ("active", "capacity_block_delivered", "Capacity Block Delivered"),
        ("payment-failed", "capacity_block_payment_failed", None),
    ],
)
def test_transitions_are_events(state: str, name: str, detail_type: str | None) -> None:
    """A new state is an event, with EventBridge's detail type if it has one."""
    bridge = made()
    bridge.apply(reading(blocks=[block("payment-pending")]), NOW_NS)
    _, events = sorted_out(bridge.apply(reading(blocks=[block(state)]), NOW_NS))
    assert [(each["name"], each["detail_type"], each["reservation"]) for each in events] == [
        (name, detail_type, "cb-0123456789abcdef0")
    ]


def test_extensions_are_events() -> None:
    """A purchase and its payment are told once each."""
    bridge = made()
    bridge.apply(reading(), NOW_NS)
    names = []
    for state in ("payment-pending", "payment-pending", "payment-succeeded"):
        _, events = sorted_out(bridge.apply(reading(extensions=[extension(state)]), NOW_NS))
        names += [each["name"] for each in events]
    assert names == [
        "capacity_block_extension_purchased",
        "capacity_block_extension_paid",
    ]


def test_the_warning_comes_once_at_forty_minutes() -> None:
    """There is one warning per end, exactly forty minutes before.

    A later end has another warning.
    """
    bridge = made()
    bridge.apply(reading(), NOW_NS)
    end_ns = int(END.timestamp()) * NS_PER_S
    assert bridge.warn(end_ns - 2_400 * NS_PER_S - 1) == []
    _, events = sorted_out(bridge.warn(end_ns - 2_400 * NS_PER_S))
    assert [each["detail_type"] for each in events] == ["Capacity Block Expiration Warning"]
    assert bridge.warn(end_ns - 60 * NS_PER_S) == []
    late = made()
    late.apply(reading(), NOW_NS)
    assert late.warn(end_ns) == []
    later = block(EndDate=END + timedelta(days=1))
    bridge.apply(reading(blocks=[later]), end_ns)
    assert len(bridge.warn(end_ns + 86_400 * NS_PER_S - 1)) == 1


def names_of(*readings: Reading) -> list[str]:
    """Return the events of readings in a row."""
    bridge = made()
    return [
        each["name"] for found in readings for each in sorted_out(bridge.apply(found, NOW_NS))[1]
    ]


@pytest.mark.parametrize(
    ("readings", "names"),
    [
        ([block("scheduled"), block("active"), block("active")], ["delivered"]),
        (
            [block("active"), block("unavailable"), block("active")],
            ["instances_unavailable", "instances_available"],
        ),
        ([block("payment-pending"), block("scheduled")], ["paid"]),
        ([block("active"), block("expired")], ["expired"]),
        ([block("scheduled"), block("cancelled")], ["cancelled"]),
    ],
)
def test_a_block_s_life(readings: list[dict[str, Any]], names: list[str]) -> None:
    """Each transition is told once, and coming back from unavailable is no delivery."""
    assert names_of(*(reading(blocks=[each], statuses=None) for each in readings)) == [
        f"capacity_block_{name}" for name in names
    ]


def test_a_lost_permission_is_no_event() -> None:
    """An unreadable status is no recovery, and readable again no failure."""
    ill = reading(statuses=[status("impaired", 1)])
    assert names_of(reading(), ill, reading(statuses=None), ill) == [
        "capacity_block_interconnect_impaired",
        "capacity_block_instances_unavailable",
    ]


def test_the_interconnect_is_ok_again_only_after_it_was_not() -> None:
    """Only ok after impaired is a recovery, even with insufficient data between.

    A block's first status is none.
    """
    steps = (None, "ok", "insufficient-data", "ok", "impaired", "insufficient-data", "ok")
    readings = [reading(statuses=None if each is None else [status(each)]) for each in steps]
    assert names_of(*readings) == [
        "capacity_block_interconnect_impaired",
        "capacity_block_interconnect_ok",
    ]


def test_a_block_that_is_bought_meanwhile_is_told() -> None:
    """A new block is reported as bought; blocks of the first reading are not."""
    assert names_of(reading(blocks=[], reservations=[]), reading(blocks=[block("scheduled")])) == [
        "capacity_block_purchased",
        "capacity_block_paid",
    ]


def test_on_demand_reservations_have_names_of_their_own() -> None:
    """Events of a reservation without a block are not named as a block's."""

    def default(state: str) -> Reading:
        return reading(
            blocks=[],
            statuses=[],
            reservations=[part("cr-2", ReservationType="default", State=state)],
        )

    assert names_of(default("pending"), default("active"), default("cancelled")) == [
        "capacity_reservation_active",
        "capacity_reservation_cancelled",
    ]


@pytest.mark.parametrize("forget", [False, True])
def test_what_is_gone_from_ec2(forget: bool) -> None:
    """A reservation gone from EC2 keeps its message, or is cleared if configured.

    A missing permission never clears it.
    """
    bridge = made(forget=forget)
    bridge.apply(reading(), NOW_NS)
    assert bridge.apply(reading(blocks=None, reservations=[]), NOW_NS) == []
    gone = bridge.apply(reading(blocks=[], reservations=[]), NOW_NS)
    topic = "trnfleet/v1/prod/reservation/cb-0123456789abcdef0"
    assert [(each.topic, each.payload, each.retain) for each in gone] == (
        [(topic, b"", True)] if forget else []
    )
    assert len(list(bridge.announce())) == (1 if forget else 2)
    end_ns = int(END.timestamp()) * NS_PER_S
    assert bridge.warn(end_ns - NS_PER_S) == []


def test_what_makes_no_sense_is_counted_once() -> None:
    """A repeated invalid answer counts once."""
    bridge = made()
    for _ in range(3):
        assert bridge.apply(reading(blocks=[block("teleported")]), NOW_NS) == []
    assert bridge.skipped == 1
