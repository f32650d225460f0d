"""The EC2 bridge: publishes reservations, each change and event once.

All state is published again on every connect. It accepts no commands, and requests only
descriptions from EC2.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Literal

import msgspec

from trnfleet import logs
from trnfleet.bridge.ec2.client import Reading, RequestsThrottled
from trnfleet.bridge.ec2.mapping import (
    NO_PRICES,
    BlockHealth,
    Ec2Event,
    delivered_event,
    ec2_events,
    messages_of,
    warning,
)
from trnfleet.clock import NS_PER_S, Clock, format_rfc3339, parse_rfc3339
from trnfleet.domain.address import is_segment
from trnfleet.domain.reservations import rules
from trnfleet.domain.reservations.blocks import ChangeKind
from trnfleet.domain.reservations.states import RESERVATION_BEGUN
from trnfleet.errors import CloudError, WireError
from trnfleet.tasks import background, in_thread
from trnfleet.wire.eventbridge import Ec2Notification, decode_eventbridge
from trnfleet.wire.limits import DEFAULT_LIMITS
from trnfleet.wire.messages import REPEAT_S, EventMessage, PublisherMessage, message_envelope
from trnfleet.wire.ports import Envelope, Publisher
from trnfleet.wire.topics import DEFAULT_ROOT, FLEET_PATH, TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from decimal import Decimal

    from trnfleet.wire.reservations import ReservationMessage

log = logs.get_logger(__name__)

LONGEST_PAUSE_S = 900.0
"""Longest wait while EC2 throttles."""

_WARNING_NS = rules.WARNING_BEFORE_END_S * NS_PER_S


class Bridge:
    """State of the bridge: the last messages, compared with each new reading.

    It reads no clock and sends nothing.
    """

    def __init__(
        self,
        fleet: str,
        *,
        client_id: str,
        boot: str,
        root: str = DEFAULT_ROOT,
        with_default: bool = True,
        forget: bool = False,
        prices: Mapping[str, Decimal] = NO_PRICES,
    ) -> None:
        """Start without any reservation.

        Args:
            fleet: Name of the fleet to publish as.
            client_id: The publisher's name, one segment.
            boot: Id of this start.
            root: First part of the topics.
            with_default: Whether to publish On-Demand Capacity Reservations, too.
            forget: Clear the message of a reservation that is gone from EC2; else its last message
                stays.
            prices: USD an instance and hour, by instance type; without one a fee is unknown.
        """
        self._fleet = fleet
        self._client_id = client_id
        self._boot = boot
        self._root = root
        self._with_default = with_default
        self._forget = forget
        self._prices = prices
        self._published: dict[str, ReservationMessage] = {}
        self._gone: set[str] = set()
        """Of these, reservations gone from EC2."""
        self._warned: dict[str, str] = {}
        """End last warned of, by reservation."""
        self._delivered: set[str] = set()
        """Reservations with a published delivery event."""
        self._health: dict[str, BlockHealth] = {}
        self._problems: set[str] = set()
        self._has_read = False
        self._events = 0
        self.rounds = 0
        """Readings, and checks for due warnings between them."""

    @property
    def skipped(self) -> int:
        """Distinct malformed answers of EC2 so far."""
        return len(self._problems)

    def apply(self, reading: Reading, now_ns: int) -> list[Envelope]:
        """Return the changes of a reading as messages, in order."""
        messages, problems = messages_of(
            reading, now_ns, with_default=self._with_default, prices=self._prices
        )
        self._log_problems(problems)
        made: list[Envelope] = []
        for message in messages:
            known = self._published.get(message.id)
            if known is not None and known == msgspec.structs.replace(
                message, ts=known.ts, change=known.change, boot=known.boot
            ):
                continue
            change = 0 if known is None else known.change + 1
            published = msgspec.structs.replace(message, change=change, boot=self._boot)
            self._published[message.id] = published
            made.append(self._reservation(published))
            # The state at the start is no change.
            health = self._health.get(published.id, BlockHealth())
            if known is not None or self._has_read:
                made += [
                    self._event(published, event, now_ns)
                    for event in ec2_events(known, published, health)
                    if event.kind is not ChangeKind.DELIVERED or self._is_first(published)
                ]
            self._health[published.id] = health.after(published)
        if not problems and reading.blocks is not None and reading.reservations is not None:
            made += self._leave({message.id for message in messages})
        self._has_read = True
        return made + self.warn(now_ns)

    def warn(self, now_ns: int) -> list[Envelope]:
        """Return the due warnings: 40 minutes before a block's end, once per end."""
        made: list[Envelope] = []
        for message, end_ns in self._ending():
            if end_ns - _WARNING_NS <= now_ns < end_ns:
                self._warned[message.id] = message.end or ""
                made.append(self._event(message, warning(message), now_ns))
        return made

    def notify(self, line: bytes, now_ns: int) -> list[Envelope]:
        """Return a line delivered by EventBridge as a message.

        Empty if the event is known or about something else. An event published because of a reading
        or the clock is not published again, nor the other way round.
        """
        try:
            notification = decode_eventbridge(line)
        except WireError as error:
            self._log_problems([f"EventBridge: {' '.join(str(error).split())[:300]}"])
            return []
        if notification is None:
            return []
        message = self._about(notification.detail)
        if message is not None and not self._is_new(message, notification):
            return []
        event = delivered_event(notification, message)
        return [self._event(message, event, now_ns, notification.time_ns, notification.id)]

    def next_warning_ns(self, now_ns: int) -> int | None:
        """Return the due time of the next warning after `now_ns`; None without one."""
        dues_ns = [end_ns - _WARNING_NS for _, end_ns in self._ending()]
        return min((due_ns for due_ns in dues_ns if due_ns > now_ns), default=None)

    def announce(self) -> Iterator[Envelope]:
        """Yield all state: presence of the publisher, and every reservation."""
        yield self.presence("online")
        for message in self._published.values():
            yield self._reservation(message)

    def presence(self, state: Literal["online", "offline"]) -> Envelope:
        """Return the presence message of the bridge; `offline` is its last will."""
        message = PublisherMessage(client=self._client_id, state=state, boot=self._boot)
        topic = build_topic(self._fleet, TopicClass.PUBLISHER, self._client_id, self._root)
        return message_envelope(topic, message, retain=True)

    def _ending(self) -> Iterator[tuple[ReservationMessage, int]]:
        """Yield the blocks without a warning of their end yet, with their end."""
        for message in self._published.values():
            is_active = message.type == "capacity-block" and message.state in RESERVATION_BEGUN
            if not is_active or message.end is None or message.id in self._gone:
                continue
            if self._warned.get(message.id) != message.end:
                yield message, parse_rfc3339(message.end)

    def _leave(self, there: set[str]) -> Iterator[Envelope]:
        """Log reservations gone from EC2, and clear their messages if configured."""
        gone = {name for name in self._published if name not in there}
        for name in sorted(gone - self._gone):
            log.warning("reservation_gone", id=name, forgotten=self._forget)
        self._gone = gone
        if not self._forget:
            return
        for name in sorted(gone):
            del self._published[name]
            self._gone.discard(name)
            self._warned.pop(name, None)
            self._delivered.discard(name)
            self._health.pop(name, None)
            yield Envelope(
                build_topic(self._fleet, TopicClass.RESERVATION, name, self._root),
                b"",
                qos=1,
                retain=True,
            )

    def _is_first(self, message: ReservationMessage) -> bool:
        """Return whether a reservation's delivery had no event yet, and mark it."""
        is_first = message.id not in self._delivered
        self._delivered.add(message.id)
        return is_first

    def _is_new(self, message: ReservationMessage, notification: Ec2Notification) -> bool:
        """Return whether EventBridge's notification had no event yet, and mark it."""
        if notification.kind is ChangeKind.DELIVERED:
            return self._is_first(message)
        if notification.kind is not ChangeKind.EXPIRATION_WARNING:
            return True
        if not _same_second(notification.detail["end-date"], message.end):
            # A warning of the end before an extension does not stand for that of the present one.
            return True
        is_new = self._warned.get(message.id) != message.end
        self._warned[message.id] = message.end or ""
        return is_new

    def _about(self, detail: Mapping[str, str]) -> ReservationMessage | None:
        """Return the reservation of an event's detail."""
        name = detail.get("capacity-reservation-id")
        instance = detail.get("instance-id")
        for message in self._published.values():
            if name in message.reservation_ids or instance in message.ec2_ids:
                return message
        return None

    def _log_problems(self, problems: list[str]) -> None:
        for problem in problems:
            if problem not in self._problems:
                self._problems.add(problem)
                log.warning(
                    "reservation_not_understood", problem=problem, skipped=len(self._problems)
                )

    def _reservation(self, message: ReservationMessage) -> Envelope:
        topic = build_topic(self._fleet, TopicClass.RESERVATION, message.id, self._root)
        return message_envelope(topic, message, retain=True)

    def _event(
        self,
        message: ReservationMessage | None,
        change: Ec2Event,
        now_ns: int,
        at_ns: int | None = None,
        name: str = "",
    ) -> Envelope:
        """Return an event as it is published.

        Args:
            message: The reservation that it is about; None where none is known.
            change: The event.
            now_ns: The present time.
            at_ns: Its own time, where that is known.
            name: An id of its own, by which readers know it again.
        """
        self._events += 1
        reservation = (
            change.detail.get("capacity-reservation-id") if message is None else message.id
        )
        event = EventMessage(
            id=name if is_segment(name) else f"{self._boot}-{self._events}",
            ts=format_rfc3339(now_ns if at_ns is None else at_ns),
            path="",
            source="ec2",
            name=change.name,
            severity=change.severity,
            text=change.text[: DEFAULT_LIMITS.text_chars],
            detail_type=change.detail_type,
            reservation=reservation if reservation and is_segment(reservation) else None,
            resources=change.resources,
            detail=dict(change.detail),
        )
        topic = build_topic(self._fleet, TopicClass.EVENT, FLEET_PATH, self._root)
        return message_envelope(topic, event, retain=False)


