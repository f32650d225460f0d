from __future__ import annotations

import pytest
from support.monitor.feed import START_NS, Feed, ultraservers

from trnfleet.clock import NS_PER_S, format_rfc3339, parse_rfc3339
from trnfleet.monitor.pipeline.publishers import SKEW_FROM_S
from trnfleet.monitor.sources.clocks import (
    AHEAD_FROM_S,
    DATED_FROM_S,
    WINDOW_S,
    ClockKey,
    SourceClock,
    Timebase,
)
from trnfleet.wire.values import LATEST_NS

DATE_NS = parse_rfc3339("2025-03-01T12:00:00Z")


class Source:
    """A source with a right, fast or dated clock, and delayed messages."""

    def __init__(
        self, *, epoch_ns: int = START_NS, speed: float = 1.0, is_simulated: bool = True
    ) -> None:
        self.timebase = Timebase()
        self.key = ClockKey("sim", epoch_ns, speed, is_simulated)
        self.clock: SourceClock = self.timebase.clock(self.key, 1.0)
        self.began_s = 1_000.0

    def hear(self, at_s: float, delay_s: float = 0.0, ahead_s: float = 0.0) -> float:
        """Return the lag of a message sent at `at_s` after the start.

        `ahead_s` is the error of its clock.
        """
        ts_ns = self.key.epoch_ns + round((at_s + ahead_s) * self.key.speed * NS_PER_S)
        now_s = at_s + delay_s
        return self.clock.take(ts_ns, self.began_s + now_s, START_NS + round(now_s * NS_PER_S))

    @property
    def skew_s(self) -> float:
        """The worst skew just after the newest message."""
        return self.timebase.worst_skew_s(self.clock.heard_s)


@pytest.mark.parametrize("is_simulated", [True, False])
def test_near_the_wall_clock_lag_is_the_true_one(is_simulated: bool) -> None:
    """A source on wall time lags by its messages' delay, from the first one on."""
    source = Source(is_simulated=is_simulated)
    assert source.hear(0, delay_s=0.25) == pytest.approx(0.25)
    assert source.hear(1, delay_s=3.0) == pytest.approx(3.0)
    assert source.hear(5, delay_s=0.1) == pytest.approx(0.1)
    assert source.skew_s == 0


@pytest.mark.parametrize("speed", [0.1, 1.0, 60.0, 3_600.0])
def test_a_dated_source_lags_behind_its_quickest_message(speed: float) -> None:
    """For any date and speed, lag is in wall seconds over the shortest delay."""
    source = Source(epoch_ns=DATE_NS, speed=speed)
    source.hear(0, delay_s=0.2)
    assert source.hear(1, delay_s=0.2) == pytest.approx(0, abs=1e-6)
    assert source.hear(2, delay_s=4.2) == pytest.approx(4.0)
    assert source.hear(7, delay_s=0.1) == pytest.approx(0, abs=1e-6)
    assert source.hear(8, delay_s=0.2) == pytest.approx(0.1)
    assert source.skew_s == 0


def test_a_long_delay_is_not_taken_for_the_shortest_way() -> None:
    """A growing queue shows as lag for at least a window.

    A wrong time far ahead is forgotten after two.
    """
    source = Source(epoch_ns=DATE_NS)
    source.hear(0)
    for second in range(1, int(WINDOW_S)):
        assert source.hear(second, delay_s=10.0) == pytest.approx(10.0)
    wrong = Source(epoch_ns=DATE_NS)
    wrong.hear(0)
    wrong.hear(1, ahead_s=86_400.0)
    assert wrong.hear(2) == pytest.approx(86_400.0)
    for second in range(3, int(2 * WINDOW_S) + 5):
        lag_s = wrong.hear(second)
    assert lag_s == pytest.approx(0, abs=1e-6)


def test_a_clock_that_is_ahead_is_told_as_skew() -> None:
    """Times in the future show as skew at once.

    Lag is on top of it.
    """
    source = Source()
    assert source.hear(0, delay_s=0.5, ahead_s=12.5) == pytest.approx(0)
    assert source.skew_s == pytest.approx(12.0)
    assert source.hear(1, delay_s=1.5, ahead_s=12.5) == pytest.approx(1.0)
    almost = Source()
    almost.hear(0, ahead_s=SKEW_FROM_S - 0.1)
    assert almost.skew_s == 0


