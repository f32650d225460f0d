"""Replay of a recording through the port `Publisher`, each message at its own time.

The schedule is absolute: a message is due at the start of the run plus its distance from there
divided by the speed. A late message therefore delays no later one. The player knows no broker and
no file: messages come from a `RecordedMessages`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
import threading
from collections import deque
from typing import TYPE_CHECKING

from trnfleet.clock import NS_PER_S, Clock
from trnfleet.record.read.rebranding import MOST_TOPICS, Rebranding, ReplayNumbering
from trnfleet.wire.topics import RETAINED, Topic, TopicClass

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from trnfleet.wire.ports import Envelope, Publisher, RecordedMessages, Stored


BATCH = 128
"""Most messages read, published or skipped in a row before other tasks run."""
MOST_MESSAGES = 8_192
MOST_BYTES = 32 * 2**20
"""Most payload bytes waiting, plus one batch."""


class ReadAhead:
    """One reading of a stretch of a recording.

    The recording must have no other reader meanwhile.
    """

    def __init__(self, messages: Iterator[Stored]) -> None:
        self._messages = messages
        self._loop = asyncio.get_running_loop()
        self._filled = asyncio.Event()
        self._changed = threading.Condition()
        self._batches: deque[list[Stored]] = deque()
        self._waiting = 0
        self._waiting_bytes = 0
        self._is_over = False
        self._is_closed = False
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._read, name="read-ahead", daemon=True)

    async def batches(self) -> AsyncGenerator[list[Stored], None]:
        """Yield the messages in order, in batches.

        Reading ends when the iteration is closed.

        Raises:
            TrnfleetError: reading failed.
        """
        self._thread.start()
        try:
            while True:
                await self._filled.wait()
                with self._changed:
                    batch = self._batches.popleft() if self._batches else None
                    if batch is not None:
                        self._waiting -= len(batch)
                        self._waiting_bytes -= _size(batch)
                        self._changed.notify()
                    is_over = self._is_over
                    if not self._batches and not is_over:
                        self._filled.clear()
                if batch is not None:
                    yield batch
                elif is_over:
                    break
            if self._problem is not None:
                raise self._problem
        finally:
            with self._changed:
                self._is_closed = True
                self._changed.notify()

    def _read(self) -> None:
        """Read to the end or until closed; the thread's main function."""
        batch: list[Stored] = []
        try:
            for stored in self._messages:
                batch.append(stored)
                if len(batch) >= BATCH:
                    if not self._hand_over(batch):
                        return
                    batch = []
            self._hand_over(batch)
        except BaseException as error:  # noqa: BLE001  it is raised where the messages are awaited
            self._problem = error
        finally:
            with self._changed:
                self._is_over = True
            self._wake()

    def _hand_over(self, batch: list[Stored]) -> bool:
        """Wait for room and put a batch; return whether the reader goes on."""
        with self._changed:
            while not self._is_closed and (
                self._waiting >= MOST_MESSAGES or self._waiting_bytes >= MOST_BYTES
            ):
                self._changed.wait()
            if self._is_closed:
                return False
            if batch:
                self._batches.append(batch)
                self._waiting += len(batch)
                self._waiting_bytes += _size(batch)
        self._wake()
        return True

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._filled.set)
        except RuntimeError:
            # The loop has ended, and nobody waits any more.
            return


def _size(batch: list[Stored]) -> int:
    return sum(len(stored.envelope.payload) for stored in batch)


def preroll(recording: RecordedMessages, at_ns: int) -> Iterator[Stored]:
    """Yield the newest keyframe's messages, and all later ones from before a moment.

    Messages of the keyframe's own instant may be part of it or not; applying state twice is
    harmless.
    """
    keyframe = recording.keyframe(at_ns)
    if keyframe is not None:
        yield from keyframe.state
    begin_ns = recording.start_ns if keyframe is None else keyframe.time_ns
    yield from recording.read(min(begin_ns, at_ns) - 1, at_ns - 1)


SOON_NS = 2 * NS_PER_S
"""Longest time for a broker to send retained messages after a recording's start."""
SHORTEST_LOOP_S = 1.0
"""A loop over less than this would only be a flood."""
_NUMBERED = frozenset({TopicClass.TELEMETRY, TopicClass.ROLLUP})
"""Classes with sequence numbers."""


