from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from support.stage import Recorder

from trnfleet.bridge.ec2 import Reading, Throttled
from trnfleet.bridge.mapping import messages_of
from trnfleet.bridge.service import REPEAT_S, Bridge, lines_of, serve
from trnfleet.clock import NS_PER_S, ManualClock
from trnfleet.errors import CloudError
from trnfleet.wire.topics import TopicClass, parse_topic

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.wire.ports import Envelope

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
NOW_NS = int(NOW.timestamp()) * NS_PER_S
END = datetime(2026, 1, 9, 11, 30, tzinfo=UTC)


def block(state: str = "active", **change: Any) -> dict[str, Any]:
    return {
        "CapacityBlockId": "cb-0123456789abcdef0",
        "UltraserverType": "u-trn2x64",
        "AvailabilityZone": "us-east-2b",
        "CapacityReservationIds": ["cr-1"],
        "StartDate": NOW - timedelta(days=3),
        "EndDate": END,
        "CreateDate": NOW - timedelta(days=9),
        "State": state,
    } | change


def part(name: str = "cr-1", **change: Any) -> dict[str, Any]:
    return {
        "CapacityReservationId": name,
        "InstanceType": "trn2u.48xlarge",
        "AvailabilityZone": "us-east-2b",
        "TotalInstanceCount": 4,
        "AvailableInstanceCount": 1,
        "State": "active",
        "StartDate": NOW - timedelta(days=3),
        "CreateDate": NOW - timedelta(days=9),
        "ReservationType": "capacity-block",
        "CapacityBlockId": "cb-0123456789abcdef0",
    } | change


def status(interconnect: str = "ok", unavailable: int = 0) -> dict[str, Any]:
    return {
        "CapacityBlockId": "cb-0123456789abcdef0",
        "InterconnectStatus": interconnect,
        "TotalCapacity": 4,
        "TotalAvailableCapacity": 1,
        "TotalUnavailableCapacity": unavailable,
    }


def extension(state: str = "payment-pending", **change: Any) -> dict[str, Any]:
    return {
        "CapacityReservationId": "cr-1",
        "CapacityBlockExtensionOfferingId": "cbe-1",
        "CapacityBlockExtensionStatus": state,
        "CapacityBlockExtensionPurchaseDate": NOW,
        "CapacityBlockExtensionStartDate": END,
        "CapacityBlockExtensionEndDate": END + timedelta(days=7),
        "UpfrontFee": "24030.720",
        "CurrencyCode": "USD",
    } | change


def reading(**change: Any) -> Reading:
    whole: dict[str, Any] = {
        "blocks": [block()],
        "statuses": [status()],
        "reservations": [part()],
        "extensions": [],
        "instances": [{"InstanceId": f"i-{number}", "CapacityReservationId": "cr-1"} for number in (2, 1, 3)],
    }
    return Reading(**(whole | change))


def only(found: Reading, **options: Any) -> Any:
    messages, skipped = messages_of(found, NOW_NS, **options)
    assert skipped == 0
    (message,) = messages
    return message


def test_an_ultraserver_block() -> None:
    """A block comes with its reservation folded in: type, use, times, interconnect, and what runs in it."""
    message = only(reading())
    assert (message.id, message.type, message.state.value) == (
        "cb-0123456789abcdef0",
        "capacity-block",
        "active",
    )
    assert (message.reservation_ids, message.instance_type) == (("cr-1",), "trn2u.48xlarge")
    assert (message.instances, message.launched, message.unavailable) == (4, 3, 0)
    assert (message.end, message.terminates) == ("2026-01-09T11:30:00.000Z", "2026-01-09T11:00:00.000Z")
    assert (message.interconnect.value, message.zone) == ("ok", "us-east-2b")
    assert message.ec2_ids == ("i-1", "i-2", "i-3")
    assert (message.fee, message.origin, message.on) == (None, "ec2", ())


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ({"statuses": None}, "interconnect", None),
        ({"statuses": None}, "unavailable", None),
        ({"reservations": None, "instances": None}, "launched", None),
        ({"instances": None}, "ec2_ids", ()),
        ({"extensions": None}, "extensions", ()),
        ({"statuses": [status("something-new")]}, "interconnect", "insufficient-data"),
    ],
)
def test_what_could_not_be_read_is_unknown(change: dict[str, Any], field: str, value: Any) -> None:
    """Without a call's answer its fields are not known, never zero, and the rest stands."""
    message = only(reading(**change))
    assert getattr(message, field) == value
    assert message.state.value == "active"