def test_a_clock_that_is_behind_is_told_once_that_is_sure() -> None:
    """Old times are lag at first.

    The same delay for a whole window is skew.

    A varying delay stays lag.
    """
    source = Source(is_simulated=False)
    queued = Source(is_simulated=False)
    assert source.hear(0, ahead_s=-12.0) == pytest.approx(12.0)
    assert source.skew_s == 0
    for second in range(1, int(2 * WINDOW_S)):
        lag_s = source.hear(second, ahead_s=-12.0)
        queued_s = queued.hear(second, delay_s=10.0 + second % 7)
    assert lag_s == pytest.approx(0)
    assert source.skew_s == pytest.approx(-12.0)
    assert queued.skew_s == 0
    assert queued_s >= 10.0


def test_a_simulator_that_jumps_ahead_has_its_own_time() -> None:
    """Hours ahead are a jump, although as many behind are late telemetry."""
    jumped = Source()
    late = Source()
    jumped.hear(0, ahead_s=AHEAD_FROM_S + 1)
    late.hear(0, ahead_s=-AHEAD_FROM_S - 1)
    assert (jumped.clock.is_wall, late.clock.is_wall) == (False, True)


def test_a_far_date_is_a_simulators_wish_and_a_hosts_error() -> None:
    """A simulator may have another date.

    A real host with that time has a wrong clock.
    """
    simulated = Source()
    host = Source(is_simulated=False)
    for each in (simulated, host):
        each.hear(0, ahead_s=DATED_FROM_S + 1)
    assert simulated.skew_s == 0
    assert not simulated.clock.is_wall
    assert host.skew_s == pytest.approx(DATED_FROM_S + 1)
    assert host.clock.is_wall


def test_the_time_goes_on_between_messages_and_stands_in_silence() -> None:
    """The fleet's time is the newest source time, advanced for at most three periods."""
    source = Source(epoch_ns=DATE_NS, speed=3_600.0)
    source.hear(0)
    source.hear(10, delay_s=0.5)

    def hours(at_s: float) -> float:
        moment = source.timebase.now(source.began_s + at_s, START_NS)
        assert (moment.speed, moment.is_wall) == (3_600.0, False)
        return (moment.time_ns - DATE_NS) / NS_PER_S / 3_600

    assert hours(10.5) == pytest.approx(10.5)
    assert hours(12.0) == pytest.approx(12.0)
    assert hours(60.0) == pytest.approx(13.5)


def test_without_a_dated_source_it_is_the_wall_clocks_time() -> None:
    """Wall time is the fleet's time before any message, and with wall-clock sources."""
    source = Source(epoch_ns=DATE_NS, speed=60.0)
    moment = source.timebase.now(0.0, START_NS)
    assert (moment.time_ns, moment.speed, moment.is_wall) == (START_NS, 1.0, True)
    live = Source()
    live.hear(0)
    assert live.timebase.now(1_000.0, START_NS).is_wall


def test_of_two_dates_the_first_that_is_heard_stands() -> None:
    """Time does not jump between two dated sources.

    If the first is silent, the other takes over.
    """
    source = Source(epoch_ns=DATE_NS, speed=60.0)
    other = source.timebase.clock(
        ClockKey("other", DATE_NS + 7 * 86_400 * NS_PER_S, 2.0, True), 1.0
    )
    source.hear(0)
    other.take(other.key.epoch_ns, source.began_s, START_NS)
    assert source.timebase.now(source.began_s + 1, START_NS).speed == 60.0
    other.take(other.key.epoch_ns + 20 * NS_PER_S, source.began_s + 10, START_NS)
    assert source.timebase.now(source.began_s + 10, START_NS).speed == 2.0


async def test_a_sped_up_fleet_through_the_monitor() -> None:
    """Lag, time and speed come from descriptor and telemetry.

    A jump is a new epoch, not lag.
    """
    feed = Feed(ultraservers(1))
    feed.scatter()
    feed.epoch = format_rfc3339(DATE_NS)
    feed.speed = 3_600.0
    feed.describe()
    for second in range(3):
        feed.monitor.apply(feed.telemetry(ts_ns=DATE_NS + second * 3_600 * NS_PER_S))
        assert feed.monitor.ingest.lag_s == pytest.approx(0, abs=1e-6)
        await feed.clock.advance(1)
    summary = feed.monitor.summary()
    assert (summary.monitor_time, summary.speed, summary.is_wall_time) == (
        "2025-03-01T15:00:00.000Z",
        3_600,
        False,
    )
    late = feed.telemetry(ts_ns=DATE_NS + 3 * 3_600 * NS_PER_S)
    await feed.clock.advance(2)
    feed.monitor.apply(late)
    assert feed.monitor.ingest.lag_s == pytest.approx(2)
    # Back by a month: without the new epoch this would be a lag of 12 min of wall time.
    back_ns = DATE_NS - 30 * 86_400 * NS_PER_S
    feed.epoch = format_rfc3339(back_ns)
    feed.revision = 1
    feed.describe()
    feed.monitor.apply(feed.telemetry(ts_ns=back_ns))
    assert feed.monitor.ingest.lag_s == pytest.approx(0, abs=1e-6)
    assert feed.monitor.summary().monitor_time == format_rfc3339(back_ns)


