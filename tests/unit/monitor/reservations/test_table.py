from __future__ import annotations

import contextlib
import json
from decimal import Decimal
from typing import Any

import pytest
from support.monitor.feed import Feed, described_feed, standalone, ultraservers

from trnfleet.clock import format_rfc3339
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.reservations.table import NEAR_END_S, Reservation
from trnfleet.monitor.slices import LayoutChanged
from trnfleet.wire.limits import Limits
from trnfleet.wire.ports import Envelope

ONE = "uc1/standalone/trn2-0001"
TWO = "uc1/standalone/trn2-0002"
UTIL = "nc_util_pct"


def fed(*messages: Envelope, count: int = 2) -> Feed:
    feed = Feed(standalone(count) + ultraservers(1))
    feed.set(UTIL, 80.0)
    feed.describe()
    feed.monitor.apply(list(messages))
    feed.tick()
    return feed


def table(feed: Feed) -> list[Reservation]:
    return feed.monitor.reservations.table()


def only(feed: Feed) -> Reservation:
    (found,) = table(feed)
    return found


def idle(feed: Feed, instance: str) -> None:
    chips = feed.layout.chip_range(feed.layout.find(instance))  # type: ignore[arg-type]
    feed.set(UTIL, 0.0, slice(chips.start, chips.stop))


def test_what_is_used_and_what_it_costs() -> None:
    """Use, utilisation, countdowns and money follow from message, telemetry and time."""
    both = (f"{ONE}..trn2-0002",)
    feed = Feed(standalone(2))
    feed.set(UTIL, 80.0)
    idle(feed, TWO)
    feed.describe()
    feed.monitor.apply([feed.reservation("cb-1", both, instances=2)])
    feed.tick()
    found = only(feed)
    assert found.rows == (range(2),)
    assert (found.used, found.unknown) == (1, 0)
    assert found.util_pct == pytest.approx(40.0, abs=0.1)
    # 7,200 over three days are 100 an hour, half of it for nothing.
    assert (found.fee_per_h, found.idle_per_h) == (Decimal(100), Decimal(50))
    assert found.to_end_s == pytest.approx(35.5 * 3_600)
    assert found.to_termination_s == pytest.approx(35 * 3_600)
    assert found.to_start_s == pytest.approx(-36.5 * 3_600)
    assert (found.can_extend, found.why_not) == (True, "")
    assert not found.is_idle
    assert not found.is_near_end
    assert found.rows == (range(2),)
    summary = feed.monitor.summary()
    assert (summary.reservations, summary.reserved_instances) == (1, 2)
    assert (summary.reserved_idle_per_h, summary.reserved_currency) == ("50.00", "USD")


def test_an_idle_block_stands_out() -> None:
    """A block of idle instances is idle, at its full price."""
    feed = described_feed(standalone(1))
    feed.monitor.apply([feed.reservation("cb-1", ONE)])
    feed.tick()
    found = only(feed)
    assert found.is_idle
    assert found.idle_per_h == found.fee_per_h == Decimal(100)


async def test_silent_instances_are_unknown_and_not_idle() -> None:
    """Instances without live data are neither used nor idle, and have no idle cost."""
    feed = fed()
    feed.monitor.apply([feed.reservation("cb-1", ONE)])
    await feed.advance(10)
    found = only(feed)
    assert (found.used, found.util_pct, found.idle_per_h, found.unknown) == (None, None, None, 1)
    assert not found.is_idle


def test_a_block_with_a_silent_part_is_not_called_idle() -> None:
    """A partly silent block is not called idle."""
    feed = described_feed(standalone(2))
    feed.monitor.apply([feed.reservation("cb-1", (ONE, TWO), instances=2)])
    feed.tick([ONE])
    found = only(feed)
    assert (found.used, found.unknown) == (0, 1)
    assert not found.is_idle
    assert found.idle_per_h == Decimal(50)


