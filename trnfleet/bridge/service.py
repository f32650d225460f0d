"""Keeps what EC2 tells of reserved capacity published: changes and events once each, everything again on every connect.

It never takes a command, and never asks EC2 for anything but descriptions.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

from trnfleet import logs
from trnfleet.bridge.ec2 import Reading, Throttled
from trnfleet.bridge.mapping import messages_of
from trnfleet.clock import NS_PER_S, format_rfc3339, parse_rfc3339
from trnfleet.domain.reservations import rules
from trnfleet.domain.reservations.states import ENDED, InterconnectStatus
from trnfleet.errors import CloudError
from trnfleet.wire.messages import EventMessage, PublisherMessage, encode_message
from trnfleet.wire.ports import CONTENT_TYPE_JSON, Envelope
from trnfleet.wire.topics import DEFAULT_ROOT, FLEET_PATH, TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trnfleet.clock import Clock
    from trnfleet.wire.ports import Publisher
    from trnfleet.wire.reservations import ReservationMessage

log = logs.get_logger(__name__)

REPEAT_S = 60.0
"""Everything is published again so often: not every broker hands out retained messages."""
LONGEST_PAUSE_S = 900.0
"""Longest wait after EC2 has asked for patience."""
WARNING = "Capacity Block Expiration Warning"
DELIVERED = "Capacity Block Delivered"

_ENDED = frozenset(state.value for state in ENDED)
_UNTOLD = {"ts", "change", "boot"}
"""What may differ between two messages that say the same."""
_STATE_EVENTS: dict[str, tuple[str, Literal["info", "warning", "critical"], str | None]] = {
    "active": ("capacity_block_delivered", "info", DELIVERED),
    "expired": ("capacity_block_expired", "info", None),
    "payment-failed": ("capacity_block_payment_failed", "warning", None),
    "unavailable": ("capacity_block_unavailable", "critical", None),
    "failed": ("capacity_block_failed", "warning", None),
    "cancelled": ("capacity_block_cancelled", "warning", None),
}


class Bridge:
    """What was told last, and what a new reading changes; it reads no clock and sends nothing."""

    def __init__(
        self, fleet: str, *, client_id: str, boot: str, root: str = DEFAULT_ROOT, with_default: bool = True
    ) -> None:
        self.skipped = 0
        """Answers of EC2 that made no sense, so far."""
        self._fleet = fleet
        self._client_id = client_id
        self._boot = boot
        self._root = root
        self._with_default = with_default
        self._told: dict[str, ReservationMessage] = {}
        self._warned: dict[str, str] = {}
        """By reservation, the end of which was warned."""
        self._events = 0

    def take(self, reading: Reading, now_ns: int) -> list[Envelope]:
        """Return what a reading changes, as messages, in order; what is gone from EC2 stays as it was told last."""
        messages, skipped = messages_of(reading, now_ns, with_default=self._with_default)
        self.skipped += skipped
        made: list[Envelope] = []
        for message in messages:
            known = self._told.get(message.id)
            if known is not None and known.model_dump(exclude=_UNTOLD) == message.model_dump(exclude=_UNTOLD):
                continue
            change = 0 if known is None else known.change + 1
            told = message.model_copy(update={"change": change, "boot": self._boot})
            self._told[message.id] = told
            made.append(self._reservation(told))
            if known is not None:
                made += self._changed(known, told, now_ns)
        return made + self.warn(now_ns)

    def warn(self, now_ns: int) -> list[Envelope]:
        """Return the warnings that are due: 40 minutes before a block's end, once for each end."""
        made: list[Envelope] = []
        for message in self._told.values():
            if message.type != "capacity-block" or message.end is None or message.state.value != "active":
                continue
            left_s = (parse_rfc3339(message.end) - now_ns) / NS_PER_S
            if 0 < left_s <= rules.WARNING_BEFORE_END_S and self._warned.get(message.id) != message.end:
                self._warned[message.id] = message.end
                text = f"{message.id} ends at {message.end}; its instances are terminated from {message.terminates} on"
                made.append(
                    self._event(
                        message, "capacity_block_expiration_warning", "warning", text, now_ns, WARNING
                    )
                )
        return made

    def announce(self) -> Iterator[Envelope]:
        """Yield all state: that the publisher is there, and every reservation."""
        yield self.presence("online")
        for message in self._told.values():
            yield self._reservation(message)

    def presence(self, state: Literal["online", "offline"]) -> Envelope:
        """Return the message that says whether the bridge is there; `offline` is its last will."""
        message = PublisherMessage(client=self._client_id, state=state, boot=self._boot)
        topic = build_topic(self._fleet, TopicClass.PUBLISHER, self._client_id, self._root)
        return Envelope(topic, encode_message(message), qos=1, retain=True, content_type=CONTENT_TYPE_JSON)

    def _changed(
        self, before: ReservationMessage, after: ReservationMessage, now_ns: int
    ) -> Iterator[Envelope]:
        if after.state is not before.state and after.state.value in _STATE_EVENTS:
            name, severity, detail_type = _STATE_EVENTS[after.state.value]
            yield self._event(
                after, name, severity, f"{after.id} is {after.state.value}", now_ns, detail_type
            )
        if after.interconnect is not before.interconnect and after.interconnect is not None:
            is_ok = after.interconnect is InterconnectStatus.OK
            status = after.interconnect.value
            yield self._event(
                after,
                f"capacity_block_interconnect_{status.replace('-', '_')}",
                "info" if is_ok else "warning",
                f"the interconnect of {after.id} is {status}",
                now_ns,
            )
        if (after.unavailable or 0) != (before.unavailable or 0):
            count = after.unavailable or 0
            yield self._event(
                after,
                "capacity_block_instances_unavailable" if count else "capacity_block_instances_available",
                "warning" if count else "info",
                f"{count} of {after.instances} instances of {after.id} fail their system status check",
                now_ns,
            )
        known = {each.id: each.state for each in before.extensions}
        for each in after.extensions:
            if known.get(each.id) is not each.state:
                name = f"capacity_block_extension_{each.state.value.replace('-', '_')}"
                failed = each.state.value == "payment-failed"
                text = f"the extension of {after.id} until {each.end}: {each.state.value}"
                yield self._event(after, name, "warning" if failed else "info", text, now_ns)

    def _reservation(self, message: ReservationMessage) -> Envelope:
        topic = build_topic(self._fleet, TopicClass.RESERVATION, message.id, self._root)
        return Envelope(topic, encode_message(message), qos=1, retain=True, content_type=CONTENT_TYPE_JSON)

    def _event(
        self,
        message: ReservationMessage,
        name: str,
        severity: Literal["info", "warning", "critical"],
        text: str,
        now_ns: int,
        detail_type: str | None = None,
    ) -> Envelope:
        self._events += 1
        event = EventMessage(
            id=f"{self._boot}-{self._events}",
            ts=format_rfc3339(now_ns),
            path="",
            source="ec2",
            name=name,
            severity=severity,
            text=text[:256],
            detail_type=detail_type,
            reservation=message.id,
        )
        topic = build_topic(self._fleet, TopicClass.EVENT, FLEET_PATH, self._root)
        return Envelope(topic, encode_message(event), qos=1, content_type=CONTENT_TYPE_JSON)


