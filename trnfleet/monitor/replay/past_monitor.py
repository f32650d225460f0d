"""A monitor of the past: the state at a position of a recording.

It has its own clock and history. It applies the same envelopes through the same ingest as the live
monitor, at their arrival times, and evaluates the rules at every whole second, at any playback
rate. It is driven from outside, in slices.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.clock import NS_PER_S, Clock
from trnfleet.monitor.pipeline.counts import PipelineCounts
from trnfleet.monitor.slices import GATHER_S, Slices, batch_slices
from trnfleet.monitor.store.gaps import Gap, Reason
from trnfleet.monitor.store.history import History
from trnfleet.monitor.store.layout_changes import numbers_in
from trnfleet.monitor.store.rings.record import Track
from trnfleet.wire.ports import RECORDING, Envelope, Keyframe, LinkStatus, RecordedMessages, Stored
from trnfleet.wire.topics import VALUES, build_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from trnfleet.domain.address import Level
    from trnfleet.domain.layout import Layout, Node
    from trnfleet.monitor.monitor import Monitor, MonitorState
    from trnfleet.monitor.store.rollup import Rollups
    from trnfleet.monitor.store.store import Store

GATHER_NS = round(GATHER_S * NS_PER_S)
"""Messages received within this time are applied at once, as in a live monitor."""
EVERY_NS = NS_PER_S
"""Distance of the passes, at whole seconds of the recording."""
QUIET_NS = 3_600 * NS_PER_S
QUIET_EVERY_NS = 60 * NS_PER_S
"""Distance of passes after an hour without messages.

It grows tenfold with each tenfold silence. Then little can change but ages, and a recording may be
quiet for years.
"""
SLICE_S = 0.006
"""Seconds of work between two checks for other work."""
LOOK_BACK_NS = 30 * NS_PER_S
"""Length of recording read before a position if its keyframe has no values."""


async def work_calmly(work: Slices[None], clock: Clock) -> None:
    """Work through slices with half of a core at most."""
    begun_s = clock.monotonic_s()
    for _ in work:
        spent_s = clock.monotonic_s() - begun_s
        if spent_s >= SLICE_S:
            await clock.sleep(spent_s)
            begun_s = clock.monotonic_s()


class RecordingClock:
    """A position in a recording as wall and monotonic time.

    A real clock does the waiting.
    """

    def __init__(self, pace: Clock, anchor_ns: int, anchor_s: float, position_ns: int) -> None:
        """Set the clock to a position.

        Args:
            pace: The clock for waiting.
            anchor_ns: A time of the recording.
            anchor_s: The matching monotonic seconds. Times in a snapshot use them.
            position_ns: Its position in the recording.
        """
        self._pace = pace
        self._anchor_ns = anchor_ns
        self._anchor_s = anchor_s
        self.position_ns = position_ns

    def at_s(self, time_ns: int) -> float:
        """Return the monotonic seconds of a time of the recording."""
        return self._anchor_s + (time_ns - self._anchor_ns) / NS_PER_S

    def wall_ns(self) -> int:
        """Return the time of the recording, ns since 1970."""
        return self.position_ns

    def monotonic_s(self) -> float:
        """Return the monotonic seconds of the place."""
        return self.at_s(self.position_ns)

    def cpu_s(self) -> float:
        """Return the thread's seconds of processor time."""
        return self._pace.cpu_s()

    async def sleep(self, seconds: float) -> None:
        """Wait for real seconds."""
        await self._pace.sleep(seconds)


