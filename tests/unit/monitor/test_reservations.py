from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from support.feed import Feed, standalone, ultraservers

from trnfleet.clock import format_rfc3339
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.reservations import NEAR_END_S
from trnfleet.monitor.timebase import Moment
from trnfleet.monitor.usage import HOUR_NS, MOST_HOURS, Usage
from trnfleet.wire.limits import Limits
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    from trnfleet.monitor.reservations import Reservation

ONE, TWO = "uc1/standalone/trn2-0001", "uc1/standalone/trn2-0002"
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
    assert feed.monitor.reservations.of_instances().tolist() == [0, 0]
    summary = feed.monitor.summary()
    assert (summary.reservations, summary.reserved_instances) == (1, 2)
    assert (summary.reserved_idle_per_h, summary.reserved_currency) == ("50.00", "USD")


def test_an_idle_block_stands_out() -> None:
    """A block none of whose instances does anything is idle, and all of its price is for nothing."""
    feed = Feed(standalone(1))
    feed.describe()
    feed.monitor.apply([feed.reservation("cb-1", ONE)])
    feed.tick()
    found = only(feed)
    assert found.is_idle
    assert found.idle_per_h == found.fee_per_h == Decimal(100)


async def test_silent_instances_are_unknown_and_not_idle() -> None:
    """Instances of which nothing live is known are neither used nor idle, and cost nothing for idleness."""
    feed = fed()
    feed.monitor.apply([feed.reservation("cb-1", ONE)])
    await feed.advance(10)
    found = only(feed)
    assert (found.used, found.util_pct, found.idle_per_h, found.unknown) == (None, None, None, 1)
    assert not found.is_idle


def test_a_block_with_a_silent_part_is_not_called_idle() -> None:
    """While a part of a block is silent nobody says that all of it is idle."""
    feed = Feed(standalone(2))
    feed.describe()
    feed.monitor.apply([feed.reservation("cb-1", (ONE, TWO), instances=2)])
    feed.tick([ONE])
    found = only(feed)
    assert (found.used, found.unknown) == (0, 1)
    assert not found.is_idle
    assert found.idle_per_h == Decimal(50)


@pytest.mark.parametrize(("left_s", "near"), [(NEAR_END_S, False), (NEAR_END_S - 1, True), (-60.0, True)])
def test_a_near_end_is_told_by_the_first_termination(left_s: float, near: bool) -> None:
    """A block is near its end when less than six hours are left to its first termination."""
    feed = Feed(standalone(1))
    feed.describe()
    terminates = format_rfc3339(feed.clock.wall_ns() + round(left_s * 1e9))
    feed.monitor.apply([feed.reservation("cb-1", ONE, terminates=terminates)])
    feed.tick()
    assert only(feed).is_near_end is near


def test_the_order_is_what_is_next() -> None:
    """Active ones come first by their end, then what is to come by its start, then unpaid ones, ended ones last."""
    later = {"start": "2026-01-08T11:30:00Z", "end": "2026-01-09T11:30:00Z"}
    feed = Feed(standalone(1))
    feed.describe()
    feed.monitor.apply(
        [
            feed.reservation("cb-old", state="expired", end="2026-01-04T11:30:00Z"),
            feed.reservation("cb-older", state="expired", end="2026-01-03T12:30:00Z"),
            feed.reservation("cb-unpaid", state="payment-pending", **later),
            feed.reservation("cb-next", state="scheduled", **later),
            feed.reservation("cb-long", end="2026-01-09T11:30:00Z"),
            feed.reservation("cb-short"),
        ]
    )
    feed.monitor.compute()
    names = [each.message.id for each in table(feed)]
    assert names == ["cb-short", "cb-long", "cb-next", "cb-unpaid", "cb-old", "cb-older"]
    assert feed.monitor.summary().reservations == 4


def test_a_late_change_is_no_news_and_another_start_begins_anew() -> None:
    """Of one start a message with fewer changes is old; another start of the publisher counts anew."""
    feed = Feed(standalone(1))
    feed.describe()
    feed.monitor.apply([feed.reservation("cb-1", change=3, state="expired")])
    feed.monitor.apply([feed.reservation("cb-1", change=2)])
    feed.monitor.compute()
    assert only(feed).message.state == "expired"
    feed.monitor.apply([feed.reservation("cb-1", change=0, boot="boot-2")])
    feed.monitor.compute()
    assert only(feed).message.state == "active"


