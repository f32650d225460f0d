"""The ports of the packages around the wire: envelopes, publishers, sources and recorded messages.

Simulator, monitor, recorder and bridge know these and no broker; `transport/` implements them over MQTT
and in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

CONTENT_TYPE_JSON = "application/json"
CONTENT_TYPE_CBOR = "application/cbor"


PAIR_BYTES = 162
"""Memory of a user property beside its characters: a pair, two texts, and its place (measured, Python 3.11)."""


class MessageProperties(NamedTuple):
    """What a message has besides its content type in MQTT 5; few messages have any."""

    user: tuple[tuple[str, str], ...] = ()
    """User properties, names and values in their order."""
    response_topic: str | None = None
    """The topic on which the sender waits for a reply."""
    correlation: bytes | None = None
    """What the reply must carry, so that the sender knows which request it is about."""
    expiry_s: int | None = None
    """Seconds for which a broker keeps the message for who is not there; of one that was received, what was left of them."""

    @property
    def memory_bytes(self) -> int:
        """Memory that they take, about."""
        of_user = sum(PAIR_BYTES + len(name) + len(value) for name, value in self.user)
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
    """Monotonic seconds at which it came in; 0 for one that is to be sent."""
    shed: int = 0
    """Earlier messages of its topic that were left out here because the reader was behind."""
    link: int = 0
    """Number of the connection over which it came, where there are several; not known of telemetry."""
    properties: MessageProperties | None = None
    """Its other properties in MQTT 5; None where it has none."""


MOST_LINKS = 31
"""Connections of one source: of each instance a number of 32 bits, one of them the sign, says over which it is heard."""


class RefusedMessage(NamedTuple):
    """A message that the broker refused, or that it says it cannot take."""

    topic: str
    reason: str
    """In plain words."""

    def __str__(self) -> str:
        return f"the broker refuses {plain(self.topic)}: {plain(self.reason)}"


class PublishResult(NamedTuple):
    """What became of a batch."""

    sent: int = 0
    """Messages that the broker has taken; those with QoS 0 were handed to it, and it does not say more."""
    unsent: int = 0
    """Messages that did not get through, refused ones included."""
    refused: int = 0
    error: str = ""
    """Reason of the first message that did not get through, in one line."""


STOPPED = "stopped"
"""`LinkStatus.last_error` of a connection that we ended ourselves."""
RECORDING = "recording"
"""`LinkStatus.protocol` of a recording."""
MOST_REFUSED_TOPICS = 16_384
"""Topics in `LinkStatus.refused_topics` from which on further ones are left out."""


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
    """Attempts to connect since the start; in an outage on purpose its parts count as well."""
    last_error: str = ""
    """Reason why the last connection ended or failed, in one line."""
    protocol: str = ""
    """`5` or `3.1.1` once connected; `RECORDING` where there is no connection but a recording."""
    received: int = 0
    """Messages taken from the broker."""
    dropped: int = 0
    """Messages dropped here because a queue was full (received) or no connection stood (sent)."""
    shed: int = 0
    """Telemetry left out for newer messages of its topic because the reader was behind."""
    oversize: int = 0
    """Messages refused for their size before they were parsed."""
    unsolicited: int = 0
    """Messages on topics that were not subscribed to; they go no further."""
    retained: int = 0
    """Retained messages that subscriptions gave."""
    retained_exactly: int = 0
    """Those that came only when their exact topics were asked for."""
    refused_topics: set[str] = field(default_factory=set)
    """Exact topics asked for (`Source.request_retained`) whose subscription the broker refuses on this connection: whether it retains
    them is not known."""
    waiting: int = 0
    """Messages that have come and wait to be taken."""
    waiting_bytes: int = 0
    """Bytes of their payloads and properties."""
    queue_peak: int = 0
    """Greatest length of the queue so far."""
    sent: int = 0
    """Messages handed to the broker and not refused."""
    acknowledged: int = 0
    """Of them those with QoS 1."""
    unacknowledged: int = 0
    """Messages with QoS 1 that the broker did not acknowledge in time."""
    refused: int = 0
    """Messages to be sent that the broker refused. Of those with QoS 0, and in MQTT 3.1.1, it does not say so."""
    last_refusal: RefusedMessage | None = None
    broker_says: dict[str, str] = field(default_factory=dict)
    """What the broker says of itself, by the part of the topic after `$SYS/broker/`; empty where it does not, or not to us."""
    is_unverified: bool = False
    """Whether TLS goes on without a look at who the broker is."""
    writer: LinkStatus | None = None
    """The connection beside it that writes; None where nothing is written."""
    parts: tuple[LinkStatus, ...] = ()
    """The connections that it is the sum of, each to a broker of its own; empty for a connection itself."""

    def of_parts(self, mask: int) -> tuple[LinkStatus, ...]:
        """Return the parts with a bit in `mask`; all where none has, and the connection itself where it has no parts."""
        chosen = tuple(part for number, part in enumerate(self.parts) if mask >> number & 1)
        return chosen or self.parts or (self,)

    @property
    def cannot_write(self) -> str:
        """Why nothing can be written beside it, in one line; empty where it can, or is not wanted."""
        writer = self.writer
        return (
            ""
            if writer is None or writer.connected or writer.last_error == STOPPED
            else writer.last_error
        )

    def pair(self, writer: LinkStatus) -> None:
        """Note the connection beside it that writes, or of several those beside its parts, in the same order."""
        if self.parts:
            for part, beside in zip(self.parts, writer.parts, strict=True):
                part.pair(beside)
        else:
            self.writer = writer

    @property
    def changes(self) -> tuple[bool, int]:
        """Whether it stands, and a number that goes up whenever it, or a part of it, is made or lost."""
        return self.connected, self.connects + sum(
            2 * part.connects - part.connected for part in self.parts
        )

    @property
    def withholds_retained(self) -> bool:
        """Whether the broker gives retained messages to no subscription with wildcards, as far as that shows."""
        if self.parts:
            return any(part.withholds_retained for part in self.parts)
        return self.retained_exactly > 0 and not self.retained


class Stored(NamedTuple):
    """An envelope with the time at which it came in."""

    time_ns: int
    """Wall clock, ns since 1970; made from a monotonic clock, so that it never falls within a recording."""
    envelope: Envelope


class Keyframe(NamedTuple):
    """The whole state at a moment of a recording, from which a reader can begin."""

    time_ns: int
    state: list[Stored]
    """Retained state, then the newest telemetry of every topic, each with the time at which it came in."""
    has_values: bool
    """Whether the newest telemetry is included; where it takes too much room, it is not."""


class RecordedMessages(Protocol):
    """The messages of a recording, finished or still going on, in the order of their time."""

    @property
    def start_ns(self) -> int:
        """Time of the oldest message that is there."""

    @property
    def end_ns(self) -> int:
        """Time of the newest message that is there; goes up while recording goes on."""

    def keyframe(self, at_ns: int) -> Keyframe | None:
        """Return the newest keyframe at or before a moment; None where there is none."""

    def read(self, after_ns: int, until_ns: int) -> Iterator[Stored]:
        """Yield the messages of `after_ns < time_ns <= until_ns` in order; damaged ones are left out and counted."""


class Publisher(Protocol):
    """A sender of envelopes."""

    @property
    def status(self) -> LinkStatus:
        """Connection state."""

    async def publish(self, batch: Iterable[Envelope]) -> PublishResult:
        """Send a batch, waiting for room in the client's own buffers, and return what became of it.

        While no connection stands, QoS 0 messages are dropped and counted; state (retained) is not lost,
        because `on_connect` provides it again.
        """

    def on_connect(self, announce: Callable[[], Iterable[Envelope]]) -> None:
        """Set the messages that are sent first after every connect: descriptors and other retained state."""


class InterruptiblePublisher(Publisher, Protocol):
    """A publisher whose connection can be taken away on purpose."""

    def interrupt(self, seconds: float) -> None:
        """Lose the connection without a goodbye, so that the last will speaks, and connect again after `seconds`."""


class Source(Protocol):
    """A source of envelopes in batches."""

    @property
    def status(self) -> LinkStatus:
        """Connection state."""

    async def take(self) -> list[Envelope]:
        """Return all that has come in since the last call, waiting until there is something.

        An empty list means that the source has ended for good (a replay's end); a broker's never does.
        """

    def request_retained(self, topics: Iterable[str]) -> None:
        """Ask for what is retained on exact topics, within what is subscribed to; a source without a broker has none to ask."""