async def test_a_restarted_publisher_restarts_its_time() -> None:
    """A client restarted with the same epoch does not lag by the time between."""
    feed = Feed(ultraservers(1))
    feed.scatter()
    feed.epoch = format_rfc3339(DATE_NS)
    feed.describe()
    feed.monitor.apply(feed.telemetry(ts_ns=DATE_NS))
    await feed.clock.advance(60)
    feed.boot = "boot-2"
    feed.seq = 0
    feed.describe()
    feed.monitor.apply(feed.telemetry(ts_ns=DATE_NS))
    assert feed.monitor.ingest.lag_s == pytest.approx(0, abs=1e-6)


def test_an_epoch_must_be_an_instant() -> None:
    """A descriptor with an unreadable epoch is refused."""
    feed = Feed(ultraservers(1))
    good = [*feed.announcements(), *feed.telemetry()]
    feed.monitor.apply(
        [
            each._replace(payload=each.payload.replace(b"2026-01-05T00:00:00Z", b"yesterday"))
            for each in good
        ]
    )
    feed.monitor.compute()
    assert feed.monitor.counts.undecodable == 4
    assert "epoch" in feed.monitor.counts.last_problem
    assert "'yesterday'" in feed.monitor.counts.last_problem
    assert feed.monitor.store.layout.chips == 0


def test_jumps_do_not_pile_up() -> None:
    """Repeated jumps of a publisher leave a few clocks, and the newest counts."""
    timebase = Timebase()
    for number in range(50):
        key = ClockKey("sim", DATE_NS + number * 86_400 * NS_PER_S, 60.0, True)
        timebase.clock(key, 1.0).take(key.epoch_ns, 5.0, START_NS)
        assert timebase.now(5.0, START_NS).time_ns == key.epoch_ns
    assert len(timebase._clocks) == len(timebase._of["sim"]) <= 8


def test_time_ends_where_its_range_does() -> None:
    """The fastest clock may reach the end of 2199.

    It stops there without an overflow.
    """
    timebase = Timebase()
    key = ClockKey("sim", DATE_NS, 1e6, True)
    timebase.clock(key, 100.0).take(LATEST_NS - NS_PER_S, 5.0, START_NS)
    moment = timebase.now(250.0, START_NS)
    assert (moment.time_ns, moment.is_wall) == (LATEST_NS, False)
    assert format_rfc3339(moment.time_ns) == "2199-12-31T23:59:59.999Z"


class Sources:
    """Several sources of one fleet, each with a number of instances."""

    def __init__(self) -> None:
        self.timebase = Timebase()
        self.instances: dict[ClockKey, int] = {}

    def add(
        self, name: str, instances: int, *, speed: float = 1.0, epoch_ns: int = START_NS
    ) -> ClockKey:
        key = ClockKey(name, epoch_ns, speed, is_simulated=True)
        self.instances[key] = instances
        self.timebase.clock(key, 1.0)
        return key

    def hear(
        self, key: ClockKey, now_s: float, *, period_s: float = 1.0, wall_s: float | None = None
    ) -> None:
        """Take a message without delay; our wall clock shows `wall_s`."""
        ts_ns = key.epoch_ns + round(now_s * key.speed * NS_PER_S)
        wall_ns = START_NS + round((now_s if wall_s is None else wall_s) * NS_PER_S)
        self.timebase.clock(key, period_s).take(ts_ns, now_s, wall_ns)

    def speed(self, now_s: float) -> float:
        moment = self.timebase.now(now_s, START_NS + round(now_s * NS_PER_S), self.instances)
        return 1.0 if moment.is_wall else moment.speed


