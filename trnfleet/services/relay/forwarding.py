"""Telemetry of hosts from a relay's cell to the top broker.

Descriptors name the forwarder; frames stay as they are. A newly forwarded host is described on the
top together with its first frame: a monitor replaces a row by chips with values, and the totals
above them stay complete meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from trnfleet.domain.address import format_chip
from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES
from trnfleet.errors import WireError
from trnfleet.tasks import preserve_cancellation
from trnfleet.wire.messages import Descriptor, decode_message, message_envelope
from trnfleet.wire.ports import Envelope, MessageProperties
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trnfleet.clock import Clock
    from trnfleet.monitor.sources.descriptors import CompactDescriptor
    from trnfleet.wire.messages import ForwardedBy
    from trnfleet.wire.ports import Publisher

HOLD_S = 1.5
"""Longest wait for the first frames of newly forwarded hosts: 1.5 periods of most fleets."""
LOOK_EVERY_S = 0.25
"""Time between two looks whether the wait is over."""
REPEAT_S = 60.0
"""Time after which descriptors are published again, as by their publishers."""
EXPIRY_S = 180
"""Seconds for which an MQTT 5 broker retains an unrepeated descriptor. After a relay died, its
descriptors expire."""


@dataclass(slots=True)
class _Path:
    """The hardware of one descriptor."""

    descriptor: Envelope
    topic: str
    """Of the frames, or of the instance's own metrics."""
    topics: tuple[str, ...]
    """All topics of the cell forwarded with it."""
    since_s: float
    is_shown: bool = False
    """Whether it is described on the top."""
    frames: dict[str, Envelope] = field(default_factory=dict)
    """The newest of each topic, until it is."""


