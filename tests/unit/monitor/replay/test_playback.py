"""The deck on a tape in memory: what is shown is what the live monitor knew then, however one came there."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from typing import TYPE_CHECKING, NamedTuple

import pytest
from support.monitor.alert_run import AlertRun
from support.monitor.state import alerts_of, rollups_of, values_of
from support.record.memory_tape import KeyedTape

from trnfleet.clock import NS_PER_S, ManualClock
from trnfleet.errors import TrnfleetError
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.replay.past_monitor import Past
from trnfleet.monitor.replay.playback import Deck, Mode
from trnfleet.services.rule_files import load_rules
from trnfleet.tasks import background
from trnfleet.wire.ports import LinkStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path
    from typing import Any

    from trnfleet.clock import Clock
    from trnfleet.monitor.store.history import History
    from trnfleet.wire.ports import Source

SECONDS = 61
RULES = load_rules()


class Played(NamedTuple):
    """A run with what its monitor knew at every tick."""

    tape: KeyedTape
    fleet: str
    known: dict[int, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]
    alerts: list[int]
    """Times at which an alert fired."""

    def at(self, second: int) -> int:
        """Return the tape's time of a second of the run."""
        return self.tape.start_ns + second * NS_PER_S


@functools.cache
def played() -> Played:
    """Play a scenario once for all tests."""
    tape = KeyedTape()
    run = AlertRun("game-day", tap=tape.put)
    known: dict[int, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {}
    alerts: list[int] = []

    def note() -> None:
        now_ns = run.clock.wall_ns()
        known[now_ns] = picture(run.monitor)
        alerts.extend(
            now_ns
            for each in run.monitor.alerts.history
            if each.at_ns == run.monitor.alerts.instant.now_ns and each.kind == "firing"
        )

    run.on_tick = note
    asyncio.run(_play(run))
    return Played(tape, run.monitor.fleet_name, known, alerts)


@pytest.fixture(scope="module", autouse=True)
def _played_before() -> None:
    """Play it before any test has a loop."""
    played()


async def _play(run: AlertRun) -> None:
    await run.play(SECONDS)


def picture(monitor: Monitor) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return all that is compared of a monitor."""
    return values_of(monitor), rollups_of(monitor), alerts_of(monitor)


def maker(fleet: str) -> Callable[[Source, Clock, History | None], Monitor]:
    """Return what makes the deck's monitors."""

    def make(source: Source, clock: Clock, history: History | None) -> Monitor:
        return Monitor(source, fleet, clock=clock, rules=RULES, history=history)

    return make


def file_deck(clock: ManualClock, **options: Any) -> Deck:
    """Return the deck of a finished recording."""
    return Deck(played().tape, maker(played().fleet), clock=clock, name="a recording", **options)


def mode_of(deck: Deck) -> Mode:
    """Return what is shown: a property changes while one waits, which type checkers don't expect."""
    return deck.mode


async def turn(clock: ManualClock, seconds: float = 0.2) -> None:
    """Let the deck have its turns."""
    await clock.advance(seconds)


async def surveyed(clock: ManualClock, deck: Deck) -> None:
    """Let the deck look through all of its file, standing still."""
    deck.pause()
    for _ in range(200):
        await clock.advance(0.1)
        if deck.surveyed_ns >= deck.end_ns and deck.is_exact:
            return
    pytest.fail("the file was not looked through")


async def test_a_file_plays_from_its_begin_and_shows_every_moment_as_it_was() -> None:
    clock = ManualClock(0, 50.0)
    deck = file_deck(clock)
    async with background(deck=deck.run()):
        await turn(clock, 0.1)
        for second in (10, 25, 40):
            while deck.position_ns < played().at(second) - NS_PER_S // 2:
                await clock.advance(0.1)
            deck.pause()
            deck.seek(played().at(second))
            await turn(clock)
            assert deck.is_exact
            assert picture(deck.shown.at) == played().known[played().at(second)]
            deck.play()
        assert mode_of(deck) is Mode.PLAYING


async def test_playing_takes_as_long_as_the_rate_says() -> None:
    clock = ManualClock(0, 50.0)
    deck = file_deck(clock, rate=4.0)
    async with background(deck=deck.run()):
        await turn(clock, 1.0)
        before = deck.position_ns
        await turn(clock, 5.0)
        assert (deck.position_ns - before) / NS_PER_S == pytest.approx(20.0, abs=0.5)
        deck.slower()
        deck.slower()
        before = deck.position_ns
        await turn(clock, 5.0)
        assert (deck.position_ns - before) / NS_PER_S == pytest.approx(5.0, abs=0.2)
        assert deck.reached_rate == deck.rate == 1.0


@pytest.mark.parametrize("second", [3, 37, 60])
async def test_a_sought_place_is_what_it_was_alerts_and_all(second: int) -> None:
    clock = ManualClock(0, 50.0)
    deck = file_deck(clock)
    async with background(deck=deck.run()):
        await surveyed(clock, deck)
        turn_before = deck.shown.revision.source
        deck.seek(played().at(second))
        await turn(clock, 0.5)
        assert deck.shown.revision.source > turn_before
        assert deck.position_ns == played().at(second)
        assert picture(deck.shown.at) == played().known[played().at(second)]


async def test_a_place_that_was_not_looked_through_yet_shows_values_and_says_that_alerts_are_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Deck, "_survey", _no_survey)
    clock = ManualClock(0, 50.0)
    deck = file_deck(clock)
    async with background(deck=deck.run()):
        deck.pause()
        deck.seek(played().at(50))
        await turn(clock)
        assert picture(deck.shown.at)[:2] == played().known[played().at(50)][:2]
        assert not deck.is_exact
        assert deck.alerts_since_ns == played().at(50)