@pytest.mark.parametrize("speed", [10.0, 1e-3])
def test_no_dated_source_takes_the_time_from_the_wall_clock(speed: float) -> None:
    """A dated or slow source among wall clocks changes nothing.

    Not even for a while after the others have died.
    """
    fleet = Sources()
    odd = fleet.add("odd", 1_000, speed=speed, epoch_ns=DATE_NS)
    shard = fleet.add("shard-1", 12)
    for second in range(3):
        fleet.hear(odd, second, period_s=86_400.0)
        fleet.hear(shard, second)
    assert fleet.speed(3.0) == 1.0
    assert fleet.speed(60.0) == 1.0
    fleet.hear(odd, 700.0)
    assert fleet.speed(701.0) == speed
    # A publisher that is described no more has no say.
    fleet.hear(shard, 702.0)
    assert fleet.speed(702.0) == 1.0
    del fleet.instances[shard]
    assert fleet.speed(702.0) == speed


def test_of_dated_sources_the_largest_has_the_time() -> None:
    """The largest dated source sets the time while heard, in any order of descriptors."""
    fleet = Sources()
    small = fleet.add("small", 1, speed=1e-3, epoch_ns=DATE_NS)
    large = fleet.add("large", 12, speed=60.0, epoch_ns=DATE_NS)
    fleet.hear(small, 0.0, period_s=86_400.0)
    fleet.hear(large, 0.0)
    assert fleet.speed(1.0) == 60.0
    assert fleet.speed(10.0) == 1e-3
    # However rarely it publishes, a source that is dead does not count as heard for long.
    assert fleet.speed(130.0) == 60.0 or not fleet.timebase.clock(small, 86_400.0).is_heard(130.0)


def test_a_replay_has_a_date_of_its_own_however_near() -> None:
    """A replay from half an hour ago has its own time.

    A simulator with that time is late.
    """
    fleet = Sources()
    replay = ClockKey("replay", START_NS - 1_800 * NS_PER_S, 1.0, is_simulated=True, is_replay=True)
    fleet.hear(replay, 1.0)
    assert not fleet.timebase.now(1.0, START_NS + NS_PER_S).is_wall
    late = Source()
    late.hear(0, ahead_s=-1_800.0)
    assert late.clock.is_wall
    assert late.timebase.late_s(late.began_s) == pytest.approx(1_800.0)


def test_old_telemetry_is_late_and_nothing_else() -> None:
    """An hour behind is late from the first message on, without skew.

    A minute behind is lag, and ahead is skew.
    """
    source = Source(is_simulated=False)
    for second in range(int(2 * WINDOW_S)):
        source.hear(second, ahead_s=-3_600.0)
        assert source.timebase.late_s(source.clock.heard_s) == pytest.approx(3_600.0)
        assert source.skew_s == 0
    assert source.timebase.late_s(source.clock.heard_s + 10.0) == 0
    near = Source()
    ahead = Source()
    near.hear(0, ahead_s=-59.0)
    ahead.hear(0, ahead_s=3_000.0)
    assert (
        near.timebase.late_s(near.clock.heard_s) == ahead.timebase.late_s(ahead.clock.heard_s) == 0
    )
    assert ahead.skew_s == pytest.approx(3_000.0)


@pytest.mark.parametrize("step_s", [-3_600.0, 3_600.0])
def test_a_step_of_our_wall_clock_does_not_move_the_fleets_time(step_s: float) -> None:
    """Sources on the right time outvote a step of our clock.

    Without any, our clock is right.
    """
    fleet = Sources()
    shard = fleet.add("shard-1", 12)

    def now_s(at_s: float, ours_s: float) -> float:
        moment = fleet.timebase.now(at_s, START_NS + round(ours_s * NS_PER_S), fleet.instances)
        return (moment.time_ns - START_NS) / NS_PER_S

    fleet.hear(shard, 1.0)
    assert now_s(1.0, 1.0) == pytest.approx(1.0)
    assert now_s(1.5, 1.5 + step_s) == pytest.approx(1.5, abs=0.1)
    fleet.hear(shard, 2.0, wall_s=2.0 + step_s)
    assert now_s(2.5, 2.5 + step_s) == pytest.approx(2.5, abs=0.1)
    # Set right again.
    assert now_s(3.0, 3.0) == pytest.approx(3.0, abs=0.1)
    assert now_s(30.0, 30.0) == pytest.approx(30.0)
    assert now_s(31.0, 31.0 + step_s) == pytest.approx(31.0 + step_s)


