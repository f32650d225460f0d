"""A monitor of the past: what a monitor knew at a place of a tape, and how it goes on from there.

It applies the same envelopes through the same ingest as the live monitor, at the times at which they came, and holds rules
against every whole second, however fast it is played. It is driven by whoever owns it, in slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.clock import NS_PER_S
from trnfleet.monitor.pipeline import PipelineCounts
from trnfleet.monitor.slices import batch_slices
from trnfleet.wire.ports import RECORDING, LinkStatus
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnfleet.monitor.monitor import Monitor, Snapshot
    from trnfleet.monitor.replay.clock import TapeClock
    from trnfleet.monitor.slices import Slices
    from trnfleet.wire.ports import Envelope, Keyframe, Stored, Tape

GATHER_NS = 20_000_000
"""Messages that came within this time are applied at once, as a live monitor does."""
EVERY_NS = NS_PER_S
"""Distance of the passes, at whole seconds of the tape."""
QUIET_NS = 3_600 * NS_PER_S
QUIET_EVERY_NS = 60 * NS_PER_S
"""Where nothing has come for an hour, passes are this far apart, and ten times as far whenever it is ten times as long.

Little can change then but ages, and a tape may be quiet for years.
"""
LOOK_BACK_NS = 30 * NS_PER_S
"""How much is read before a place whose keyframe has no values."""


class PastSource:
    """Stands where a monitor's source does; it gives nothing, because the past is applied by whoever plays it."""

    def __init__(self, name: str) -> None:
        self.status = LinkStatus(broker=name, connected=True, protocol=RECORDING)

    async def take(self) -> list[Envelope]:
        """Return the end at once."""
        return []


class Past:
    """A monitor and its place on a tape."""

    def __init__(self, tape: Tape, monitor: Monitor, clock: TapeClock) -> None:
        """Take a monitor that knows nothing yet; `begin`, `rebuild` or `resume` puts it on a place.

        Args:
            tape: What is played.
            monitor: Made with `clock`.
            clock: The place.
        """
        self._tape = tape
        self._clock = clock
        self._heard_ns = clock.position_ns
        self.monitor = monitor
        self._telemetry = build_topic(monitor.fleet_name, TopicClass.TELEMETRY, "", monitor.root)

    @property
    def position_ns(self) -> int:
        """The place: all up to it has been applied."""
        return self._clock.position_ns

    @property
    def quiet_ns(self) -> int:
        """How long nothing has come at the present place."""
        return self.position_ns - self._heard_ns

    def begin(self) -> Slices[None]:
        """Go to before the tape's first message, in slices: what holds there is known, and nothing is evaluated yet."""
        before_ns = self._tape.start_ns - 1
        keyframe = self._tape.keyframe(before_ns)
        if keyframe is not None:
            yield from self._apply_keyframe(keyframe, before_ns)
            self.monitor.ingest.counts = PipelineCounts()
        self._clock.position_ns = self._heard_ns = before_ns

    def resume(self, snapshot: Snapshot, position_ns: int) -> None:
        """Go to the place of a snapshot; what views read comes with the next pass."""
        self._clock.position_ns = self._heard_ns = position_ns
        self.monitor.restore(snapshot)

    def rebuild(self, position_ns: int) -> Slices[None]:
        """Go to any place by the keyframe before it, in slices; what came before that is not known.

        Of telemetry only the newest message of a topic is applied, so that counts begin anew here.
        """
        keyframe = self._tape.keyframe(position_ns)
        after_ns = self._tape.start_ns - 1 if keyframe is None else keyframe.time_ns
        if keyframe is not None:
            if not keyframe.has_values:
                after_ns = max(self._tape.start_ns - 1, after_ns - LOOK_BACK_NS)
            yield from self._apply_keyframe(keyframe, position_ns)
        read = self._tape.read(after_ns, position_ns)
        yield from self._apply_newest(read)
        self._clock.position_ns = position_ns
        self.monitor.ingest.counts = PipelineCounts()
        yield from self.settle()

    def advance(self, until_ns: int) -> Slices[None]:
        """Apply all up to a place, with a pass at every whole second on the way, in slices.

        Whoever stops half-way throws the past away: a part of what came at one time may have been applied.
        """
        due_ns = self._next_due(self.position_ns)
        batch: list[Stored] = []
        for stored in self._tape.read(self.position_ns, until_ns):
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

    def reach(self, until_ns: int) -> Slices[None]:
        """Advance to a place, and show it."""
        yield from self.advance(until_ns)
        yield from self.settle()

    def settle(self) -> Slices[None]:
        """Make a pass at the present place, so that it shows what has been applied."""
        return self.monitor.passing()

    def _next_due(self, time_ns: int) -> int:
        every_ns, quiet_ns = EVERY_NS, QUIET_NS
        while time_ns - self._heard_ns > quiet_ns:
            every_ns, quiet_ns = max(QUIET_EVERY_NS, every_ns * 10), quiet_ns * 10
        return (time_ns // every_ns + 1) * every_ns

    def _pass_at(self, time_ns: int) -> Slices[None]:
        self._clock.position_ns = time_ns
        return self.monitor.passing()

    def _apply(self, batch: list[Stored]) -> Slices[None]:
        """Apply what came at about one time, as of the last of it."""
        if not batch:
            return
        self._clock.position_ns = self._heard_ns = max(self.position_ns, batch[-1].time_ns)
        at_s = self._clock.at_s
        for part in batch_slices([each.envelope._replace(received_s=at_s(each.time_ns)) for each in batch]):
            self.monitor.apply(part)
            yield

    def _apply_keyframe(self, keyframe: Keyframe, position_ns: int) -> Slices[None]:
        """Apply retained state, then the newest telemetry at the times at which it came."""
        state: list[Stored] = []
        values: list[Stored] = []
        for each in keyframe.state:
            (values if self._is_telemetry(each) else state).append(each)
        values.sort(key=lambda stored: stored.time_ns)
        # State holds from before the first value on, whenever its last repetition came.
        first_ns = min(position_ns, values[0].time_ns if values else keyframe.time_ns)
        self._clock.position_ns = first_ns
        for part in batch_slices([each.envelope for each in state]):
            self.monitor.apply(part)
            yield
        # Values must find their rows, or they would be held back and be taken for newer than they are.
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
        for each in stored:
            if batch and each.time_ns - batch[0].time_ns > GATHER_NS:
                yield from self._apply(batch)
                batch = []
            batch.append(each)
        yield from self._apply(batch)

    def _is_telemetry(self, stored: Stored) -> bool:
        return stored.envelope.topic.startswith(self._telemetry)
