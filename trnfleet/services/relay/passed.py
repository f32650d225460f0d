"""Messages of a cell on the top broker: unchanged ones, and alerts.

Jobs, reservations, events and presence are unchanged. Retained messages are stored, also on
standby, for a top broker that has not received them from this relay. So are the topics of cleared
messages.

Alerts are those of the cell's watch, each with its acknowledgement or silence in the cell. The
monitor's state is compared with the last publication, so an alert that ends while no relay runs
does not stay.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from sys import getsizeof
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from trnfleet.clock import format_rfc3339
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.errors import WireError
from trnfleet.monitor.alerting.cells import alert_of
from trnfleet.wire.alerts import AlertMessage, CellAlertMessage, Handling
from trnfleet.wire.limits import DEFAULT_LIMITS
from trnfleet.wire.messages import (
    REPEAT_S,
    WatchMessage,
    cell_of,
    decode_message,
    encode_message,
    message_envelope,
    with_cell,
)
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import RETAINED, Topic, TopicClass, parse_topic, presence_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.services.relay.role import RelayIdentity


PASSED_ON = (
    TopicClass.PUBLISHER,
    TopicClass.JOB,
    TopicClass.RESERVATION,
    TopicClass.EVENT,
)
"""Classes passed to the top broker unchanged, except for the presence of watches."""
MOST_KEPT_BYTES = 256 * 2**20
"""Memory of the retained messages published again after a reconnect."""
EVENTS_KEPT_S = 10.0
"""Age of the events published on takeover. It exceeds the time to detect a lost relay."""
MOST_WATCHES = DEFAULT_LIMITS.watches
"""Most watches with presence passed on: as many as the cell's monitor stores."""
MOST_TOPICS = DEFAULT_LIMITS.topics
"""Most stored topics of one kind."""
MOST_AT_ONCE = 1_000
"""Most messages sent together. Behind more, a heartbeat would be late and another relay would take
over."""