class PastHistory(History):
    """History up to the past's time, from another monitor's samples.

    Its own samples are used beyond the point reached by the other.
    """

    def __init__(self, other: Monitor, now_s: Callable[[], float]) -> None:
        """Read a monitor's samples.

        Args:
            other: The monitor ahead: the live one, or the survey's.
            now_s: The past's time, in monotonic seconds of the other.
        """
        super().__init__()
        # Views look whether there is anything to draw, and the other's samples are.
        self.samples = other.history.samples
        self._other = other
        self._now_s = now_s

    def seconds(self, level: Level) -> int:
        """Return the capacity of a level's ring in seconds."""
        return self._other.history.seconds(level) or super().seconds(level)

    def push(self, store: Store, rollups: Rollups) -> None:
        """Add its own sample if the other monitor has none."""
        if self._cut() < 0:
            super().push(store, rollups)
        else:
            self.samples += 1

    def watch(self, path: str) -> None:
        """Record a node from now on."""
        super().watch(path)
        self._other.history.watch(path)

    def glance(self, path: str) -> None:
        """Record a figure of a node for the next minutes."""
        super().glance(path)
        self._other.history.glance(path)

    @property
    def end(self) -> int:
        """Samples of the other one up to the past's time."""
        return max(0, self._other.history.samples - self._cut())

    def series(self, layout: Layout, node: Node, key: str) -> NDArray[np.float32]:
        """Return a field's samples for a node up to the past's time.

        They are oldest first, one per second.
        """
        own = super().series(layout, node, key)
        there, same = self._place(layout, node)
        if there is None or same is None:
            return own
        series = self._other.history.series(there, same, key)
        cut = self._cut()
        if cut < 0:
            # Between the other's last sample and the first of its own there is none.
            gap = max(0, -cut - len(own))
            return np.concatenate([series, np.full(gap, np.nan, np.float32), own[cut:]])
        return series[: max(0, len(series) - cut)]

    def track(self, layout: Layout, node: Node, key: str, span_s: int, ago: int = 0) -> Track:
        """Return a field's past for a node over a span.

        The span ends `ago` samples before the past's time.
        """
        there, same = self._place(layout, node)
        cut = self._cut()
        if there is None or same is None or cut < 0:
            series = self.series(layout, node, key)
            return Track.of(series[: max(0, len(series) - ago)], self.end - ago)
        return self._other.history.track(there, same, key, span_s, ago + cut)

    def means(self, layout: Layout, level: Level, key: str, ago: int = 0) -> NDArray[np.float32]:
        """Return a field's means of all nodes of a level up to the past's time."""
        there = self._other.history.layout
        cut = self._cut()
        if there is None or cut < 0:
            return super().means(layout, level, key, ago)
        means = self._other.history.means(there, level, key, ago + cut)
        numbers = numbers_in(layout, there, level)
        return means if there is layout else np.where(numbers >= 0, means[:, numbers], np.nan)

    def job_track(self, job: str, key: str, span_s: int, ago: int = 0) -> Track:
        """Return the past of a job's figure over a span.

        The span ends `ago` samples before the past's time.
        """
        cut = self._cut()
        track = self._other.history.job_track(job, key, span_s, ago + max(0, cut))
        if cut >= 0:
            return track
        own = super().job_track(job, key, -cut)
        lacking = np.full(max(0, -cut - len(own.mean)), np.nan, np.float32)
        series = np.concatenate([track.mean, lacking, own.mean[cut:]])
        # Roll-ups of the other one and samples of its own have no common step.
        return (
            track
            if track.step_s > 1
            else Track.of(series[: max(0, len(series) - ago)], self.end - ago)
        )

    def job_names(self) -> list[str]:
        """Return the jobs with stored samples."""
        return sorted({*self._other.history.job_names(), *super().job_names()})

    def gaps_since(self, first: int) -> list[Gap]:
        """Return the other monitor's gaps, and the times it has not reached."""
        gaps = self._other.history.gaps_since(first)
        read = self._other.history.samples
        return [*gaps, Gap(read, self.end, Reason.LOADING)] if read < self.end else gaps

    def _place(self, layout: Layout, node: Node) -> tuple[Layout | None, Node | None]:
        """Return the other monitor's layout and the same node in it.

        None if missing.
        """
        there = self._other.history.layout
        if there is None or there is layout:
            return there, node
        return there, there.find(layout.path(node))

    def _cut(self) -> int:
        """Return how many of the other's samples are later than the past.

        Negative if it is behind the past.
        """
        return math.ceil(self._other.history_s - self._now_s() - 1e-6)


class PastSource:
    """The source of a past monitor.

    It is empty: messages are applied from outside.
    """

    def __init__(self, name: str) -> None:
        self.status = LinkStatus(broker=name, connected=True, protocol=RECORDING)

    async def take(self) -> list[Envelope]:
        """Return the end at once."""
        return []

    def request_retained(self, topics: Iterable[str]) -> None:
        """Ignore the request: messages of a recording are applied from outside."""


