"""Alertmanager, by its API v2: firing alerts are repeated, and resolved ones for a while."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from trnfleet import logs
from trnfleet.clock import NS_PER_MS, NS_PER_S, Clock, format_rfc3339, parse_rfc3339
from trnfleet.domain.alerts.watches import ReceiverError, ReceiverErrors
from trnfleet.export.http import Answer, HttpTarget, RequestOutcome, make_client, request_json
from trnfleet.export.notification import Notification, annotations_of, labels_of, links_of
from trnfleet.export.other_clock import SKEW_NS, OtherClock, stepped_ns
from trnfleet.export.receiver import (
    MOST_AT_ONCE,
    RESOLVED_FOR_S,
    Receiver,
    finished_within,
    pause_s,
)

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    import httpx


log = logs.get_logger(__name__)

REPEATED_EVERY_S = 60.0
HOLDS_S = 240.0
"""`endsAt` of a firing alert is this far ahead, as in Prometheus. Without repeats, Alertmanager
resolves it by itself."""
SETTLES_S = 5.0
"""Seconds without repeats after a wait that overran by as much.

A stopped process or a sleeping machine is the cause. A lost connection shows, and alerts that are
over end.
"""


@dataclass(slots=True)
class _AlertState:
    """An alert for Alertmanager."""

    notification: Notification
    is_due: bool
    sent_s: float = 0.0
    resolved_s: float | None = None
    """Monotonic seconds of the first delivery of its end."""
    refusal: str = ""
    """Reason why Alertmanager refuses it; empty where it does not."""
    wall_ns: int = 0
    """Wall clock at its arrival; its times refer to it."""
    mono_s: float = 0.0
    """Monotonic seconds then."""


class AlertmanagerReceiver(Receiver):
    """Sends to one Alertmanager.

    Only the newest state of an alert is queued, so the queue is as large as the fleet's alerts.

    Alertmanager compares times with its own clock: an end in our future may be in its past. Times
    sent are by Alertmanager's clock, known from its answers.
    """

    repeats = True

    def __init__(
        self,
        name: str,
        target: HttpTarget,
        clock: Clock,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Describe the receiver; it connects with the first notification.

        Args:
            name: Its name.
            target: Alertmanager's own URL, without `/api/v2/alerts`.
            clock: The clock.
            transport: For tests: replaces the network.
        """
        super().__init__(name, clock)
        self._target = target
        self._url = target.url.rstrip("/") + "/api/v2/alerts"
        self._transport = transport
        self._kept: dict[str, _AlertState] = {}
        self._changed = asyncio.Event()
        self._there = OtherClock(clock)
        self._refused: dict[str, str] = {}
        """Reasons of refused alerts, by fingerprint."""
        self._unreachable = ""
        """Reason why nothing is taken; empty while alerts are."""
        self._is_sure = True
        """Whether this watch knows that it leads."""

    def notify(self, notifications: Sequence[Notification]) -> int:
        for notification in notifications:
            self._keep(notification)
        self._count()
        self._changed.set()
        return len(notifications)

    def refresh(self, notification: Notification) -> None:
        """Replace a notification by a newer one, or add one delivered by another `watch`.

        Also an end of an alert repeated here.
        """
        alert = self._kept.get(notification.fingerprint)
        if alert is None or alert.notification.mark != notification.mark:
            self._keep(notification)
            self._count()
            self._changed.set()
        else:
            alert.notification = notification
            alert.wall_ns, alert.mono_s = self.clock.wall_ns(), self.clock.monotonic_s()

    def errors(self) -> ReceiverErrors:
        """Return refused alerts, and the reason if Alertmanager is unreachable."""
        of_all = (
            [ReceiverError(self.name, "alerts", "", self._unreachable)] if self._unreachable else []
        )
        of_one = (ReceiverError(self.name, "alert", *refusal) for refusal in self._refused.items())
        return ReceiverErrors.of(len(of_all) + len(self._refused), itertools.chain(of_all, of_one))

    def note_failure(self, why: str) -> None:
        """Note why nothing can be delivered."""
        self._log_failure("receiver_failed", why)

    def set_sure(self, is_sure: bool) -> None:
        """Repeat all alerts if sure, else only firing ones known to Alertmanager."""
        self._is_sure = is_sure

    def end_leadership(self, own: Container[str] = ()) -> None:
        """Forget everything except waiting ends of `own`.

        From now on the leader repeats the rest.
        """
        self._is_sure = False
        self._kept = {
            fingerprint: alert
            for fingerprint, alert in self._kept.items()
            if fingerprint in own and alert.is_due and not alert.notification.is_firing
        }
        self._count()

    async def run(self) -> None:
        """Send changes at once and everything else every minute, until cancelled."""
        attempt = 0
        async with make_client(self._target, self._transport) as client:
            while True:
                due = self._due()
                if not due:
                    await self._idle()
                    continue
                repeated = [alert for alert in due if not alert.is_due]
                if repeated and not self._is_sure:
                    is_settled = await self._leave_out_ended(client, repeated)
                    due = self._due()
                else:
                    is_settled = True
                if is_settled and (not due or await self._send(client, due[:MOST_AT_ONCE])):
                    attempt = 0
                    continue
                await self.clock.sleep(pause_s(attempt))
                attempt += 1

    def _keep(self, notification: Notification) -> None:
        self._kept[notification.fingerprint] = _AlertState(
            notification, is_due=True, wall_ns=self.clock.wall_ns(), mono_s=self.clock.monotonic_s()
        )

    def _due(self) -> list[_AlertState]:
        """Return the alerts to send now, changes first; forget long resolved ones."""
        now_s = self.clock.monotonic_s()
        over = [
            fingerprint
            for fingerprint, alert in self._kept.items()
            if alert.resolved_s is not None and now_s - alert.resolved_s >= RESOLVED_FOR_S
        ]
        for fingerprint in over:
            del self._kept[fingerprint]
        repeated = [
            alert
            for alert in self._kept.values()
            if not alert.is_due
            and not alert.refusal
            and now_s - alert.sent_s >= REPEATED_EVERY_S
            # A repeated end could end an alert that fires again, as sent by another watch.
            and (self._is_sure or alert.notification.is_firing)
        ]
        return [alert for alert in self._kept.values() if alert.is_due] + repeated

    async def _idle(self) -> None:
        """Wait for changes, or until something is to be repeated."""
        now_s = self.clock.monotonic_s()
        waits = [
            REPEATED_EVERY_S - (now_s - alert.sent_s)
            for alert in self._kept.values()
            if not alert.refusal and (self._is_sure or alert.notification.is_firing)
        ]
        idle_s = max(0.05, min([REPEATED_EVERY_S, *waits]))
        self._changed.clear()
        await finished_within(self._changed.wait(), self.clock, idle_s)
        if self.clock.monotonic_s() - now_s > idle_s + SETTLES_S:
            await self.clock.sleep(SETTLES_S)

    async def _leave_out_ended(
        self, client: httpx.AsyncClient, repeated: Sequence[_AlertState]
    ) -> bool:
        """Skip repeats of alerts ended by another watch; return whether Alertmanager answered.

        Alertmanager no longer has these alerts. An Alertmanager that restarted since they were sent
        has forgotten them: it gets all.
        """
        base = self._target.url.rstrip("/") + "/api/v2"
        fleet = quote(f'fleet="{repeated[0].notification.fleet}"')
        answers = [
            await request_json(client, "GET", base + path, self.clock, is_read=True)
            for path in ("/status", f"/alerts?filter={fleet}")
        ]
        for answer in answers:
            if answer.outcome is RequestOutcome.FAILED:
                self._log_failure("alertmanager_unreachable", answer.why)
                return False
        try:
            begun_ns = parse_rfc3339(answers[0].content["uptime"]) - self._there.ahead_ns
            active = {frozenset(listed["labels"].items()) for listed in answers[1].content}
        except (TypeError, KeyError, ValueError, OverflowError, AttributeError):
            # Something else that takes alerts, and does not tell which it has.
            return True
        now_s = self.clock.monotonic_s()
        wall_ns = self.clock.wall_ns()
        for alert in repeated:
            sent_ns = wall_ns - round((now_s - alert.sent_s) * NS_PER_S)
            if (
                begun_ns < sent_ns
                and frozenset(labels_of(alert.notification.message).items()) not in active
            ):
                alert.sent_s = now_s
        return True

    async def _send(self, client: httpx.AsyncClient, batch: list[_AlertState]) -> bool:
        """Send a batch; return whether it is settled.

        A refusal settles it, too.
        """
        if self._there.has_stepped and not await self._asks_clock(client):
            return False
        sent = [alert.notification for alert in batch]
        answer = await self._post(client, batch)
        if self._learns_clock(answer):
            # The times sent were wrong: firing alerts may be over there.
            sent = [alert.notification for alert in batch]
            answer = await self._post(client, batch)
        if answer.outcome is RequestOutcome.FAILED:
            self._log_failure("alertmanager_unreachable", answer.why)
            return False
        if answer.outcome is RequestOutcome.REFUSED and len(batch) > 1:
            # One bad alert must not keep the others out: halves find it.
            half = len(batch) // 2
            return await self._send(client, batch[:half]) and await self._send(client, batch[half:])
        now_s = self.clock.monotonic_s()
        for alert, notification in zip(batch, sent, strict=True):
            alert.sent_s = now_s
            if alert.notification.mark == notification.mark:
                was_due = alert.is_due
                alert.is_due = False
            else:
                was_due = True
            if answer.outcome is RequestOutcome.REFUSED:
                alert.refusal = answer.why
                self.tally.refused += 1
                self._log_failure(
                    "alertmanager_refused", answer.why, alert=notification.fingerprint
                )
                if not alert.is_due and not notification.is_firing:
                    # What never began there need not end.
                    self._kept.pop(notification.fingerprint, None)
                continue
            alert.refusal = ""
            if not notification.is_firing and alert.resolved_s is None:
                alert.resolved_s = now_s
            if was_due:
                self.tally.delivered += 1
                self.confirm(notification)
        if answer.outcome is RequestOutcome.DONE:
            self.tally.last_error = self._unreachable = ""
        self._count()
        return True

    async def _post(self, client: httpx.AsyncClient, batch: list[_AlertState]) -> Answer:
        ahead_ns = self._there.ahead_ns
        there_ns = self.clock.wall_ns() + ahead_ns
        alerts = []
        for alert in batch:
            shift_ns = stepped_ns((alert.wall_ns, alert.mono_s), self.clock) + ahead_ns
            alerts.append(
                _alert(alert.notification, there_ns, shift_ns if abs(shift_ns) > SKEW_NS else 0)
            )
        return await request_json(client, "POST", self._url, self.clock, alerts)

    async def _asks_clock(self, client: httpx.AsyncClient) -> bool:
        """Ask for Alertmanager's clock before a wrong one is used; return whether it answered."""
        url = self._target.url.rstrip("/") + "/api/v2/status"
        answer = await request_json(client, "GET", url, self.clock)
        if answer.outcome is RequestOutcome.FAILED:
            self._log_failure("alertmanager_unreachable", answer.why)
            return False
        self._learns_clock(answer)
        self._there.confirm()
        return True

    def _learns_clock(self, answer: Answer) -> bool:
        """Read Alertmanager's clock from an answer; return whether it changed."""
        if not self._there.learn(answer.date_ns):
            return False
        log.warning(
            "alertmanager_clock_differs",
            receiver=self.name,
            to=str(self._target),
            ahead_s=self._there.ahead_ns // NS_PER_S,
        )
        return True

    def _count(self) -> None:
        self.tally.waiting = sum(alert.is_due for alert in self._kept.values())
        self._refused = {
            fingerprint: alert.refusal for fingerprint, alert in self._kept.items() if alert.refusal
        }

    def _log_failure(self, event: str, why: str, **more: str) -> None:
        if self.tally.last_error != why:
            # An outage is logged once, not with every attempt.
            log.warning(event, receiver=self.name, to=str(self._target), reason=why, **more)
        self.tally.last_error = why
        self._unreachable = "" if event == "alertmanager_refused" else why


def _alert(notification: Notification, now_ns: int, shift_ns: int) -> dict[str, Any]:
    """Return the alert in the form of the API.

    Args:
        notification: The alert.
        now_ns: Alertmanager's clock.
        shift_ns: Added to the alert's times for that clock.
    """
    if notification.ends_ns is None:
        ends_ns = now_ns + round(HOLDS_S * NS_PER_S)
    else:
        ends_ns = notification.ends_ns + shift_ns
    starts_ns = notification.starts_ns + shift_ns
    return {
        "labels": labels_of(notification.message),
        "annotations": annotations_of(notification),
        "startsAt": format_rfc3339(starts_ns),
        # An end that is not after the beginning is refused.
        "endsAt": format_rfc3339(max(ends_ns, starts_ns + NS_PER_MS)),
        **links_of(notification.message),
    }
