"""Times of reachability: time to reconnect, and limits of doubt, pause and loss."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from support.monitor.feed import Feed, standalone, ultraservers

from trnfleet.clock import NS_PER_S
from trnfleet.monitor.freshness import STALE_AFTER_PERIODS
from trnfleet.monitor.pipeline.counts import PipelineCounts
from trnfleet.monitor.reachability import causes
from trnfleet.monitor.reachability.reachability import Reachability
from trnfleet.monitor.reachability.times import (
    BEHIND_FROM_S,
    JOINS_WITHIN_S,
    LEAST_MESSAGES,
    LOSS_WINDOW_S,
    MOST_PERIODS,
    OVERLOAD_GAP_S,
    PAUSE_FROM_S,
    RECONNECT_S,
    TOLD_FROM_S,
)
from trnfleet.wire.ports import RECORDING, LinkStatus

if TYPE_CHECKING:
    from trnfleet.monitor.store.store import Store

PROOF_S = 23.0


@pytest.fixture(scope="module")
def store() -> Store:
    """A store of live chips with a period of 1 s."""
    feed = Feed(ultraservers(1))
    feed.describe()
    feed.tick()
    return feed.monitor.store


class Driven:
    """Reachability with times set by hand."""

    def __init__(self, store: Store) -> None:
        self.reachability = Reachability(PROOF_S)
        self.link = LinkStatus(connected=True, connects=1)
        self.counts = PipelineCounts()
        self.reachability.heard_s = 0.0
        self._store = store

    def update(self, now_s: float, *, heard: bool = True) -> None:
        if heard:
            self.reachability.heard_s = now_s
        self.reachability.update(now_s, self.link, self._store, self.counts)

    def connect(self, now_s: float, *, up: bool) -> None:
        self.link.connected = up
        self.link.changed_s = now_s
        self.link.connects += up

    def unsettled_until_s(self, from_s: float) -> float:
        """Return when all instances have had their time, to a tenth of a second."""
        now_s = from_s
        while self.reachability.explain(now_s, self._store).explained is not None:
            now_s = round(now_s + 0.1, 1)
        return now_s


def test_a_short_break_does_not_cut_the_time_to_connect_again_short(store: Store) -> None:
    """After a 20 s outage everything gets 10 s and its three periods.

    Even if the connection breaks again meanwhile.
    """
    driven = Driven(store)
    driven.update(100.0)
    driven.connect(101.0, up=False)
    driven.update(101.5)
    assert driven.reachability.unheard_s(103.0) == pytest.approx(2.0)
    driven.connect(121.0, up=True)
    driven.update(121.0)
    # Lost and made again between two passes.
    driven.link.connects += 1
    driven.update(122.0)
    assert driven.reachability.listening_s == 122.0
    assert driven.unsettled_until_s(122.0) == pytest.approx(
        121.0 + RECONNECT_S + STALE_AFTER_PERIODS, abs=0.11
    )


def test_a_connection_that_is_made_again_between_two_passes_is_a_break(store: Store) -> None:
    """Earlier messages do not prove a source after a reconnect."""
    driven = Driven(store)
    driven.update(100.0)
    assert driven.reachability.listening_s == -math.inf
    driven.link.connects += 1
    driven.update(200.0)
    assert driven.reachability.listening_s == 200.0
    assert driven.unsettled_until_s(200.0) == pytest.approx(201.0 + STALE_AFTER_PERIODS, abs=0.11)


def test_a_pause_without_a_connection_ends_no_outage(store: Store) -> None:
    """The link is as it was; a pause with one is a break."""
    driven = Driven(store)
    driven.update(100.0)
    driven.reachability.wake(100.0)
    driven.connect(101.0, up=False)
    driven.update(101.0)
    driven.reachability.wake(102.0 + PAUSE_FROM_S)
    assert driven.reachability.is_cut_off
    driven.connect(104.0, up=True)
    driven.update(104.0)
    driven.reachability.wake(104.0)
    driven.reachability.wake(105.0 + PAUSE_FROM_S, slept_s=1.0)
    assert driven.reachability.listening_s == 104.0
    driven.reachability.wake(112.0, slept_s=1.0)
    assert driven.reachability.listening_s == 112.0


def test_silence_before_a_pause_of_ours_is_no_doubt(store: Store) -> None:
    """Only listened time counts towards doubt.

    After a proof the same silence is no doubt.
    """
    driven = Driven(store)
    driven.update(100.0)
    driven.reachability.pause.ends(110.0, 10.0)
    driven.update(111.0, heard=False)
    assert not driven.reachability.is_cut_off
    driven.update(112.5, heard=False)
    assert driven.reachability.unheard_s(112.5) == pytest.approx(2.5)
    driven.update(110.0 + PROOF_S, heard=False)
    driven.update(111.0 + PROOF_S, heard=False)
    assert not driven.reachability.is_cut_off


def test_values_are_stale_at_last_however_much_is_lost(store: Store) -> None:
    """Stale periods grow with the share lost, to nine.

    A few messages have no share.
    """
    driven = Driven(store)
    driven.update(100.0)

    def lose(messages: int, gaps: int, window: int) -> float:
        driven.counts.messages += messages
        driven.counts.gaps += gaps
        now_s = 100.0 + LOSS_WINDOW_S * window
        driven.update(now_s)
        return driven.reachability.stale_periods(now_s)

    assert lose(100, 60, 1) == pytest.approx(STALE_AFTER_PERIODS / 0.4)
    assert lose(1_000, 990, 2) == MOST_PERIODS
    assert lose(LEAST_MESSAGES - 1, LEAST_MESSAGES - 1, 3) == STALE_AFTER_PERIODS


def test_overload_is_one_while_it_comes_back_soon(store: Store) -> None:
    """An overload counts from its first shed message, and again after a gap."""
    driven = Driven(store)
    for at_s in (100.0, 103.0, 106.0):
        driven.counts.shed += 1
        driven.update(at_s)
    assert driven.reachability.behind.overloaded_s(106.0) == pytest.approx(6.0)
    driven.update(106.0 + OVERLOAD_GAP_S)
    assert driven.reachability.behind.overloaded_s(106.0 + OVERLOAD_GAP_S) == 0
    driven.counts.shed += 1
    driven.update(107.0 + OVERLOAD_GAP_S)
    driven.counts.shed += 1
    driven.update(108.0 + OVERLOAD_GAP_S)
    assert driven.reachability.behind.overloaded_s(108.0 + OVERLOAD_GAP_S) == pytest.approx(1.0)


def test_a_little_loss_says_nothing_of_silence_only_while_overloaded(store: Store) -> None:
    """A fifth of messages lost is the sources' or network's, unless this monitor sheds."""
    driven = Driven(store)
    driven.update(100.0)

    def lose(window: int, *, shed: int) -> tuple[bool, bool]:
        driven.counts.messages += 100
        driven.counts.gaps += 20
        driven.counts.shed += shed
        now_s = 100.0 + LOSS_WINDOW_S * window
        driven.update(now_s)
        reachability = driven.reachability
        is_slack = reachability.stale_periods(now_s) > STALE_AFTER_PERIODS
        return reachability.behind.is_behind(now_s), is_slack

    assert lose(1, shed=0) == (False, False)
    assert lose(2, shed=1) == (True, True)
    # Its end is known once nothing has been left out for a while.
    assert lose(2 + int(OVERLOAD_GAP_S), shed=0) == (False, False)


@pytest.mark.parametrize(
    ("instances", "protocol", "is_own"), [(4, "5", True), (5, "5", False), (4, RECORDING, False)]
)
def test_what_is_lost_while_a_large_fleet_is_joined_is_no_alert(
    store: Store, monkeypatch: pytest.MonkeyPatch, instances: int, protocol: str, is_own: bool
) -> None:
    """Losses while joining a large fleet are no alert.

    For a while after each layout of the first minutes; not for a small fleet or a recording. Later
    losses count.
    """
    monkeypatch.setattr(causes, "JOINS_FROM", instances)
    driven = Driven(store)
    driven.link.protocol = protocol
    driven.link.changed_s = 100.0

    def lose(now_s: float, lost: int) -> int:
        driven.counts.lost += lost
        driven.update(now_s)
        return driven.counts.lost - driven.counts.unheard

    joined = [lose(102.0, 7), lose(101.0 + RECONNECT_S, 4_000), lose(101.5 + RECONNECT_S, -30)]
    assert joined == ([0, 0, 0] if is_own else [7, 4_007, 3_977])
    assert driven.counts.unheard == (3_977 if is_own else 0)
    assert lose(102.0 + RECONNECT_S, 20) == joined[-1] + 20
    # Long after the connection was made another layout says nothing of joining.
    monkeypatch.setattr(store, "generation", store.generation + 1)
    assert lose(100.0 + JOINS_WITHIN_S, 5) == joined[-1] + 25


def test_what_is_lost_in_an_overload_is_no_second_alert(store: Store) -> None:
    """Losses in an overload are no second alert after it.

    Losses before and after it are.
    """
    driven = Driven(store)

    def lose(now_s: float, lost: int, shed: int) -> int:
        driven.counts.lost += lost
        driven.counts.shed += shed
        driven.update(now_s)
        return driven.counts.lost - driven.counts.unheard

    assert lose(100.0, 3, 0) == 3
    assert lose(101.0, 500, 10) == 3
    assert lose(100.9 + OVERLOAD_GAP_S, 100, 0) == 3
    assert lose(101.0 + OVERLOAD_GAP_S, 6, 0) == 9


def test_what_is_lost_while_sources_are_late_by_their_clocks_is_an_alert(store: Store) -> None:
    """Losses of a stalled, late host are an alert.

    Unless most telemetry is late for so long that the overload is an alert.
    """
    driven = Driven(store)
    driven.update(99.0)

    def lose(now_s: float, lost: int, *, lag_s: float = 0.0, age_s: float = 0.0) -> int:
        driven.counts.lost += lost
        driven.reachability.behind.note_lag(lag_s, 1, now_s, 1.0)
        driven.reachability.behind.note_applied(now_s - age_s, now_s)
        driven.update(now_s)
        return driven.counts.lost - driven.counts.unheard

    assert lose(100.0, 20, lag_s=BEHIND_FROM_S) == 20
    assert lose(100.0 + OVERLOAD_GAP_S, 10) == 30
    # As late for longer: all since it began is the overload's, which has an alert.
    late = [lose(200.0 + second, 10, lag_s=BEHIND_FROM_S) for second in range(6)]
    assert late == [40, 50, 60, 70, 30, 30]
    assert driven.reachability.behind.overloaded_s(205.0) > TOLD_FROM_S
    assert lose(205.0 + OVERLOAD_GAP_S, 1) == 31
    # What waited here before it was applied is late because of this monitor.
    assert lose(300.0, 50, age_s=BEHIND_FROM_S) == 31


@pytest.mark.parametrize(("slow", "is_overloaded"), [(1, False), (3, True), (4, True)])
async def test_a_few_slow_clocks_are_no_overload(slow: int, *, is_overloaded: bool) -> None:
    """A few slow clocks are no overload: most batches must be late.

    Each host of a small fleet is a batch. Only then is silence meaningless and this monitor behind.
    """
    hosts = Feed(standalone(4))
    hosts.origin = "neuron"
    hosts.describe()
    reachability = hosts.monitor.reachability
    clock = hosts.clock
    store = hosts.monitor.store
    for tick in range(8):
        for place, path in enumerate(hosts.layout.instances):
            hosts.seq = tick
            behind_ns = round(1.5 * BEHIND_FROM_S * NS_PER_S) if place < slow else 0
            [message] = hosts.telemetry([path], ts_ns=clock.wall_ns() - behind_ns)
            hosts.monitor.apply([message._replace(received_s=clock.monotonic_s())])
            await clock.advance(0.25)
        hosts.monitor.compute()
    now_s = clock.monotonic_s()
    assert (reachability.behind.overloaded_s(now_s) > TOLD_FROM_S) is is_overloaded
    assert (reachability.explain(now_s, store).explained is not None) is is_overloaded


def test_most_telemetry_is_judged_over_a_period(store: Store) -> None:
    """One late host among hosts with a message a minute is one of several.

    Older messages do not count.
    """
    driven = Driven(store)
    for minute, lags_s in enumerate(
        ([0.0, 0.0, BEHIND_FROM_S], [0.0, 0.0, BEHIND_FROM_S], [BEHIND_FROM_S] * 3)
    ):
        for place, lag_s in enumerate(lags_s):
            now_s = 60.0 * minute + 20.0 * place
            driven.reachability.behind.note_lag(lag_s, 4, now_s, 60.0)
            assert driven.reachability.behind.is_behind(now_s) is (minute == 2)
    driven.reachability.behind.note_lag(0.0, 100, 161.0, 60.0)
    driven.reachability.behind.note_lag(BEHIND_FROM_S, 4, 162.0, 60.0)
    assert not driven.reachability.behind.is_behind(162.0)
