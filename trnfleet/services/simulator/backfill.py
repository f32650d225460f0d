"""Backfill of the demo's app: charts and a past from the minutes before the start.

The simulator writes them as a recording. A monitor plays it beside the live one, in slices, so that
keys are served and nothing is late. Then its samples go before the live ones, with the usual values
of jobs, and the recording goes before the buffer of the present.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet import logs
from trnfleet.clock import Clock, SteadyWall
from trnfleet.domain.alerts.signals import Scope
from trnfleet.errors import ConfigError
from trnfleet.garbage import give_back_memory
from trnfleet.monitor.failures import guard
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.replay.packed_snapshot import PackedSnapshot
from trnfleet.monitor.replay.past_monitor import (
    PastMonitor,
    PastSource,
    RecordingClock,
    work_calmly,
)
from trnfleet.record.read.reader import PartReader
from trnfleet.record.read.recording import Recording
from trnfleet.tasks import POLL_S

if TYPE_CHECKING:
    from pathlib import Path

    from trnfleet.monitor.replay.playback import RecordingPlayback
    from trnfleet.record.write.live import LiveBuffer

log = logs.get_logger(__name__)

WAIT_S = 60.0
"""Longest wait for it, and for the first sample of the present. A simulator that ended has left
none."""


class Backfill:
    """Transfer of a recording into a live monitor's charts and the buffer of its past."""

    def __init__(
        self,
        live: Monitor,
        clock: Clock,
        *,
        buffer: LiveBuffer | None = None,
        playback: RecordingPlayback | None = None,
    ) -> None:
        """Store the targets to fill.

        Args:
            live: The live monitor.
            clock: The time to go by.
            buffer: Buffer of the present; None where nothing is kept.
            playback: Its playback.
        """
        self._live = live
        self._clock = clock
        self._buffer = buffer
        self._playback = playback
        self._to_ns = SteadyWall(clock).to_ns if buffer is None else buffer.to_ns

    async def run(self, path: Path) -> None:
        """Read the recording at a path once it exists, and delete it.

        Without one, charts begin at the start.
        """
        deadline_s = self._clock.monotonic_s() + WAIT_S
        while not (self._live.history.samples and is_there(path)):
            if self._clock.monotonic_s() >= deadline_s:
                log.info("backfill_left_out", reason="no recording, or no telemetry")
                return
            await self._clock.sleep(POLL_S)
        with guard(self._live.counts, "backfill"):
            part = open_and_delete(path)
            if part is not None:
                await self._apply(part)
        # Two monitors have read the recording; the app would be 8 MiB larger until the next
        # collection.
        give_back_memory()

    async def _apply(self, part: PartReader) -> None:
        """Play a recording and put its results before the present."""
        recording = Recording([part])
        times: list[tuple[int, int]] = []
        if not await self._fill_charts(recording, times):
            log.warning("backfill_left_out", reason="it is later than the first sample")
            recording.close()
            return
        # The monitor below comes into the place of the first one.
        give_back_memory()
        buffer = self._buffer
        playback = self._playback
        if buffer is None or playback is None:
            recording.close()
            return
        # Where the rules begin: from here the exact past of any place is played.
        first = playback.monitors.make(recording=recording)
        await work_calmly(first.reach_from_start(recording.start_ns), self._clock)
        if buffer.backfill(part):
            playback.index.backfill(times, (recording.start_ns, PackedSnapshot(first.monitor)))
        else:
            recording.close()

    async def _fill_charts(self, recording: Recording, times: list[tuple[int, int]]) -> int:
        """Put the samples of a recording before those of the present.

        Args:
            recording: The recording.
            times: Takes the fleet's time and the place of each pass.

        Returns:
            The samples; 0 where it is later than the first one of the present.
        """
        live = self._live
        first_s = live.history_s - (live.history.samples - 1)
        past = self._past(recording)
        past.monitor.on_pass.append(
            lambda: times.append((past.monitor.moment().time_ns, past.position_ns))
        )
        await work_calmly(past.begin(), self._clock)
        # Samples are taken at whole seconds: the last one is half a second to one and a half before
        # the first live one.
        await work_calmly(past.advance(self._to_ns(first_s - 0.5)), self._clock)
        samples = past.monitor.history.samples
        if samples:
            live.history.backfill(past.monitor.history)
            live.alerts.learn_before(past.monitor.alerts)
            log.debug("backfilled", samples=samples)
        return samples

    def _past(self, recording: Recording) -> PastMonitor:
        """Return a monitor at the recording's begin, with rules to learn jobs' usual values."""
        live = self._live
        now_s = self._clock.monotonic_s()
        clock = RecordingClock(self._clock, self._to_ns(now_s), now_s, recording.start_ns)
        source = PastSource(live.link.broker)
        rules = [
            rule
            for rule in live.alerts.rules
            if rule.scope is Scope.JOB and rule.reference is not None
        ]
        monitor = Monitor(
            source, live.fleet_name, clock=clock, root=live.root, site=live.site, rules=rules
        )
        return PastMonitor(recording, monitor, clock)


def is_there(path: Path) -> bool:
    """Return whether a file is there; its maker renames it once it is whole."""
    return path.exists()


def open_and_delete(path: Path) -> PartReader | None:
    """Open a recording and delete its name.

    An open file can be read to its end, however this process ends.

    Returns:
        The recording; None if it cannot be read.
    """
    try:
        return PartReader(path)
    except ConfigError as error:
        log.warning("backfill_failed", error=str(error))
        return None
    finally:
        path.unlink(missing_ok=True)
