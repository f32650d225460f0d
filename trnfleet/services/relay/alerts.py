"""The alerts of a cell on the top broker.

They are the alerts of its watch, each with its acknowledgement or silence in the cell. The
monitor's state is compared with the last publication, so an alert that ends while no relay runs
does not stay.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from trnfleet.clock import format_rfc3339
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.monitor.alerting.cells import alert_of
from trnfleet.services.relay.passed import MOST_AT_ONCE
from trnfleet.wire.alerts import AlertMessage, CellAlertMessage, Handling
from trnfleet.wire.limits import DEFAULT_LIMITS
from trnfleet.wire.messages import message_envelope
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.services.relay.role import RelayIdentity

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
