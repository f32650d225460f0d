"""Acknowledgements and silences retained by the broker, and their losses.

A broker without persistence forgets them when it restarts. The leading watch restores them once all
retained messages have arrived, so that nothing later is overwritten. Withdrawals are stored like
the others, and count as later than the messages they end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.clock import NS_PER_S, parse_rfc3339
from trnfleet.errors import WireError
from trnfleet.monitor.alerting.silences import edition_of
from trnfleet.wire.alerts import AckMessage, SilenceMessage
from trnfleet.wire.limits import DEFAULT_LIMITS
from trnfleet.wire.messages import decode_message
from trnfleet.wire.topics import TopicClass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trnfleet.wire.ports import Envelope
    from trnfleet.wire.topics import Topic

KEPT_NS = 3_600 * NS_PER_S
"""Age after their end, in the fleet's time, at which they are cleared."""
OperatorMessage = AckMessage | SilenceMessage
_MODELS: dict[TopicClass, type[AckMessage | SilenceMessage]] = {
    TopicClass.ACK: AckMessage,
    TopicClass.SILENCE: SilenceMessage,
}
MOST_HELD = 2 * (DEFAULT_LIMITS.acks + DEFAULT_LIMITS.silences)
"""Stored messages: as many as a monitor stores, and as many withdrawals."""


class Key(NamedTuple):
    """Topic of a message."""

    topic_class: TopicClass
    name: str


class OperatorState:
    """The newest message of each acknowledgement and silence of a fleet, over all connections."""

    def __init__(self) -> None:
        self._held: dict[Key, OperatorMessage] = {}
        self._present: set[Key] = set()
        """Messages received from the broker since the last connect."""
        self._overruled: set[Key] = set()
        """Withdrawals overwritten since by something older."""

    def reconnect(self) -> None:
        """Forget the broker's state: it may be lost."""
        self._present.clear()

    def take(self, topic: Topic, envelope: Envelope) -> None:
        """Note a message of a topic.

        Raises:
            WireError: it is invalid, or there are too many.
        """
        key = Key(topic.topic_class, topic.path)
        self._overruled.discard(key)
        if not envelope.payload:
            self._held.pop(key, None)
            self._present.discard(key)
            return
        message = decode_message(envelope.payload, _MODELS[key.topic_class])
        if (message.id if isinstance(message, SilenceMessage) else message.fingerprint) != key.name:
            raise WireError("the message's name is not its topic's")
        held = self._held.get(key)
        if held is None and len(self._held) >= MOST_HELD:
            raise WireError(f"more than {MOST_HELD} acknowledgements and silences")
        if (
            held is not None
            and held != message
            and not edition_of(held).is_replaced_by(edition_of(message))
        ):
            # Somebody has published again what was ended meanwhile.
            self._present.discard(key)
            if held.withdrawn_until is not None:
                self._overruled.add(key)
            return
        self._held[key] = message
        self._present.add(key)

    def lost(
        self, now_ns: int, is_needed: Callable[[OperatorMessage], bool]
    ) -> Iterator[tuple[Key, OperatorMessage]]:
        """Yield unexpired messages missing on the broker.

        Args:
            now_ns: Monitor time.
            is_needed: Returns whether a message still has a meaning, if not withdrawn.
        """
        for key, message in self._held.items():
            if key in self._present or end_ns(message) <= now_ns:
                continue
            if message.withdrawn_until is not None or is_needed(message):
                yield key, message

    def overruled(self) -> Iterator[tuple[Key, OperatorMessage]]:
        """Yield withdrawals that were overwritten by something older.

        Every watch corrects them, leader or not.
        """
        for key in self._overruled:
            if key in self._held:
                yield key, self._held[key]

    def outdated(self, now_ns: int) -> Iterator[Key]:
        """Yield the broker's messages that ended long ago."""
        for key in self._present:
            if end_ns(self._held[key]) <= now_ns - KEPT_NS:
                yield key

    def restored(self, key: Key) -> None:
        """Note that a message was published again."""
        self._present.add(key)
        self._overruled.discard(key)


def end_ns(message: OperatorMessage) -> int:
    """Return the end of an acknowledgement or a silence.

    For a withdrawn one, the end it would have had.
    """
    return parse_rfc3339(message.withdrawn_until or message.until)
