"""Room for messages of publishers: limits in stored bytes, and shares of them."""

from __future__ import annotations

import gc
import tracemalloc
from typing import TYPE_CHECKING

import msgspec
import pytest
from support.monitor.feed import Feed, standalone

from trnfleet.domain.severity import Severity
from trnfleet.monitor.ingest.ingest import Ingest
from trnfleet.monitor.ingest.messages import retained_ledgers
from trnfleet.monitor.room import SHARE, Ledger, Room, held_bytes
from trnfleet.monitor.sources.descriptors import CompactDescriptor
from trnfleet.wire.alerts import AlertMessage
from trnfleet.wire.limits import DEFAULT_LIMITS, Limits
from trnfleet.wire.messages import (
    ClockSpec,
    ColumnSpec,
    Descriptor,
    InstanceSpec,
    JobMessage,
    decode_message,
    encode_message,
)
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.wire.structs import Message

INSTANT = "2026-01-05T00:00:00Z"


def own_columns(seed: str) -> tuple[ColumnSpec, ...]:
    """Return the most columns of a descriptor, with unique names."""
    return tuple(
        ColumnSpec(name=f"{seed}_{number}", type="u8", scale=1.0, width=1) for number in range(128)
    )


def descriptor(
    number: int, publisher: str = "sim", columns: tuple[ColumnSpec, ...] = ()
) -> Descriptor:
    """Return the descriptor of one instance."""
    path = f"uc1/us-{number:04}/trn2u-{number:04}-0"
    return Descriptor(
        path=path,
        publisher=publisher,
        boot="b",
        period_s=1.0,
        clock=ClockSpec(epoch=INSTANT),
        instances=(InstanceSpec(path=path, type="trn2u.48xlarge", ec2_id=f"i-{number:017x}"),),
        columns=columns,
    )


def alert(number: int, watch: str = "w", text: str = "hot") -> AlertMessage:
    """Return an alert."""
    return AlertMessage(
        fingerprint=f"{number:016x}",
        rule="hot",
        severity=Severity.CRITICAL,
        state="firing",
        target="uc1",
        labels={f"label_{each}": f"{text} {each}" for each in range(8)},
        summary=text,
        since=INSTANT,
        fired=INSTANT,
        watch=watch,
    )


def job(number: int, *places: str) -> JobMessage:
    """Return a job."""
    return JobMessage(job=f"job-{number}", kind="training", state="running", ts=INSTANT, on=places)


def held(make: Callable[[int], object], count: int = 200) -> float:
    """Return the bytes per object as seen by the allocator."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = [make(number) for number in range(count)]
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] - before) / len(kept)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "make",
    [
        lambda number: alert(number, text=f"hot {number}"),
        lambda number: alert(number, text=f"hot {number} \U0001f525 " * 20),
        lambda number: job(number, *(f"uc{number}/us-{each:04}" for each in range(50))),
        lambda number: descriptor(number, columns=own_columns(f"c{number}")),
    ],
    ids=["alert", "emoji", "job", "columns"],
)
def test_memory_is_counted_as_it_is_held(make: Callable[[int], Message]) -> None:
    """The estimate is the allocator's size or a little more.

    JSON size is no measure.
    """
    model = type(make(0))
    payloads = [encode_message(make(number)) for number in range(60)]

    def kept(number: int) -> Message:
        return decode_message(payloads[number], model)

    seen = held(kept, len(payloads))
    message = kept(len(payloads) - 1)
    assert 0.95 * seen <= held_bytes(message) <= 1.6 * seen


def test_a_descriptor_counts_what_it_takes() -> None:
    """A compact descriptor counts with the layout's additions, about its size or above."""
    payloads = [encode_message(descriptor(number)) for number in range(60)]
    # What is made once is no descriptor's.
    first = CompactDescriptor.of(payloads[0])
    seen = held(lambda number: CompactDescriptor.of(payloads[number]), len(payloads))
    assert 0.95 * seen <= first.size_bytes <= 2.5 * seen


def test_one_owner_leaves_room_for_others() -> None:
    """A greedy owner leaves room for a second and a third.

    Stored messages may be replaced; equal parts are safe.
    """
    room = Room(1_600)

    def fill(owner: str) -> int:
        while room.refusal(owner, 1, "jobs") is None:
            room.change(owner, 1)
        return room.of(owner)

    assert fill("a") == 1_500
    assert (
        room.refusal("a", 1, "jobs")
        == "a has 1500 of 1600 jobs already, and the rest is for others"
    )
    assert room.refusal("a", 0, "jobs") is None
    assert fill("b") > 70
    full = Room(100)
    full.change("a", 100)
    assert full.refusal("a", 0, "jobs") is None
    assert fill("c") > 0
    room.change("a", -1_500)
    assert fill("b") > 700
    assert Room(2).refusal("a", 2, "jobs") is None
    assert Room(2).refusal("", 3, "jobs") == "more than 2 jobs"