async def test_one_slow_source_does_not_delay_all_alerts() -> None:
    """Hold times of conditions depend on the usual period, not the longest."""
    feed = Feed(ultraservers(2))
    feed.scatter()
    feed.describe()
    feed.period_s = 86_400.0
    feed.monitor.apply(feed.announcements([feed.layout.instances[0]]))
    feed.tick()
    assert feed.monitor.store.period_s.max() == 86_400.0
    instant = feed.monitor.alerts.next_instant(START_NS, 1.0, 0.0)
    assert instant is not None
    assert feed.monitor.readings(instant, feed.monitor.pipeline()).tick_s == 1.0


async def test_late_telemetry_through_the_monitor() -> None:
    """Late telemetry is applied, counted and shown with its delay.

    It is neither lag nor a backlog.
    """
    feed = Feed(ultraservers(1))
    feed.scatter()
    feed.describe()
    feed.monitor.apply(feed.telemetry(ts_ns=START_NS - 3_600 * NS_PER_S))
    feed.monitor.compute()
    summary = feed.monitor.summary()
    assert (summary.live_chips, summary.old, summary.lag_s, summary.overloaded_s) == (64, 4, 0, 0)
    assert summary.late_s == pytest.approx(3_600.0)
    assert summary.is_wall_time


async def test_two_publishers_of_the_same_paths_are_named() -> None:
    """Two publishers of the same paths are named, with the number of paths.

    A publisher that replaces another is no contest.
    """
    first = Feed(ultraservers(1))
    second = Feed(ultraservers(1))
    first.scatter()
    second.publisher, second.boot, second.monitor = "sim-2", "boot-2", first.monitor
    first.publisher = "sim-1"
    first.describe()
    first.tick()
    monitor = first.monitor
    monitor.apply(second.announcements())
    for tick in range(8):
        await first.clock.advance(1.0)
        monitor.apply(second.telemetry())
        if tick < 1:
            monitor.apply(first.telemetry())
    assert monitor.summary().contested == {}
    for _ in range(8):
        await first.clock.advance(1.0)
        monitor.apply(second.telemetry())
        monitor.apply(first.telemetry())
    assert monitor.summary().contested == {"sim-1 and sim-2": 4}
    assert monitor.counts.late == 0
    await first.clock.advance(70.0)
    assert monitor.summary().contested == {}


@pytest.mark.parametrize(("right", "wrong", "holds"), [(12, 4, True), (4, 12, False)])
def test_most_instances_say_whose_clock_is_right(right: int, wrong: int, holds: bool) -> None:
    """Sources on our stepped clock vote against sources without the step.

    If they win, our clock counts as right for good.
    """
    fleet = Sources()
    before, after = fleet.add("before", right), fleet.add("after", wrong)
    for each in (before, after):
        fleet.hear(each, 1.0)

    def off_s(at_s: float) -> float:
        moment = fleet.timebase.now(
            at_s, START_NS + round((at_s + 3_600.0) * NS_PER_S), fleet.instances
        )
        return (moment.time_ns - START_NS) / NS_PER_S - at_s

    fleet.timebase.now(1.0, START_NS + NS_PER_S, fleet.instances)
    fleet.timebase.restart("after")
    ahead_ns = START_NS + round(3_602.0 * NS_PER_S)
    fleet.timebase.clock(before, 1.0).take(START_NS + 2 * NS_PER_S, 2.0, ahead_ns)
    fleet.timebase.clock(after, 1.0).take(ahead_ns, 2.0, ahead_ns)
    assert off_s(2.0) == pytest.approx(0.0 if holds else 3_600.0, abs=0.1)
    del fleet.instances[after]
    fleet.timebase.keep({before})
    assert off_s(2.5) == pytest.approx(0.0 if holds else 3_600.0, abs=0.1)


def test_a_window_of_long_ago_says_nothing_of_the_present() -> None:
    """After an hour of silence the shortest delay is from new messages."""
    source = Source(epoch_ns=DATE_NS)
    source.hear(0)
    assert source.hear(3_600.0, delay_s=50.0) == pytest.approx(0.0, abs=1e-6)


def test_the_clock_that_was_heard_longest_ago_makes_room() -> None:
    """A publisher that returns to an earlier epoch keeps its clock, even the first."""
    timebase = Timebase()
    keys = [
        ClockKey("sim", DATE_NS + number * 86_400 * NS_PER_S, 60.0, True) for number in range(9)
    ]
    for number, key in enumerate(keys[:8]):
        timebase.clock(key, 1.0).take(key.epoch_ns, float(number), START_NS)
    timebase.clock(keys[0], 1.0).take(keys[0].epoch_ns, 9.0, START_NS)
    timebase.clock(keys[8], 1.0)
    assert set(timebase._clocks) == {keys[0], *keys[2:]}
