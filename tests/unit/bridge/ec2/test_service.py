from __future__ import annotations

import asyncio
import contextlib
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

import pytest
from support.sim.simulation import Recorder

from trnfleet.bridge.ec2 import service
from trnfleet.bridge.ec2.client import Reading, Throttled
from trnfleet.bridge.ec2.mapping import messages_of
from trnfleet.bridge.ec2.service import REPEAT_S, Bridge, serve
from trnfleet.clock import NS_PER_S, ManualClock
from trnfleet.errors import CloudError
from trnfleet.transport.memory import MemoryBus
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
    messages, problems = messages_of(found, NOW_NS, **options)
    assert problems == []
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
        ({"statuses": [{"CapacityBlockId": "cb-0123456789abcdef0"}]}, "unavailable", None),
        ({"reservations": None, "statuses": None}, "instances", 4),
    ],
)
def test_what_could_not_be_read_is_unknown(change: dict[str, Any], field: str, value: Any) -> None:
    """Without a call's answer its fields are not known, never zero, and the rest stands."""
    message = only(reading(**change))
    assert getattr(message, field) == value
    assert message.state.value == "active"


def test_without_blocks_their_reservations_are_published() -> None:
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
    assert messages_of(found, NOW_NS, with_default=False) == ([], [])


def test_extensions_keep_their_fee() -> None:
    """Extensions come oldest first with exact fees; one that makes no sense is left out alone."""
    older = extension(
        "payment-succeeded",
        CapacityBlockExtensionOfferingId="cbe-0",
        CapacityBlockExtensionPurchaseDate=NOW - timedelta(days=1),
    )
    strange = extension("no-such-state", CapacityBlockExtensionOfferingId="cbe-2")
    (message,), problems = messages_of(reading(extensions=[extension(), older, strange]), NOW_NS)
    assert len(problems) == 1
    assert [(each.id, each.state.value, each.fee) for each in message.extensions] == [
        ("cbe-0", "payment-succeeded", "24030.720"),
        ("cbe-1", "payment-pending", "24030.720"),
    ]


@pytest.mark.parametrize("bad", [{"State": "teleported"}, {"CapacityBlockId": "a/b"}, {"EndDate": 5}])
def test_what_a_newer_api_says_is_skipped_and_counted(bad: dict[str, Any]) -> None:
    """A block that cannot be understood is skipped alone, and counted."""
    found = reading(blocks=[block(**bad), block(CapacityBlockId="cb-2")], reservations=[])
    messages, problems = messages_of(found, NOW_NS)
    assert len(problems) == 1
    assert [message.id for message in messages] == ["cb-2"]


def made(*, forget: bool = False) -> Bridge:
    return Bridge("prod", client_id="bridge-1", boot="boot-1", forget=forget)


