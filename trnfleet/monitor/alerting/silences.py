"""Silences and acknowledgements of one fleet, as retained on the broker.

The status of an alert follows from them. Of two messages about the same one, the later written
counts (`Edition`). A withdrawn one is remembered until its original end, so an older message cannot
restore it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Literal, NamedTuple

from trnfleet.clock import parse_rfc3339
from trnfleet.domain.alerts.matchers import parse_matchers
from trnfleet.domain.alerts.silences import Ack, Edition, Silence, Span
from trnfleet.domain.alerts.status import AlertState, AlertStatus
from trnfleet.errors import ConfigError, WireError
from trnfleet.monitor.store.events import KEPT
from trnfleet.wire.alerts import AckMessage, SilenceMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trnfleet.domain.alerts.alert import Alert

_ACK = "ack"
_SILENCE = "silence"
MOST_WITHDRAWN = 50_000
"""Most withdrawn ones remembered, and alerts with cached silences. The first withdrawn ones to end
are dropped first, a tenth at once."""


class SilencesChange(NamedTuple):
    """A change of the silences and acknowledgements."""

    kind: Literal["set", "withdrawn", "cleared"]
    """"cleared": removed from the broker without a tombstone."""
    subject: Ack | Silence
    who: str
    about: str = ""
    """The alert's rule and target, where an acknowledgement says so."""


