"""The deck that plays the past: where on the tape one looks, how fast it goes, and which monitor is shown.

Its methods say what is wished and return at once; `run` does it, in slices, so that keys are served in between. A seek shows the
values at once, by the keyframe before the place; alerts as they really were then follow a moment later, from a snapshot that
is played up to the place. Live, the monitor of the present goes on whatever is shown.
"""

from __future__ import annotations

import asyncio
import enum
import itertools
from typing import TYPE_CHECKING, Protocol

from trnfleet import logs
from trnfleet.clock import NS_PER_S
from trnfleet.errors import TrnfleetError
from trnfleet.monitor.fleet_state import LiveOrPast
from trnfleet.monitor.replay.charted import ChartedHistory
from trnfleet.monitor.replay.clock import TapeClock
from trnfleet.monitor.replay.marks import Timeline
from trnfleet.monitor.replay.past_monitor import Past, PastSource
from trnfleet.monitor.store.history import BUDGET_BYTES, History
from trnfleet.tasks import background

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from pathlib import Path

    from trnfleet.clock import Clock
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.monitor.replay.marks import Mark
    from trnfleet.wire.ports import Source, Tape

    Maker = Callable[[Source, Clock, History | None], Monitor]
    """Makes a monitor of the fleet that knows nothing yet."""

log = logs.get_logger(__name__)

RATES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 125.0, 250.0, 500.0, 1000.0)
"""Seconds of the tape a second that can be chosen."""
FRAME_S = 0.04
"""Real seconds between two turns."""
IDLE_S = 1.0
"""And where nothing moves; a wish ends the rest at once."""
WORK_S = 0.03
"""Real seconds of work in a turn, beside which keys and drawing have their turn."""
SLICE_S = 0.006
"""Work between two looks at what else there is to do."""
SURVEY_SHARE = 0.4
"""Share of a core for looking through a file ahead of whoever watches it."""
NEAR_S = 2.0
"""A place that is so little ahead is reached by playing."""
STRIDE_NS = NS_PER_S
"""What is played between two looks at the clock."""
SNAPSHOT_EVERY_S = 10.0
"""Between two snapshots at first; where they take too much memory, they are farther apart."""
REFINED_SHARE = 2 / 3
"""Share of a turn's work for the exact past while it is on its way: it must be faster than what is played meanwhile."""
PASS_SHARE = 0.2
"""Share of a core for showing what is played, beside the passes that are due at whole seconds."""
AGAIN_S = 1.5
"""Who plays on from a mark and goes back within this time means the mark before it."""
CAUGHT_UP_S = 1.0
"""Whoever plays faster than time and comes this close to the present is shown the present."""
MOST_SAMPLES = 86_400
"""Seconds of charts that looking through a file keeps at most."""


class Mode(enum.StrEnum):
    """What is shown."""

    LIVE = "live"
    """The present."""
    PLAYING = "playing"
    PAUSED = "paused"


class Keeper(Protocol):
    """What keeps the present on a tape."""

    @property
    def window_s(self) -> float:
        """Seconds that are kept."""

    @property
    def problem(self) -> str:
        """The reason why nothing more is kept; empty while all is well."""

    def to_ns(self, monotonic_s: float) -> int:
        """Return the tape's time of a moment."""

    def save(self, path: Path) -> int:
        """Write all that is kept as a recording and return how many messages those are; called in a thread."""


