"""Seeking in a recording: monitors of the past that are taken to a place, and the survey of a whole file.

A place is reached in the cheapest way there is (`Seeker.seek`): by playing on where it is a little ahead, from a snapshot a
little before it, or from the keyframe before it. A keyframe shows the values at once, but not since when conditions hold. Then
the same place is approached again from the newest snapshot before it (`Seeker.refine`), and shown in its stead once it is
there: from then on, alerts are exactly what they were. The snapshots are of the live monitor, or of the `Survey`.

All work is cut into slices, and a newer request overtakes it between two of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet import logs
from trnfleet.clock import NS_PER_S
from trnfleet.monitor.fleet_state import LiveOrPast
from trnfleet.monitor.replay.past_monitor import (
    SLICE_S,
    PastHistory,
    PastMonitor,
    PastSource,
    RecordingClock,
    work_calmly,
)
from trnfleet.monitor.store.history import BUDGET_BYTES, History

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.clock import Clock
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.monitor.replay.marks import RecordingIndex
    from trnfleet.monitor.slices import Slices
    from trnfleet.wire.ports import RecordedMessages, Source

    Maker = Callable[[Source, Clock, History | None], Monitor]
    """Makes a monitor of the fleet that knows nothing yet."""

    Overtaken = Callable[[], bool]
    """Returns whether work that is under way is not wanted any more."""

log = logs.get_logger(__name__)

SURVEY_SHARE = 0.4
"""Share of a core for the survey."""
NEAR_S = 2.0
"""A place that is at most this far ahead is reached by playing."""
STRIDE_NS = NS_PER_S
"""Time of the recording that is played between two looks at the clock."""
SNAPSHOT_EVERY_S = 10.0
"""Between two snapshots at first; where they take too much memory, they are farther apart."""
PASS_SHARE = 0.2
"""Share of a core for passes that show what is played, beside those that are due at whole seconds."""
MOST_SAMPLES = 86_400
"""Seconds of charts that the survey keeps at most."""


class PastMonitors:
    """Makes the monitors of one recording."""

    def __init__(
        self,
        recording: RecordedMessages,
        make: Maker,
        clock: Clock,
        *,
        name: str,
        anchor: tuple[int, float],
        charted: Monitor | None,
    ) -> None:
        """Take what they have in common.

        Args:
            recording: The recording.
            make: Makes a monitor.
            clock: The real clock.
            name: Name of the recording, in the place of a broker's.
            anchor: A time of the recording, and the monotonic seconds that go with it.
            charted: The monitor whose history they show; their own if None.
        """
        self._recording = recording
        self._make = make
        self._clock = clock
        self._name = name
        self._anchor = anchor
        self.charted = charted

    def make(
        self, history: History | None = None, recording: RecordedMessages | None = None
    ) -> PastMonitor:
        """Return one before the beginning of the recording.

        Args:
            history: For its samples; with the charted monitor's if none is given.
            recording: A part that is not in the recording yet; the recording itself if none is given.
        """
        recording = self._recording if recording is None else recording
        clock = RecordingClock(self._clock, *self._anchor, recording.start_ns)
        if history is None:
            history = (
                History() if self.charted is None else PastHistory(self.charted, clock.monotonic_s)
            )
        monitor = self._make(PastSource(self._name), clock, history)
        return PastMonitor(recording, monitor, clock)


class Seeker:
    """The place of a recording that is shown, and the way to any other."""

    def __init__(
        self,
        recording: RecordedMessages,
        monitors: PastMonitors,
        index: RecordingIndex,
        clock: Clock,
        live: Monitor | None,
    ) -> None:
        """Show the live monitor, or the place before the beginning of a file.

        Args:
            recording: The recording.
            monitors: Makes monitors for it.
            index: Has its snapshots.
            clock: The real clock.
            live: The live monitor; None for a file.
        """
        self._recording = recording
        self._monitors = monitors
        self._index = index
        self._clock = clock
        self._live = live
        self.state = LiveOrPast(monitors.make().monitor if live is None else live)
        self.past: PastMonitor | None = None
        """The monitor that is shown; None while the live one is, and before the first place."""
        self.is_exact = True
        """Whether alerts are what they were then."""
        self.alerts_since_ns: int | None = None
        """The time from which on alerts have been followed, where that is not the beginning of the recording."""
        self.is_settled = True
        """Whether what is shown is up to date with its place."""
        self.is_seeking = False
        self.revision = 0
        """Goes up whenever another place has been reached."""
        self._refined: PastMonitor | None = None
        """Approaches the same place from a snapshot, to be shown in its stead."""
        self._settles_s = -1.0
        """Real time before which what is played is not brought up to date again."""

    @property
    def is_refining(self) -> bool:
        """Whether the exact past is on its way."""
        return self._refined is not None

    def leave(self) -> None:
        """Show the live monitor again."""
        self.past = self._refined = None
        self.is_seeking, self.is_exact, self.alerts_since_ns = False, True, None
        if self._live is not None:
            self.state.at = self._live

    async def seek(self, requested_ns: int, overtaken: Overtaken) -> bool:
        """Show a place; return False where it was overtaken half-way."""
        self.is_seeking = True
        past, work, exact, since_ns = self._way_to(requested_ns)
        if not await self._work(work, overtaken):
            # A part of what came at one time may have been applied: that monitor is of no use any more.
            if past is self.past:
                self.past = None
            return False
        self.is_seeking = False
        if past is not self.past:
            self._refined = None
        self._show(past, exact=exact, since_ns=since_ns)
        return True

    def _way_to(self, requested_ns: int) -> tuple[PastMonitor, Slices[None], bool, int | None]:
        """Return a monitor, the work that takes it to a place, and whether its alerts are exact there or since when."""
        start_ns = self._recording.start_ns
        past = self.past
        if past is not None and past.position_ns >= start_ns - 1:
            ahead_s = (requested_ns - past.position_ns) / NS_PER_S
            if 0 <= ahead_s <= NEAR_S:
                return past, past.reach(requested_ns), self.is_exact, self.alerts_since_ns
        past = self._monitors.make()
        if requested_ns <= start_ns:
            # Where there is a present, what is kept is not all that there was.
            is_whole = self._live is None
            return (
                past,
                past.reach_from_start(requested_ns),
                is_whole,
                None if is_whole else requested_ns,
            )
        found = self._index.snapshot(requested_ns)
        if found is not None and requested_ns - found[0] <= NEAR_S * NS_PER_S:
            past.resume(found[1].unpack(), found[0])
            return past, past.reach(requested_ns), True, None
        if found is not None:
            # Alerts of a little earlier, until those of this moment are there.
            past.monitor.ingest.alerts = found[1].unpack().ingest.alerts
            past.monitor.evaluates_alerts = False
        return past, past.rebuild(requested_ns), False, requested_ns

    async def advance(self, past: PastMonitor, until_ns: int, overtaken: Overtaken) -> bool:
        """Play the shown monitor on without showing it; return False where it was overtaken."""
        self.is_settled = False
        if await self._work(past.advance(until_ns), overtaken):
            return True
        self.past = None
        return False

    async def settle(self, past: PastMonitor, overtaken: Overtaken, *, is_playing: bool) -> bool:
        """Show what has been played, as often as that takes little of the time; return False where it was overtaken."""
        begun_s = self._clock.monotonic_s()
        if is_playing and begun_s < self._settles_s:
            return True
        if not await self._work(past.settle(), overtaken):
            # Rules may have been evaluated over half of the fleet.
            self.past = None
            return False
        self.is_settled = True
        ended_s = self._clock.monotonic_s()
        self._settles_s = ended_s + (ended_s - begun_s) * (1 / PASS_SHARE - 1)
        return True

    async def refine(self, past: PastMonitor, work_s: float, overtaken: Overtaken) -> None:
        """Take the exact past on its way, and show it once it is at the place of the shown one."""
        if self._refined is None:
            found = self._index.snapshot(past.position_ns)
            if found is None:
                # It has gone with its part of the recording: alerts are followed from here on.
                past.monitor.evaluates_alerts = True
                return
            if self._index.surveyed_ns < past.position_ns:
                return
            self._refined = self._monitors.make()
            self._refined.resume(found[1].unpack(), found[0])
        refined, begun_s = self._refined, self._clock.monotonic_s()
        if refined.position_ns < self._recording.start_ns - 1:
            # What it had to go through is not kept any more.
            self._refined = None
            return
        while (
            refined.position_ns < past.position_ns and self._clock.monotonic_s() - begun_s < work_s
        ):
            stride_ns = max(STRIDE_NS, refined.quiet_ns // 10)
            until_ns = min(past.position_ns, refined.position_ns + stride_ns)
            if not await self._work(refined.advance(until_ns), overtaken):
                self._refined = None
                return
        if refined.position_ns < past.position_ns:
            return
        if not await self._work(refined.settle(), overtaken):
            self._refined = None
            return
        self._refined = None
        self._show(refined, exact=True, since_ns=None)

    def _show(self, past: PastMonitor, *, exact: bool, since_ns: int | None) -> None:
        self.past = past
        self.is_exact, self.alerts_since_ns = exact, since_ns
        self.is_settled = True
        self.state.at = past.monitor
        self.revision += 1

    async def _work(self, work: Slices[None], overtaken: Overtaken) -> bool:
        """Work through slices; return whether they came to the end."""
        begun_s = self._clock.monotonic_s()
        for _ in work:
            if self._clock.monotonic_s() - begun_s >= SLICE_S:
                await self._clock.sleep(0)
                begun_s = self._clock.monotonic_s()
            if overtaken():
                return False
        return True


class Survey:
    """Goes through a finished recording ahead of the viewer: for its marks, its snapshots and its charts."""

    def __init__(
        self,
        recording: RecordedMessages,
        monitors: PastMonitors,
        index: RecordingIndex,
        clock: Clock,
    ) -> None:
        span_s = max(1, (recording.end_ns - recording.start_ns) // NS_PER_S + 1)
        history = History(BUDGET_BYTES, min(MOST_SAMPLES, max(900, span_s)))
        self._recording = recording
        self._index = index
        self._clock = clock
        self._past = monitors.make(history)
        self._past.monitor.on_pass.append(
            lambda: index.take(self._past.monitor, self._past.position_ns)
        )
        self.revision = 0
        """Goes up with every stride."""

    @property
    def monitor(self) -> Monitor:
        """The monitor that goes through."""
        return self._past.monitor

    async def run(self) -> None:
        """Go through the whole recording."""
        past, index = self._past, self._index
        await work_calmly(past.begin(), self._clock, SURVEY_SHARE)
        end_ns = self._recording.end_ns
        while past.position_ns < end_ns:
            stride_ns = max(10 * STRIDE_NS, past.quiet_ns // 10)
            until_ns = min(end_ns, past.position_ns + stride_ns)
            await work_calmly(past.advance(until_ns), self._clock, SURVEY_SHARE)
            # A stride in which nothing happens has no slice between which other tasks run.
            await self._clock.sleep(0)
            index.surveyed_ns = past.position_ns
            self.revision += 1
        log.debug("recording_surveyed", marks=len(index.marks), snapshots=len(index.snapshots))
