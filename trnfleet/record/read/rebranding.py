"""Rebranding of recorded messages for a replay.

A reader drops messages of an earlier boot. Every run and loop of a replay therefore gets new boot
ids. Descriptors are marked as a replay's and encoded again, and the fleet may get another name. All
other bytes of a payload stay the same.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from typing import Any, NamedTuple

from trnfleet.errors import WireError
from trnfleet.wire.frame_head import boot_span, frame_head, is_cbor, with_seq
from trnfleet.wire.limits import DEFAULT_LIMITS
from trnfleet.wire.ports import CONTENT_TYPE_JSON, LARGEST_TWO_BYTES, Envelope, MessageProperties
from trnfleet.wire.topics import RETAINED, VERSION, Topic, TopicClass, build_topic, parse_topic
from trnfleet.wire.values import PERIODS_S, SPEEDS

MOST_TOPICS = DEFAULT_LIMITS.topics
"""Most known topics, and most known boots. Numbers of other topics are unchanged, and their gaps
count as lost."""
_BOOT = re.compile(rb'"boot"\s*:\s*"([^"]{1,64})"')
_JSON_SEQ = re.compile(rb'"seq"\s*:\s*(\d{1,19})')


class _LeftOut(NamedTuple):
    boot: str
    messages: int
    """Of this boot, left out so far."""


class ReplayNumbering:
    """The topics of one run of a replay."""

    def __init__(self) -> None:
        """Begin without any."""
        self._left_out: dict[str, _LeftOut] = {}

    def renumber(self, envelope: Envelope) -> Envelope:
        """Return a recorded telemetry message with its number in the replay.

        A message without a number is unchanged.
        """
        known = self._left_out.get(envelope.topic)
        if not envelope.shed and known is None:
            return envelope
        if known is None and len(self._left_out) >= MOST_TOPICS:
            return envelope
        payload = envelope.payload
        match = None if is_cbor(envelope) else _JSON_SEQ.search(payload)
        try:
            boot, seq = _json_head(payload, match) if match else frame_head(payload)
        except WireError:
            return envelope
        before = known.messages if known is not None and known.boot == boot else 0
        left_out = self._left_out[envelope.topic] = _LeftOut(boot, before + envelope.shed)
        number = max(seq - left_out.messages, 0)
        if match:
            payload = payload[: match.start(1)] + str(number).encode() + payload[match.end(1) :]
        else:
            payload = with_seq(payload, number)
        return envelope._replace(payload=payload, shed=0)


def _json_head(payload: bytes, seq: re.Match[bytes]) -> tuple[str, int]:
    boot = _BOOT.search(payload)
    if boot is None:
        raise WireError("telemetry without boot")
    return boot[1].decode(errors="replace"), int(seq[1])


NEVER = frozenset({TopicClass.COMMAND, TopicClass.REPLY, TopicClass.BACKLOG})
"""Classes never replayed: a request of the past must not be carried out again, and backlog is of
another time than the messages beside it."""
OF_THE_NAME = frozenset({TopicClass.ALERT, TopicClass.ACK, TopicClass.SILENCE})
"""Classes with fingerprints. A fingerprint contains the fleet's name: under another name it matches
nothing."""

_JSON_BOOT = re.compile(rb'("boot"\s*:\s*")([A-Za-z0-9_-]{1,64})(")')
_JSON_ID = re.compile(rb'("id"\s*:\s*")([A-Za-z0-9_-]{1,64})(")')
_LIKE_OURS = re.compile(
    rf"(?:^|/){VERSION}/[^/]*/(?:{'|'.join(topic_class.value for topic_class in TopicClass)})(?:/|$)"  # noqa: E501
)
_NOT_PUBLISHABLE = re.compile(r"[+#\0]")
"""Characters invalid in the topic of a PUBLISH."""


class Rebranding:
    """Rewriter of the messages of one replay."""

    def __init__(
        self,
        root: str,
        *,
        nonce: str,
        speed: float = 1.0,
        fleet: str | None = None,
        name: str | None = None,
        to_root: str | None = None,
    ) -> None:
        """Bind to a recording's root and the names of the replay.

        Args:
            root: First part of the recorded topics.
            nonce: Random; boot ids follow from it and the recorded ones.
            speed: Seconds of the recording per second of the replay.
            fleet: Only fleet to replay; all if None.
            name: The fleet's name in the replay; as recorded if None.
            to_root: First part of the topics in the replay; the recorded one if None.
        """
        self._root = root
        self._to_root = to_root or root
        self._speed = speed
        self._fleet = fleet
        self._name = name
        self.renew(nonce)

    def renew(self, nonce: str) -> None:
        """Begin another run or loop, with boot ids of its own."""
        self._nonce = nonce
        self._boot = functools.lru_cache(maxsize=MOST_TOPICS)(self._make_boot)

    def topic_of(self, topic: str) -> Topic | None:
        """Take a recorded topic apart; None where it is not one of ours."""
        try:
            return parse_topic(topic, self._root)
        except WireError:
            return None

    def replayed_topic(self, topic: str) -> Topic | None:
        """Take a topic of the replay apart; None where it is not one of ours."""
        try:
            return parse_topic(topic, self._to_root)
        except WireError:
            return None

    def takes(self, recorded: str, topic: Topic | None) -> bool:
        """Return whether messages of a topic are replayed.

        Args:
            recorded: The topic.
            topic: The topic, parsed.
        """
        if topic is None:
            return self._fleet is None and self._name is None and _is_of_others(recorded)
        if topic.topic_class in NEVER or self._fleet not in {None, topic.fleet}:
            return False
        return self._name is None or topic.topic_class not in OF_THE_NAME

    def rebrand(self, envelope: Envelope, topic: Topic | None) -> Envelope:
        """Return the replayed form of a recorded message.

        Args:
            envelope: The recorded message.
            topic: Its topic, parsed.
        """
        if topic is None:
            return envelope._replace(received_s=0.0, properties=_replayed(envelope.properties))
        name = build_topic(self._name or topic.fleet, topic.topic_class, topic.path, self._to_root)
        is_state = topic.topic_class in RETAINED
        return envelope._replace(
            topic=name,
            payload=self._payload(envelope, topic.topic_class),
            # A connected recorder got it without the flag, but it was retained then and must be
            # now.
            retain=is_state or envelope.retain,
            qos=max(envelope.qos, 1) if is_state else envelope.qos,
            received_s=0.0,
            properties=_replayed(envelope.properties),
        )

    def offline(self, envelope: Envelope) -> Envelope | None:
        """Return a publisher's `offline`, made from its rewritten `online`.

        None if it was not online.
        """
        data = _object(envelope.payload)
        if data is None or data.get("state") != "online":
            return None
        return envelope._replace(
            payload=_dump(data | {"state": "offline"}),
            qos=1,
            retain=True,
            content_type=envelope.content_type or CONTENT_TYPE_JSON,
        )

    def _payload(self, envelope: Envelope, topic_class: TopicClass) -> bytes:
        payload = envelope.payload
        if not payload:
            return payload
        if is_cbor(envelope):
            return self._frame(payload)
        if topic_class is TopicClass.NODE:
            return self._descriptor(payload)
        if topic_class is TopicClass.EVENT:
            payload = _JSON_ID.sub(self._swap_id, payload, count=1)
        return _JSON_BOOT.sub(self._swap, payload)

    def _frame(self, payload: bytes) -> bytes:
        """Return a CBOR frame with the replay's boot id, equally long.

        A payload without a boot id is unchanged.
        """
        try:
            boot = boot_span(payload)
        except WireError:
            return payload
        return payload[: boot.start] + self._boot(payload[boot]) + payload[boot.stop :]

    def _descriptor(self, payload: bytes) -> bytes:
        """Return a descriptor marked as a replay's, with the replay's speed.

        Any other payload is unchanged.
        """
        data = _object(payload)
        if data is None:
            return payload
        data["replay"] = True
        # A descriptor forwarded under a lease names the boot of its relay, too.
        for part in (data, data.get("forwarded")):
            if isinstance(part, dict) and isinstance(boot := part.get("boot"), str):
                part["boot"] = self._boot(boot.encode(errors="replace")).decode()
        period_s = data.get("period_s")
        clock = data.get("clock")
        if isinstance(period_s, (int, float)):
            data["period_s"] = _clipped(period_s / self._speed, PERIODS_S)
        if isinstance(clock, dict) and isinstance(speed := clock.get("speed", 1.0), (int, float)):
            data["clock"] = clock | {"speed": _clipped(speed * self._speed, SPEEDS)}
        return _dump(data)

    def _swap(self, match: re.Match[bytes]) -> bytes:
        return match[1] + self._boot(match[2]) + match[3]

    def _swap_id(self, match: re.Match[bytes]) -> bytes:
        """Return an event's id for another boot: it is the publisher's boot and a number."""
        boot, dash, number = match[2].rpartition(b"-")
        if not dash:
            boot = number
            number = b""
        return match[1] + self._boot(boot) + dash + number + match[3]

    def _make_boot(self, boot: bytes) -> bytes:
        return hashlib.sha256(self._nonce.encode() + b":" + boot).hexdigest()[: len(boot)].encode()


def _is_of_others(topic: str) -> bool:
    """Return whether a topic outside our root belongs to another program and can be published.

    A topic shaped like ours under another root, or ours with an invalid path, could not be marked
    as a replay and may be a request.
    """
    return not (
        topic.startswith("$")
        or _NOT_PUBLISHABLE.search(topic)
        or _LIKE_OURS.search(topic)
        or len(topic.encode(errors="replace")) > LARGEST_TWO_BYTES
    )


def _object(payload: bytes) -> dict[str, Any] | None:
    try:
        data = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _dump(data: dict[str, Any]) -> bytes:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")


def _replayed(properties: MessageProperties | None) -> MessageProperties | None:
    """Return the user properties alone.

    Nobody waits for a reply any more, and messages retained again do not expire.
    """
    return MessageProperties(properties.user) if properties and properties.user else None


def _clipped(value: float, limits: tuple[float, float]) -> float:
    return min(max(value, limits[0]), limits[1])
