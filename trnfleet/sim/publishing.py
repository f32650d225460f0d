"""The service that drives an engine and publishes what it makes, through the port `Publisher`.

Owns the schedule and the order of messages. It knows no broker, and no time but its clock's.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from trnfleet import logs
from trnfleet.errors import ConfigError
from trnfleet.sim.announcements import descriptor, job_message, presence, will_envelope
from trnfleet.sim.partition import partition
from trnfleet.sim.samples import encode_samples
from trnfleet.wire.frames import FrameEncoder
from trnfleet.wire.limits import DEFAULT_LIMITS, Limits
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, CONTENT_TYPE_JSON, Envelope
from trnfleet.wire.telemetry import Head
from trnfleet.wire.topics import DEFAULT_ROOT, TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.clock import Clock
    from trnfleet.domain.fleet import Publishing
    from trnfleet.sim.engine import Engine, Tick
    from trnfleet.wire.ports import Publisher

log = logs.get_logger(__name__)

REPEAT_DESCRIPTORS_S = 60.0
"""Every descriptor is published again within this time, a few each tick."""
REPEAT_JOBS_S = 10.0
"""Every job is published again within this time where there are more than `JOBS_EACH_TICK`."""
JOBS_EACH_TICK = 64
AT_ONCE = 300
"""Messages that any broker's queue takes in one burst (Mosquitto's default is 1,000)."""
SLICE_S = 0.02
"""Distance of the slices in which more messages than that go out."""
SPREAD = 0.7
"""Share of the period over which the slices are spread; the rest is for the next tick."""


class Simulation:
    """Publishes a fleet until told to stop."""

    def __init__(
        self,
        engine: Engine,
        publisher: Publisher,
        *,
        clock: Clock,
        client_id: str,
        boot: str,
        root: str = DEFAULT_ROOT,
        publishing: Publishing | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """Prepare the topics and name the announcements; do it before the publisher connects.

        Args:
            engine: Fresh; its period is the wall clock's, too.
            publisher: Where to; its last will is `announcements.will_envelope` of the same client and boot.
            clock: Paces the ticks and dates them.
            client_id: The publisher's name, one segment.
            boot: Id of this start, see `announcements.new_boot`.
            root: First part of the topics.
            publishing: Format and granularity; the fleet file's if none is given.
            limits: What a message may hold.

        Raises:
            ConfigError: format and granularity do not go together, or a message would be over a limit.
        """
        self._engine = engine
        self._publisher = publisher
        self._clock = clock
        self._client_id = client_id
        self._boot = boot
        self._root = root
        chosen = publishing or engine.fleet.publish
        self._units = partition(engine.layout, chosen)
        self._topics: list[str] = []
        self._encoders: list[FrameEncoder] = []
        if chosen.format == "cbor":
            self._prepare_frames()
        self._check(limits)
        self._tick: Tick | None = None
        self._is_running = False
        self._descriptor_turn = _Rotation(len(self._units), REPEAT_DESCRIPTORS_S)
        self._job_turn = _Rotation(len(engine.job_names), REPEAT_JOBS_S)
        self.published = 0
        """Ticks published, which is the next one's `seq`."""
        self.overruns = 0
        """Ticks left out because the machine was late by more than a period."""
        publisher.on_connect(self._announce)

    @property
    def messages_per_tick(self) -> int:
        """Telemetry messages of one tick."""
        return len(self._encoders) or len(self._engine.layout.instances) + self._engine.layout.chips

    async def run(self, *, ticks: int | None = None, duration_s: float | None = None) -> None:
        """Announce the fleet and publish tick after tick; say goodbye at the end, cancelled or not.

        Tick k is due at the start + k periods. Who is late by more than a period leaves ticks out and counts them, except
        before the first tick, which waits until a large fleet is announced.

        Args:
            ticks: End after so many published ticks.
            duration_s: End at so many seconds of the clock.
        """
        start_s = self._clock.monotonic_s()
        self._engine.restart_at(self._clock.wall_ns())
        self._is_running = True
        try:
            await self._publisher.publish(self._announce())
            while ticks is None or self.published < ticks:
                due_s = start_s + self._engine.ticks * self._engine.period_s
                if duration_s is not None and due_s - start_s >= duration_s:
                    break
                await self._clock.sleep(due_s - self._clock.monotonic_s())
                skipped = self._skip(due_s)
                await self._publish_tick(due_s + skipped * self._engine.period_s, skipped)
        finally:
            self._is_running = False
            goodbye = will_envelope(self._engine.fleet.name, self._client_id, self._boot, root=self._root)
            await self._publisher.publish([goodbye])

    def _skip(self, due_s: float) -> int:
        """Return how many ticks to leave out, so that the next is late by less than a period; count them."""
        late_s = self._clock.monotonic_s() - due_s
        if late_s <= self._engine.period_s:
            return 0
        skipped = math.floor(late_s / self._engine.period_s)
        if self.published:
            self.overruns += skipped
            log.warning("ticks_left_out", skipped=skipped, late_s=round(late_s, 3), tick=self._engine.ticks)
        return skipped

    async def _publish_tick(self, due_s: float, skipped: int) -> None:
        tick = self._tick = self._engine.step(1 + skipped)
        head = Head(self._boot, self.published, tick.ts_ns)
        # Whatever happens to its messages, a tick's number is used: what did not go out counts as lost.
        self.published += 1
        messages = self._frames(head) if self._encoders else self._samples(head)
        slices = self._slices()
        size = math.ceil(self.messages_per_tick / slices)
        for number in range(slices):
            if number:
                await self._clock.sleep(due_s + number * SLICE_S - self._clock.monotonic_s())
            await self._publisher.publish(list(itertools.islice(messages, size)))
        await self._publisher.publish(itertools.chain(self._jobs_due(tick), self._descriptors_due(tick)))

    def _slices(self) -> int:
        if self.messages_per_tick <= AT_ONCE:
            return 1
        return max(1, int(self._engine.period_s * SPREAD / SLICE_S))

    def _frames(self, head: Head) -> Iterator[Envelope]:
        for topic, encoder in zip(self._topics, self._encoders, strict=True):
            yield Envelope(topic, encoder.encode(head.seq, head.ts_ns), content_type=CONTENT_TYPE_CBOR)

    def _samples(self, head: Head) -> Iterator[Envelope]:
        prefix = build_topic(self._engine.fleet.name, TopicClass.TELEMETRY, "", self._root)
        for instance in range(len(self._engine.layout.instances)):
            for path, payload in encode_samples(self._engine, head, instance):
                yield Envelope(prefix + path, payload, content_type=CONTENT_TYPE_JSON)

    def _announce(self) -> Iterator[Envelope]:
        """Yield all state: that the publisher is there, and once it runs what it publishes."""
        engine = self._engine
        if not self._is_running:
            return
        yield presence(engine.fleet.name, self._client_id, self._boot, "online", root=self._root)
        for number in range(len(self._units)):
            yield self._describe(number)
        if self._tick is not None:
            yield from (self._job(self._tick, number) for number in range(len(engine.job_names)))

    def _jobs_due(self, tick: Tick) -> Iterator[Envelope]:
        """Yield the jobs to publish in a tick: all, or where there are many the next in turn."""
        count = len(self._engine.job_names)
        turn = self._job_turn.take(tick.number * self._engine.period_s)
        numbers = range(count) if count <= JOBS_EACH_TICK or self.published == 1 else turn
        yield from (self._job(tick, number) for number in numbers)

    def _descriptors_due(self, tick: Tick) -> Iterator[Envelope]:
        """Yield the descriptors whose turn it is again: not every broker hands out retained ones."""
        for number in self._descriptor_turn.take(tick.number * self._engine.period_s):
            yield self._describe(number)

    def _describe(self, number: int) -> Envelope:
        return descriptor(self._engine, self._units[number], self._client_id, self._boot, root=self._root)

    def _job(self, tick: Tick, number: int) -> Envelope:
        return job_message(self._engine, tick, number, root=self._root)

    def _prepare_frames(self) -> None:
        engine = self._engine
        for unit in self._units:
            self._topics.append(build_topic(engine.fleet.name, TopicClass.TELEMETRY, unit.path, self._root))
            self._encoders.append(
                FrameEncoder(
                    unit.path,
                    self._boot,
                    revision=0,
                    columns=engine.columns,
                    chips=unit.chips,
                    instances=unit.instances,
                )
            )

    def _check(self, limits: Limits) -> None:
        """Refuse units whose frames or descriptors no reader would take."""
        names = self._engine.layout.instances

        def text(number: int) -> int:
            return sum(map(len, names[self._units[number].instances]))

        def chips(number: int) -> int:
            return len(range(self._engine.layout.chips)[self._units[number].chips])

        numbers = range(len(self._units))
        longest, largest = max(numbers, key=text), max(numbers, key=chips)
        sizes = {"descriptor": (longest, len(self._describe(longest).payload))}
        if self._encoders:
            sizes["frame"] = (largest, len(self._encoders[largest].encode(0, 0)))
        for what, (number, size) in sizes.items():
            if size > limits.payload_bytes:
                raise ConfigError(
                    f"publish: the {what} of {self._units[number].path} has {size} bytes, over the limit of "
                    f"{limits.payload_bytes}; cover less by publish.granularity or publish.block_ultraservers"
                )


class _Rotation:
    """Spreads things evenly over time, so that each has its turn again within `within_s`."""

    def __init__(self, count: int, within_s: float) -> None:
        self._count = count
        self._within_s = within_s
        self._done = 0

    def take(self, elapsed_s: float) -> list[int]:
        """Return the numbers whose turn has come since the last call; none twice."""
        due = int(elapsed_s * self._count / self._within_s)
        first, self._done = max(self._done, due - self._count), due
        return [number % self._count for number in range(first, due)]
