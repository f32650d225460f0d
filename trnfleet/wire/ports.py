"""The ports of the packages around the wire: envelopes, publishers, sources and recordings.

Simulator, monitor, recorder and bridge know these and no broker; `transport/` implements them over
MQTT and in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from sys import getsizeof
from typing import TYPE_CHECKING, NamedTuple, Protocol

from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

CONTENT_TYPE_JSON = "application/json"
CONTENT_TYPE_CBOR = "application/cbor"


class MessageProperties(NamedTuple):
    """What a message has besides its content type in MQTT 5; few messages have any."""

    user: tuple[tuple[str, str], ...] = ()
    """User properties, names and values in their order."""
    response_topic: str | None = None
    """Topic for the reply."""
    correlation: bytes | None = None
    """Data repeated in the reply, so that the sender can match it to its request."""
    expiry_s: int | None = None
    """Seconds a broker stores the message for absent receivers; when received, the rest of them."""

    @property
    def memory_bytes(self) -> int:
        """Approximate memory use."""
        of_user = sum(getsizeof(pair) + sum(map(getsizeof, pair)) for pair in self.user)
        return of_user + len(self.response_topic or "") + len(self.correlation or b"")


class Envelope(NamedTuple):
    """One message with its MQTT properties."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    content_type: str | None = None
    """The MQTT 5 content type; None where the broker speaks only 3.1.1."""
    received_s: float = 0.0
    """Monotonic seconds of its arrival; 0 for an outgoing one."""
    shed: int = 0
    """Earlier messages of its topic that were left out here because the reader was behind."""
    link: int = 0
    """Number of the connection it came over, if there are several; unknown for telemetry."""
    properties: MessageProperties | None = None
    """Its other properties in MQTT 5; None without any."""


LARGEST_TWO_BYTES = 65_535
"""Largest number of two bytes in MQTT: bytes of a topic or a password, unacknowledged messages."""
MOST_LINKS = 31
"""Most connections of one source. Per instance, a signed number of 32 bits marks the connections
over which it is heard."""


class RefusedMessage(NamedTuple):
    """A message refused by the broker, or beyond its announced limits."""

    topic: str
    reason: str
    """In plain words."""

    def __str__(self) -> str:
        return f"the broker refuses {plain(self.topic)}: {plain(self.reason)}"


class PublishResult(NamedTuple):
    """What became of a batch."""

    sent: int = 0
    """Messages accepted by the broker. QoS 0 messages are counted when handed over: they are not
    acknowledged."""
    unsent: int = 0
    """Messages not delivered, including refused ones."""
    refused: int = 0
    error: str = ""
    """Reason of the first undelivered message, in one line."""


STOPPED = "stopped"
"""`LinkStatus.last_error` of a connection that we ended ourselves."""
RECORDING = "recording"
"""`LinkStatus.protocol` of a recording."""
MOST_REFUSED_TOPICS = 16_384
"""Most topics in `LinkStatus.refused_topics`; further ones are left out."""