async def serve(
    bridge: Bridge,
    publisher: Publisher,
    read: Callable[[], Reading],
    *,
    clock: Clock,
    interval_s: float,
    once: bool = False,
) -> None:
    """Read and publish until cancelled, or once; say goodbye at the end.

    What cannot be read after the first time leaves what was told as it is; EC2's request for patience makes the pauses longer.

    Args:
        bridge: What was told.
        publisher: Where to.
        read: Reads EC2; it blocks, and runs in a thread.
        clock: Paces the readings.
        interval_s: Seconds from one to the next.
        once: End after the first.

    Raises:
        CloudError: the first reading failed.
    """
    told: tuple[str, ...] = ()
    pause_s, is_first, repeated_s = interval_s, True, clock.monotonic_s()
    try:
        await publisher.publish(bridge.announce())
        while True:
            try:
                reading = await asyncio.to_thread(read)
            except Throttled as error:
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                log.warning("ec2_throttled", error=str(error), pause_s=pause_s)
                await publisher.publish(bridge.warn(clock.wall_ns()))
            except CloudError as error:
                if is_first:
                    raise
                log.warning("ec2_not_read", error=str(error))
                await publisher.publish(bridge.warn(clock.wall_ns()))
            else:
                pause_s, is_first = interval_s, False
                if reading.problems != told:
                    told = reading.problems
                    for problem in told:
                        log.warning("ec2_permission_missing", problem=problem)
                await publisher.publish(bridge.take(reading, clock.wall_ns()))
                if once:
                    return
            await clock.sleep(pause_s)
            if clock.monotonic_s() - repeated_s >= REPEAT_S:
                repeated_s = clock.monotonic_s()
                await publisher.publish(bridge.announce())
    finally:
        await publisher.publish([bridge.presence("offline")])


def lines_of(bridge: Bridge, reading: Reading, now_ns: int) -> Iterator[bytes]:
    """Yield what a reading changes as NDJSON: reservations and events, without topics."""
    for envelope in bridge.take(reading, now_ns):
        yield envelope.payload + b"\n"