def _same_second(text: str, end: str | None) -> bool:
    """Return whether a text is the instant `end`.

    Compares whole seconds, the precision of EC2's events.
    """
    try:
        return end is not None and parse_rfc3339(text) // NS_PER_S == parse_rfc3339(end) // NS_PER_S
    except ValueError:
        return False


async def serve(
    bridge: Bridge,
    publisher: Publisher,
    read: Callable[[], Reading],
    *,
    clock: Clock,
    interval_s: float,
    once: bool = False,
    repeats: bool = True,
    next_line: Callable[[], bytes] | None = None,
) -> None:
    """Read and publish until cancelled, or once; publish a goodbye at the end.

    A failed reading after the first leaves the last known state unchanged; throttling makes the
    pauses longer. Warnings and repetitions are on time during any pause.

    Args:
        bridge: The last known state.
        publisher: Where to.
        read: Reads EC2; it blocks, and runs in a thread.
        clock: Paces the readings.
        interval_s: Seconds from one to the next.
        once: End after the first.
        repeats: Whether everything is published again each minute.
        next_line: Reads the next event as EventBridge delivers it, empty at the end; it blocks, and
            runs in a thread. With `once` all are read after the only reading.

    Raises:
        CloudError: the first reading failed, or the only one.
    """
    try:
        await publisher.publish(bridge.announce())
        has_read = asyncio.Event()
        work = _read_on(
            bridge,
            publisher,
            read,
            has_read,
            clock=clock,
            interval_s=interval_s,
            once=once,
            repeats=repeats,
        )
        if once:
            await work
            await _follow(bridge, publisher, next_line, has_read, clock)
            return
        async with background(events=_follow(bridge, publisher, next_line, has_read, clock)):
            await work
    finally:
        await publisher.publish([bridge.presence("offline")])


