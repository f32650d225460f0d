"""A webhook with the payload of Alertmanager's webhooks (version 4).

One request has the changes of one instant.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from trnfleet import logs
from trnfleet.clock import Clock, format_rfc3339
from trnfleet.export.http import HttpTarget, RequestOutcome, make_client, request_json
from trnfleet.export.notification import Notification, annotations_of, labels_of, links_of
from trnfleet.export.receiver import MOST_AT_ONCE, MOST_WAITING, Receiver, pause_s

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import httpx


log = logs.get_logger(__name__)

NO_END = "0001-01-01T00:00:00Z"
"""Alertmanager's end of an ongoing alert."""


class WebhookReceiver(Receiver):
    """Posts to one URL, in order: a failed request is repeated before the next one."""

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
            target: The URL to post to.
            clock: The clock.
            transport: For tests: replaces the network.
        """
        super().__init__(name, clock)
        self._target = target
        self._transport = transport
        self._waiting: deque[list[Notification]] = deque()
        self._changed = asyncio.Event()

    def notify(self, notifications: Sequence[Notification]) -> int:
        accepted = list(notifications[: max(0, MOST_WAITING - self.tally.waiting)])
        for first in range(0, len(accepted), MOST_AT_ONCE):
            self._waiting.append(accepted[first : first + MOST_AT_ONCE])
        self.tally.waiting += len(accepted)
        if accepted:
            self._changed.set()
        return len(accepted)

    async def run(self) -> None:
        """Post queued notifications until cancelled."""
        async with make_client(self._target, self._transport) as client:
            while True:
                self._changed.clear()
                while self._waiting:
                    batch = self._waiting[0]
                    await self._send(client, batch)
                    self._waiting.popleft()
                    self.tally.waiting -= len(batch)
                await self._changed.wait()

    async def _send(self, client: httpx.AsyncClient, batch: list[Notification]) -> None:
        """Post a batch until it has arrived or is refused."""
        content = body(self.name, batch)
        attempt = 0
        while True:
            answer = await request_json(client, "POST", self._target.url, self.clock, content)
            if answer.outcome is RequestOutcome.DONE:
                self.tally.delivered += len(batch)
                self.tally.last_error = ""
                for notification in batch:
                    self.confirm(notification)
                return
            event = (
                "webhook_refused"
                if answer.outcome is RequestOutcome.REFUSED
                else "webhook_unreachable"
            )
            if self.tally.last_error != answer.why or answer.outcome is RequestOutcome.REFUSED:
                log.warning(
                    event,
                    receiver=self.name,
                    to=str(self._target),
                    alerts=len(batch),
                    reason=answer.why,
                )
            self.tally.last_error = answer.why
            if answer.outcome is RequestOutcome.REFUSED:
                self.tally.refused += len(batch)
                return
            await self.clock.sleep(pause_s(attempt))
            attempt += 1


def body(receiver: str, batch: Sequence[Notification]) -> dict[str, Any]:
    """Return a batch of one fleet's notifications as Alertmanager would post it."""
    fleet = batch[0].fleet
    return {
        "version": "4",
        "groupKey": f'{{}}:{{fleet="{fleet}"}}',
        "truncatedAlerts": 0,
        "status": "firing" if any(notification.is_firing for notification in batch) else "resolved",
        "receiver": receiver,
        "groupLabels": {"fleet": fleet},
        "commonLabels": _common([labels_of(notification.message) for notification in batch]),
        "commonAnnotations": _common([annotations_of(notification) for notification in batch]),
        "externalURL": "",
        "alerts": [_alert(notification) for notification in batch],
    }


def _alert(notification: Notification) -> dict[str, Any]:
    return {
        "status": notification.message.state,
        "labels": labels_of(notification.message),
        "annotations": annotations_of(notification),
        "startsAt": format_rfc3339(notification.starts_ns),
        "endsAt": NO_END if notification.ends_ns is None else format_rfc3339(notification.ends_ns),
        **links_of(notification.message),
        "fingerprint": notification.fingerprint,
    }


def _common(texts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the entries that all texts have in common."""
    first, *others = texts
    return {
        name: text
        for name, text in first.items()
        if all(other.get(name) == text for other in others)
    }
