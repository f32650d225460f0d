"""Playback of a recording or of a live fleet's recorded past: controls, rate, position.

The controls request something and return at once. `run` does it in steps of a few milliseconds, so
keys are served in between. While the past is shown, the live monitor continues unseen.

    LIVE ──seek, pause──▶ seeking ──place reached──▶ PLAYING ◀──play, pause──▶ PAUSED
      ▲                      ▲                          │  │                     │
      │                      └───────seek, loop─────────┼──┼─────────────────────┘
      └──go_live_or_end, or fast enough to catch up─────┘  └──end of a file──▶ PAUSED at the end

`mode` is the requested one: LIVE, PLAYING or PAUSED. The rest is work of the `Seeker` in progress:

* seeking: A position is requested and not reached. The former one is shown. A newer request
  overtakes it.
* settling: Messages are applied up to the position, and a pass updates roll-ups and alerts.
* refining: The position is shown from a keyframe: its values are right, its alerts not yet
  (`is_exact`). A second monitor follows from a snapshot, and replaces it.
* at end: A file pauses there, or restarts if it loops. A live playback faster than time catches up
  with the present and shows it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from trnfleet.clock import NS_PER_S, Clock
from trnfleet.errors import TrnfleetError
from trnfleet.monitor.replay.controls import RATES, Mode, RollingRecording
from trnfleet.monitor.replay.marks import Mark, RecordingIndex
from trnfleet.monitor.replay.seeker import SNAPSHOT_EVERY_S, STRIDE_NS, PastMonitors, Seeker, Survey
from trnfleet.tasks import background

if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from pathlib import Path

    from trnfleet.monitor.fleet_state import LiveOrPast
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.monitor.replay.past_monitor import PastMonitor
    from trnfleet.monitor.replay.seeker import Maker
    from trnfleet.wire.ports import RecordedMessages

FRAME_S = 0.04
"""Real seconds between two steps."""
IDLE_S = 5.0
"""Real seconds between two steps at rest, only for parts dropped from the recording. A request ends
the rest at once."""
WORK_S = 0.03
"""Real seconds of work per step, beside keys and drawing."""
REFINED_SHARE = 2 / 3
"""Share of a step's work for the exact past before it is shown. It must be faster than the playback
meanwhile."""
AGAIN_S = 1.5
"""Seconds after a mark in which "previous mark" skips it."""
AT_END = "the recording ends here; resume to play it again"
"""Note at the end of a file."""
CAUGHT_UP_S = 1.0
"""Playback faster than time shows the present from this distance."""


class RecordingPlayback:
    """A `Playback` (`controls`) of one recording of one fleet.

    The protocol describes it.
    """

    def __init__(
        self,
        recording: RecordedMessages,
        make: Maker,
        *,
        clock: Clock,
        name: str,
        live: Monitor | None = None,
        rolling: RollingRecording | None = None,
        rate: float = 1.0,
        loops: bool = False,
        begin_ns: int | None = None,
        until_ns: int | None = None,
    ) -> None:
        """Make the playback of a file, or of the recorded past of a live monitor.

        Args:
            recording: The recording.
            make: Makes monitors for it.
            clock: The real clock.
            name: Name of the recording, shown instead of a broker's.
            live: The live monitor, run elsewhere; None for a file.
            rolling: Records the present; required with `live`.
            rate: Seconds of the recording per second.
            loops: Whether a file restarts at its end.
            begin_ns: First position of a file to show; its beginning by default.
            until_ns: Last position; its end by default.
        """
        self._recording = recording
        self._clock = clock
        self.live = live
        self._rolling = rolling
        self._begin_ns = begin_ns
        self._until_ns = until_ns
        if live is not None and rolling is not None:
            anchor_s = clock.monotonic_s()
            self._anchor = rolling.to_ns(anchor_s), anchor_s
        else:
            self._anchor = recording.start_ns, 0.0
        self.index = RecordingIndex(self._position_of, clock.monotonic_s, every_s=SNAPSHOT_EVERY_S)
        """Marks, snapshots and times of the recording."""
        self.mode = Mode.PLAYING if live is None else Mode.LIVE
        self.rate = rate
        self.reached_rate = rate
        self.loops = loops
        self.note = ""
        self._revision = 0
        self._requested_ns: int | None = None
        self._base: tuple[float, int] | None = None
        """Real seconds and position where playing started, for timing."""
        self._woken = asyncio.Event()
        """Set where a step is due at once."""
        self.monitors = PastMonitors(
            recording, make, clock, name=name, anchor=self._anchor, charted=live
        )
        """Makes the monitors of the past."""
        self._survey: Survey | None = None
        if live is None:
            self._survey = Survey(recording, self.monitors, self.index, clock)
            self.monitors.charted = self._survey.monitor
        else:
            live.on_pass.append(self._index_live)
        self.seeker = Seeker(recording, self.monitors, self.index, clock, live)
        """Has the monitor that is shown."""
        if live is None:
            self._request(self._first_ns())

    # What there is

    @property
    def state(self) -> LiveOrPast:
        return self.seeker.state

    @property
    def seeking(self) -> bool:
        return self.seeker.is_seeking

    @property
    def is_exact(self) -> bool:
        return self.seeker.is_exact

    @property
    def alerts_since_ns(self) -> int | None:
        return self.seeker.alerts_since_ns

    @property
    def shows_past(self) -> bool:
        return self.mode is not Mode.LIVE

    @property
    def is_live_possible(self) -> bool:
        return self.live is not None

    @property
    def is_recording(self) -> bool:
        return self._rolling is not None and not self._rolling.problem

    @property
    def recording_problem(self) -> str:
        return self._rolling.problem if self._rolling is not None else ""

    @property
    def one_in(self) -> int:
        return 1 if self._rolling is None else self._rolling.one_in(self.position_ns)

    @property
    def window_s(self) -> float:
        if self._rolling is not None:
            return self._rolling.window_s
        return max(0.0, (self.end_ns - self.start_ns) / NS_PER_S)

    @property
    def start_ns(self) -> int:
        return self._recording.start_ns

    @property
    def end_ns(self) -> int:
        if self._rolling is not None:
            return max(self._recording.end_ns, self._rolling.to_ns(self._clock.monotonic_s()))
        return (
            self._recording.end_ns
            if self._until_ns is None
            else min(self._until_ns, self._recording.end_ns)
        )

    @property
    def position_ns(self) -> int:
        if self._requested_ns is not None:
            return self._requested_ns
        if self.mode is Mode.LIVE or self.seeker.past is None:
            return self.end_ns
        return self.seeker.past.position_ns

    @property
    def marks(self) -> list[Mark]:
        return self.index.marks

    @property
    def surveyed_ns(self) -> int:
        return self.index.surveyed_ns

    @property
    def revision(self) -> int:
        survey = 0 if self._survey is None else self._survey.revision
        return self._revision + self.index.revision + self.seeker.revision + survey

    # Controls

    def play(self) -> None:
        if self.mode is not Mode.PAUSED:
            return
        self.note = ""
        if not self.is_live_possible and self.position_ns >= self.end_ns:
            self._request(self._first_ns())
        self._set_mode(Mode.PLAYING)

    def pause(self) -> None:
        if self.mode is Mode.LIVE:
            if not self._has_past():
                return
            self._request(self._recording.end_ns)
        self._set_mode(Mode.PAUSED)

    def toggle(self) -> None:
        if self.mode is Mode.PAUSED:
            self.play()
        else:
            self.pause()

    def set_rate(self, rate: float) -> None:
        """Play at some seconds a second."""
        self.rate = self.reached_rate = rate
        self._base = None
        self._revision += 1

    def faster(self) -> None:
        self.set_rate(next((rate for rate in RATES if rate > self.rate), self.rate))

    def slower(self) -> None:
        self.set_rate(next((rate for rate in reversed(RATES) if rate < self.rate), self.rate))

    def toggle_loop(self) -> None:
        self.loops = not self.loops
        self._revision += 1

    def step(self, seconds: float) -> None:
        self.seek(self.position_ns + round(seconds * NS_PER_S))

    def seek(self, time_ns: int) -> None:
        start_ns = self.start_ns
        end_ns = self.end_ns
        self.note = ""
        if not self._has_past():
            return
        if time_ns >= end_ns and self.is_live_possible:
            if self.mode is not Mode.LIVE:
                self.go_live_or_end()
            return
        if time_ns < start_ns:
            self.note = (
                "start of history: nothing earlier"
                if self.is_live_possible
                else "the recording begins here"
            )
        if self.mode is Mode.LIVE:
            self._set_mode(Mode.PLAYING)
        # What has come in the last half second may not be on the recording yet.
        self._request(min(max(time_ns, start_ns), end_ns, self._recording.end_ns))

    def _has_past(self) -> bool:
        """Return whether there is anything to go back to, and note why not."""
        if self._recording.end_ns > 0:
            return True
        self.note = (
            f"no history: {self.recording_problem}" if self.recording_problem else "no history yet"
        )
        self._revision += 1
        return False

    def go_live_or_end(self) -> None:
        self.note = ""
        if self.live is None:
            self.note = AT_END
            self._request(self.end_ns)
            return
        self._requested_ns = self._base = None
        self.seeker.leave()
        self._set_mode(Mode.LIVE)

    def go_start(self) -> None:
        self.seek(self.start_ns)

    def next_mark(self, kinds: Container[str], direction: int) -> bool:
        from_ns = self.position_ns
        if direction < 0 and self.mode is Mode.PLAYING and self._requested_ns is None:
            from_ns -= round(AGAIN_S * max(1.0, self.rate) * NS_PER_S)
        mark = self.index.next_mark(from_ns, direction, kinds)
        if mark is None:
            where = "before" if direction < 0 else "after"
            self.note = f"nothing is marked {where} this"
            self._revision += 1
            return False
        self.seek(mark.time_ns)
        return True

    def moment_of(self, fleet_ns: int) -> int | None:
        place_ns = self.index.moment_of(fleet_ns)
        return (
            None if place_ns is None or not self.start_ns <= place_ns <= self.end_ns else place_ns
        )

    async def save(self, path: Path) -> int:
        if self._rolling is None:
            raise TrnfleetError("this is a recording already")
        return await asyncio.to_thread(self._rolling.save, path)

    # Work

    async def run(self) -> None:
        """Serve requests until cancelled."""
        async with background(
            playback_steps=self._keep_stepping(), playback_survey=self._run_survey()
        ):
            while True:
                await self._clock.sleep(IDLE_S)
                self._woken.set()

    async def _keep_stepping(self) -> None:
        while True:
            begun_s = self._clock.monotonic_s()
            self._woken.clear()
            await self._step()
            if self._is_at_rest:
                await self._woken.wait()
                continue
            spent_s = self._clock.monotonic_s() - begun_s
            await self._clock.sleep(max(FRAME_S - spent_s, 0.005))

    @property
    def _is_at_rest(self) -> bool:
        """Whether nothing moves before the next request."""
        stands = self.mode is Mode.PAUSED and self.seeker.is_settled and self.seeker.is_exact
        return self._requested_ns is None and (self.seeker.past is None or stands)

    async def _step(self) -> None:
        """Do a small part of the pending work."""
        if self._rolling is not None:
            self.index.drop_before(self._recording.start_ns)
        if self._requested_ns is not None:
            await self._seek(self._requested_ns)
        past = self.seeker.past
        if past is None:
            return
        refine_s = WORK_S * REFINED_SHARE if self.seeker.is_refining else 0.0
        if self.mode is Mode.PLAYING:
            await self._play_on(past, WORK_S - refine_s)
        elif not self.seeker.is_settled:
            await self.seeker.settle(past, self._overtaken(), is_playing=False)
        if self.seeker.past is past and not self.seeker.is_exact:
            await self.seeker.refine(past, WORK_S * REFINED_SHARE, self._overtaken())

    async def _seek(self, requested_ns: int) -> None:
        if await self.seeker.seek(requested_ns, self._overtaken()):
            self._requested_ns = None
            self._base = None

    def _overtaken(self) -> Callable[[], bool]:
        """Return a predicate: whether anything else has been requested since."""
        requested_ns = self._requested_ns

        def is_overtaken() -> bool:
            return self._requested_ns != requested_ns or (
                requested_ns is None and self.mode is Mode.LIVE
            )

        return is_overtaken

    async def _play_on(self, past: PastMonitor, work_s: float) -> None:
        """Play up to the passed time, or as much as the work time allows."""
        now_s = self._clock.monotonic_s()
        if self._base is None:
            self._base = now_s, past.position_ns
            return
        begun_s, begun_ns = self._base
        if past.position_ns < self._recording.start_ns:
            self._request(self._recording.start_ns)
            self.note = "history does not go back so far any more"
            return
        end_ns = self.end_ns
        wanted_ns = begun_ns + round((now_s - begun_s) * self.rate * NS_PER_S)
        target_ns = min(wanted_ns, end_ns, self._recording.end_ns)
        from_ns = past.position_ns
        overtaken = self._overtaken()
        while past.position_ns < target_ns and self._clock.monotonic_s() - now_s < work_s:
            stride_ns = min(target_ns, past.position_ns + STRIDE_NS)
            if not await self.seeker.advance(past, stride_ns, overtaken):
                return
            if self.mode is not Mode.PLAYING:
                break
        if not await self.seeker.settle(past, overtaken, is_playing=self.mode is Mode.PLAYING):
            return
        if self.mode is not Mode.PLAYING:
            return
        if past.position_ns < target_ns:
            # Too fast for this machine: playing is timed from here.
            spent_s = max(1e-3, self._clock.monotonic_s() - now_s)
            reached = (past.position_ns - from_ns) / NS_PER_S / max(spent_s, FRAME_S)
            self.reached_rate += 0.2 * (reached - self.reached_rate)
            self._base = self._clock.monotonic_s(), past.position_ns
        elif self._base is not None and now_s - begun_s > 1.0:
            self.reached_rate = self.rate
        self._look_for_the_end(past, end_ns)

    def _look_for_the_end(self, past: PastMonitor, end_ns: int) -> None:
        """Handle the end of the recording, if reached."""
        if self.is_live_possible:
            if self.rate > 1.0 and end_ns - past.position_ns < CAUGHT_UP_S * NS_PER_S:
                self.go_live_or_end()
            elif self.recording_problem and past.position_ns >= self._recording.end_ns:
                self.pause()
                self.note = "no history after this"
        elif past.position_ns >= end_ns:
            if self.loops:
                self._request(self._first_ns())
            else:
                self.note = AT_END
                self.pause()

    async def _run_survey(self) -> None:
        if self._survey is not None:
            await self._survey.run()

    def _first_ns(self) -> int:
        """Return a file's first position to show."""
        return self.start_ns if self._begin_ns is None else self._begin_ns

    def _position_of(self, monotonic_s: float) -> int:
        if self._rolling is not None:
            # Rounded as the recording's own times are: a snapshot ends with a message, not a
            # nanosecond before it.
            return self._rolling.to_ns(monotonic_s)
        anchor_ns, anchor_s = self._anchor
        return anchor_ns + round((monotonic_s - anchor_s) * NS_PER_S)

    def _index_live(self) -> None:
        if self.live is not None:
            self.index.take(self.live, self._position_of(self._clock.monotonic_s()))

    def _request(self, time_ns: int) -> None:
        self._requested_ns = time_ns
        self.seeker.is_seeking = True
        self._changed()

    def _set_mode(self, mode: Mode) -> None:
        self.mode = mode
        self._changed()

    def _changed(self) -> None:
        self._base = None
        self._revision += 1
        self._woken.set()