async def _read_on(
    bridge: Bridge,
    publisher: Publisher,
    read: Callable[[], Reading],
    has_read: asyncio.Event,
    *,
    clock: Clock,
    interval_s: float,
    once: bool,
    repeats: bool,
) -> None:
    """Read and publish until cancelled, or once.

    Arguments are those of `serve`; `has_read` is set after the first reading.
    """
    logged: tuple[str, ...] = ()
    pause_s = interval_s
    repeat_s = clock.monotonic_s() + REPEAT_S if repeats else math.inf
    while True:
        try:
            reading = await in_thread(read)
            bridge.rounds += 1
        except RequestsThrottled as error:
            if once:
                raise
            pause_s = max(interval_s, min(2 * pause_s, LONGEST_PAUSE_S))
            log.warning(
                "ec2_throttled", error=str(error), pause_s=pause_s, keeps="last known state"
            )
        except CloudError as error:
            if not has_read.is_set():
                raise
            log.warning("ec2_not_read", error=str(error), keeps="last known state")
        else:
            pause_s = interval_s
            for problem in reading.problems:
                if problem not in logged:
                    log.warning("ec2_part_not_read", problem=problem)
            logged = reading.problems
            await publisher.publish(bridge.apply(reading, clock.wall_ns()))
            has_read.set()
            if once:
                return
        due_s = clock.monotonic_s() + pause_s
        while (now_s := clock.monotonic_s()) < due_s:
            await clock.sleep(min(due_s, repeat_s, _next_warning_s(bridge, clock)) - now_s)
            await publisher.publish(bridge.warn(clock.wall_ns()))
            bridge.rounds += 1
            if clock.monotonic_s() >= repeat_s:
                repeat_s = clock.monotonic_s() + REPEAT_S
                await publisher.publish(bridge.announce())


async def _follow(
    bridge: Bridge,
    publisher: Publisher,
    next_line: Callable[[], bytes] | None,
    has_read: asyncio.Event,
    clock: Clock,
) -> None:
    """Publish EventBridge's events to their end, after the first reading."""
    await has_read.wait()
    while next_line is not None and (line := await in_thread(next_line)):
        if line.strip():
            await publisher.publish(bridge.notify(line, clock.wall_ns()))


def _next_warning_s(bridge: Bridge, clock: Clock) -> float:
    """Return the next warning's due time in the clock's monotonic seconds.

    Infinite without one.
    """
    now_ns = clock.wall_ns()
    due_ns = bridge.next_warning_ns(now_ns)
    return math.inf if due_ns is None else clock.monotonic_s() + (due_ns - now_ns) / NS_PER_S