def test_a_cleared_message_is_forgotten() -> None:
    """An empty payload takes a reservation away, with its history."""
    feed = fed()
    feed.monitor.apply([feed.reservation("cb-1", ONE)])
    feed.tick()
    assert len(table(feed)) == 1
    feed.monitor.apply([Envelope("trnfleet/v1/demo/reservation/cb-1", b"", 1, retain=True)])
    feed.monitor.compute()
    assert table(feed) == []
    assert (feed.monitor.reservations.of_instances() == -1).all()


def test_ec2_ids_lead_to_instances() -> None:
    """A reservation that names EC2 ids instead of addresses holds the instances that have them, once they are known."""
    feed = Feed(standalone(3))
    feed.ec2_ids = {TWO: "i-two", "uc1/standalone/trn2-0003": "i-three"}
    feed.monitor.apply([feed.reservation("cb-1", ec2_ids=["i-three", "i-two", "i-unknown"], instances=3)])
    feed.monitor.compute()
    assert only(feed).rows == ()
    feed.describe()
    feed.set(UTIL, 50.0)
    feed.tick()
    found = only(feed)
    assert found.rows == (range(1, 3),)
    assert (found.used, found.unknown) == (2, 1)


def test_whoever_has_gone_is_known_from_before() -> None:
    """A reservation whose publisher is offline is as last known, and current again with the publisher."""
    feed = fed()
    feed.monitor.apply([feed.reservation("cb-1", ONE)])
    feed.tick()
    assert only(feed).is_current
    feed.monitor.apply([feed.publisher_envelope("offline")])
    feed.monitor.compute()
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
    """A message that is none is refused and counted by its kind, and what was known stays."""
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
    feed.monitor = Monitor(feed.monitor._source, "demo", clock=feed.clock, limits=Limits(reservations=2))
    feed.monitor.apply([feed.reservation(f"cb-{number}") for number in range(3)])
    feed.monitor.apply([feed.reservation("cb-1", state="expired", change=1)])
    feed.monitor.compute()
    assert [each.message.id for each in table(feed)] == ["cb-0", "cb-1"]
    assert feed.monitor.counts.rejected == 1
    assert table(feed)[1].message.state == "expired"


def moment(hours: float, speed: float = 1.0) -> Moment:
    return Moment(round(hours * HOUR_NS), speed, is_wall=False)


def test_hours_are_filled_by_what_was_seen() -> None:
    """An hour's use is the mean over what was watched of it; a look stands for the time since the one before."""
    usage = Usage()
    usage.watch(moment(0.9), {"cb": (10.0, 1.0)})
    for step in range(1, 7):
        usage.watch(moment(0.9 + step / 30, 3_600), {"cb": (60.0 if step < 4 else 90.0, 0.5)})
    first, second = usage.hours("cb")
    assert (first.hour_ns, second.hour_ns) == (0, HOUR_NS)
    assert first.watched_s == pytest.approx(360)
    assert first.util_pct == pytest.approx(60.0)
    assert second.util_pct == pytest.approx(90.0)
    assert second.used_share == pytest.approx(0.5)
    assert usage.mean_util_pct("cb") == pytest.approx(75.0)


@pytest.mark.parametrize(
    ("speed", "step_s", "watched"), [(1.0, 5.0, True), (1.0, 6.0, False), (3_600.0, 18_000.0, True)]
)
def test_a_gap_is_unwatched(speed: float, step_s: float, watched: bool) -> None:
    """Time between two looks that are too far apart, or a jump, is not made up."""
    usage = Usage()
    usage.watch(moment(0, speed), {"cb": (50.0, 1.0)})
    usage.watch(moment(step_s / 3_600, speed), {"cb": (50.0, 1.0)})
    assert bool(usage.hours("cb")) is watched
    assert (usage.mean_util_pct("cb") is not None) is watched


def test_history_is_bounded() -> None:
    """No more hours are kept than the longest block has, the oldest go first, and a forgotten one leaves nothing."""
    usage = Usage()
    for hour in range(MOST_HOURS + 11):
        usage.watch(moment(hour, 3_600), {"cb": (50.0, 1.0)})
    hours = usage.hours("cb")
    assert len(hours) == MOST_HOURS
    assert hours[-1].hour_ns == (MOST_HOURS + 9) * HOUR_NS
    usage.forget("cb")
    assert usage.hours("cb") == []


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