@pytest.mark.parametrize(
    ("left_s", "near"), [(NEAR_END_S, False), (NEAR_END_S - 1, True), (-60.0, True)]
)
def test_a_near_end_is_told_by_the_first_termination(left_s: float, near: bool) -> None:
    """A block is near its end less than six hours before its first termination."""
    feed = described_feed(standalone(1))
    terminates = format_rfc3339(feed.clock.wall_ns() + round(left_s * 1e9))
    feed.monitor.apply([feed.reservation("cb-1", ONE, terminates=terminates)])
    feed.tick()
    assert only(feed).is_near_end is near


def test_the_order_is_what_is_next() -> None:
    """Active ones come first by end, then future ones by start, unpaid ones, ended ones."""
    later = {"start": "2026-01-08T11:30:00Z", "end": "2026-01-09T11:30:00Z"}
    feed = described_feed(standalone(1))
    feed.receive(
        [
            feed.reservation("cb-old", state="expired", end="2026-01-04T11:30:00Z"),
            feed.reservation("cb-older", state="expired", end="2026-01-03T12:30:00Z"),
            feed.reservation("cb-unpaid", state="payment-pending", **later),
            feed.reservation("cb-next", state="scheduled", **later),
            feed.reservation("cb-long", end="2026-01-09T11:30:00Z"),
            feed.reservation("cb-short"),
        ]
    )
    names = [each.message.id for each in table(feed)]
    assert names == ["cb-short", "cb-long", "cb-next", "cb-unpaid", "cb-old", "cb-older"]
    assert feed.monitor.summary().reservations == 4


def test_a_late_change_is_no_news_and_another_boot_restarts() -> None:
    """A message with fewer changes of one boot is old.

    Another boot counts afresh.
    """
    feed = described_feed(standalone(1))
    feed.monitor.apply([feed.reservation("cb-1", change=3, state="expired")])
    feed.receive([feed.reservation("cb-1", change=2)])
    assert only(feed).message.state == "expired"
    feed.receive([feed.reservation("cb-1", change=0, boot="boot-2")])
    assert only(feed).message.state == "active"


def test_a_repetition_is_no_news() -> None:
    """A message that comes again, as after every reconnect, changes nothing and gives no work."""
    feed = fed()
    envelope = feed.reservation("cb-1", ONE, change=2)
    feed.monitor.apply([envelope])
    revision = feed.monitor.reservations.revision
    feed.monitor.apply([envelope, feed.reservation("cb-1", ONE, change=1)])
    assert feed.monitor.reservations.revision == revision
    feed.monitor.apply([feed.reservation("cb-1", TWO, change=3)])
    assert feed.monitor.reservations.revision > revision


def test_what_it_holds_may_change() -> None:
    """A reservation with changed instances, or none, is located again."""
    feed = fed()
    feed.receive([feed.reservation("cb-1", ONE)])
    assert only(feed).rows == (range(1),)
    feed.receive([feed.reservation("cb-1", (TWO, "uc1/us-0001"), change=1)])
    assert only(feed).rows == (range(1, 6),)
    feed.receive([feed.reservation("cb-1", "uc9/nowhere", change=2)])
    assert only(feed).rows == ()


def test_rows_follow_the_layout() -> None:
    """When other instances come, reservations hold the same ones by their new rows."""
    feed = Feed(standalone(3))
    feed.describe([TWO])
    feed.receive([feed.reservation("cb-1", TWO)])
    assert only(feed).rows == (range(1),)
    feed.describe()
    assert only(feed).rows == (range(1, 2),)


