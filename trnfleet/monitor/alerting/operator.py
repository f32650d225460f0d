"""Actions of operators on alerts: acknowledge, silence, and remove either.

They are retained messages, written only with a publisher: a reader's screen has none. A written
message counts when it returns from the broker, so all screens agree.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from trnfleet.clock import NS_PER_MS, NS_PER_S, format_rfc3339
from trnfleet.domain.alerts.matchers import parse_matchers
from trnfleet.errors import BrokerError, ConfigError
from trnfleet.wire.alerts import AckMessage, SilenceMessage
from trnfleet.wire.messages import encode_message
from trnfleet.wire.ports import CONTENT_TYPE_JSON, Envelope, Publisher
from trnfleet.wire.topics import DEFAULT_ROOT, TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.alerts.silences import Ack, Silence

LONGEST_S = 90 * 86_400.0
"""Longest acknowledgement or silence."""
LONGEST_NOTE = 1_000
READ_ONLY = "this screen is read-only; trnfleet monitor --allow-commands can write"


def refused_in(cell: str) -> str:
    """Explain why a cell's alert cannot be acknowledged or silenced on the top broker."""
    return (
        f"it is of cell {cell}, whose watch reads the cell's broker alone: acknowledge or silence"
        " it there"
    )


class OperatorActions:
    """Writes acknowledgements and silences of one fleet."""

    def __init__(
        self, fleet: str, *, publisher: Publisher | None, owner: str, root: str = DEFAULT_ROOT
    ) -> None:
        """Prepare the actions of one operator.

        Args:
            fleet: The fleet's name.
            publisher: Writes messages, run by the caller; None for a read-only screen.
            owner: The operator's name.
            root: First part of the topics.
        """
        self.owner = owner
        self._fleet = fleet
        self._publisher = publisher
        self._root = root

    @property
    def can_write(self) -> bool:
        """Whether it has a publisher."""
        return self._publisher is not None

    async def acknowledge(
        self, alert: Alert, *, now_ns: int, lasts_s: float, note: str = "", revision: int = 1
    ) -> None:
        """Acknowledge an alert for a while.

        Args:
            alert: The alert.
            now_ns: Monitor time.
            lasts_s: Seconds of monitor time.
            note: A note for others.
            revision: Revision of the message: above earlier ones about this alert.

        Raises:
            ConfigError: it lasts too long, or the note is too long.
            BrokerError: nothing was written: no connection, a read-only screen, or an alert of a
                cell.
        """
        if alert.cell:
            raise BrokerError(f"{alert.name} {alert.target}: {refused_in(alert.cell)}")
        message = AckMessage(
            fingerprint=alert.fingerprint,
            owner=self.owner,
            note=_checked(note),
            at=format_rfc3339(now_ns),
            until=_until(now_ns, lasts_s),
            alert=f"{alert.name} {alert.target}".strip(),
            revision=revision,
        )
        await self._write(TopicClass.ACK, alert.fingerprint, encode_message(message))

    async def withdraw_ack(self, ack: Ack) -> None:
        """Withdraw an acknowledgement; its tombstone stays until the end that it would have had.

        Raises:
            BrokerError: nothing was written.
        """
        message = withdrawn_ack(ack, self.owner)
        await self._write(TopicClass.ACK, ack.fingerprint, encode_message(message))

    async def silence(
        self,
        matchers: Sequence[str],
        *,
        now_ns: int,
        lasts_s: float,
        why: str,
        starts_ns: int | None = None,
    ) -> str:
        """Silence matching alerts.

        Return the silence's id.

        Args:
            matchers: Such as `instance="uc1/us-0001/trn2u-0001-0"`; all must match.
            now_ns: Monitor time.
            lasts_s: Seconds of monitor time from its start.
            why: The reason.
            starts_ns: Monitor time of its start; now by default.

        Raises:
            ConfigError: a matcher is invalid, or it lasts too long.
            BrokerError: nothing was written.
        """
        parsed = parse_matchers(matchers)
        begins_ns = now_ns if starts_ns is None else starts_ns
        silence_id = os.urandom(8).hex()
        message = SilenceMessage(
            id=silence_id,
            matchers=tuple(str(matcher) for matcher in parsed),
            starts=format_rfc3339(begins_ns),
            until=_until(begins_ns, lasts_s),
            who=self.owner,
            why=_checked(why),
            revision=1,
        )
        await self._write(TopicClass.SILENCE, silence_id, encode_message(message))
        return silence_id

    async def expire(self, silence: Silence) -> None:
        """End a silence; its tombstone stays until the end that it would have had.

        Raises:
            BrokerError: nothing was written.
        """
        message = withdrawn_silence(silence, self.owner)
        await self._write(TopicClass.SILENCE, silence.id, encode_message(message))

    async def _write(self, topic_class: TopicClass, path: str, payload: bytes) -> None:
        publisher = self._publisher
        if publisher is None:
            raise BrokerError(READ_ONLY)
        if not publisher.status.connected:
            why = publisher.status.last_error or "no connection"
            raise BrokerError(f"nothing was written: {publisher.status.broker}: {why}")
        topic = build_topic(self._fleet, topic_class, path, self._root)
        result = await publisher.publish(
            [Envelope(topic, payload, 1, retain=True, content_type=CONTENT_TYPE_JSON)]
        )
        if result.unsent:
            what = "it was not written everywhere" if result.sent else "nothing was written"
            raise BrokerError(f"{what}: {publisher.status.broker}: {result.error}")


def withdrawn_ack(ack: Ack, owner: str) -> AckMessage:
    """Return the tombstone of an acknowledgement; `owner` has withdrawn it.

    It lasts for the shortest valid time: readers without tombstones treat it as expired.
    """
    return AckMessage(
        fingerprint=ack.fingerprint,
        owner=owner,
        at=format_rfc3339(ack.at_ns),
        until=format_rfc3339(ack.at_ns + NS_PER_MS),
        revision=ack.revision + 1,
        withdrawn_until=format_rfc3339(ack.ends_ns),
    )


def withdrawn_silence(silence: Silence, owner: str) -> SilenceMessage:
    """Return the tombstone of a silence, as of an acknowledgement."""
    return SilenceMessage(
        id=silence.id,
        matchers=tuple(str(matcher) for matcher in silence.matchers),
        starts=format_rfc3339(silence.starts_ns),
        until=format_rfc3339(silence.starts_ns + NS_PER_MS),
        who=owner,
        revision=silence.revision + 1,
        withdrawn_until=format_rfc3339(silence.ends_ns),
        source=silence.source,
    )


def _until(begins_ns: int, lasts_s: float) -> str:
    if not 1.0 <= lasts_s <= LONGEST_S:
        raise ConfigError(
            f"{lasts_s:g} s: it must last between a second and {LONGEST_S / 86_400:g} days"
        )
    return format_rfc3339(begins_ns + round(lasts_s * NS_PER_S))


def _checked(text: str) -> str:
    if len(text) > LONGEST_NOTE:
        raise ConfigError(f"a note of {len(text)} characters: at most {LONGEST_NOTE}")
    return text