class PassedMessages:
    """The messages of one cell."""

    def __init__(self, identity: RelayIdentity) -> None:
        self._identity = identity
        self._kept: dict[str, Envelope] = {}
        """The newest retained message of each topic passed on."""
        self._kept_bytes = 0
        self.has_all = True
        """Whether all retained messages to pass on are stored."""
        self._owed: deque[str] = deque()
        """Topics still to publish since it became active."""
        self._watches: set[str] = set()
        """Clients of the cell announced as watches."""
        self._watches_on_top: set[str] = set()
        """Watches with a message below the cell's name on the top broker, as received here."""
        self._foreign: set[str] = set()
        """Topics written by another relay on the cell's broker."""
        self._events: deque[tuple[float, Envelope]] = deque(maxlen=MOST_AT_ONCE)
        """The last events, with their monotonic seconds of arrival. It is unknown whether the relay
        before passed them on."""
        self._cleared: OrderedDict[str, float] = OrderedDict()
        """Topics cleared in the cell and maybe not on the top. Monotonic seconds, the oldest first.
        """

    def take(self, batch: Iterable[Envelope], now_s: float) -> list[Envelope]:
        """Store messages of the cell, and return them as published on the top broker."""
        passed = [self._passed(envelope) for envelope in batch]
        sent = [envelope for envelope in passed if envelope is not None]
        for envelope in sent:
            self._note(envelope, now_s)
        return sent

    def _note(self, passed: Envelope, now_s: float) -> None:
        """Store an event, or the topic of a cleared message.

        Their number is limited: the oldest are dropped.
        """
        if not passed.retain:
            self._events.append((now_s, passed))
            while self._events[0][0] < now_s - EVENTS_KEPT_S:
                self._events.popleft()
            return
        self._cleared.pop(passed.topic, None)
        if not passed.payload:
            self._cleared[passed.topic] = now_s
            if len(self._cleared) > MOST_TOPICS:
                self._cleared.popitem(last=False)

    @property
    def topics(self) -> Iterable[str]:
        """Topics of the cell's retained messages on the top broker."""
        return self._kept.keys()

    def begin(self, now_s: float) -> list[Envelope]:
        """Queue clearings and all retained messages for the top broker.

        Return the last events.
        """
        self._owed = deque([*self._cleared, *self._kept])
        return [event for at_s, event in self._events if at_s >= now_s - EVENTS_KEPT_S]

    def next_owed(self) -> list[Envelope]:
        """Return a part of the queued messages, in their present state."""
        part: list[Envelope] = []
        while self._owed and len(part) < MOST_AT_ONCE:
            topic = self._owed.popleft()
            message = self._kept.get(topic)
            if message is not None:
                part.append(message)
            elif topic in self._cleared:
                part.append(Envelope(topic, b"", qos=1, retain=True))
        return part

    def note_published(self, part: Iterable[Envelope]) -> None:
        """Note messages published on the top broker.

        Their clearings are done.
        """
        for envelope in part:
            if envelope.retain and not envelope.payload:
                self._cleared.pop(envelope.topic, None)

    def note_other(self, now_s: float) -> None:
        """Note another active relay.

        It has published the older clearings, if it has not lost its connection since.
        """
        while self._cleared and next(iter(self._cleared.values())) < now_s - REPEAT_S:
            self._cleared.popitem(last=False)

    def note_top(self, client: str, payload: bytes) -> None:
        """Note a presence message below the cell's name on the top broker, from whichever relay."""
        is_watch = bool(payload) and decode_message(payload, WatchMessage).role == "watch"
        if not is_watch:
            self._watches_on_top.discard(client)
        elif len(self._watches_on_top) < MOST_WATCHES:
            self._watches_on_top.add(client)

    def left_watches(self) -> list[Envelope]:
        """Return messages to clear watches present only on the top broker.

        They ended while no relay ran.
        """
        left = sorted(self._watches_on_top - self._watches)
        self._watches_on_top.difference_update(left)
        return self._identity.cleared_presences(left)

    def _passed(self, envelope: Envelope) -> Envelope | None:
        """Return a message as published on the top broker.

        None if it is not passed on.

        A message of another relay is not the cell's, and would circulate in a ring of relays.
        """
        try:
            topic = parse_topic(envelope.topic, self._identity.root)
        except WireError:
            return None
        if topic.fleet != self._identity.fleet or topic.topic_class not in PASSED_ON:
            return None
        if self._is_foreign(topic, envelope):
            return None
        is_state = topic.topic_class in RETAINED
        payload = with_cell(envelope.payload, self._identity.cell)
        passed = Envelope(
            envelope.topic, payload, qos=1, retain=is_state, content_type=envelope.content_type
        )
        if topic.topic_class is TopicClass.PUBLISHER:
            try:
                passed = self._watch_passed(topic.path, passed)
            except WireError:
                return None
        if is_state:
            before = self._kept.pop(passed.topic, None)
            self._kept_bytes -= 0 if before is None else memory_bytes(before)
            if passed.payload:
                if self._kept_bytes + memory_bytes(passed) <= MOST_KEPT_BYTES:
                    self._kept[passed.topic] = passed
                    self._kept_bytes += memory_bytes(passed)
                else:
                    self.has_all = False
        return passed

    def _is_foreign(self, topic: Topic, envelope: Envelope) -> bool:
        """Return whether another relay wrote a message, or the message it clears."""
        if topic.topic_class is TopicClass.PUBLISHER and "/" in topic.path:
            return True
        if not envelope.payload:
            is_foreign = envelope.topic in self._foreign
            self._foreign.discard(envelope.topic)
            return is_foreign
        if not cell_of(envelope.payload):
            self._foreign.discard(envelope.topic)
            return False
        if topic.topic_class in RETAINED and len(self._foreign) < MOST_TOPICS:
            self._foreign.add(envelope.topic)
        return True

    def _watch_passed(self, client: str, passed: Envelope) -> Envelope:
        """Return a presence message, with its cell if it is from a watch.

        Otherwise the watch would be mistaken for one of the top broker.
        """
        if passed.payload:
            message = decode_message(passed.payload, WatchMessage)
            self._watches.discard(client)
            if message.role != "watch":
                return passed
            if len(self._watches) >= MOST_WATCHES:
                raise WireError(f"more than {MOST_WATCHES} watches")
            self._watches.add(client)
            passed = passed._replace(
                payload=encode_message(msgspec.structs.replace(message, cell=self._identity.cell))
            )
        path = presence_path(client, self._identity.cell if client in self._watches else None)
        if not passed.payload:
            self._watches.discard(client)
        return passed._replace(topic=self._identity.topic(TopicClass.PUBLISHER, path))


def memory_bytes(message: Envelope) -> int:
    """Return the memory of a stored message: of a small one, ten times its payload."""
    return getsizeof(message) + getsizeof(message.topic) + getsizeof(message.payload)


SETTLED_S = 30.0
"""Connected time after which an alert only on the top broker is over. By then the cell's retained
alerts have arrived, and its watch has restored those its broker lost."""