class Deck:
    """Plays one tape of one fleet."""

    def __init__(
        self,
        tape: Tape,
        make: Maker,
        *,
        clock: Clock,
        name: str,
        live: Monitor | None = None,
        keeper: Keeper | None = None,
        rate: float = 1.0,
        loops: bool = False,
        begin_ns: int | None = None,
        until_ns: int | None = None,
    ) -> None:
        """Make the deck of a file, or of the present.

        Args:
            tape: What is played.
            make: Makes monitors for it.
            clock: The real one.
            name: What the tape is called, where a monitor would name its broker.
            live: The monitor of the present, which somebody else runs; None for a file.
            keeper: What keeps the present; given with `live`.
            rate: Seconds of the tape a second.
            loops: Whether it begins anew at its end.
            begin_ns: Where a file begins to be shown; its begin if not given.
            until_ns: Where a file ends to be shown; its end if not given.
        """
        self._tape = tape
        self._make = make
        self._clock = clock
        self._name = name
        self.live = live
        self._keeper = keeper
        self._begin_ns, self._until_ns = begin_ns, until_ns
        if live is not None and keeper is not None:
            anchor_s = clock.monotonic_s()
            self._anchor = keeper.to_ns(anchor_s), anchor_s
        else:
            self._anchor = tape.start_ns, 0.0
        self.timeline = Timeline(self._position_of, clock.monotonic_s, every_s=SNAPSHOT_EVERY_S)
        self.mode = Mode.PLAYING if live is None else Mode.LIVE
        self.rate = rate
        self.reached_rate = rate
        """What the machine manages of it."""
        self.loops = loops
        self.seeking = False
        self.is_exact = True
        """Whether alerts are what they were then."""
        self.alerts_since_ns: int | None = None
        """From where on alerts have been followed, where that is not from the tape's begin."""
        self.note = ""
        """What there is to say, in one line."""
        self._revision = 0
        self._past: Past | None = None
        self._refined: Past | None = None
        """Goes to the same place from a snapshot, to be shown instead when it is there."""
        self._wish_ns: int | None = None
        self._base: tuple[float, int] | None = None
        """Real seconds and place from which playing is timed."""
        self._settles_s = -1.0
        """Real time before which what is played is not brought up to date again."""
        self._is_settled = True
        """Whether what is shown is up to date with its place."""
        self._woken = asyncio.Event()
        """Set where a turn is to be had at once."""
        if live is None:
            self._surveyor: Past | None = self._new_past(survey=True)
            self._surveyor.monitor.on_pass = self._surveyed
            self._wish_ns = begin_ns if begin_ns is not None else tape.start_ns
            self.shown = LiveOrPast(self._new_past().monitor)
        else:
            self._surveyor = None
            self.shown = LiveOrPast(live)
            live.on_pass = self._lived

    # What there is

    @property
    def shows_past(self) -> bool:
        """Whether the past, or a file, is shown."""
        return self.mode is not Mode.LIVE

    @property
    def is_live_possible(self) -> bool:
        """Whether there is a present to go back to."""
        return self.live is not None

    @property
    def is_recording(self) -> bool:
        """Whether the present is kept."""
        return self._keeper is not None and not self._keeper.problem

    @property
    def recording_problem(self) -> str:
        """Why the present is not kept any more; empty while it is."""
        return self._keeper.problem if self._keeper is not None else ""

    @property
    def window_s(self) -> float:
        """Seconds that are there."""
        if self._keeper is not None:
            return self._keeper.window_s
        return max(0.0, (self.end_ns - self.start_ns) / NS_PER_S)

    @property
    def start_ns(self) -> int:
        """The oldest place."""
        return self._tape.start_ns

    @property
    def end_ns(self) -> int:
        """The newest place: the present, where there is one."""
        if self._keeper is not None:
            return max(self._tape.end_ns, self._keeper.to_ns(self._clock.monotonic_s()))
        return self._tape.end_ns if self._until_ns is None else min(self._until_ns, self._tape.end_ns)

    @property
    def position_ns(self) -> int:
        """The place that is looked at, or that is being sought."""
        if self._wish_ns is not None:
            return self._wish_ns
        if self.mode is Mode.LIVE or self._past is None:
            return self.end_ns
        return self._past.position_ns

    @property
    def marks(self) -> list[Mark]:
        """What happened, in order."""
        return self.timeline.marks

    @property
    def surveyed_ns(self) -> int:
        """Marks are known up to here."""
        return self.timeline.surveyed_ns

    @property
    def revision(self) -> int:
        """Goes up with any change but that of the place."""
        return self._revision + self.timeline.revision

    # Wishes

    def play(self) -> None:
        """Go on from here; at the end of a file, from where it began to be shown."""
        if self.mode is not Mode.PAUSED:
            return
        if not self.is_live_possible and self.position_ns >= self.end_ns:
            self._wish(self._first_ns())
        self._set_mode(Mode.PLAYING)

    def pause(self) -> None:
        """Stand still; the present is looked at as it is now."""
        if self.mode is Mode.LIVE:
            if not self._has_past():
                return
            self._wish(self._tape.end_ns)
        self._set_mode(Mode.PAUSED)

    def toggle(self) -> None:
        """Pause, or go on."""
        if self.mode is Mode.PAUSED:
            self.play()
        else:
            self.pause()

    def set_rate(self, rate: float) -> None:
        """Play at so many seconds a second."""
        self.rate = self.reached_rate = rate
        self._base = None
        self._revision += 1

    def faster(self) -> None:
        """Play at the next higher rate."""
        self.set_rate(next((rate for rate in RATES if rate > self.rate), self.rate))

    def slower(self) -> None:
        """Play at the next lower rate."""
        self.set_rate(next((rate for rate in reversed(RATES) if rate < self.rate), self.rate))

    def toggle_loop(self) -> None:
        """Begin anew at the end, or don't."""
        self.loops = not self.loops
        self._revision += 1

    def step(self, seconds: float) -> None:
        """Go back or forth by so much."""
        self.seek(self.position_ns + round(seconds * NS_PER_S))

    def seek(self, time_ns: int) -> None:
        """Go to a place, or to the nearest that is there."""
        start_ns, end_ns = self.start_ns, self.end_ns
        self.note = ""
        if not self._has_past():
            return
        if time_ns >= end_ns and self.is_live_possible:
            if self.mode is not Mode.LIVE:
                self.go_live_or_end()
            return
        if time_ns < start_ns:
            self.note = "nothing earlier is kept" if self.is_live_possible else "the recording begins here"
        if self.mode is Mode.LIVE:
            self._set_mode(Mode.PLAYING)
        # What has come in the last half second may not be on the tape yet.
        self._wish(min(max(time_ns, start_ns), end_ns, self._tape.end_ns))

    def _has_past(self) -> bool:
        """Say whether there is anything to go back to, and what there is to say where there is nothing."""
        if self._tape.end_ns > 0:
            return True
        self.note = (
            f"nothing is kept: {self.recording_problem}" if self.recording_problem else "nothing is kept yet"
        )
        self._revision += 1
        return False

    def go_live_or_end(self) -> None:
        """Go back to the present; in a file, to its end."""
        self.note = ""
        if self.live is None:
            self._wish(self.end_ns)
            return
        self._wish_ns = self._past = self._refined = self._base = None
        self.seeking, self.is_exact, self.alerts_since_ns = False, True, None
        self.shown.at = self.live
        self._set_mode(Mode.LIVE)

    def go_start(self) -> None:
        """Go to the oldest place."""
        self.seek(self.start_ns)

    def next_mark(self, kinds: Container[str], direction: int) -> bool:
        """Go to the next mark of some kinds, or to the one before; say whether there is one."""
        from_ns = self.position_ns
        if direction < 0 and self.mode is Mode.PLAYING and self._wish_ns is None:
            from_ns -= round(AGAIN_S * max(1.0, self.rate) * NS_PER_S)
        mark = self.timeline.next_mark(from_ns, direction, kinds)
        if mark is None:
            where = "before" if direction < 0 else "after"
            self.note = f"nothing is marked {where} this"
            self._revision += 1
            return False
        self.seek(mark.time_ns)
        return True

    def moment_of(self, fleet_ns: int) -> int | None:
        """Return the place at which the fleet's clock said so; None where it is not on the tape."""
        found = self.timeline.moment_of(fleet_ns)
        return None if found is None or not self.start_ns <= found <= self.end_ns else found

    async def save(self, path: Path) -> int:
        """Write what is kept as a recording; return how many messages that were.

        Raises:
            TrnfleetError: this is a recording already, or the file cannot be made.
            OSError: writing failed.
        """
        if self._keeper is None:
            raise TrnfleetError("this is a recording already")
        return await asyncio.to_thread(self._keeper.save, path)

    # Doing it

    async def run(self) -> None:
        """Do what is wished, until cancelled."""
        async with background(deck_turns=self._keep_turning(), deck_survey=self._survey()):
            while True:
                await self._clock.sleep(IDLE_S)
                self._woken.set()

    async def _keep_turning(self) -> None:
        while True:
            begun_s = self._clock.monotonic_s()
            self._woken.clear()
            await self._turn()
            if self._is_at_rest:
                await self._woken.wait()
                continue
            spent_s = self._clock.monotonic_s() - begun_s
            await self._clock.sleep(max(FRAME_S - spent_s, 0.005))

    @property
    def _is_at_rest(self) -> bool:
        """Whether nothing moves until somebody wishes for it."""
        stands = self.mode is Mode.PAUSED and self._is_settled and self.is_exact
        return self._wish_ns is None and (self._past is None or stands)

    async def _turn(self) -> None:
        """Do a little of what is to be done."""
        if self._keeper is not None:
            self.timeline.drop_before(self._tape.start_ns)
        if self._wish_ns is not None:
            await self._go(self._wish_ns)
        past = self._past
        if past is None:
            return
        refine_s = 0.0 if self._refined is None else WORK_S * REFINED_SHARE
        if self.mode is Mode.PLAYING:
            await self._play_on(past, WORK_S - refine_s)
        elif not self._is_settled:
            await self._settle(past)
        if self._past is past and not self.is_exact:
            await self._refine(past, WORK_S * REFINED_SHARE)

    async def _go(self, wish_ns: int) -> None:
        """Show a place; a newer wish overtakes this one."""
        self.seeking = True
        ahead_s = (wish_ns - self._past.position_ns) / NS_PER_S if self._past is not None else -1.0
        exact, since_ns = self.is_exact, self.alerts_since_ns
        is_there = self._past is not None and self._past.position_ns >= self._tape.start_ns - 1
        if self._past is not None and is_there and 0 <= ahead_s <= NEAR_S:
            past = self._past
            work: Iterator[None] = past.reach(wish_ns)
        else:
            past = self._new_past()
            found = self.timeline.snapshot(wish_ns)
            if wish_ns <= self._tape.start_ns:
                work = itertools.chain(past.begin(), past.reach(wish_ns))
                # Where there is a present, what is kept is not all that there was.
                exact = self.live is None
                since_ns = None if exact else wish_ns
            elif found is not None and wish_ns - found[0] <= NEAR_S * NS_PER_S:
                past.resume(found[1], found[0])
                work = past.reach(wish_ns)
                exact, since_ns = True, None
            else:
                if found is not None:
                    # Alerts of a little earlier, until those of this moment are there.
                    past.monitor.ingest.alerts = found[1].ingest.alerts.copy()
                    past.monitor.evaluates_alerts = False
                work = past.rebuild(wish_ns)
                exact, since_ns = False, wish_ns
        if not await self._work(work, wish_ns):
            # Overtaken half-way: that past is good for nothing.
            if past is self._past:
                self._past = None
            return
        self._wish_ns = None
        self.seeking = False
        if past is not self._past:
            self._refined = None
        self._past = past
        self.is_exact, self.alerts_since_ns = exact, since_ns
        self._base = None
        self._is_settled = True
        self.shown.at = past.monitor
        self._revision += 1

    async def _play_on(self, past: Past, work_s: float) -> None:
        """Play as far as time has passed, as far as the machine manages in so much work."""
        now_s = self._clock.monotonic_s()
        if self._base is None:
            self._base = now_s, past.position_ns
            return
        begun_s, begun_ns = self._base
        if past.position_ns < self._tape.start_ns:
            self._wish(self._tape.start_ns)
            self.note = "what was here is not kept any more"
            return
        end_ns = self.end_ns
        wanted_ns = begun_ns + round((now_s - begun_s) * self.rate * NS_PER_S)
        target_ns = min(wanted_ns, end_ns, self._tape.end_ns)
        from_ns = past.position_ns
        while past.position_ns < target_ns and self._clock.monotonic_s() - now_s < work_s:
            self._is_settled = False
            if not await self._work(past.advance(min(target_ns, past.position_ns + STRIDE_NS)), None):
                self._past = None
                return
            if self.mode is not Mode.PLAYING:
                break
        if not await self._settle(past) or self.mode is not Mode.PLAYING:
            return
        if past.position_ns < target_ns:
            # Too fast for this machine: time is counted anew from here.
            spent_s = max(1e-3, self._clock.monotonic_s() - now_s)
            reached = (past.position_ns - from_ns) / NS_PER_S / max(spent_s, FRAME_S)
            self.reached_rate += 0.2 * (reached - self.reached_rate)
            self._base = self._clock.monotonic_s(), past.position_ns
        elif self._base is not None and now_s - begun_s > 1.0:
            self.reached_rate = self.rate
        self._look_for_the_end(past, end_ns)

    async def _settle(self, past: Past) -> bool:
        """Show what has been played, as often as that takes little of the time; say whether that past is still good."""
        begun_s = self._clock.monotonic_s()
        if self.mode is Mode.PLAYING and begun_s < self._settles_s:
            return True
        if not await self._work(past.settle(), None):
            # Rules may have been held against half of the fleet.
            self._past = None
            return False
        self._is_settled = True
        ended_s = self._clock.monotonic_s()
        self._settles_s = ended_s + (ended_s - begun_s) * (1 / PASS_SHARE - 1)
        return True

    def _look_for_the_end(self, past: Past, end_ns: int) -> None:
        """Do what is to be done where playing has come to the end."""
        if self.is_live_possible:
            if self.rate > 1.0 and end_ns - past.position_ns < CAUGHT_UP_S * NS_PER_S:
                self.go_live_or_end()
            elif self.recording_problem and past.position_ns >= self._tape.end_ns:
                self.pause()
                self.note = "what came after this is not kept"
        elif past.position_ns >= end_ns:
            if self.loops:
                self._wish(self._first_ns())
            else:
                self.pause()

    async def _refine(self, past: Past, work_s: float) -> None:
        """Bring the exact past on its way, and show it once it is where one looks."""
        if self._refined is None:
            found = self.timeline.snapshot(past.position_ns)
            if found is None:
                # It has gone with its part of the tape: alerts are followed from here on.
                past.monitor.evaluates_alerts = True
                return
            if self.timeline.surveyed_ns < past.position_ns:
                return
            self._refined = self._new_past()
            self._refined.resume(found[1], found[0])
        refined, begun_s = self._refined, self._clock.monotonic_s()
        if refined.position_ns < self._tape.start_ns - 1:
            # What it had to go through is not kept any more.
            self._refined = None
            return
        while refined.position_ns < past.position_ns and self._clock.monotonic_s() - begun_s < work_s:
            stride_ns = max(STRIDE_NS, refined.quiet_ns // 10)
            until_ns = min(past.position_ns, refined.position_ns + stride_ns)
            if not await self._work(refined.advance(until_ns), None):
                self._refined = None
                return
        if refined.position_ns < past.position_ns:
            return
        if not await self._work(refined.settle(), None):
            self._refined = None
            return
        self._past, self._refined = refined, None
        self._is_settled = True
        self.is_exact, self.alerts_since_ns = True, None
        self.shown.at = refined.monitor
        self._revision += 1

    async def _survey(self) -> None:
        """Look through a file for what happened in it."""
        surveyor = self._surveyor
        if surveyor is None:
            return
        await self._calmly(surveyor.begin())
        end_ns = self._tape.end_ns
        while surveyor.position_ns < end_ns:
            stride_ns = max(10 * STRIDE_NS, surveyor.quiet_ns // 10)
            await self._calmly(surveyor.advance(min(end_ns, surveyor.position_ns + stride_ns)))
            # A stride in which nothing happens has no slice at which others get their turn.
            await self._clock.sleep(0)
            self.timeline.surveyed_ns = surveyor.position_ns
            self._revision += 1
        log.debug("tape_surveyed", marks=len(self.timeline.marks), snapshots=len(self.timeline.snapshots))

    async def _calmly(self, work: Iterator[None]) -> None:
        """Work with a share of a core."""
        clock = self._clock
        begun_s = clock.monotonic_s()
        for _ in work:
            spent_s = clock.monotonic_s() - begun_s
            if spent_s >= SLICE_S:
                await clock.sleep(spent_s * (1 / SURVEY_SHARE - 1))
                begun_s = clock.monotonic_s()

    async def _work(self, work: Iterator[None], wish_ns: int | None) -> bool:
        """Work through slices; say whether it came to the end, and was not overtaken by another wish."""
        begun_s = self._clock.monotonic_s()
        for _ in work:
            if self._clock.monotonic_s() - begun_s >= SLICE_S:
                await self._clock.sleep(0)
                begun_s = self._clock.monotonic_s()
            if self._wish_ns != wish_ns or (wish_ns is None and self.mode is Mode.LIVE):
                return False
        return True

    def _new_past(self, *, survey: bool = False) -> Past:
        clock = TapeClock(self._clock, *self._anchor, self._tape.start_ns)
        if survey:
            span_s = max(1, (self._tape.end_ns - self._tape.start_ns) // NS_PER_S + 1)
            history = History(BUDGET_BYTES, min(MOST_SAMPLES, max(900, span_s)))
        else:
            other = self.live if self._surveyor is None else self._surveyor.monitor
            history = History() if other is None else ChartedHistory(other, clock.monotonic_s)
        monitor = self._make(PastSource(self._name), clock, history)
        return Past(self._tape, monitor, clock)

    def _first_ns(self) -> int:
        """Return where a file begins to be shown."""
        return self.start_ns if self._begin_ns is None else self._begin_ns

    def _position_of(self, monotonic_s: float) -> int:
        if self._keeper is not None:
            # Rounded as the tape's own times are: a snapshot ends with a message, not a nanosecond before it.
            return self._keeper.to_ns(monotonic_s)
        anchor_ns, anchor_s = self._anchor
        return anchor_ns + round((monotonic_s - anchor_s) * NS_PER_S)

    def _surveyed(self) -> None:
        if self._surveyor is not None:
            self.timeline.take(self._surveyor.monitor, self._surveyor.position_ns)

    def _lived(self) -> None:
        if self.live is not None:
            self.timeline.take(self.live, self._position_of(self._clock.monotonic_s()))

    def _wish(self, time_ns: int) -> None:
        self._wish_ns = time_ns
        self._changed()

    def _set_mode(self, mode: Mode) -> None:
        self.mode = mode
        self._changed()

    def _changed(self) -> None:
        self._base = None
        self._revision += 1
        self._woken.set()