class Silences:
    """The acknowledgements and silences of one fleet."""

    def __init__(self) -> None:
        self.revision = 0
        """Increases with every change."""
        self.changes: deque[SilencesChange] = deque(maxlen=KEPT)
        """Unread changes, oldest first."""
        self.happened = 0
        """Number of all changes so far, including changes dropped unread."""
        self._acks: dict[str, Ack] = {}
        self._silences: dict[str, Silence] = {}
        self._withdrawn: dict[tuple[str, str], Edition] = {}
        """The last message of each withdrawn one, by kind and name."""
        self._covering: dict[str, tuple[Mapping[str, str], tuple[Silence, ...]]] = {}
        """The silences matching each alert's labels, at any time. Labels are replaced, never
        changed."""
        self._spent: set[tuple[str, int]] = set()
        """Acknowledgements of alerts resolved since, by fingerprint and instant."""

    @property
    def acks(self) -> Iterable[Ack]:
        """All known acknowledgements, including ended ones."""
        return self._acks.values()

    @property
    def known(self) -> Iterable[Silence]:
        """All known silences, including ended and future ones."""
        return self._silences.values()

    def count(self) -> tuple[int, int]:
        """Return how many acknowledgements and silences are known."""
        return len(self._acks), len(self._silences)

    def has_ack(self, fingerprint: str) -> bool:
        """Return whether an alert has an acknowledgement, even an ended one."""
        return fingerprint in self._acks

    def silence(self, silence_id: str) -> Silence | None:
        """Return a silence."""
        return self._silences.get(silence_id)

    def ack(self, fingerprint: str) -> Ack | None:
        """Return the acknowledgement of an alert, even an ended one.

        None without one.
        """
        return self._acks.get(fingerprint)

    def is_withdrawn(self, silence_id: str) -> bool:
        """Return whether a silence was withdrawn, and its tombstone is remembered."""
        return (_SILENCE, silence_id) in self._withdrawn

    def is_ack_withdrawn(self, fingerprint: str) -> bool:
        """Return whether an acknowledgement was withdrawn and its tombstone is remembered."""
        return (_ACK, fingerprint) in self._withdrawn

    def take_changes(self) -> list[SilencesChange]:
        """Return the changes since the last call, oldest first."""
        changes = list(self.changes)
        self.changes.clear()
        return changes

    def next_ack_revision(self, fingerprint: str) -> int:
        """Return the revision of the next message about the acknowledgement of an alert."""
        return _following(self._acks.get(fingerprint), self._withdrawn.get((_ACK, fingerprint)))

    def put_ack(self, message: AckMessage) -> None:
        """Apply an acknowledgement or its withdrawal.

        Ignore it if a later message is known.

        Raises:
            WireError: it ends before it begins.
        """
        at_ns, ends_ns = _span(message.at, message.until, "AckMessage")
        ack = Ack(
            message.fingerprint, message.owner, message.note, at_ns, ends_ns, message.revision
        )
        known = self._acks.get(ack.fingerprint)
        edition = edition_of(message)
        if not self._takes(
            (_ACK, ack.fingerprint), None if known is None else _edition(known), edition
        ):
            return
        if edition.withdrawn_until_ns is not None:
            former = self._acks.pop(ack.fingerprint, None)
            if former is not None:
                self._changed(SilencesChange("withdrawn", former, message.owner, message.alert))
            return
        if self._acks.get(ack.fingerprint) != ack:
            self._acks[ack.fingerprint] = ack
            self._changed(SilencesChange("set", ack, ack.owner, message.alert))

    def remove_ack(self, fingerprint: str) -> None:
        """Forget an acknowledgement that was cleared."""
        self._withdrawn.pop((_ACK, fingerprint), None)
        former = self._acks.pop(fingerprint, None)
        if former is not None:
            self._changed(SilencesChange("cleared", former, former.owner))

    def put_silence(self, message: SilenceMessage) -> None:
        """Apply a silence or its withdrawal.

        Ignore it if a later message is known.

        Raises:
            WireError: a matcher is invalid, or it ends before it begins.
        """
        try:
            matchers = parse_matchers(message.matchers)
        except ConfigError as error:
            raise WireError(f"SilenceMessage {error}") from error
        starts_ns, ends_ns = _span(message.starts, message.until, "SilenceMessage")
        silence = Silence(
            message.id,
            matchers,
            starts_ns,
            ends_ns,
            message.who,
            message.why,
            message.revision,
            message.source,
            message.not_applied,
        )
        known = self._silences.get(silence.id)
        edition = edition_of(message)
        if not self._takes(
            (_SILENCE, silence.id), None if known is None else _edition(known), edition
        ):
            return
        if edition.withdrawn_until_ns is not None:
            self._forget_silence(silence.id, "withdrawn", message.who)
            return
        if self._silences.get(silence.id) != silence:
            self._silences[silence.id] = silence
            self._covering.clear()
            self._changed(SilencesChange("set", silence, silence.whose))

    def remove_silence(self, silence_id: str) -> None:
        """Forget a silence that was cleared."""
        self._withdrawn.pop((_SILENCE, silence_id), None)
        self._forget_silence(silence_id, "cleared")

    def _forget_silence(
        self, silence_id: str, kind: Literal["withdrawn", "cleared"], who: str = ""
    ) -> None:
        former = self._silences.pop(silence_id, None)
        if former is not None:
            self._covering.clear()
            self._changed(SilencesChange(kind, former, who or former.whose))

    def _changed(self, change: SilencesChange) -> None:
        self.changes.append(change)
        self.happened += 1
        self.revision += 1

    def _takes(self, name: tuple[str, str], known: Edition | None, edition: Edition) -> bool:
        """Return whether a message counts, and remember it where it is a withdrawal."""
        former = self._withdrawn.get(name) or known
        if former is not None and not former.is_replaced_by(edition):
            return False
        self._withdrawn.pop(name, None)
        if edition.withdrawn_until_ns is not None:
            self._withdrawn[name] = edition
            if len(self._withdrawn) > MOST_WITHDRAWN:
                by_end = sorted(
                    self._withdrawn.items(), key=lambda pair: pair[1].withdrawn_until_ns or 0
                )
                self._withdrawn = dict(by_end[MOST_WITHDRAWN // 10 :])
        return True

    def resolve(self, alert: Alert, now_ns: int) -> None:
        """End the earlier acknowledgement of a resolved alert."""
        ack = self._acks.get(alert.fingerprint)
        if ack is not None and ack.at_ns <= now_ns:
            self._spent.add((ack.fingerprint, ack.at_ns))
            self._spent &= {(other.fingerprint, other.at_ns) for other in self._acks.values()}
            self.revision += 1

    def ack_of(self, alert: Alert, now_ns: int) -> Ack | None:
        """Return the acknowledgement in force for an alert.

        None without one.

        For an alert of a cell it is the cell's.
        """
        ack = alert.cell_ack if alert.cell else self._acks.get(alert.fingerprint)
        if ack is None or (ack.fingerprint, ack.at_ns) in self._spent:
            return None
        # One given a moment ahead of our time, by another's clock, is given.
        return None if ack.span(max(now_ns, ack.at_ns)) is Span.OVER else ack

    def silences_of(self, alert: Alert, now_ns: int) -> list[Silence]:
        """Return the silences that hide an alert now."""
        return [silence for silence in self.matching(alert) if silence.span(now_ns) is Span.ACTIVE]

    def matching(self, alert: Alert) -> tuple[Silence, ...]:
        """Return the silences that match an alert, of any time.

        One of a cell only by the cell's, for its watch knows no others.
        """
        if alert.cell:
            return () if alert.cell_silence is None else (alert.cell_silence,)
        covering = self._covering.get(alert.fingerprint)
        if covering is None or covering[0] is not alert.labels:
            if len(self._covering) >= MOST_WITHDRAWN:
                self._covering.clear()
            covering = (
                alert.labels,
                tuple(
                    silence for silence in self._silences.values() if silence.covers(alert.labels)
                ),
            )
            self._covering[alert.fingerprint] = covering
        return covering[1]

    def status(self, alert: Alert, now_ns: int) -> AlertStatus:
        """Return the status of an alert, used by every list, count and notification."""
        if alert.state is AlertState.PENDING:
            return AlertStatus.PENDING
        if alert.state is not AlertState.FIRING:
            return AlertStatus.RESOLVED
        if alert.inhibited_by:
            return AlertStatus.INHIBITED
        if self.silences_of(alert, now_ns):
            return AlertStatus.SILENCED
        return AlertStatus.ACKED if self.ack_of(alert, now_ns) is not None else AlertStatus.FIRING


def edition_of(message: AckMessage | SilenceMessage) -> Edition:
    """Return the edition of a message.

    It decides whether the message counts.
    """
    begins = message.starts if isinstance(message, SilenceMessage) else message.at
    withdrawn_until = message.withdrawn_until
    return Edition(
        message.revision,
        parse_rfc3339(begins),
        None if withdrawn_until is None else parse_rfc3339(withdrawn_until),
    )


def _edition(known: Ack | Silence) -> Edition:
    return Edition(known.revision, known.starts_ns if isinstance(known, Silence) else known.at_ns)


def _following(known: Ack | Silence | None, withdrawn: Edition | None) -> int:
    return (
        max(known.revision if known is not None else 0, withdrawn.revision if withdrawn else 0) + 1
    )


def _span(begins: str, ends: str, model: str) -> tuple[int, int]:
    begins_ns = parse_rfc3339(begins)
    ends_ns = parse_rfc3339(ends)
    if ends_ns <= begins_ns:
        raise WireError(f"{model}: it ends before it begins")
    return begins_ns, ends_ns