async def _no_survey(_deck: Deck) -> None:
    return


async def test_marks_are_where_alerts_fired_and_can_be_jumped_to() -> None:
    clock = ManualClock(0, 50.0)
    deck = file_deck(clock)
    async with background(deck=deck.run()):
        await surveyed(clock, deck)
        fired = [mark.time_ns for mark in deck.marks if mark.kind == "alert"]
        assert fired == played().alerts
        assert fired
        deck.go_start()
        await turn(clock)
        later = next(time_ns for time_ns in fired if time_ns > deck.start_ns)
        assert deck.next_mark(("alert",), 1)
        await turn(clock, 0.5)
        assert deck.position_ns == later
        firing = sum(alert.fired_ns is not None for alert in deck.shown.alerts.active())
        deck.step(-1.0)
        await turn(clock, 0.5)
        assert sum(alert.fired_ns is not None for alert in deck.shown.alerts.active()) < firing
        deck.go_start()
        await turn(clock)
        assert not deck.next_mark(("alert",), -1)
        assert "before" in deck.note


async def test_the_moment_of_an_alert_is_found_by_the_fleets_own_time() -> None:
    clock = ManualClock(0, 50.0)
    deck = file_deck(clock)
    async with background(deck=deck.run()):
        await surveyed(clock, deck)
        deck.seek(played().at(60))
        await turn(clock, 0.5)
        alert = next(each for each in deck.shown.alerts.active() if each.fired_ns is not None)
        assert alert.fired_ns is not None
        place = deck.moment_of(alert.fired_ns)
        assert place is not None
        assert abs(place - min(played().alerts, key=lambda each: abs(each - place))) <= NS_PER_S


async def test_at_its_end_a_file_stands_or_begins_anew() -> None:
    clock = ManualClock(0, 50.0)
    deck = file_deck(clock)
    async with background(deck=deck.run()):
        await turn(clock, 0.1)
        deck.seek(deck.end_ns - NS_PER_S)
        await turn(clock, 3.0)
        assert mode_of(deck) is Mode.PAUSED
        assert deck.position_ns == deck.end_ns
        deck.play()
        await turn(clock, 1.0)
        assert mode_of(deck) is Mode.PLAYING
        assert deck.position_ns < played().at(2)
        deck.toggle_loop()
        deck.seek(deck.end_ns - NS_PER_S)
        await turn(clock, 3.0)
        assert mode_of(deck) is Mode.PLAYING
        assert deck.position_ns < played().at(4)


