"""Telemetry of hosts from a relay's cell to the top broker: descriptors that say who forwards them, and frames as they are.

A host that is forwarded newly is described on the top together with its first frame: a monitor exchanges a row for chips that have
values, and nothing is missing from the totals above them meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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
"""Longest wait for the first frames of what is newly forwarded: a period of most fleets, and half of one."""
LOOK_EVERY_S = 0.25
"""Time between two looks whether the wait is over."""
REPEAT_S = 60.0
"""Time after which descriptors are published again, as by their publishers."""
EXPIRY_S = 180
"""Seconds for which a broker with MQTT 5 keeps a descriptor that is not repeated: what a relay that died has left goes by itself."""


@dataclass(slots=True)
class _Path:
    """What one descriptor describes."""

    descriptor: Envelope
    topic: str
    """Of the frames, or of the instance's own metrics."""
    topics: tuple[str, ...]
    """All of the cell that are forwarded with it."""
    since_s: float
    is_shown: bool = False
    """Whether it is described on the top."""
    frames: dict[str, Envelope] = field(default_factory=dict)
    """The newest of each topic, until it is."""


class Forwarding:
    """What one relay forwards."""

    def __init__(
        self, fleet: str, root: str, stamp: ForwardedBy, publisher: Publisher, clock: Clock
    ) -> None:
        self._fleet, self._root, self._stamp = fleet, root, stamp
        self._publisher, self._clock = publisher, clock
        self._paths: dict[str, _Path] = {}
        self._topics: dict[str, str] = {}
        """Topics of the cell that are forwarded, each with the path of its descriptor."""
        self._state: list[Envelope] = []
        self._frames: dict[str, Envelope] = {}
        """Of each topic the newest that waits: on a slow connection the ones before it are left out, and the top counts them as lost."""
        self._cleared: dict[str, Envelope] = {}
        """Descriptors that are to be cleared, until the broker has it."""
        self._is_active = False
        """Whether this relay is the one of its cell that publishes."""
        self._has_work = asyncio.Event()
        self._repeat_s = clock.monotonic_s() + REPEAT_S

    def be_active(self, *, is_active: bool) -> None:
        """Publish from now on, all that is described first, or publish nothing: another relay may describe the same hosts."""
        if is_active and not self._is_active:
            self._state = list(self.announce())
            self._has_work.set()
        self._is_active = is_active

    def follow(self, wanted: Mapping[str, CompactDescriptor]) -> None:
        """Forward what some descriptors describe, by their paths, and no more what others do."""
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
        """Take what has come in the cell, at once."""
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
                # Cleared, or nothing that a monitor takes: the next layout of the cell is without it.
                return
            is_other, to.descriptor = stamped.payload != to.descriptor.payload, stamped
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
        """Return what is described, and what is to be cleared: what is published where it becomes active, and from time to time."""
        shown = [each.descriptor for each in self._paths.values() if each.is_shown]
        return [*self._cleared.values(), *shown]

    def end(self) -> list[Envelope]:
        """Return what clears all that is described, as far as that is this relay's to say, and forward nothing more."""
        for path in list(self._paths):
            self._drop(path)
        self._state.clear()
        return list(self._cleared.values()) if self._is_active else []

    async def run(self) -> None:
        """Publish what is forwarded until cancelled."""
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
        """Publish what waits."""
        if not self._is_active:
            self._state, self._frames = [], {}
            return
        self._show()
        now_s = self._clock.monotonic_s()
        if now_s >= self._repeat_s:
            self._repeat_s = now_s + REPEAT_S
            self._state += [each for each in self.announce() if each not in self._state]
        state, frames = self._state, list(self._frames.values())
        self._state, self._frames = [], {}
        if not state and not frames:
            return
        result = await self._publisher.publish([*state, *frames])
        if not result.unsent:
            for envelope in state:
                if self._cleared.get(envelope.topic) is envelope:
                    del self._cleared[envelope.topic]

    def _show(self) -> None:
        """Describe what is newly forwarded, once a frame of each has come or the wait for it is over."""
        waiting = [each for each in self._paths.values() if not each.is_shown]
        is_complete = all(each.topic in each.frames for each in waiting)
        now_s = self._clock.monotonic_s()
        for each in waiting:
            if is_complete or now_s - each.since_s >= HOLD_S:
                each.is_shown = True
                self._cleared.pop(each.descriptor.topic, None)
                self._state.append(each.descriptor)
                self._frames.update(each.frames)
                each.frames = {}

    def _stamped(self, path: str, descriptor: Descriptor) -> Envelope:
        """Return a host's descriptor as the top gets it."""
        topic = self._topic(TopicClass.NODE, path)
        stamped = descriptor.model_copy(update={"forwarded": self._stamp})
        return message_envelope(topic, stamped, retain=True)._replace(
            properties=MessageProperties(expiry_s=EXPIRY_S)
        )

    def _topic(self, topic_class: TopicClass, path: str) -> str:
        return build_topic(self._fleet, topic_class, path, self._root)