class Forwarding:
    """Forwarded telemetry of one relay."""

    def __init__(
        self, fleet: str, root: str, stamp: ForwardedBy, publisher: Publisher, clock: Clock
    ) -> None:
        self._fleet = fleet
        self._root = root
        self._stamp = stamp
        self._publisher = publisher
        self._clock = clock
        self._paths: dict[str, _Path] = {}
        self._topics: dict[str, str] = {}
        """Forwarded topics of the cell, with their descriptors' paths."""
        self._state: list[Envelope] = []
        self._frames: dict[str, Envelope] = {}
        """The newest waiting frame of each topic. A slow connection skips older ones, and the top
        counts them as lost."""
        self._cleared: dict[str, Envelope] = {}
        """Descriptors to clear, until the broker has confirmed it."""
        self._is_active = False
        """Whether this relay publishes for its cell."""
        self._has_work = asyncio.Event()
        self._repeat_s = clock.monotonic_s() + REPEAT_S

    def be_active(self, *, is_active: bool) -> None:
        """Publish from now on, descriptors first, or publish nothing.

        Another relay may describe the same hosts.
        """
        if is_active and not self._is_active:
            self._state = list(self.announce())
            self._has_work.set()
        self._is_active = is_active

    def follow(self, wanted: Mapping[str, CompactDescriptor]) -> None:
        """Forward the hosts of some descriptors, by path, and stop forwarding others."""
        for path in self._paths.keys() - wanted.keys():
            self._drop(path)
        now_s = self._clock.monotonic_s()
        for path, compact in wanted.items():
            if path not in self._paths:
                self._add(path, compact, now_s)
        self._has_work.set()

    def _add(self, path: str, compact: CompactDescriptor, now_s: float) -> None:
        telemetry = self._topic(TopicClass.TELEMETRY, path)
        topics = [self._topic(TopicClass.NODE, path), telemetry]
        if compact.instances == (path,):
            chips = range(INSTANCE_TYPES[compact.types[0]].chips)
            topics += [f"{telemetry}/{format_chip(chip)}" for chip in chips]
        descriptor = self._stamped(path, compact.whole())
        self._paths[path] = _Path(descriptor, telemetry, tuple(topics), now_s)
        self._topics.update(dict.fromkeys(topics, path))

    def _drop(self, path: str) -> None:
        gone = self._paths.pop(path)
        for topic in gone.topics:
            self._topics.pop(topic, None)
            self._frames.pop(topic, None)
        if gone.is_shown:
            topic = gone.descriptor.topic
            self._cleared[topic] = Envelope(topic, b"", qos=1, retain=True)
            self._state.append(self._cleared[topic])

    def take(self, batch: Sequence[Envelope]) -> None:
        """Forward the frames of a batch from the cell at once."""
        topics = self._topics
        if not topics:
            return
        for envelope in batch:
            path = topics.get(envelope.topic)
            if path is not None:
                self._take_one(path, self._paths[path], envelope)

    def _take_one(self, path: str, to: _Path, envelope: Envelope) -> None:
        if envelope.topic == to.descriptor.topic:
            try:
                stamped = self._stamped(path, decode_message(envelope.payload, Descriptor))
            except WireError:
                # Cleared, or nothing that a monitor takes: the next layout of the cell is without
                # it.
                return
            is_other = stamped.payload != to.descriptor.payload
            to.descriptor = stamped
            if not (to.is_shown and is_other):
                return
            self._state.append(stamped)
        elif envelope.retain:
            # Of any age: on the top, where it would come as it is published, nobody could tell.
            return
        else:
            frame = Envelope(envelope.topic, envelope.payload, content_type=envelope.content_type)
            (self._frames if to.is_shown else to.frames)[frame.topic] = frame
        self._has_work.set()

    def announce(self) -> Iterable[Envelope]:
        """Return the descriptors to publish and to clear.

        They are published when the relay becomes active, and from time to time.
        """
        shown = [path.descriptor for path in self._paths.values() if path.is_shown]
        return [*self._cleared.values(), *shown]

    def end(self) -> list[Envelope]:
        """Return messages to clear this relay's descriptors, and stop forwarding."""
        for path in list(self._paths):
            self._drop(path)
        self._state.clear()
        return list(self._cleared.values()) if self._is_active else []

    async def run(self) -> None:
        """Publish forwarded telemetry until cancelled."""
        while True:
            if not self._paths:
                await self._has_work.wait()
            else:
                with contextlib.suppress(TimeoutError):
                    await preserve_cancellation(
                        asyncio.wait_for(self._has_work.wait(), LOOK_EVERY_S)
                    )
            self._has_work.clear()
            await self.publish()

    async def publish(self) -> None:
        """Publish the waiting messages."""
        if not self._is_active:
            self._state = []
            self._frames = {}
            return
        self._show()
        now_s = self._clock.monotonic_s()
        if now_s >= self._repeat_s:
            self._repeat_s = now_s + REPEAT_S
            self._state += [envelope for envelope in self.announce() if envelope not in self._state]
        state = self._state
        frames = list(self._frames.values())
        self._state = []
        self._frames = {}
        if not state and not frames:
            return
        result = await self._publisher.publish([*state, *frames])
        if not result.unsent:
            for envelope in state:
                if self._cleared.get(envelope.topic) is envelope:
                    del self._cleared[envelope.topic]

    def _show(self) -> None:
        """Describe newly forwarded hosts once each has a frame or the wait is over."""
        waiting = [path for path in self._paths.values() if not path.is_shown]
        is_complete = all(path.topic in path.frames for path in waiting)
        now_s = self._clock.monotonic_s()
        for path in waiting:
            if is_complete or now_s - path.since_s >= HOLD_S:
                path.is_shown = True
                self._cleared.pop(path.descriptor.topic, None)
                self._state.append(path.descriptor)
                self._frames.update(path.frames)
                path.frames = {}

    def _stamped(self, path: str, descriptor: Descriptor) -> Envelope:
        """Return a host's descriptor as the top gets it."""
        topic = self._topic(TopicClass.NODE, path)
        stamped = msgspec.structs.replace(descriptor, forwarded=self._stamp)
        return message_envelope(topic, stamped, retain=True)._replace(
            properties=MessageProperties(expiry_s=EXPIRY_S)
        )

    def _topic(self, topic_class: TopicClass, path: str) -> str:
        return build_topic(self._fleet, topic_class, path, self._root)