def sorted_out(envelopes: list[Envelope]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return reservations and events."""
    told: dict[TopicClass, list[dict[str, Any]]] = {}
    for envelope in envelopes:
        told.setdefault(parse_topic(envelope.topic).topic_class, []).append(json.loads(envelope.payload))
    return told.get(TopicClass.RESERVATION, []), told.get(TopicClass.EVENT, [])


def test_only_changes_are_published() -> None:
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
        "capacity_block_extension_purchased",
        "capacity_block_extension_paid",
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
    late = made()
    late.take(reading(), NOW_NS)
    assert late.warn(end_ns) == []
    later = block(EndDate=END + timedelta(days=1))
    bridge.take(reading(blocks=[later]), end_ns)
    assert len(bridge.warn(end_ns + 86_400 * NS_PER_S - 1)) == 1


def line(kind: str = "Capacity Block Expiration Warning", **change: Any) -> bytes:
    """Return an event of the block as EventBridge delivers it."""
    data = {
        "version": "0", "id": "0a1b2c3d-0000-4000-8000-000000000001", "detail-type": kind, "source": "aws.ec2",
        "account": "111122223333", "time": "2026-01-09T10:50:02Z", "region": "us-east-2",
        "resources": ["arn:aws:ec2:us-east-2:111122223333:capacity-reservation/cr-1"],
        "detail": {"capacity-reservation-id": "cr-1", "end-date": "2026-01-09T11:30:00Z"},
    }  # fmt: skip  # keys of a document
    return json.dumps({**data, **change}).encode() + b"\n"


INTERRUPTION = line(
    "EC2 Capacity Reservation Instance Interruption Warning",
    resources=["arn:aws:ec2:us-east-2:111122223333:instance/i-2"],
    detail={
        "instance-id": "i-2",
        "instance-action": "terminate",
        "instance-termination-time": "2026-01-09T11:00:00Z",
    },
)


def test_an_instance_s_warning_comes_from_eventbridge() -> None:
    """The warning of an instance is published with EventBridge's id, time, resources and detail, and the block that it runs in."""
    bridge = made()
    bridge.take(reading(), NOW_NS)
    _, (event,) = sorted_out(bridge.notify(INTERRUPTION, NOW_NS))
    assert event["id"] == "0a1b2c3d-0000-4000-8000-000000000001"
    assert (event["name"], event["severity"]) == ("capacity_block_interruption_warning", "warning")
    assert (event["ts"], event["reservation"]) == ("2026-01-09T10:50:02.000Z", "cb-0123456789abcdef0")
    assert event["resources"] == ["arn:aws:ec2:us-east-2:111122223333:instance/i-2"]
    assert event["detail"]["instance-id"] == "i-2"
    assert event["text"].startswith("EC2 interrupts i-2 of cb-0123456789abcdef0 at 2026-01-09T11:00:00Z")


@pytest.mark.parametrize("is_clock_first", [True, False])
@pytest.mark.parametrize(
    "name", ["Capacity Block Expiration Warning", "Capacity Block Reservation Expiration Warning"]
)
def test_one_end_is_warned_of_once(name: str, is_clock_first: bool) -> None:
    """The warning comes by the clock or from EventBridge, under its usual or its older name: whichever is first is published."""
    bridge = made()
    bridge.take(reading(), NOW_NS)
    due_ns = int(END.timestamp()) * NS_PER_S - 2_300 * NS_PER_S
    if is_clock_first:
        _, (event,) = sorted_out(bridge.warn(due_ns))
        assert bridge.notify(line(name), due_ns) == []
    else:
        _, (event,) = sorted_out(bridge.notify(line(name), due_ns))
        assert bridge.warn(due_ns) == []
    assert event["detail_type"] == "Capacity Block Expiration Warning"
    assert event["detail"] == {"capacity-reservation-id": "cr-1", "end-date": "2026-01-09T11:30:00Z"}


@pytest.mark.parametrize("old", ["2026-01-02T11:30:00Z", "soon"])
def test_a_warning_of_another_end_does_not_replace_the_present_one(old: str) -> None:
    """A queue that still has the warning of the end before an extension, or one without a time: both are published."""
    bridge = made()
    bridge.take(reading(), NOW_NS)
    detail = {"capacity-reservation-id": "cr-1", "end-date": old}
    _, (event,) = sorted_out(bridge.notify(line(detail=detail), NOW_NS))
    assert event["detail"] == detail
    _, (event,) = sorted_out(bridge.warn(int(END.timestamp()) * NS_PER_S - 2_300 * NS_PER_S))
    assert event["detail"]["end-date"] == "2026-01-09T11:30:00Z"


@pytest.mark.parametrize("is_reading_first", [True, False])
def test_one_delivery_is_published_once(is_reading_first: bool) -> None:
    """A delivery that EventBridge has told is not published again by the next reading, nor the other way round."""
    bridge = made()
    bridge.take(reading(blocks=[block("scheduled")]), NOW_NS)
    notified = [] if is_reading_first else bridge.notify(line("Capacity Block Delivered"), NOW_NS)
    taken = bridge.take(reading(), NOW_NS)
    notified = notified or bridge.notify(line("Capacity Block Delivered"), NOW_NS)
    by_reading, by_eventbridge = (
        [each["name"] for each in sorted_out(found)[1]] for found in (taken, notified)
    )
    told = ["capacity_block_delivered"]
    assert (by_reading, by_eventbridge) == ((told, []) if is_reading_first else ([], told))


def test_events_about_what_is_not_known_are_published() -> None:
    """An event about another account's reservation has its Capacity Reservation, one about an unknown instance none."""
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
    """What makes no sense is logged once and left out, and other events are passed over."""
    bridge = made()
    assert bridge.notify(b"{", NOW_NS) == bridge.notify(b"{", NOW_NS) == []
    assert bridge.skipped == 1
    assert bridge.notify(line("EC2 Instance State-change Notification"), NOW_NS) == []
    assert bridge.skipped == 1


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


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read without a thread, so that the hand-turned clock is the only one."""

    async def inline(call: Callable[[], Reading]) -> Reading:
        return call()

    monkeypatch.setattr(service, "in_thread", inline)


class Served:
    """A bridge that serves while the block lasts, with a clock to turn."""

    def __init__(self, account: Account, *, interval_s: float = 60.0, bridge: Bridge | None = None) -> None:
        self.clock = ManualClock(NOW_NS, 100.0)
        self.recorder = Recorder(self.clock)
        self._work = serve(
            bridge or made(), self.recorder, account.read, clock=self.clock, interval_s=interval_s
        )

    def payloads(self, kind: TopicClass) -> list[dict[str, Any]]:
        return [json.loads(envelope.payload) for _, envelope in self.recorder.of(kind)]

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._work)
        await self.clock.advance(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task


async def test_it_announces_repeats_and_says_goodbye() -> None:
    """It says that it is there, publishes what it reads, repeats it each minute, and goes offline at the end."""
    account = Account(reading())
    async with Served(account) as served:
        for minute in range(4):
            assert account.asked == minute + 1
            assert len(served.payloads(TopicClass.RESERVATION)) == minute + 1
            await served.clock.advance(REPEAT_S)
    presence = [each["state"] for each in served.payloads(TopicClass.PUBLISHER)]
    assert (presence[0], presence[-1]) == ("online", "offline")
    assert {each["change"] for each in served.payloads(TopicClass.RESERVATION)} == {0}


async def test_it_repeats_each_minute_however_seldom_it_reads() -> None:
    """With an hour between two readings everything is still repeated each minute."""
    account = Account(reading())
    async with Served(account, interval_s=3_600.0) as served:
        await served.clock.advance(10 * REPEAT_S)
    assert account.asked == 1
    assert len(served.payloads(TopicClass.RESERVATION)) == 11


@pytest.mark.parametrize("state", ["active", "unavailable"])
async def test_the_warning_comes_on_time_however_seldom_it_reads(state: str) -> None:
    """The warning comes at its second, not with the next reading, and once."""
    account = Account(reading(blocks=[block(state, EndDate=NOW + timedelta(minutes=40, seconds=90))]))
    async with Served(account, interval_s=3_600.0) as served:
        await served.clock.advance(89.999)
        assert served.payloads(TopicClass.EVENT) == []
        await served.clock.advance(0.001)
        (event,) = served.payloads(TopicClass.EVENT)
        assert (event["name"], event["ts"]) == (
            "capacity_block_expiration_warning",
            "2026-01-05T09:01:30.000Z",
        )
        await served.clock.advance(3_600)
    assert len(served.payloads(TopicClass.EVENT)) == 1


async def test_failures_later_leave_what_was_told() -> None:
    """EC2's failures after the first reading end nothing, and clear nothing."""
    account = Account(reading(), Throttled("EC2: Throttling"), CloudError("gone"), reading())
    async with Served(account, bridge=made(forget=True)) as served:
        await served.clock.advance(600)
    assert account.asked > 3
    states = {each["state"] for each in served.payloads(TopicClass.RESERVATION)}
    assert states == {"active"}


async def test_patience_doubles_up_to_a_quarter_of_an_hour() -> None:
    """While EC2 throttles for ever the pauses double up to their limit, and one success ends them."""
    account = Account(*[Throttled("EC2: Throttling")] * 7, reading())
    async with Served(account) as served:
        for number, pause_s in enumerate((120, 240, 480, 900, 900, 900, 900, 60, 60), 1):
            assert account.asked == number
            await served.clock.advance(pause_s - 0.001)
            assert account.asked == number
            await served.clock.advance(0.001)


@pytest.mark.parametrize("failure", [CloudError("no credentials"), Throttled("EC2: Throttling")])
async def test_a_first_reading_that_fails_is_an_error(failure: CloudError) -> None:
    """When the only reading fails, throttled or not, it ends with the reason, and says goodbye."""
    clock = ManualClock(NOW_NS)
    recorder = Recorder(clock)
    with pytest.raises(CloudError, match=str(failure)):
        await serve(made(), recorder, Account(failure).read, clock=clock, interval_s=60.0, once=True)
    assert json.loads(recorder.sent[-1][1].payload)["state"] == "offline"


async def test_once_is_once() -> None:
    """With `once` there is one reading."""
    account = Account(reading())
    clock = ManualClock(NOW_NS)
    await serve(made(), Recorder(clock), account.read, clock=clock, interval_s=60.0, once=True)
    assert account.asked == 1


@pytest.mark.parametrize("once", [True, False])
async def test_eventbridge_s_events_are_followed_to_their_end(once: bool) -> None:
    """Lines are read after the first reading, blank ones passed over; at their end the bridge reads EC2 on, or ends with `once`."""
    clock = ManualClock(NOW_NS)
    recorder = Recorder(clock)
    lines = [INTERRUPTION, b"\n", line(), b""]
    account = Account(reading())
    work = serve(
        made(),
        recorder,
        account.read,
        clock=clock,
        interval_s=60.0,
        once=once,
        next_line=lambda: lines.pop(0),
    )
    task = asyncio.create_task(work)
    await clock.advance(0)
    await clock.advance(120)
    assert task.done() is once
    assert account.asked == (1 if once else 3)
    names = [json.loads(envelope.payload)["name"] for _, envelope in recorder.of(TopicClass.EVENT)]
    assert names == ["capacity_block_interruption_warning", "capacity_block_expiration_warning"]
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert json.loads(recorder.sent[-1][1].payload)["state"] == "offline"


async def test_a_broker_that_forgets_is_told_again() -> None:
    """After a reconnect everything is there again, the same change and all; a killed bridge is offline by its will."""
    clock = ManualClock(NOW_NS)
    bus = MemoryBus(clock)
    bridge = made()
    publisher = bus.publisher("bridge-1", will=bridge.presence("offline"))
    publisher.on_connect(bridge.announce)
    publisher.connect()
    work = serve(bridge, publisher, Account(reading()).read, clock=clock, interval_s=60.0)
    task = asyncio.create_task(work)
    await clock.advance(1)
    before = bus.retained
    assert sorted(before) == [
        "trnfleet/v1/prod/publisher/bridge-1",
        "trnfleet/v1/prod/reservation/cb-0123456789abcdef0",
    ]
    bus.disconnect()
    assert bus.retained == {}
    bus.reconnect()
    assert bus.retained == before
    publisher.die()
    assert b'"offline"' in bus.retained["trnfleet/v1/prod/publisher/bridge-1"].payload
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def names_of(*readings: Reading) -> list[str]:
    """Return the events of readings in a row."""
    bridge = made()
    return [each["name"] for found in readings for each in sorted_out(bridge.take(found, NOW_NS))[1]]


@pytest.mark.parametrize(
    ("readings", "names"),
    [
        ([block("scheduled"), block("active"), block("active")], ["delivered"]),
        ([block("active"), block("unavailable"), block("active")], ["instances_unavailable", "instances_available"]),
        ([block("payment-pending"), block("scheduled")], ["paid"]),
        ([block("active"), block("expired")], ["expired"]),
        ([block("scheduled"), block("cancelled")], ["cancelled"]),
    ],
)  # fmt: skip  # a row a life
def test_a_block_s_life(readings: list[dict[str, Any]], names: list[str]) -> None:
    """Each transition is told once, and coming back from unavailable is no delivery."""
    assert names_of(*(reading(blocks=[each], statuses=None) for each in readings)) == [
        f"capacity_block_{name}" for name in names
    ]


def test_a_lost_permission_is_no_event() -> None:
    """When the status can no longer be read nothing has got well, and when it can be read again nothing has broken."""
    ill = reading(statuses=[status("impaired", 1)])
    assert names_of(reading(), ill, reading(statuses=None), ill) == [
        "capacity_block_interconnect_impaired",
        "capacity_block_instances_unavailable",
    ]


def test_the_interconnect_is_ok_again_only_after_it_was_not() -> None:
    """The first status of a block is no recovery; ok after impaired is one, with too little data between or not."""
    steps = (None, "ok", "insufficient-data", "ok", "impaired", "insufficient-data", "ok")
    readings = [reading(statuses=None if each is None else [status(each)]) for each in steps]
    assert names_of(*readings) == [
        "capacity_block_interconnect_impaired",
        "capacity_block_interconnect_ok",
    ]


def test_a_block_that_is_bought_meanwhile_is_told() -> None:
    """A block that was not there before is bought; those of the first reading are not."""
    assert names_of(reading(blocks=[], reservations=[]), reading(blocks=[block("scheduled")])) == [
        "capacity_block_purchased",
        "capacity_block_paid",
    ]


def test_on_demand_reservations_have_names_of_their_own() -> None:
    """What befalls a reservation that is no block is not told as a block's."""

    def default(state: str) -> Reading:
        return reading(
            blocks=[], statuses=[], reservations=[part("cr-2", ReservationType="default", State=state)]
        )

    assert names_of(default("pending"), default("active"), default("cancelled")) == [
        "capacity_reservation_active",
        "capacity_reservation_cancelled",
    ]


@pytest.mark.parametrize("forget", [False, True])
def test_what_is_gone_from_ec2(forget: bool) -> None:
    """What is gone stays as it was told last, or is cleared where that is asked for, never for want of a permission."""
    bridge = made(forget=forget)
    bridge.take(reading(), NOW_NS)
    assert bridge.take(reading(blocks=None, reservations=[]), NOW_NS) == []
    gone = bridge.take(reading(blocks=[], reservations=[]), NOW_NS)
    topic = "trnfleet/v1/prod/reservation/cb-0123456789abcdef0"
    assert [(each.topic, each.payload, each.retain) for each in gone] == (
        [(topic, b"", True)] if forget else []
    )
    assert len(list(bridge.announce())) == (1 if forget else 2)
    end_ns = int(END.timestamp()) * NS_PER_S
    assert bridge.warn(end_ns - NS_PER_S) == []


def test_what_makes_no_sense_is_counted_once() -> None:
    """An answer that cannot be understood counts once, however often it comes."""
    bridge = made()
    for _ in range(3):
        assert bridge.take(reading(blocks=[block("teleported")]), NOW_NS) == []
    assert bridge.skipped == 1


@pytest.mark.parametrize("state", ["scheduled", "payment-pending", "expired"])
def test_nothing_runs_before_the_begin_and_after_the_end(state: str) -> None:
    """EC2 has nothing available then either, which does not mean that something runs."""
    message = only(
        reading(blocks=[block(state)], reservations=[part(AvailableInstanceCount=0)], instances=[])
    )
    assert message.launched == 0


def test_what_runs_is_unknown_without_permissions() -> None:
    """Without reservations and instances nobody knows what runs; with instances alone they are counted."""
    found = reading(reservations=None, instances=None)
    assert only(found).launched is None
    assert only(reading(reservations=None)).launched == 3


def test_another_ultraserver_is_not_taken_for_trn2() -> None:
    """Where only the block is told, no instance type is made up for UltraServers of other kinds."""
    found = reading(blocks=[block(UltraserverType="u-p6e-gb200x72")], reservations=None, statuses=None)
    assert (only(found).instance_type, only(found).instances) == ("unknown", 0)


def test_reservations_of_one_block_are_one_message() -> None:
    """Where blocks may not be described, several Capacity Reservations of one are told together."""
    found = reading(
        blocks=None, reservations=[part("cr-1", EndDate=END), part("cr-2", EndDate=END)], statuses=None
    )
    message = only(found)
    assert (message.reservation_ids, message.instances, message.launched) == (("cr-1", "cr-2"), 8, 6)


def test_what_was_cancelled_before_it_began_has_no_end() -> None:
    """EC2 gives the time of the cancellation as its end, before the start; readers refuse such a message."""
    default = part("cr-2", ReservationType="default", State="cancelled", EndDate=NOW - timedelta(days=4))
    assert only(reading(blocks=[], reservations=[default])).end is None


@pytest.mark.parametrize(
    ("found", "pay_by"),
    [
        (reading(), None),
        (reading(extensions=[extension("payment-succeeded")]), None),
        (reading(extensions=[extension()]), "2026-01-05T21:00:00.000Z"),
        (reading(blocks=[block(EndDate=NOW + timedelta(hours=6))], extensions=[extension()]), "2026-01-05T14:25:00.000Z"),
        (reading(blocks=[block("payment-pending", CreateDate=NOW)]), "2026-01-05T21:00:00.000Z"),
    ],
)  # fmt: skip  # a row a case
def test_a_pending_payment_has_an_hour(found: Reading, pay_by: str | None) -> None:
    """A pending payment fails after 12 hours, and an extension's 35 minutes before the end if that is first."""
    assert only(found).pay_by == pay_by


def test_fees_with_many_decimals_are_kept() -> None:
    """A fee with more decimals than the wire has is rounded, and its extension stays."""
    message = only(reading(extensions=[extension(UpfrontFee="24030.72000000")]))
    assert message.extensions[0].fee == "24030.720000"


def test_a_new_interconnect_status_is_no_status() -> None:
    """A status that nobody knows yet counts as insufficient data, and is told."""
    (message,), problems = messages_of(reading(statuses=[status("something-new")]), NOW_NS)
    assert message.interconnect is not None
    assert (message.interconnect.value, len(problems)) == ("insufficient-data", 1)