async def test_a_wish_overtakes_the_one_before() -> None:
    clock = ManualClock(0, 50.0)
    deck = file_deck(clock)
    async with background(deck=deck.run()):
        deck.pause()
        for second in (55, 5, 50, 33):
            deck.seek(played().at(second))
        await turn(clock)
        assert deck.position_ns == played().at(33)
        assert values_of(deck.shown.at) == played().known[played().at(33)][0]


class Present:
    """A live monitor that is fed from a tape as time goes by, and the keeper of what it was fed."""

    def __init__(self, clock: ManualClock) -> None:
        self.tape = KeyedTape()
        self.clock = clock
        self.monitor = Monitor(_Silent(), played().fleet, clock=clock, rules=RULES)
        self.window_s = 0.0
        self.problem = ""
        self._lead_s = clock.monotonic_s()
        self._seen_ns = played().tape.start_ns - 1

    def to_ns(self, monotonic_s: float) -> int:
        """Return the tape's time."""
        return played().tape.start_ns + round((monotonic_s - self._lead_s) * NS_PER_S)

    def save(self, path: Path) -> int:
        """Refuse as a full disk does."""
        raise OSError(28, f"No space left on device: {path}")

    async def run(self) -> None:
        """Apply what is due, ten times a second."""
        while True:
            now_ns = self.to_ns(self.clock.monotonic_s())
            for stored in played().tape.read(self._seen_ns, now_ns):
                envelope = stored.envelope._replace(received_s=self.clock.monotonic_s())
                self.tape.put(now_ns, [envelope])
                self.monitor.apply([envelope])
            self._seen_ns = now_ns
            self.monitor.compute()
            await self.clock.sleep(0.1)


class _Silent:
    def __init__(self) -> None:
        self.status = LinkStatus(connected=True)

    async def take(self) -> list[Any]:
        return []


def live_deck(clock: ManualClock, present: Present) -> Deck:
    """Return the deck that goes back from the present."""
    return Deck(
        present.tape,
        maker(played().fleet),
        clock=clock,
        name="the past",
        live=present.monitor,
        keeper=present,
    )


@contextlib.asynccontextmanager
async def watched() -> AsyncIterator[tuple[ManualClock, Present, Deck]]:
    """Run a fleet and the deck that goes back from it, by a clock that the test moves."""
    clock = ManualClock(played().tape.start_ns, 50.0)
    present = Present(clock)
    async with background(present=present.run()):
        await clock.advance(0.05)
        deck = live_deck(clock, present)
        async with background(deck=deck.run()):
            yield clock, present, deck


async def test_the_present_goes_on_while_the_past_is_looked_at() -> None:
    async with watched() as (clock, present, deck):
        await turn(clock, 40.0)
        assert mode_of(deck) is Mode.LIVE
        assert deck.shown.at is present.monitor
        deck.step(-30.0)
        await turn(clock, 0.5)
        assert mode_of(deck) is Mode.PLAYING
        assert deck.shown.at is not present.monitor
        deck.pause()
        deck.seek(played().at(25))
        await turn(clock, 1.0)
        shown = picture(deck.shown.at)
        assert shown[0]["columns"] == played().known[played().at(25)][0]["columns"]
        assert shown[2]["active"] == played().known[played().at(25)][2]["active"]
        messages = present.monitor.counts.messages
        await turn(clock, 6.0)
        assert deck.position_ns == played().at(25)
        assert present.monitor.counts.messages > messages
        deck.go_live_or_end()
        assert deck.shown.at is present.monitor
        assert present.monitor.counts.lost == 0


async def test_whoever_plays_faster_than_time_comes_back_to_the_present() -> None:
    async with watched() as (clock, _, deck):
        await turn(clock, 30.0)
        deck.step(-20.0)
        deck.set_rate(8.0)
        await turn(clock, 5.0)
        assert mode_of(deck) is Mode.LIVE
        deck.step(5.0)
        assert mode_of(deck) is Mode.LIVE
        deck.step(-500.0)
        assert "nothing earlier" in deck.note