def test_without_blocks_their_reservations_are_told() -> None:
    """Where blocks may not be described, a block's Capacity Reservation stands for it, under the block's id."""
    message = only(reading(blocks=None, reservations=[part(EndDate=END)]))
    assert (message.id, message.type) == ("cb-0123456789abcdef0", "capacity-block")
    assert message.terminates == "2026-01-09T11:00:00.000Z"


def test_on_demand_reservations() -> None:
    """A reservation that is no block has no end and no termination, and can be left out."""
    default = part("cr-2", ReservationType="default", InstanceType="trn2.48xlarge", State="pending")
    del default["CapacityBlockId"]
    found = reading(blocks=[], statuses=[], reservations=[default], instances=[])
    message = only(found)
    assert (message.id, message.type, message.state.value) == ("cr-2", "default", "pending")
    assert (message.end, message.terminates, message.interconnect) == (None, None, None)
    assert messages_of(found, NOW_NS, with_default=False) == ([], 0)


def test_extensions_keep_their_fee() -> None:
    """Extensions come oldest first with exact fees; one that makes no sense is left out alone."""
    older = extension(
        "payment-succeeded",
        CapacityBlockExtensionOfferingId="cbe-0",
        CapacityBlockExtensionPurchaseDate=NOW - timedelta(days=1),
    )
    message = only(reading(extensions=[extension(), older, extension("no-such-state")]))
    assert [(each.id, each.state.value, each.fee) for each in message.extensions] == [
        ("cbe-0", "payment-succeeded", "24030.720"),
        ("cbe-1", "payment-pending", "24030.720"),
    ]


@pytest.mark.parametrize("bad", [{"State": "teleported"}, {"CapacityBlockId": "a/b"}, {"EndDate": 5}])
def test_what_a_newer_api_says_is_skipped_and_counted(bad: dict[str, Any]) -> None:
    """A block that cannot be understood is skipped alone, and counted."""
    messages, skipped = messages_of(
        reading(blocks=[block(**bad), block(CapacityBlockId="cb-2")], reservations=[]), NOW_NS
    )
    assert skipped == 1
    assert [message.id for message in messages] == ["cb-2"]


def made() -> Bridge:
    return Bridge("prod", client_id="bridge-1", boot="boot-1")