class Player:
    """One replay of a stretch of time, once or in a loop."""

    def __init__(
        self,
        recording: RecordedMessages,
        clock: Clock,
        *,
        root: str,
        speed: float = 1.0,
        from_ns: int | None = None,
        to_ns: int | None = None,
        is_replayed: Callable[[str], bool] | None = None,
        loops: bool = False,
        fleet: str | None = None,
        name: str | None = None,
        to_root: str | None = None,
        reads_ahead: bool = False,
        nonce: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        """Prepare a replay and read the state at its beginning.

        `attach` a publisher before it runs.

        Args:
            recording: The recording.
            clock: Its monotonic side paces the messages.
            root: First part of the recorded topics.
            speed: Seconds of the recording per second.
            from_ns: Start of the replay; the recording's start if None.
            to_ns: Last moment of the replay; the recording's end if None.
            is_replayed: Returns whether a recorded topic is replayed. All are if None.
            loops: Begin again at the end, until cancelled.
            fleet: Only fleet to replay; all if None.
            name: The fleet's name in the replay; as recorded if None.
            to_root: First part of the topics in the replay; the recorded one if None.
            reads_ahead: Read the recording in a thread; it must have no other reader meanwhile.
            nonce: Returns the random part of each run and loop.
        """
        self._recording = recording
        self._clock = clock
        self._from_ns = recording.start_ns if from_ns is None else from_ns
        self._to_ns = recording.end_ns if to_ns is None else to_ns
        self._speed = speed
        self._is_replayed = is_replayed
        self._loops = loops
        self._reads_ahead = reads_ahead
        self._nonce = nonce
        self._rebranding = Rebranding(
            root, nonce=nonce(), speed=speed, fleet=fleet, name=name, to_root=to_root
        )
        self._renumbering = ReplayNumbering()
        self._topics: dict[str, tuple[Topic | None, bool]] = {}
        self._publisher: Publisher | None = None
        self._is_running = False
        self._standing: dict[str, Envelope] = {}
        """Messages of the replay retained at the broker, by topic, rebranded."""
        self._begin: dict[str, Envelope] = {}
        """Messages retained at the beginning, by recorded topic, as recorded."""
        self._first: list[Stored] = []
        """Messages of the very moment of the beginning, without retained ones."""
        self.published = 0
        """Published messages, including the state at the beginning."""
        self.latest_s = 0.0
        """By how much the latest message was late."""
        self._read_begin()

    @property
    def length_s(self) -> float:
        """Length of one run, in seconds of the wall clock."""
        return (self._to_ns - self._from_ns) / NS_PER_S / self._speed

    def will(self) -> Envelope | None:
        """Return the last will: the `offline` of the first publisher online at the beginning.

        None without one. A connection has one will: of several publishers only one is reported
        offline when the process dies. The others, and those of later loops, fall silent.
        """
        soon_ns = min(self._from_ns + SOON_NS, self._to_ns)
        soon = (stored.envelope for stored in self._recording.read(self._from_ns, soon_ns))
        for envelope in itertools.chain(self._begin.values(), soon):
            topic, is_taken = self._look_at(envelope.topic)
            if is_taken and topic is not None and topic.topic_class is TopicClass.PUBLISHER:
                gone = self._rebranding.offline(self._rebranding.rebrand(envelope, topic))
                if gone is not None:
                    return gone
        return None

    def attach(self, publisher: Publisher) -> None:
        """Bind to a publisher before it connects.

        The publisher then repeats retained state after each connect.
        """
        self._publisher = publisher
        publisher.on_connect(self._announce)

    async def run(self) -> None:
        """Play to the end; then, cancelled or not, publish the replayed publishers as offline."""
        start_s: float | None = None
        self._is_running = True
        try:
            while True:
                await self._publish(self._enter())
                now_s = self._clock.monotonic_s()
                # A replay late by a whole run restarts instead of chasing its schedule.
                if start_s is None or now_s - start_s > max(self.length_s, SHORTEST_LOOP_S):
                    start_s = now_s
                await self._play(start_s)
                if not self._loops:
                    return
                start_s += max(self.length_s, SHORTEST_LOOP_S)
                await self._clock.sleep(start_s - self._clock.monotonic_s())
                self._rebranding.renew(self._nonce())
                self._renumbering = ReplayNumbering()
        finally:
            self._is_running = False
            await self._publish(self._goodbyes())

    async def _play(self, start_s: float) -> None:
        """Hand over every message when it is due."""
        batch: list[Envelope] = []
        passed = 0
        now_s = self._clock.monotonic_s()
        async with contextlib.aclosing(self._messages()) as messages:
            async for stored in messages:
                topic, is_taken = self._look_at(stored.envelope.topic)
                if not is_taken:
                    passed += 1
                    if passed % BATCH == 0:
                        await self._clock.sleep(0.0)
                    continue
                due_s = start_s + (stored.time_ns - self._from_ns) / NS_PER_S / self._speed
                if due_s > now_s or len(batch) >= BATCH:
                    await self._publish(batch)
                    batch = []
                    now_s = self._clock.monotonic_s()
                    if due_s > now_s:
                        await self._clock.sleep(due_s - now_s)
                        now_s = self._clock.monotonic_s()
                self.latest_s = max(self.latest_s, now_s - due_s)
                batch.append(self._keep(stored.envelope, topic))
        await self._publish(batch)
        left_s = start_s + self.length_s - self._clock.monotonic_s()
        if left_s > 0.0:
            await self._clock.sleep(left_s)

    async def _messages(self) -> AsyncGenerator[Stored, None]:
        for stored in self._first:
            yield stored
        messages = self._recording.read(self._from_ns, self._to_ns)
        if not self._reads_ahead:
            for stored in messages:
                yield stored
            return
        async with contextlib.aclosing(ReadAhead(messages).batches()) as batches:
            async for batch in batches:
                for stored in batch:
                    yield stored

    def _keep(self, envelope: Envelope, topic: Topic | None) -> Envelope:
        """Return a message as replayed, and remember it if it is retained."""
        if topic is not None and topic.topic_class in _NUMBERED:
            envelope = self._renumbering.renumber(envelope)
        replayed = self._rebranding.rebrand(envelope, topic)
        if replayed.retain:
            if replayed.payload:
                self._standing[replayed.topic] = replayed
            else:
                self._standing.pop(replayed.topic, None)
        return replayed

    def _enter(self) -> list[Envelope]:
        """Return the messages to restore the retained state of the beginning.

        They also clear the state left by the run before.
        """
        former = self._standing
        self._standing = {}
        entered: list[Envelope] = []
        for recorded, envelope in self._begin.items():
            topic, is_taken = self._look_at(recorded)
            if is_taken:
                entered.append(self._keep(envelope, topic))
        gone = [
            previous._replace(payload=b"")
            for name, previous in former.items()
            if name not in self._standing
        ]
        return gone + entered

    def _goodbyes(self) -> list[Envelope]:
        goodbyes = []
        for name, envelope in self._standing.items():
            topic = self._rebranding.replayed_topic(name)
            if topic is not None and topic.topic_class is TopicClass.PUBLISHER:
                gone = self._rebranding.offline(envelope)
                goodbyes += [gone] if gone is not None else []
        return goodbyes

    def _announce(self) -> list[Envelope]:
        return list(self._standing.values()) if self._is_running else []

    async def _publish(self, batch: list[Envelope]) -> None:
        if batch and self._publisher is not None:
            await self._publisher.publish(batch)
            self.published += len(batch)

    def _look_at(self, recorded: str) -> tuple[Topic | None, bool]:
        """Return a recorded topic, parsed, and whether it is replayed."""
        known = self._topics.get(recorded)
        if known is None:
            if len(self._topics) >= MOST_TOPICS:
                self._topics.clear()
            topic = self._rebranding.topic_of(recorded)
            is_taken = self._rebranding.takes(recorded, topic) and (
                self._is_replayed is None or self._is_replayed(recorded)
            )
            known = self._topics[recorded] = topic, is_taken
        return known

    def _read_begin(self) -> None:
        """Read the state at the beginning, including messages of that moment."""
        for stored in preroll(self._recording, self._from_ns):
            self._stand(stored.envelope)
        for stored in self._recording.read(self._from_ns - 1, self._from_ns):
            if not self._stand(stored.envelope):
                self._first.append(stored)

    def _stand(self, envelope: Envelope) -> bool:
        """Remember a message if its topic is retained; return whether it is."""
        topic, _ = self._look_at(envelope.topic)
        is_state = envelope.retain if topic is None else topic.topic_class in RETAINED
        if not is_state:
            return False
        if envelope.payload:
            self._begin[envelope.topic] = envelope
        else:
            self._begin.pop(envelope.topic, None)
        return True