async def test_a_buffer_that_cannot_be_saved_says_why(tmp_path: Path) -> None:
    clock = ManualClock(played().tape.start_ns, 50.0)
    present = Present(clock)
    present.tape.put(played().tape.start_ns, [played().tape.stored[0].envelope])
    deck = live_deck(clock, present)
    with pytest.raises(OSError, match="No space left"):
        await deck.save(tmp_path / "x.mcap")
    with pytest.raises(TrnfleetError, match="recording already"):
        await file_deck(clock).save(tmp_path / "x.mcap")


async def test_a_file_that_is_shown_in_part_is_played_anew_from_where_that_begins() -> None:
    clock = ManualClock(0, 50.0)
    deck = file_deck(clock, begin_ns=played().at(30), until_ns=played().at(35))
    async with background(deck=deck.run()):
        await turn(clock, 8.0)
        assert mode_of(deck) is Mode.PAUSED
        assert deck.position_ns == played().at(35)
        deck.play()
        await turn(clock, 1.0)
        assert played().at(30) <= deck.position_ns <= played().at(32)


async def test_going_back_from_mark_to_mark_gets_past_the_one_that_is_played_from() -> None:
    clock = ManualClock(0, 50.0)
    deck = file_deck(clock)
    async with background(deck=deck.run()):
        await surveyed(clock, deck)
        places = sorted({mark.time_ns for mark in deck.marks})
        assert len(places) > 1
        deck.seek(places[-1] + NS_PER_S)
        await turn(clock)
        deck.play()
        for place in (places[-1], *reversed(places[:-1])):
            reached = deck.position_ns
            assert deck.next_mark(("alert", "resolved", "event"), -1)
            assert deck.position_ns <= place < reached
            if deck.position_ns == places[0]:
                break
            await turn(clock, 0.5)
            assert deck.position_ns > place - 3 * NS_PER_S
        assert mode_of(deck) is Mode.PLAYING