def test_a_ledger_follows_its_messages() -> None:
    """Number and bytes are released when a message is removed, or replaced by any owner."""
    ledger = Ledger(10, 10_000)
    ledger.put("x", "a", 4_000)
    assert ledger.refusal("x", "a", 8_000, "acks") is None
    assert "bytes of acks" in str(ledger.refusal("x", "a", 10_001, "acks"))
    ledger.put("x", "b", 1_000)
    assert ledger.size_bytes == 1_000
    # What another owner replaces is new for it: its former bytes are not its own.
    ledger.put("y", "b", 6_500)
    assert ledger.refusal("x", "c", 2_600, "acks") is not None
    ledger.remove("y")
    ledger.remove("x")
    ledger.remove("x")
    assert ledger.size_bytes == 0
    assert vars(ledger._count) == vars(Room(10))


def test_all_retained_classes_together_leave_room_for_the_fleet() -> None:
    """A broker that fills each of them takes less than 1 GB with descriptors."""
    rooms = [ledger._bytes.most for ledger in retained_ledgers(DEFAULT_LIMITS).values()]
    assert sum(rooms) + DEFAULT_LIMITS.descriptors_bytes < 1_000_000_000


def test_alerts_are_bounded_in_bytes_for_each_watch() -> None:
    """A watch that publishes without end is refused and named.

    Another watch's alerts find room, and resolve.
    """
    ingest = Ingest("demo", limits=Limits(alerts_bytes=200_000))

    def say(message: AlertMessage) -> None:
        topic = f"trnfleet/v1/demo/alert/{message.fingerprint}"
        ingest.apply([Envelope(topic, encode_message(message), retain=True)], 0.0, 0)

    for number in range(400):
        say(alert(number, "evil", "x" * 300))
    assert 0 < len(ingest.alert_messages) < 100
    assert "evil has" in ingest.counts.last_problem
    say(alert(1_000, "good"))
    assert ingest.alert_messages[f"{1_000:016x}"].watch == "good"
    refused = ingest.counts.rejected
    say(msgspec.structs.replace(alert(1_000, "good"), state="resolved", resolved=INSTANT))
    assert ingest.alert_messages[f"{1_000:016x}"].state == "resolved"
    assert ingest.counts.rejected == refused
    assert ingest.ledgers[AlertMessage].size_bytes <= 200_000


def test_columns_of_their_own_are_counted_and_equal_ones_are_shared() -> None:
    """Instances with the same unusual columns share one set.

    Unique sets are soon refused.
    """
    ingest = Ingest("demo", limits=Limits(descriptors_bytes=2_000_000))

    def say(message: Descriptor) -> None:
        topic = f"trnfleet/v1/demo/node/{message.path}"
        ingest.apply([Envelope(topic, encode_message(message), retain=True)], 0.0, 0)

    for number in range(40):
        say(descriptor(number, columns=own_columns("same")))
    descriptors = ingest.descriptors
    assert len(descriptors) == 40
    assert len({id(each.columns) for each in descriptors}) == 1
    shared_bytes = descriptors.size_bytes
    for number in range(40, 80):
        say(descriptor(number, "evil", own_columns(f"c{number}")))
    assert 40 < len(descriptors) < 70
    assert "evil has" in ingest.counts.last_problem
    assert "bytes of descriptors" in ingest.counts.last_problem
    say(descriptor(90, "third"))
    assert len(descriptors.get("uc1/us-0090/trn2u-0090-0").instances) == 1  # type: ignore[union-attr]  # it is there
    for each in list(descriptors):
        if each.publisher != "sim":
            descriptors.remove(each.path)
    assert descriptors.size_bytes == shared_bytes
    for each in list(descriptors):
        descriptors.remove(each.path)
    assert (descriptors.size_bytes, len(descriptors.column_sets)) == (0, 0)


def test_a_large_fleet_of_one_publisher_fits() -> None:
    """4,000,000 chips, a descriptor each 16, take less than the limits allow one publisher."""
    size_bytes = CompactDescriptor.of(encode_message(descriptor(1))).size_bytes
    assert DEFAULT_LIMITS.fleet_instances * SHARE / (SHARE + 1) >= 250_000
    assert 250_000 * size_bytes <= DEFAULT_LIMITS.descriptors_bytes * SHARE / (SHARE + 1)


def test_jobs_of_one_cluster_leave_room_for_those_of_another() -> None:
    """A job's message does not name its publisher: it counts for the job's cluster."""
    feed = Feed(standalone(1))
    ingest = feed.monitor.ingest
    ingest.ledgers[JobMessage] = Ledger(160, 10_000_000)
    for number in range(300):
        topic = f"trnfleet/v1/demo/job/job-{number}"
        ingest.apply(
            [Envelope(topic, encode_message(job(number, "evil/us-0001")), retain=True)], 0.0, 0
        )
    assert len(ingest.jobs) < 160
    topic = "trnfleet/v1/demo/job/job-999"
    ingest.apply([Envelope(topic, encode_message(job(999, "uc1/us-0001")), retain=True)], 0.0, 0)
    assert "job-999" in ingest.jobs
