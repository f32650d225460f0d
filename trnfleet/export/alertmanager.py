"""Alertmanager, by its API v2: firing alerts are repeated, and resolved ones for a while."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trnfleet import logs
from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.export.http import Outcome, make_client, post_json
from trnfleet.export.notification import annotations_of, labels_of, links_of
from trnfleet.export.receiver import Receiver, finished_within, pause_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx

    from trnfleet.clock import Clock
    from trnfleet.export.http import Target
    from trnfleet.export.notification import Notification

log = logs.get_logger(__name__)

REPEATED_EVERY_S = 60.0
HOLDS_S = 240.0
"""`endsAt` of a firing alert is this far ahead, as Prometheus does: without repeats, Alertmanager resolves it by itself."""
RESOLVED_FOR_S = 900.0
"""Time for which a resolved alert is repeated, for an Alertmanager that was unreachable."""
MOST_OF_ONE = 500
"""Alerts of one request."""


@dataclass(slots=True)
class _Kept:
    """An alert that is sent to Alertmanager."""

    notification: Notification
    is_due: bool
    sent_s: float = 0.0
    resolved_s: float | None = None
    """Monotonic seconds at which its end was first delivered."""
    is_refused: bool = False


class AlertmanagerReceiver(Receiver):
    """Sends to one Alertmanager. Only the newest state of an alert is queued, so the queue is as large as the fleet's alerts."""

    repeats = True

    def __init__(
        self, name: str, target: Target, clock: Clock, *, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        """Describe the receiver; it connects with the first notification.

        Args:
            name: Its name.
            target: Alertmanager's own URL, without `/api/v2/alerts`.
            clock: The time to go by.
            transport: For tests: what answers in place of a network.
        """
        super().__init__(name, clock)
        self._target = target
        self._url = target.url.rstrip("/") + "/api/v2/alerts"
        self._transport = transport
        self._kept: dict[str, _Kept] = {}
        self._changed = asyncio.Event()

    def notify(self, notifications: Sequence[Notification]) -> int:
        for notification in notifications:
            self._kept[notification.fingerprint] = _Kept(notification, is_due=True)
        self._count()
        self._changed.set()
        return len(notifications)

    def refresh(self, notification: Notification) -> None:
        """Replace a notification by a newer one, or take on one that a former `watch` delivered."""
        kept = self._kept.get(notification.fingerprint)
        if kept is None:
            self._kept[notification.fingerprint] = _Kept(notification, is_due=True)
            self._count()
            self._changed.set()
        elif kept.notification.mark == notification.mark:
            kept.notification = notification

    def end_leadership(self) -> None:
        """Forget everything; the leader repeats it from here on."""
        self._kept.clear()
        self._count()

    async def run(self) -> None:
        """Send changes at once and everything else every minute, until cancelled."""
        attempt = 0
        async with make_client(self._target, self._transport) as client:
            while True:
                due = self._due()
                if not due:
                    self._changed.clear()
                    await finished_within(self._changed.wait(), self.clock, self._idle_s())
                    continue
                if await self._send(client, due[:MOST_OF_ONE]):
                    attempt = 0
                    continue
                self.tally.retried += 1
                await self.clock.sleep(pause_s(attempt))
                attempt += 1

    def _due(self) -> list[_Kept]:
        """Return what is to be sent now, changes first; forget what has resolved long ago."""
        now_s = self.clock.monotonic_s()
        over = [
            fingerprint
            for fingerprint, kept in self._kept.items()
            if kept.resolved_s is not None and now_s - kept.resolved_s >= RESOLVED_FOR_S
        ]
        for fingerprint in over:
            del self._kept[fingerprint]
        repeated = [
            kept
            for kept in self._kept.values()
            if not kept.is_due and not kept.is_refused and now_s - kept.sent_s >= REPEATED_EVERY_S
        ]
        return [kept for kept in self._kept.values() if kept.is_due] + repeated

    def _idle_s(self) -> float:
        now_s = self.clock.monotonic_s()
        waits = [
            REPEATED_EVERY_S - (now_s - kept.sent_s) for kept in self._kept.values() if not kept.is_refused
        ]
        return max(0.05, min([REPEATED_EVERY_S, *waits]))

    async def _send(self, client: httpx.AsyncClient, batch: list[_Kept]) -> bool:
        """Send a batch; return whether it is settled, which a refusal does, too."""
        wall_ns = self.clock.wall_ns()
        sent = [kept.notification for kept in batch]
        answer = await post_json(
            client, self._url, [_alert(notification, wall_ns) for notification in sent], self.clock
        )
        if answer.outcome is Outcome.FAILED:
            self._log_failure("alertmanager_unreachable", answer.why)
            return False
        if answer.outcome is Outcome.REFUSED and len(batch) > 1:
            # One bad alert must not keep the others out: halves find it.
            half = len(batch) // 2
            return await self._send(client, batch[:half]) and await self._send(client, batch[half:])
        now_s = self.clock.monotonic_s()
        for kept, notification in zip(batch, sent, strict=True):
            kept.sent_s = now_s
            if kept.notification.mark == notification.mark:
                was_due, kept.is_due = kept.is_due, False
            else:
                was_due = True
            if answer.outcome is Outcome.REFUSED:
                kept.is_refused = True
                self.tally.refused += 1
                self._log_failure("alertmanager_refused", answer.why, alert=notification.fingerprint)
                continue
            if not notification.is_firing and kept.resolved_s is None:
                kept.resolved_s = now_s
            if was_due:
                self.tally.delivered += 1
                self.confirm(notification)
        if answer.outcome is Outcome.DONE:
            self.tally.last_error = ""
        self._count()
        return True

    def _count(self) -> None:
        self.tally.waiting = sum(kept.is_due for kept in self._kept.values())

    def _log_failure(self, event: str, why: str, **more: str) -> None:
        if self.tally.last_error != why:
            # An outage is logged once, not with every attempt.
            log.warning(event, receiver=self.name, to=str(self._target), reason=why, **more)
        self.tally.last_error = why


def _alert(notification: Notification, wall_ns: int) -> dict[str, Any]:
    """Return the alert as the API takes it."""
    ends_ns = wall_ns + round(HOLDS_S * NS_PER_S) if notification.ends_ns is None else notification.ends_ns
    return {
        "labels": labels_of(notification.message),
        "annotations": annotations_of(notification.message),
        "startsAt": format_rfc3339(notification.starts_ns),
        # An end that is not after the beginning is refused.
        "endsAt": format_rfc3339(max(ends_ns, notification.starts_ns + 1_000_000)),
        **links_of(notification.message),
    }