class _Sent(NamedTuple):
    message: AlertMessage
    alert: Alert
    ack: Handling | None
    silence: Handling | None


class PassedAlerts:
    """The published alerts of a cell."""

    def __init__(self, identity: RelayIdentity) -> None:
        self._identity = identity
        self._sent: dict[str, _Sent] = {}
        self._on_top: set[str] = set()
        """Fingerprints below the cell's name on the top broker, as received by this relay. At most
        as many as a monitor stores."""
        self._heard_since_s = math.inf

    def __len__(self) -> int:
        """Return how many are published."""
        return len(self._sent)

    @property
    def topics(self) -> Iterable[str]:
        """Topics of the published alerts."""
        return map(self._topic, self._sent)

    def begin(self) -> None:
        """Publish all again.

        Another relay published before, or the top broker lost its state.
        """
        self._sent.clear()

    def note_top(self, fingerprint: str, payload: bytes) -> None:
        """Note an alert on the top broker, from whichever relay."""
        if not payload:
            self._on_top.discard(fingerprint)
        elif len(self._on_top) < DEFAULT_LIMITS.alerts:
            self._on_top.add(fingerprint)

    def hear(self, now_s: float, *, sees_cell: bool) -> None:
        """Note whether the cell is connected."""
        if not sees_cell:
            self._heard_since_s = math.inf
        elif now_s < self._heard_since_s:
            self._heard_since_s = now_s

    def knows_cell(self, monitor: Monitor) -> bool:
        """Return whether all retained messages of the cell's broker have arrived.

        An alert only on the top broker is over then. If wildcards return nothing retained, an alert
        unknown here may still be active.
        """
        is_settled = monitor.clock.monotonic_s() - self._heard_since_s >= SETTLED_S
        return is_settled and not monitor.link.withholds_retained

    def changes(self, monitor: Monitor) -> list[Envelope]:
        """Return the changes since the last call."""
        known = monitor.ingest.alert_messages
        silences = monitor.alerts.silences
        now_ns = monitor.moment().time_ns
        has_handling = any(silences.count())
        made: list[Envelope] = []
        for fingerprint, message in known.items():
            if len(made) >= MOST_AT_ONCE:
                return made
            former = self._sent.get(fingerprint)
            is_same = former is not None and former.message is message
            if (
                is_same
                and former is not None
                and not (has_handling or former.ack or former.silence)
            ):
                continue
            alert = former.alert if is_same and former is not None else alert_of(message)
            sent = _Sent(message, alert, *self._handling(alert, monitor, now_ns))
            if sent == former:
                continue
            self._sent[fingerprint] = sent
            passed = CellAlertMessage(
                **msgspec.structs.asdict(message),
                cell=self._identity.cell,
                ack=sent.ack,
                silence=sent.silence,
            )
            made.append(message_envelope(self._topic(fingerprint), passed, retain=True))
        gone = self._sent.keys() - known.keys()
        if self.knows_cell(monitor):
            gone |= self._on_top - known.keys()
        for fingerprint in sorted(gone)[: MOST_AT_ONCE - len(made)]:
            self._sent.pop(fingerprint, None)
            self._on_top.discard(fingerprint)
            made.append(Envelope(self._topic(fingerprint), b"", qos=1, retain=True))
        return made

    @staticmethod
    def _handling(
        alert: Alert, monitor: Monitor, now_ns: int
    ) -> tuple[Handling | None, Handling | None]:
        """Return an alert's acknowledgement and silence."""
        silences = monitor.alerts.silences
        if silences.status(alert, now_ns) is AlertStatus.RESOLVED:
            return None, None
        ack = silences.ack_of(alert, now_ns)
        hiding = max(
            silences.silences_of(alert, now_ns), key=lambda silence: silence.ends_ns, default=None
        )
        return (
            None if ack is None else _handling(ack.owner, ack.note, ack.at_ns, ack.ends_ns),
            None
            if hiding is None
            else _handling(hiding.whose, hiding.why, hiding.starts_ns, hiding.ends_ns),
        )

    def _topic(self, fingerprint: str) -> str:
        return self._identity.topic(TopicClass.ALERT, f"{self._identity.cell}/{fingerprint}")


def _handling(who: str, why: str, at_ns: int, ends_ns: int) -> Handling:
    return Handling(who=who[:200], why=why, at=format_rfc3339(at_ns), until=format_rfc3339(ends_ns))
