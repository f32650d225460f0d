"""Silences and acknowledgements of one fleet, as they are retained on the broker, and the status that follows for an alert."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.clock import parse_rfc3339
from trnfleet.domain.alerts.matchers import parse_matchers
from trnfleet.domain.alerts.silences import Ack, Silence, Span
from trnfleet.domain.alerts.status import AlertState, AlertStatus
from trnfleet.errors import ConfigError, WireError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.wire.alerts import AckMessage, SilenceMessage


MOST_COVERING = 50_000
"""Alerts whose silences are remembered."""


class Silences:
    """The acknowledgements and silences of one fleet."""

    def __init__(self) -> None:
        self.revision = 0
        """Goes up with every change."""
        self._acks: dict[str, Ack] = {}
        self._silences: dict[str, Silence] = {}
        self._covering: dict[str, tuple[Mapping[str, str], tuple[Silence, ...]]] = {}
        """The silences that cover each alert's labels, whenever they are; labels are replaced and never changed."""
        self._spent: set[tuple[str, int]] = set()
        """Acknowledgements of alerts that have resolved since, by fingerprint and instant."""

    @property
    def acks(self) -> Iterable[Ack]:
        """All that are known, also those that are over."""
        return self._acks.values()

    @property
    def known(self) -> Iterable[Silence]:
        """All that are known, also those that are over or to come."""
        return self._silences.values()

    def count(self) -> tuple[int, int]:
        """Return how many acknowledgements and silences are known."""
        return len(self._acks), len(self._silences)

    def has_ack(self, fingerprint: str) -> bool:
        """Return whether an alert has an acknowledgement, also one that is over."""
        return fingerprint in self._acks

    def silence(self, silence_id: str) -> Silence | None:
        """Return a silence."""
        return self._silences.get(silence_id)

    def put_ack(self, message: AckMessage) -> None:
        """Take an acknowledgement.

        Raises:
            WireError: it ends before it begins.
        """
        at_ns, ends_ns = _span(message.at, message.until, "AckMessage")
        ack = Ack(message.fingerprint, message.owner, message.note, at_ns, ends_ns)
        if self._acks.get(ack.fingerprint) != ack:
            self._acks[ack.fingerprint] = ack
            self.revision += 1

    def remove_ack(self, fingerprint: str) -> None:
        """Forget an acknowledgement that was cleared."""
        if self._acks.pop(fingerprint, None) is not None:
            self.revision += 1

    def put_silence(self, message: SilenceMessage) -> None:
        """Take a silence.

        Raises:
            WireError: a matcher is none, or it ends before it begins.
        """
        try:
            matchers = parse_matchers(message.matchers)
        except ConfigError as error:
            raise WireError(f"SilenceMessage {error}") from error
        starts_ns, ends_ns = _span(message.starts, message.until, "SilenceMessage")
        silence = Silence(message.id, matchers, starts_ns, ends_ns, message.who, message.why)
        if self._silences.get(silence.id) != silence:
            self._silences[silence.id] = silence
            self._covering.clear()
            self.revision += 1

    def remove_silence(self, silence_id: str) -> None:
        """Forget a silence that was cleared."""
        if self._silences.pop(silence_id, None) is not None:
            self._covering.clear()
            self.revision += 1

    def resolve(self, alert: Alert, now_ns: int) -> None:
        """End the acknowledgement of an alert that has resolved, if it was given before."""
        ack = self._acks.get(alert.fingerprint)
        if ack is not None and ack.at_ns <= now_ns:
            self._spent.add((ack.fingerprint, ack.at_ns))
            self._spent &= {(each.fingerprint, each.at_ns) for each in self._acks.values()}
            self.revision += 1

    def ack_of(self, alert: Alert, now_ns: int) -> Ack | None:
        """Return the acknowledgement under which an alert is; None for none."""
        ack = self._acks.get(alert.fingerprint)
        if ack is None or (ack.fingerprint, ack.at_ns) in self._spent:
            return None
        # One given a moment ahead of our time, by another's clock, is given.
        return None if ack.span(max(now_ns, ack.at_ns)) is Span.OVER else ack

    def silences_of(self, alert: Alert, now_ns: int) -> list[Silence]:
        """Return the silences that hide an alert now."""
        kept = self._covering.get(alert.fingerprint)
        if kept is None or kept[0] is not alert.labels:
            if len(self._covering) >= MOST_COVERING:
                self._covering.clear()
            kept = alert.labels, tuple(each for each in self._silences.values() if each.covers(alert.labels))
            self._covering[alert.fingerprint] = kept
        return [silence for silence in kept[1] if silence.span(now_ns) is Span.ACTIVE]

    def status(self, alert: Alert, now_ns: int) -> AlertStatus:
        """Return the status of an alert; every list, count and notification goes by it."""
        if alert.state is AlertState.PENDING:
            return AlertStatus.PENDING
        if alert.state is not AlertState.FIRING:
            return AlertStatus.RESOLVED
        if alert.inhibited_by:
            return AlertStatus.INHIBITED
        if self.silences_of(alert, now_ns):
            return AlertStatus.SILENCED
        return AlertStatus.ACKED if self.ack_of(alert, now_ns) is not None else AlertStatus.FIRING


def _span(begins: str, ends: str, model: str) -> tuple[int, int]:
    begins_ns, ends_ns = parse_rfc3339(begins), parse_rfc3339(ends)
    if ends_ns <= begins_ns:
        raise WireError(f"{model}: it ends before it begins")
    return begins_ns, ends_ns