@pytest.mark.parametrize("interrupted_at", [1, 2, 3, 5, 7])
def test_a_pass_that_messages_interrupt_ends_well(
    interrupted_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages, descriptors and layouts between slices break nothing.

    The next pass includes all of them.
    """
    monkeypatch.setattr("trnfleet.monitor.reservations.table.SLICE", 64)
    feed = Feed(standalone(4))
    feed.ec2_ids = {f"uc1/standalone/trn2-{number:04d}": f"i-{number}" for number in range(1, 5)}
    monitor = feed.monitor
    reservations = feed.monitor.reservations
    feed.describe([ONE, TWO])
    monitor.apply([feed.reservation(f"cb-{number:03d}", ec2_ids=["i-2"]) for number in range(300)])
    args = (monitor.moment(), {feed.boot}, monitor.ingest.descriptors)
    steps = 0
    with contextlib.suppress(LayoutChanged):
        for _ in reservations.compute(monitor.store, monitor.rollups, *args):
            steps += 1
            if steps == interrupted_at:
                feed.describe()
                monitor.apply(
                    [Envelope("trnfleet/v1/demo/reservation/cb-007", b"", 1, retain=True)]
                )
                monitor.apply([feed.reservation("cb-new", ec2_ids=["i-4"])])
    assert steps >= interrupted_at
    # What was found for a former layout does not take the place of what is newer.
    monitor.compute()
    rows = {each.message.id: each.rows for each in reservations.table()}
    assert len(rows) == 300
    assert rows.pop("cb-new") == (range(3, 4),)
    assert set(rows.values()) == {(range(1, 2),)}


def test_a_cleared_message_is_forgotten() -> None:
    """An empty payload takes a reservation away, with its history."""
    feed = fed()
    feed.monitor.apply([feed.reservation("cb-1", ONE)])
    feed.tick()
    assert len(table(feed)) == 1
    feed.receive([Envelope("trnfleet/v1/demo/reservation/cb-1", b"", 1, retain=True)])
    assert table(feed) == []


def test_what_is_cleared_at_once_is_not_looked_for() -> None:
    """A reservation added and cleared between two passes leaves nothing to do."""
    feed = fed()
    feed.receive([feed.reservation("cb-2", TWO)])
    cleared = Envelope("trnfleet/v1/demo/reservation/cb-1", b"", 1, retain=True)
    feed.receive([feed.reservation("cb-1", ONE), cleared])
    assert only(feed).message.id == "cb-2"


def test_ec2_ids_lead_to_instances() -> None:
    """A reservation with EC2 ids has the instances of these ids once known."""
    feed = Feed(standalone(3))
    feed.ec2_ids = {TWO: "i-two", "uc1/standalone/trn2-0003": "i-three"}
    feed.receive([feed.reservation("cb-1", ec2_ids=["i-three", "i-two", "i-unknown"], instances=3)])
    assert only(feed).rows == ()
    feed.describe()
    feed.set(UTIL, 50.0)
    feed.tick()
    found = only(feed)
    assert found.rows == (range(1, 3),)
    assert found.on == ("uc1/standalone/trn2-0003", TWO)
    assert (found.used, found.unknown) == (2, 1)
    assert feed.monitor.reservations.without_telemetry(found) == ["i-unknown"]
    assert not found.is_idle


def test_ec2_ids_move_with_instances() -> None:
    """When an instance gets a new EC2 id, the reservation follows its ids."""
    feed = Feed(standalone(2))
    feed.ec2_ids = {ONE: "i-1", TWO: "i-2"}
    feed.describe()
    feed.receive([feed.reservation("cb-1", ec2_ids=["i-1"])])
    assert only(feed).rows == (range(1),)
    generation = feed.monitor.store.generation
    feed.ec2_ids = {ONE: "i-3", TWO: "i-1"}
    feed.describe()
    assert feed.monitor.store.generation == generation
    assert only(feed).rows == (range(1, 2),)
    feed.ec2_ids = {}
    feed.describe()
    assert only(feed).rows == ()


def test_a_moved_instance_is_the_live_one() -> None:
    """Of two descriptors with one EC2 id the live host counts, whichever came first."""
    for gone, live in ((ONE, TWO), (TWO, ONE)):
        feed = Feed(standalone(2))
        feed.ec2_ids = {ONE: "i-1", TWO: "i-1"}
        feed.set(UTIL, 80.0)
        feed.describe()
        feed.receive([feed.reservation("cb-1", ec2_ids=["i-1"])])
        feed.tick([live])
        found = only(feed)
        assert (found.on, found.used, found.unknown) == ((live,), 1, 0), gone
        assert feed.monitor.reservations.without_telemetry(found) == []


async def test_a_silent_instance_is_named_and_not_idle() -> None:
    """It is named by its EC2 id, or by its address where the reservation has addresses."""
    feed = fed()
    feed.ec2_ids = {ONE: "i-1"}
    feed.describe()
    feed.monitor.apply([feed.reservation("cb-1", ec2_ids=["i-1"])])
    feed.monitor.apply([feed.reservation("cb-2", ONE)])
    await feed.advance(10)
    reservations = feed.monitor.reservations
    for found, name in zip(table(feed), ("i-1", ONE), strict=True):
        assert reservations.without_telemetry(found) == [name]
        assert (found.used, found.unknown, found.is_idle) == (None, 1, False)


def test_capacity_without_an_instance_is_idle() -> None:
    """What EC2 has not launched costs money; only what runs can be without telemetry."""
    feed = Feed(standalone(1))
    feed.ec2_ids = {ONE: "i-1"}
    feed.set(UTIL, 80.0)
    feed.describe()
    feed.monitor.apply([feed.reservation("cb-1", ec2_ids=["i-1", "i-2"], instances=4, launched=2)])
    feed.tick()
    found = only(feed)
    assert (found.used, found.not_launched, found.unknown) == (1, 2, 1)
    assert (found.idle_per_h, found.is_idle) == (Decimal(50), False)
    # Nothing runs in it.
    feed.receive([feed.reservation("cb-1", instances=4, launched=0, change=1)])
    found = only(feed)
    assert (found.used, found.util_pct, found.not_launched, found.unknown) == (0, None, 4, 0)
    assert (found.idle_per_h, found.is_idle) == (Decimal(100), True)
    # An instance that was launched after the last reading is known by its telemetry.
    feed.receive([feed.reservation("cb-1", ec2_ids=["i-1"], instances=1, launched=0, change=2)])
    assert (only(feed).used, only(feed).not_launched) == (1, 0)
    feed.receive([feed.publisher_envelope("offline")])
    feed.receive([feed.reservation("cb-1", instances=4, launched=0, change=3)])
    assert (only(feed).used, only(feed).not_launched, only(feed).unknown) == (None, 0, 4)


def test_a_publisher_that_is_gone_is_known_from_before() -> None:
    """A reservation of an offline publisher is as last known until the publisher returns."""
    feed = fed()
    feed.monitor.apply([feed.reservation("cb-1", ONE)])
    feed.tick()
    assert only(feed).is_current
    feed.receive([feed.publisher_envelope("offline")])
    assert not only(feed).is_current


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"id": "cb-2"}, "misplaced"),
        ({"state": "broken"}, "undecodable"),
        ({"start": "soon"}, "undecodable"),
        ({"start": "2026-01-03T11:30:00"}, "undecodable"),
        ({"end": "2026-01-03T11:30:00Z"}, "undecodable"),
        ({"terminates": "x"}, "undecodable"),
        ({"fee": "1e9"}, "undecodable"),
        ({"fee": "-5"}, "undecodable"),
        ({"instances": -1}, "undecodable"),
        ({"on": ["x" * 500]}, "undecodable"),
    ],
)
def test_what_makes_no_sense_is_counted(change: dict[str, Any], kind: str) -> None:
    """An invalid message is refused and counted by kind.

    Earlier data stays.
    """
    feed = fed()
    feed.monitor.apply([feed.reservation("cb-1", ONE)])
    bad = json.loads(feed.reservation("cb-1", ONE).payload) | change
    feed.monitor.apply(
        [Envelope("trnfleet/v1/demo/reservation/cb-1", json.dumps(bad).encode(), 1, retain=True)]
    )
    feed.tick()
    assert getattr(feed.monitor.counts, kind) == 1
    assert only(feed).message.start == "2026-01-03T11:30:00Z"


def test_their_number_is_limited() -> None:
    """Beyond the limit new reservations are rejected, known ones are still followed."""
    feed = Feed(standalone(1))
    feed.monitor = Monitor(
        feed.monitor._source, "demo", clock=feed.clock, limits=Limits(reservations=2)
    )
    feed.monitor.apply([feed.reservation(f"cb-{number}") for number in range(3)])
    feed.receive([feed.reservation("cb-1", state="expired", change=1)])
    assert [each.message.id for each in table(feed)] == ["cb-0", "cb-1"]
    assert feed.monitor.counts.rejected == 1
    assert table(feed)[1].message.state == "expired"


def test_their_places_are_limited() -> None:
    """The places of all reservations are limited.

    A removed one makes room, and a changed one counts once.
    """
    feed = Feed(standalone(1))
    limits = Limits(places=5)
    feed.monitor = Monitor(feed.monitor._source, "demo", clock=feed.clock, limits=limits)
    feed.monitor.apply(
        [feed.reservation("cb-1", (ONE, TWO)), feed.reservation("cb-2", ec2_ids=["a", "b"])]
    )
    feed.monitor.apply([feed.reservation("cb-1", (ONE, TWO, "uc1/x"), change=1)])
    assert feed.monitor.counts.rejected == 0
    feed.monitor.apply([feed.reservation("cb-3", ONE)])
    assert feed.monitor.counts.rejected == 1
    feed.monitor.apply([Envelope("trnfleet/v1/demo/reservation/cb-2", b"", 1, retain=True)])
    feed.receive([feed.reservation("cb-3", ONE)])
    assert [each.message.id for each in table(feed)] == ["cb-1", "cb-3"]
    assert feed.monitor.counts.rejected == 1


async def test_a_running_monitor_watches_use() -> None:
    """Once a second the use of active reservations goes into their hours."""
    feed = fed(count=2)
    feed.monitor.apply([feed.reservation("cb-1", ONE)])
    for _ in range(10):
        await feed.clock.advance(1)
        feed.tick()
    (hour,) = feed.monitor.reservations.usage("cb-1")
    assert hour.watched_s == pytest.approx(9, abs=1.1)
    assert hour.util_pct == pytest.approx(80.0, abs=0.1)
    assert only(feed).mean_util_pct == pytest.approx(80.0, abs=0.1)


async def test_a_cleared_reservation_gets_no_more_hours() -> None:
    """A sample between the clearing and the next pass does not bring its hours back."""
    feed = fed(count=2)
    feed.monitor.apply([feed.reservation("cb-1", ONE)])
    for _ in range(5):
        await feed.clock.advance(1)
        feed.tick()
    reservations = feed.monitor.reservations
    assert reservations.usage("cb-1")
    feed.monitor.apply([Envelope("trnfleet/v1/demo/reservation/cb-1", b"", 1, retain=True)])
    await feed.clock.advance(1)
    reservations.watch(feed.monitor.moment())
    assert not reservations.usage("cb-1")


async def test_the_share_in_use_is_that_of_live_instances() -> None:
    """A silent instance lowers neither utilisation nor used share of the stored hours."""
    feed = fed(count=2)
    feed.monitor.apply([feed.reservation("cb-1", (ONE, TWO), instances=2)])
    for _ in range(10):
        await feed.clock.advance(1)
        feed.tick([ONE])
    (hour,) = feed.monitor.reservations.usage("cb-1")
    assert only(feed).unknown == 1
    assert hour.used_share == 1.0
    assert hour.util_pct == pytest.approx(80.0, abs=0.1)