class PastMonitor:
    """A monitor and its place in a recording."""

    def __init__(
        self, recording: RecordedMessages, monitor: Monitor, clock: RecordingClock
    ) -> None:
        """Wrap an empty monitor.

        `begin`, `rebuild` or `resume` sets its position.

        Args:
            recording: The recording.
            monitor: Made with `clock`.
            clock: The place.
        """
        self._recording = recording
        self._clock = clock
        self._last_message_ns = clock.position_ns
        self.monitor = monitor
        self._values = tuple(
            build_topic(monitor.fleet_name, topic_class, "", monitor.root) for topic_class in VALUES
        )

    @property
    def position_ns(self) -> int:
        """The place: all up to it has been applied."""
        return self._clock.position_ns

    @property
    def quiet_ns(self) -> int:
        """Time since the last message, at the present place."""
        return self.position_ns - self._last_message_ns

    def begin(self) -> Slices[None]:
        """Go before the recording's first message, in slices.

        The state there is known, and nothing is evaluated yet.
        """
        before_ns = self._recording.start_ns - 1
        keyframe = self._recording.keyframe(before_ns)
        if keyframe is not None:
            yield from self._apply_keyframe(keyframe, before_ns)
            self.monitor.ingest.counts = PipelineCounts()
        self._clock.position_ns = self._last_message_ns = before_ns

    def resume(self, state: MonitorState, position_ns: int) -> None:
        """Go to the position of an unpacked snapshot, whose state is this monitor's from now on.

        Views are updated by the next pass.
        """
        self._clock.position_ns = self._last_message_ns = position_ns
        self.monitor.restore(state)

    def rebuild(self, position_ns: int) -> Slices[None]:
        """Go to any position by the keyframe before it, in slices.

        Earlier data is unknown.

        Only the newest telemetry of a topic is applied, so counts restart here.
        """
        keyframe = self._recording.keyframe(position_ns)
        after_ns = self._recording.start_ns - 1 if keyframe is None else keyframe.time_ns
        if keyframe is not None:
            if not keyframe.has_values:
                after_ns = max(self._recording.start_ns - 1, after_ns - LOOK_BACK_NS)
            yield from self._apply_keyframe(keyframe, position_ns)
        read = self._recording.read(after_ns, position_ns)
        yield from self._apply_newest(read)
        self._clock.position_ns = position_ns
        self.monitor.ingest.counts = PipelineCounts()
        yield from self.settle()

    def advance(self, until_ns: int) -> Slices[None]:
        """Apply all messages up to a position in slices, with a pass every whole second.

        Unusable if stopped half-way: messages of one time may be applied in part.
        """
        due_ns = self._next_due(self.position_ns)
        batch: list[Stored] = []
        for stored in self._recording.read(self.position_ns, until_ns):
            time_ns = stored.time_ns
            if batch and (time_ns - batch[0].time_ns > GATHER_NS or time_ns > due_ns):
                yield from self._apply(batch)
                batch = []
            while time_ns > due_ns:
                yield from self._pass_at(due_ns)
                due_ns = self._next_due(due_ns)
            batch.append(stored)
        yield from self._apply(batch)
        while due_ns <= until_ns:
            yield from self._pass_at(due_ns)
            due_ns = self._next_due(due_ns)
        self._clock.position_ns = max(self.position_ns, until_ns)

    def reach_from_start(self, until_ns: int) -> Slices[None]:
        """Begin, advance to a place, and show it."""
        yield from self.begin()
        yield from self.reach(until_ns)

    def reach(self, until_ns: int) -> Slices[None]:
        """Advance to a place, and show it."""
        yield from self.advance(until_ns)
        yield from self.settle()

    def settle(self) -> Slices[None]:
        """Make a pass at the present position, to show all applied messages."""
        # Samples are taken at whole seconds, so that means do not depend on the way to a place.
        return self.monitor.passing(may_sample=False)

    def _next_due(self, time_ns: int) -> int:
        every_ns = EVERY_NS
        quiet_ns = QUIET_NS
        while time_ns - self._last_message_ns > quiet_ns:
            every_ns = max(QUIET_EVERY_NS, every_ns * 10)
            quiet_ns = quiet_ns * 10
        return (time_ns // every_ns + 1) * every_ns

    def _pass_at(self, time_ns: int) -> Slices[None]:
        self._clock.position_ns = time_ns
        return self.monitor.passing()

    def _apply(self, batch: list[Stored]) -> Slices[None]:
        """Apply messages of about one time, as of the last one."""
        if not batch:
            return
        self._clock.position_ns = self._last_message_ns = max(self.position_ns, batch[-1].time_ns)
        at_s = self._clock.at_s
        self.monitor.reachability.thinned.note(
            max(message.envelope.shed for message in batch), self._clock.monotonic_s()
        )
        for part in batch_slices(
            [message.envelope._replace(received_s=at_s(message.time_ns)) for message in batch]
        ):
            self.monitor.apply(part)
            yield

    def _apply_keyframe(self, keyframe: Keyframe, position_ns: int) -> Slices[None]:
        """Apply retained state, then the newest telemetry at its arrival times."""
        state: list[Stored] = []
        values: list[Stored] = []
        for message in keyframe.state:
            (values if self._is_telemetry(message) else state).append(message)
        values.sort(key=lambda stored: stored.time_ns)
        # State holds from before the first value on, whenever its last repetition came.
        first_ns = min(position_ns, values[0].time_ns if values else keyframe.time_ns)
        self._clock.position_ns = first_ns
        for part in batch_slices([message.envelope for message in state]):
            self.monitor.apply(part)
            yield
        # Values must find their rows, or they would be held back and be taken for newer than they
        # are.
        self.monitor.lay_out()
        yield from self._apply_grouped(values)

    def _apply_newest(self, read: Iterable[Stored]) -> Slices[None]:
        """Apply state and events in order, and of telemetry the newest message of each topic."""
        rest: list[Stored] = []
        newest: dict[str, Stored] = {}
        for number, stored in enumerate(read):
            if self._is_telemetry(stored):
                newest[stored.envelope.topic] = stored
            else:
                rest.append(stored)
            if number % 256 == 255:
                yield
        both = [*rest, *newest.values()]
        both.sort(key=lambda stored: stored.time_ns)
        yield from self._apply_grouped(both)

    def _apply_grouped(self, stored: list[Stored]) -> Slices[None]:
        batch: list[Stored] = []
        for message in stored:
            if batch and message.time_ns - batch[0].time_ns > GATHER_NS:
                yield from self._apply(batch)
                batch = []
            batch.append(message)
        yield from self._apply(batch)

    def _is_telemetry(self, stored: Stored) -> bool:
        return stored.envelope.topic.startswith(self._values)
