"""Sequence numbers of a replay, without gaps for telemetry left out on purpose.

A recorded message has a count of its topic's messages left out before it, in an overload or a
thinned past. MQTT has no place for this count, and readers would count the gap as lost. Messages
lost before the recording stay a gap.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.errors import WireError
from trnfleet.wire.frame_head import frame_head, is_cbor, with_seq

if TYPE_CHECKING:
    from trnfleet.wire.ports import Envelope

MOST_TOPICS = 200_000
"""Most topics with changed numbers. Others are unchanged, and their gaps count as lost."""
_JSON_BOOT = re.compile(rb'"boot"\s*:\s*"([^"]{1,64})"')
_JSON_SEQ = re.compile(rb'"seq"\s*:\s*(\d{1,19})')


class _LeftOut(NamedTuple):
    boot: str
    messages: int
    """Of this boot, left out so far."""


class Renumbering:
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
    boot = _JSON_BOOT.search(payload)
    if boot is None:
        raise WireError("telemetry without boot")
    return boot[1].decode(errors="replace"), int(seq[1])