async def test_a_wish_in_the_midst_of_a_turn_is_heeded_even_where_the_present_is_near(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settle = Past.settle
    async with watched() as (clock, _, deck):
        await turn(clock, 30.0)
        deck.step(-3.0)
        deck.set_rate(8.0)
        wished = played().at(10)

        def settle_late(past: Past) -> Iterator[None]:
            if deck.end_ns - past.position_ns < NS_PER_S:
                monkeypatch.undo()
                deck.set_rate(1.0)
                deck.seek(wished)
                deck.rate = 8.0
                yield
            yield from settle(past)

        monkeypatch.setattr(Past, "settle", settle_late)
        await turn(clock, 0.7)
        assert Past.settle is settle, "nobody came near the present"
        assert mode_of(deck) is Mode.PLAYING
        assert wished <= deck.position_ns < wished + 8 * NS_PER_S


async def test_who_stands_still_in_the_midst_of_a_turn_stays_where_that_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = ManualClock(0, 50.0)
    deck = file_deck(clock, loops=True)
    settle = Past.settle
    async with background(deck=deck.run()):
        await turn(clock, 0.2)
        deck.seek(deck.end_ns - NS_PER_S)
        await turn(clock, 0.2)

        def settle_late(past: Past) -> Iterator[None]:
            if past.position_ns >= deck.end_ns:
                deck.pause()
            yield from settle(past)

        monkeypatch.setattr(Past, "settle", settle_late)
        await turn(clock, 2.0)
        assert mode_of(deck) is Mode.PAUSED
        assert deck.position_ns == deck.end_ns
        assert values_of(deck.shown.at) == played().known[deck.end_ns][0]


async def test_a_snapshot_of_the_present_ends_with_a_message_of_the_tape_to_the_nanosecond() -> None:
    clock = ManualClock(played().tape.start_ns, 50.0)
    present = Present(clock)

    def odd(monotonic_s: float) -> int:
        """Round in a way of its own, as no other sum of the same numbers does."""
        return 3 + played().tape.start_ns + int((monotonic_s - 50.0) * NS_PER_S) // 7 * 7

    present.to_ns = odd  # type: ignore[method-assign]  # the tape's own rounding
    async with background(present=present.run()):
        await clock.advance(0.05)
        deck = live_deck(clock, present)
        async with background(deck=deck.run()):
            await turn(clock, 15.0)
            applied_s = present.monitor.applied_s
            times = [time_ns for time_ns, _ in deck.timeline.snapshots]
            assert len(times) == 2
            assert set(times) <= {stored.time_ns for stored in present.tape.stored}
            assert odd(applied_s) == present.tape.end_ns


async def test_where_the_present_is_kept_no_more_playing_stands_at_the_end_and_says_so() -> None:
    clock = ManualClock(played().tape.start_ns, 50.0)
    present = Present(clock)
    deck = live_deck(clock, present)
    async with background(present=present.run()):
        await turn(clock, 20.0)
    present.problem, present.window_s = "No space left on device", 20.0
    async with background(deck=deck.run()):
        assert deck.window_s == 20.0
        assert not deck.is_recording
        await turn(clock, 30.0)
        deck.seek(present.tape.end_ns - 2 * NS_PER_S)
        await turn(clock, 5.0)
        assert mode_of(deck) is Mode.PAUSED
        assert deck.position_ns == present.tape.end_ns
        assert "not kept" in deck.note
        assert deck.window_s == 20.0


async def test_nothing_is_sought_where_nothing_is_kept_yet() -> None:
    clock = ManualClock(played().tape.start_ns, 50.0)
    present = Present(clock)
    deck = Deck(
        _Empty(), maker(played().fleet), clock=clock, name="the past", live=present.monitor, keeper=present
    )
    async with background(deck=deck.run()):
        for wish in (deck.pause, deck.go_start, lambda: deck.step(-10.0), lambda: deck.seek(0)):
            wish()
            await turn(clock, 0.1)
            assert mode_of(deck) is Mode.LIVE
            assert deck.note == "nothing is kept yet"
        assert deck.window_s == 0.0
        assert deck.position_ns == deck.end_ns


class _Empty(KeyedTape):
    """A live tape on which nothing is yet."""

    @property
    def start_ns(self) -> int:
        return 0

    @property
    def end_ns(self) -> int:
        return 0


async def test_a_past_whose_tape_is_gone_is_not_played_on_over_the_gap() -> None:
    async with watched() as (clock, present, deck):
        await turn(clock, 40.0)
        deck.pause()
        deck.seek(played().at(12))
        await turn(clock, 1.0)
        was_exact = deck.is_exact
        assert was_exact
        present.tape.cut(played().at(13))
        await turn(clock, 0.2)
        assert deck.position_ns == played().at(12)
        deck.step(1.5)
        await turn(clock, 0.5)
        assert deck.position_ns >= played().at(13)
        assert not deck.is_exact
        assert min(time_ns for time_ns, _ in deck.timeline.snapshots) >= deck.start_ns


async def test_where_the_snapshot_is_gone_alerts_are_followed_from_there_on() -> None:
    clock = ManualClock(0, 50.0)
    deck = file_deck(clock)
    async with background(deck=deck.run()):
        await surveyed(clock, deck)
        there = next(at_ns for at_ns, _ in reversed(deck.timeline.snapshots) if at_ns < played().at(50))
        deck.timeline.snapshots = [each for each in deck.timeline.snapshots if each[0] == there]
        asked: list[int] = []
        snapshot = deck.timeline.snapshot

        def once(at_ns: int) -> Any:
            asked.append(at_ns)
            return snapshot(at_ns) if len(asked) == 1 else None

        deck.timeline.snapshot = once  # type: ignore[method-assign]
        deck.seek(there + 5 * NS_PER_S)
        await turn(clock, 0.5)
        assert len(asked) >= 2
        assert not deck.is_exact
        assert deck.shown.at.evaluates_alerts
