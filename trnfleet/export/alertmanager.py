"""Alertmanager, by its API v2: firing alerts are repeated, and resolved ones for a while."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from trnfleet import logs
from trnfleet.clock import NS_PER_S, format_rfc3339, parse_rfc3339
from trnfleet.domain.alerts.watches import ReceiverError, ReceiverErrors
from trnfleet.export.http import Outcome, make_client, post_json, request_json
from trnfleet.export.notification import annotations_of, labels_of, links_of
from trnfleet.export.other_clock import SKEW_NS, OtherClock, stepped_ns
from trnfleet.export.receiver import Receiver, finished_within, pause_s

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    import httpx

    from trnfleet.clock import Clock
    from trnfleet.export.http import Answer, Target
    from trnfleet.export.notification import Notification

log = logs.get_logger(__name__)

REPEATED_EVERY_S = 60.0
HOLDS_S = 240.0
"""`endsAt` of a firing alert is this far ahead, as Prometheus does: without repeats, Alertmanager resolves it by itself."""
RESOLVED_FOR_S = 900.0
"""Time for which a resolved alert is repeated, for an Alertmanager that was unreachable."""
MOST_OF_ONE = 500
"""Alerts of one request."""
MOST_BYTES = 16 * 2**20
"""Longest list of alerts that is read: some 10,000."""
STOPPED_S = 10.0
"""A wait that was longer by that than asked for: the process was stopped, or the machine asleep."""
SETTLES_S = 5.0
"""Time after that in which a lost connection shows, and alerts that are over end, before any is repeated."""


@dataclass(slots=True)
class _Kept:
    """An alert that is sent to Alertmanager."""

    notification: Notification
    is_due: bool
    sent_s: float = 0.0
    resolved_s: float | None = None
    """Monotonic seconds at which its end was first delivered."""
    refusal: str = ""
    """Reason why Alertmanager refuses it; empty where it does not."""
    wall_ns: int = 0
    """Wall clock when it came, which its times go by."""
    mono_s: float = 0.0
    """Monotonic seconds then."""


class AlertmanagerReceiver(Receiver):
    """Sends to one Alertmanager. Only the newest state of an alert is queued, so the queue is as large as the fleet's alerts.

    Alertmanager compares times with its own clock: an end that lies ahead for us may be past there. What is sent goes by the clock
    that its answers tell.
    """

    repeats = True

    def __init__(
        self,
        name: str,
        target: Target,
        clock: Clock,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
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
        self._there = OtherClock(clock)
        self._refused: dict[str, str] = {}
        """Reasons of alerts that it refuses, by fingerprint."""
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
        """Replace a notification by a newer one, or take on one that another `watch` delivered: also an end of what is repeated here."""
        kept = self._kept.get(notification.fingerprint)
        if kept is None or kept.notification.mark != notification.mark:
            self._keep(notification)
            self._count()
            self._changed.set()
        else:
            kept.notification = notification
            kept.wall_ns, kept.mono_s = self.clock.wall_ns(), self.clock.monotonic_s()

    def errors(self) -> ReceiverErrors:
        """Return the alerts that it refuses, and why it takes none where it cannot be reached."""
        of_all = (
            [ReceiverError(self.name, "alerts", "", self._unreachable)] if self._unreachable else []
        )
        of_one = (ReceiverError(self.name, "alert", *each) for each in self._refused.items())
        return ReceiverErrors.of(len(of_all) + len(self._refused), itertools.chain(of_all, of_one))

    def set_sure(self, is_sure: bool) -> None:
        """Repeat everything, or of what fires only what Alertmanager has."""
        self._is_sure = is_sure

    def end_leadership(self, own: Container[str] = ()) -> None:
        """Forget everything but ends of `own` that wait; the leader repeats the rest from here on."""
        self._is_sure = False
        self._kept = {
            fingerprint: kept
            for fingerprint, kept in self._kept.items()
            if fingerprint in own and kept.is_due and not kept.notification.is_firing
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
                repeated = [kept for kept in due if not kept.is_due]
                if repeated and not self._is_sure:
                    is_settled = await self._leave_out_ended(client, repeated)
                    due = self._due()
                else:
                    is_settled = True
                if is_settled and (not due or await self._send(client, due[:MOST_OF_ONE])):
                    attempt = 0
                    continue
                self.tally.retried += 1
                await self.clock.sleep(pause_s(attempt))
                attempt += 1

    def _keep(self, notification: Notification) -> None:
        self._kept[notification.fingerprint] = _Kept(
            notification, is_due=True, wall_ns=self.clock.wall_ns(), mono_s=self.clock.monotonic_s()
        )

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
            if not kept.is_due
            and not kept.refusal
            and now_s - kept.sent_s >= REPEATED_EVERY_S
            # An end that is repeated could end what has begun again, and another watch told.
            and (self._is_sure or kept.notification.is_firing)
        ]
        return [kept for kept in self._kept.values() if kept.is_due] + repeated

    async def _idle(self) -> None:
        """Wait for changes, or until something is to be repeated."""
        now_s = self.clock.monotonic_s()
        waits = [
            REPEATED_EVERY_S - (now_s - kept.sent_s)
            for kept in self._kept.values()
            if not kept.refusal and (self._is_sure or kept.notification.is_firing)
        ]
        idle_s = max(0.05, min([REPEATED_EVERY_S, *waits]))
        self._changed.clear()
        await finished_within(self._changed.wait(), self.clock, idle_s)
        if self.clock.monotonic_s() - now_s > idle_s + STOPPED_S:
            await self.clock.sleep(SETTLES_S)

    async def _leave_out_ended(self, client: httpx.AsyncClient, repeated: Sequence[_Kept]) -> bool:
        """Leave out repeats of alerts that another watch has ended, for Alertmanager has them no more; return whether it answered.

        One that has begun since they were sent has forgotten them: it gets all.
        """
        base = self._target.url.rstrip("/") + "/api/v2"
        fleet = quote(f'fleet="{repeated[0].notification.fleet}"')
        answers = [
            await request_json(client, "GET", base + path, self.clock, most_bytes=MOST_BYTES)
            for path in ("/status", f"/alerts?filter={fleet}")
        ]
        for answer in answers:
            if answer.outcome is Outcome.FAILED:
                self._log_failure("alertmanager_unreachable", answer.why)
                return False
        try:
            begun_ns = parse_rfc3339(answers[0].content["uptime"]) - self._there.ahead_ns
            active = {frozenset(each["labels"].items()) for each in answers[1].content}
        except (TypeError, KeyError, ValueError, OverflowError, AttributeError):
            # Something else that takes alerts, and does not tell which it has.
            return True
        now_s, wall_ns = self.clock.monotonic_s(), self.clock.wall_ns()
        for kept in repeated:
            sent_ns = wall_ns - round((now_s - kept.sent_s) * NS_PER_S)
            if (
                begun_ns < sent_ns
                and frozenset(labels_of(kept.notification.message).items()) not in active
            ):
                kept.sent_s = now_s
        return True

    async def _send(self, client: httpx.AsyncClient, batch: list[_Kept]) -> bool:
        """Send a batch; return whether it is settled, which a refusal does, too."""
        if self._there.has_stepped and not await self._asks_clock(client):
            return False
        sent = [kept.notification for kept in batch]
        answer = await self._post(client, batch)
        if self._learns_clock(answer):
            # The times of what was sent were wrong: firing alerts may be over there.
            sent = [kept.notification for kept in batch]
            answer = await self._post(client, batch)
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
                kept.refusal = answer.why
                self.tally.refused += 1
                self._log_failure(
                    "alertmanager_refused", answer.why, alert=notification.fingerprint
                )
                if not kept.is_due and not notification.is_firing:
                    # What never began there need not end.
                    self._kept.pop(notification.fingerprint, None)
                continue
            kept.refusal = ""
            if not notification.is_firing and kept.resolved_s is None:
                kept.resolved_s = now_s
            if was_due:
                self.tally.delivered += 1
                self.confirm(notification)
        if answer.outcome is Outcome.DONE:
            self.tally.last_error = self._unreachable = ""
        self._count()
        return True

    async def _post(self, client: httpx.AsyncClient, batch: list[_Kept]) -> Answer:
        ahead_ns = self._there.ahead_ns
        there_ns = self.clock.wall_ns() + ahead_ns
        alerts = []
        for kept in batch:
            shift_ns = stepped_ns((kept.wall_ns, kept.mono_s), self.clock) + ahead_ns
            alerts.append(
                _alert(kept.notification, there_ns, shift_ns if abs(shift_ns) > SKEW_NS else 0)
            )
        return await post_json(client, self._url, alerts, self.clock)

    async def _asks_clock(self, client: httpx.AsyncClient) -> bool:
        """Ask Alertmanager for its clock before anything is sent by a wrong one; return whether it has answered."""
        url = self._target.url.rstrip("/") + "/api/v2/status"
        answer = await request_json(client, "GET", url, self.clock)
        if answer.outcome is Outcome.FAILED:
            self._log_failure("alertmanager_unreachable", answer.why)
            return False
        self._learns_clock(answer)
        self._there.confirm()
        return True

    def _learns_clock(self, answer: Answer) -> bool:
        """Take Alertmanager's clock from an answer; return whether it is another than was assumed."""
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
        self.tally.waiting = sum(kept.is_due for kept in self._kept.values())
        self._refused = {
            fingerprint: kept.refusal for fingerprint, kept in self._kept.items() if kept.refusal
        }

    def _log_failure(self, event: str, why: str, **more: str) -> None:
        if self.tally.last_error != why:
            # An outage is logged once, not with every attempt.
            log.warning(event, receiver=self.name, to=str(self._target), reason=why, **more)
        self.tally.last_error = why
        self._unreachable = why if event == "alertmanager_unreachable" else ""


def _alert(notification: Notification, now_ns: int, shift_ns: int) -> dict[str, Any]:
    """Return the alert as the API takes it.

    Args:
        notification: The alert.
        now_ns: Alertmanager's clock.
        shift_ns: What to add to the alert's times for that clock.
    """
    if notification.ends_ns is None:
        ends_ns = now_ns + round(HOLDS_S * NS_PER_S)
    else:
        ends_ns = notification.ends_ns + shift_ns
    starts_ns = notification.starts_ns + shift_ns
    return {
        "labels": labels_of(notification.message),
        "annotations": annotations_of(notification.message),
        "startsAt": format_rfc3339(starts_ns),
        # An end that is not after the beginning is refused.
        "endsAt": format_rfc3339(max(ends_ns, starts_ns + 1_000_000)),
        **links_of(notification.message),
    }