@dataclass(slots=True)
class LinkStatus:
    """State and counts of a connection; written by the transport."""

    broker: str = ""
    """The broker's address without a password."""
    connected: bool = False
    changed_s: float = 0.0
    """Monotonic time of the last change of `connected`."""
    connects: int = 0
    """Successful connects since the start; more than one means reconnects."""
    attempts: int = 0
    """Attempts to connect since the start, including a deliberate outage's."""
    last_error: str = ""
    """Reason why the last connection ended or failed, in one line."""
    protocol: str = ""
    """`5` or `3.1.1` once connected; `RECORDING` where there is no connection but a recording."""
    received: int = 0
    """Messages received from the broker."""
    dropped: int = 0
    """Messages dropped here because a queue was full (received) or no connection stood (sent)."""
    shed: int = 0
    """Telemetry left out for newer messages of its topic because the reader was behind."""
    oversize: int = 0
    """Messages refused for their size before they were parsed."""
    unsolicited: int = 0
    """Messages on topics without a subscription, dropped."""
    retained: int = 0
    """Retained messages that subscriptions gave."""
    withheld: int = 0
    """Retained messages that the broker gives for their exact topics, but not for wildcards."""
    refused_topics: set[str] = field(default_factory=set)
    """Requested exact topics (`Source.request_retained`) refused by the broker on this connection.
    It is unknown whether it retains them."""
    refused_filters: tuple[str, ...] = ()
    """Topic filters refused by the broker on this connection, while it accepts others."""
    waiting: int = 0
    """Received messages waiting in the queue."""
    waiting_bytes: int = 0
    """Bytes of their payloads and properties."""
    queue_peak: int = 0
    """Greatest length of the queue so far."""
    sent: int = 0
    """Messages handed to the broker and not refused."""
    acknowledged: int = 0
    """Of these, QoS 1 messages."""
    unacknowledged: int = 0
    """QoS 1 messages not acknowledged by the broker in time."""
    refused: int = 0
    """Outgoing messages refused by the broker. Not reported for QoS 0, nor in MQTT 3.1.1."""
    last_refusal: RefusedMessage | None = None
    broker_says: dict[str, str] = field(default_factory=dict)
    """The broker's own figures, by the topic's part after `$SYS/broker/`. Empty if it publishes
    none, or none readable by us."""
    is_unverified: bool = False
    """Whether TLS does not verify the broker's identity."""
    writer: LinkStatus | None = None
    """The paired connection for writing; None if nothing is written."""
    parts: tuple[LinkStatus, ...] = ()
    """Connections it is the sum of, each to its own broker. Empty for a single connection."""

    def of_parts(self, mask: int) -> tuple[LinkStatus, ...]:
        """Return the parts with a bit in `mask`.

        All parts if none has a bit; the connection itself if it has no parts.
        """
        chosen = tuple(part for number, part in enumerate(self.parts) if mask >> number & 1)
        return chosen or self.parts or (self,)

    @property
    def cannot_write(self) -> str:
        """Reason why writing is impossible, in one line; empty if possible or not wanted."""
        writer = self.writer
        return (
            ""
            if writer is None or writer.connected or writer.last_error == STOPPED
            else writer.last_error
        )

    def pair(self, writer: LinkStatus) -> None:
        """Record the paired connection for writing.

        For several, those paired with its parts, in the same order.
        """
        if self.parts:
            for part, beside in zip(self.parts, writer.parts, strict=True):
                part.pair(beside)
        else:
            self.writer = writer

    @property
    def changes(self) -> tuple[bool, int]:
        """Whether it is connected, and a counter of connects and losses, including its parts'."""
        return self.connected, self.connects + sum(
            2 * part.connects - part.connected for part in self.parts
        )

    @property
    def withholds_retained(self) -> bool:
        """Whether the broker apparently sends no retained messages to wildcard subscriptions."""
        if self.parts:
            return any(part.withholds_retained for part in self.parts)
        return self.withheld > 0 and not self.retained


class Stored(NamedTuple):
    """An envelope with its time of arrival."""

    time_ns: int
    """Wall clock, ns since 1970. Derived from a monotonic clock, so that it never falls within a
    recording."""
    envelope: Envelope


class Keyframe(NamedTuple):
    """The whole state at a moment of a recording, from which a reader can begin."""

    time_ns: int
    state: list[Stored]
    """Retained state, then the newest telemetry of every topic, each with its time of arrival."""
    has_values: bool
    """Whether the newest telemetry is included; it is not if too large."""


class RecordedMessages(Protocol):
    """Messages of a recording, finished or in progress, in order of time."""

    @property
    def start_ns(self) -> int:
        """Time of the oldest message that is there."""

    @property
    def end_ns(self) -> int:
        """Time of the newest message; rises while recording continues."""

    def keyframe(self, at_ns: int) -> Keyframe | None:
        """Return the newest keyframe at or before a moment; None without one."""

    def read(self, after_ns: int, until_ns: int) -> Iterator[Stored]:
        """Yield the messages of `after_ns < time_ns <= until_ns` in order.

        Damaged ones are skipped and counted.
        """


class Publisher(Protocol):
    """A sender of envelopes."""

    @property
    def status(self) -> LinkStatus:
        """Connection state."""

    async def publish(self, batch: Iterable[Envelope]) -> PublishResult:
        """Send a batch and return its result; wait for room in the client's own buffers.

        Without a connection, QoS 0 messages are dropped and counted. Retained state is not lost,
        because `on_connect` provides it again.
        """

    def on_connect(self, announce: Callable[[], Iterable[Envelope]]) -> None:
        """Set the first messages after every connect: descriptors and other retained state."""


class InterruptiblePublisher(Publisher, Protocol):
    """A publisher with a deliberately interruptible connection."""

    def interrupt(self, seconds: float) -> None:
        """Drop the connection without a goodbye, and connect again after `seconds`.

        The broker then publishes the last will.
        """


class Source(Protocol):
    """A source of envelopes in batches."""

    @property
    def status(self) -> LinkStatus:
        """Connection state."""

    async def take(self) -> list[Envelope]:
        """Return all that has come in since the last call, waiting until there is something.

        An empty list means that the source has ended for good (a replay's end); a broker's never
        does.
        """

    def request_retained(self, topics: Iterable[str]) -> None:
        """Request the retained messages of exact topics within the subscriptions.

        No effect without a broker.
        """