def sorted_out(envelopes: list[Envelope]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return reservations and events."""
    told: dict[TopicClass, list[dict[str, Any]]] = {}
    for envelope in envelopes:
        told.setdefault(parse_topic(envelope.topic).topic_class, []).append(json.loads(envelope.payload))
    return told.get(TopicClass.RESERVATION, []), told.get(TopicClass.EVENT, [])


def test_only_changes_are_told() -> None:
    """The first reading tells everything without events, the same again nothing, a change one message more."""
    bridge = made()
    first = bridge.take(reading(), NOW_NS)
    assert [(envelope.retain, envelope.qos) for envelope in first] == [(True, 1)]
    assert bridge.take(reading(), NOW_NS + NS_PER_S) == []
    states, events = sorted_out(bridge.take(reading(statuses=[status("impaired", 1)]), NOW_NS))
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
    """A state that is entered is an event, with EventBridge's detail type where it has one."""
    bridge = made()
    bridge.take(reading(blocks=[block("payment-pending")]), NOW_NS)
    _, events = sorted_out(bridge.take(reading(blocks=[block(state)]), NOW_NS))
    assert [(each["name"], each["detail_type"], each["reservation"]) for each in events] == [
        (name, detail_type, "cb-0123456789abcdef0")
    ]


def test_extensions_are_events() -> None:
    """A purchase and its payment are told once each."""
    bridge = made()
    bridge.take(reading(), NOW_NS)
    names = []
    for state in ("payment-pending", "payment-pending", "payment-succeeded"):
        _, events = sorted_out(bridge.take(reading(extensions=[extension(state)]), NOW_NS))
        names += [each["name"] for each in events]
    assert names == [
        "capacity_block_extension_payment_pending",
        "capacity_block_extension_payment_succeeded",
    ]


def test_the_warning_comes_once_at_forty_minutes() -> None:
    """Forty minutes before the end, and not a moment earlier, there is one warning; a later end has one of its own."""
    bridge = made()
    bridge.take(reading(), NOW_NS)
    end_ns = int(END.timestamp()) * NS_PER_S
    assert bridge.warn(end_ns - 2_400 * NS_PER_S - 1) == []
    _, events = sorted_out(bridge.warn(end_ns - 2_400 * NS_PER_S))
    assert [each["detail_type"] for each in events] == ["Capacity Block Expiration Warning"]
    assert bridge.warn(end_ns - 60 * NS_PER_S) == []
    later = block(EndDate=END + timedelta(days=1))
    bridge.take(reading(blocks=[later]), end_ns)
    assert len(bridge.warn(end_ns + 86_400 * NS_PER_S - 1)) == 1


def test_lines_are_the_messages() -> None:
    """On stdout the same messages stand, one a line."""
    (line,) = lines_of(made(), reading(), NOW_NS)
    assert json.loads(line)["id"] == "cb-0123456789abcdef0"


class Account:
    """Readings and failures in order; the last one goes on."""

    def __init__(self, *answers: Reading | Exception) -> None:
        self.answers = list(answers)
        self.asked = 0

    def read(self) -> Reading:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def served(
    account: Account, seconds: float, *, then: Callable[[ManualClock, Recorder], None] | None = None
) -> Recorder:
    """Serve for so long and return what was published."""
    clock = ManualClock(NOW_NS, 100.0)
    recorder = Recorder(clock)
    task = asyncio.create_task(serve(made(), recorder, account.read, clock=clock, interval_s=60.0))
    passed = 0.0
    while passed < seconds:
        # Readings are made in a thread: give it real time, and the clock its own.
        await asyncio.sleep(0.02)
        await clock.advance(10)
        passed += 10
    if then is not None:
        then(clock, recorder)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return recorder


async def test_it_announces_repeats_and_says_goodbye() -> None:
    """It says that it is there, publishes what it reads, repeats it each minute, and goes offline at the end."""
    account = Account(reading())
    recorder = await served(account, 4 * REPEAT_S)
    presence = [json.loads(envelope.payload)["state"] for _, envelope in recorder.of(TopicClass.PUBLISHER)]
    assert (presence[0], presence[-1]) == ("online", "offline")
    assert account.asked >= 3
    told = [json.loads(envelope.payload) for _, envelope in recorder.of(TopicClass.RESERVATION)]
    assert len(told) >= 3
    assert {each["change"] for each in told} == {0}


async def test_failures_later_leave_what_was_told() -> None:
    """EC2's failures after the first reading end nothing; patience makes the pauses longer."""
    account = Account(
        reading(), Throttled("EC2: Throttling"), Throttled("EC2: Throttling"), CloudError("gone"), reading()
    )
    recorder = await served(account, 600)
    assert 4 <= account.asked <= 6
    told = [json.loads(envelope.payload) for _, envelope in recorder.of(TopicClass.RESERVATION)]
    assert all(each["state"] == "active" for each in told)


async def test_a_first_reading_that_fails_is_told() -> None:
    """When nothing can be read at the start, it ends with the reason, and says goodbye."""
    clock = ManualClock(NOW_NS)
    recorder = Recorder(clock)
    with pytest.raises(CloudError, match="no credentials"):
        await serve(
            made(),
            recorder,
            Account(CloudError("no credentials")).read,
            clock=clock,
            interval_s=60.0,
            once=True,
        )
    assert json.loads(recorder.sent[-1][1].payload)["state"] == "offline"


async def test_once_is_once() -> None:
    """With `once` there is one reading."""
    account = Account(reading())
    clock = ManualClock(NOW_NS)
    await serve(made(), Recorder(clock), account.read, clock=clock, interval_s=60.0, once=True)
    assert account.asked == 1
