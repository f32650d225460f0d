"""Seeking in a recording: monitors of the past, and the survey of a whole file.

A position is reached in the cheapest way (`Seeker.seek`): by playing on if it is slightly ahead,
from a snapshot shortly before it, or from the keyframe before it. A keyframe has the values at
once, but not the start of conditions. Then the same position is approached again from the newest
snapshot before it (`Seeker.refine`), and shown instead when reached: from then on, alerts are
exact. The snapshots are of the live monitor, or of the `Survey`.

All work is in slices, and a newer request overtakes it between two of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet import logs
from trnfleet.clock import NS_PER_S, Clock, format_rfc3339
from trnfleet.monitor.fleet_state import LOADING, LiveOrPast
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

    from trnfleet.monitor.monitor import Monitor
    from trnfleet.monitor.replay.marks import RecordingIndex
    from trnfleet.monitor.slices import Slices
    from trnfleet.wire.ports import RecordedMessages, Source

    Maker = Callable[[Source, Clock, History | None], Monitor]
    """Makes an empty monitor of the fleet."""

    Overtaken = Callable[[], bool]
    """Returns whether the work in progress is obsolete."""

log = logs.get_logger(__name__)

NEAR_S = 2.0
"""A position at most this far ahead is reached by playing."""
STRIDE_NS = NS_PER_S
"""Time of the recording played between two checks of the clock."""
SNAPSHOT_EVERY_S = 10.0
"""Seconds between two snapshots at first. More if they use too much memory."""
PASS_SHARE = 0.2
"""Share of a core for display passes, beside the passes due at whole seconds."""
MOST_SAMPLES = 86_400
"""Most seconds of charts stored by the survey."""


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
        """Store the common arguments.

        Args:
            recording: The recording.
            make: Makes a monitor.
            clock: The real clock.
            name: Name of the recording, shown instead of a broker's.
            anchor: A time of the recording, and the matching monotonic seconds.
            charted: The monitor with the history to show; their own if None.
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
        """Return a monitor before the start of the recording.

        Args:
            history: For its samples; by default the charted monitor's.
            recording: A part not in the recording yet; by default the recording itself.
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
    """The shown position of a recording, and the way to any other."""

    def __init__(
        self,
        recording: RecordedMessages,
        monitors: PastMonitors,
        index: RecordingIndex,
        clock: Clock,
        live: Monitor | None,
    ) -> None:
        """Show the live monitor, or the position before the start of a file.

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
        """The shown monitor; None while the live one is shown, and before the first position."""
        self.is_exact = True
        """Whether alerts equal the alerts of then."""
        self.alerts_since_ns: int | None = None
        """Start of alert evaluation, if not the start of the recording."""
        self.is_settled = True
        """Whether the display is up to date with its position."""
        self.is_seeking = False
        self.revision = 0
        """Increases whenever another position is reached."""
        self._refined: PastMonitor | None = None
        """Approaches the same place from a snapshot, to be shown in its stead."""
        self.state.read_incomplete = self._incomplete
        self._settles_s = -1.0
        """Earliest real time of the next display update."""

    @property
    def is_refining(self) -> bool:
        """Whether the exact past is on its way."""
        return self._refined is not None

    def _incomplete(self) -> str:
        """Describe the gaps in events and alerts.

        A keyframe has only the last ones, until the exact past is ready.
        """
        past = self.past
        if self.is_seeking:
            return LOADING
        if past is None or self.is_exact:
            return ""
        place_ns = past.position_ns
        if self._index.surveyed_ns < place_ns or self._index.snapshot(place_ns) is not None:
            return LOADING
        return (
            ""
            if self.alerts_since_ns is None
            else f"since {format_rfc3339(self.alerts_since_ns)[11:16]}"
        )

    def leave(self) -> None:
        """Show the live monitor again."""
        self.past = self._refined = None
        self.is_seeking = False
        self.is_exact = True
        self.alerts_since_ns = None
        if self._live is not None:
            self.state.at = self._live

    async def seek(self, requested_ns: int, overtaken: Overtaken) -> bool:
        """Show a place; return False where it was overtaken half-way."""
        self.is_seeking = True
        past, work, exact, since_ns = self._way_to(requested_ns)
        if not await self._work(work, overtaken):
            # Messages of one time may be applied in part: the monitor is unusable.
            if past is self.past:
                self.past = None
            return False
        self.is_seeking = False
        if past is not self.past:
            self._refined = None
        self._show(past, exact=exact, since_ns=since_ns)
        return True

    def _way_to(self, requested_ns: int) -> tuple[PastMonitor, Slices[None], bool, int | None]:
        """Return a monitor and the work to move it to a position.

        Also whether its alerts are exact there, or since when.
        """
        start_ns = self._recording.start_ns
        past = self.past
        if past is not None and past.position_ns >= start_ns - 1:
            ahead_s = (requested_ns - past.position_ns) / NS_PER_S
            if 0 <= ahead_s <= NEAR_S:
                return past, past.reach(requested_ns), self.is_exact, self.alerts_since_ns
        past = self._monitors.make()
        if requested_ns <= start_ns:
            # With a present, the stored part is not the whole past.
            is_whole = self._live is None
            return (
                past,
                past.reach_from_start(requested_ns),
                is_whole,
                None if is_whole else requested_ns,
            )
        snapshot = self._index.snapshot(requested_ns)
        if snapshot is not None and requested_ns - snapshot[0] <= NEAR_S * NS_PER_S:
            past.resume(snapshot[1].unpack(), snapshot[0])
            return past, past.reach(requested_ns), True, None
        if snapshot is not None:
            # Alerts of a little earlier, until those of this moment are there.
            past.monitor.ingest.alerts = snapshot[1].unpack().ingest.alerts
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
        """Update the display, as often as this needs little of the time.

        Return False if overtaken.
        """
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
        """Advance the exact past.

        Show it when it reaches the shown position.
        """
        if self._refined is None:
            snapshot = self._index.snapshot(past.position_ns)
            if snapshot is None:
                # It has gone with its part of the recording: alerts are followed from here on.
                past.monitor.evaluates_alerts = True
                return
            if self._index.surveyed_ns < past.position_ns:
                return
            self._refined = self._monitors.make()
            self._refined.resume(snapshot[1].unpack(), snapshot[0])
        refined = self._refined
        begun_s = self._clock.monotonic_s()
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
        self.is_exact = exact
        self.alerts_since_ns = since_ns
        self.is_settled = True
        self.state.at = past.monitor
        self.revision += 1

    async def _work(self, work: Slices[None], overtaken: Overtaken) -> bool:
        """Work through slices.

        Return whether the end was reached.
        """
        begun_s = self._clock.monotonic_s()
        for _ in work:
            if self._clock.monotonic_s() - begun_s >= SLICE_S:
                await self._clock.sleep(0)
                begun_s = self._clock.monotonic_s()
            if overtaken():
                return False
        return True


class Survey:
    """Reads a finished recording ahead of the viewer: for marks, snapshots and charts."""

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
        """Increases with every stride."""

    @property
    def monitor(self) -> Monitor:
        """The monitor reading the recording."""
        return self._past.monitor

    async def run(self) -> None:
        """Go through the whole recording."""
        past = self._past
        index = self._index
        await work_calmly(past.begin(), self._clock)
        end_ns = self._recording.end_ns
        while past.position_ns < end_ns:
            stride_ns = max(10 * STRIDE_NS, past.quiet_ns // 10)
            until_ns = min(end_ns, past.position_ns + stride_ns)
            await work_calmly(past.advance(until_ns), self._clock)
            # A stride without messages has no slices in which other tasks could run.
            await self._clock.sleep(0)
            index.surveyed_ns = past.position_ns
            self.revision += 1
        log.debug("recording_surveyed", marks=len(index.marks), snapshots=len(index.snapshots))
