"""Alertmanager, by its API v2: it wants to hear again and again of what fires, and of what has resolved for a while."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trnfleet import logs
from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.export.http import Outcome, make_client, post_json
from trnfleet.export.notification import annotations_of, labels_of
from trnfleet.export.receiver import Receiver, finished_within, pause_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx

    from trnfleet.clock import Clock
    from trnfleet.export.http import Target
    from trnfleet.export.notification import Notice

log = logs.get_logger(__name__)

REPEATED_EVERY_S = 60.0
HOLDS_S = 240.0
"""What fires is told to end so long from now, as Prometheus does: if we are gone, Alertmanager resolves it by itself."""
RESOLVED_FOR_S = 900.0
"""What has resolved is repeated for so long, so that an Alertmanager that was away hears of it."""
MOST_OF_ONE = 500
"""Alerts of one request."""


@dataclass(slots=True)
class _Kept:
    """An alert that Alertmanager is told of."""

    notice: Notice
    is_news: bool
    sent_s: float = 0.0
    resolved_s: float | None = None
    """When it was first told that it has resolved."""
    is_refused: bool = False


class AlertmanagerReceiver(Receiver):
    """Tells one Alertmanager. Only the newest state of an alert waits, so the waiting room is as large as the fleet's alerts."""

    repeats = True

    def __init__(
        self, name: str, target: Target, clock: Clock, *, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        """Describe the receiver; it connects when it has something to tell.

        Args:
            name: What it is called.
            target: Alertmanager's own URL, without `/api/v2/alerts`.
            clock: The time to go by.
            transport: For tests: what answers in place of a network.
        """
        super().__init__(name, clock)
        self._target = target
        self._url = target.url.rstrip("/") + "/api/v2/alerts"
        self._transport = transport
        self._kept: dict[str, _Kept] = {}
        self._news = asyncio.Event()

    def tell(self, notices: Sequence[Notice]) -> int:
        """Take what has changed."""
        for notice in notices:
            self._kept[notice.fingerprint] = _Kept(notice, is_news=True)
        self._count()
        self._news.set()
        return len(notices)

    def keep(self, notice: Notice) -> None:
        """Take newer figures, and what a former `watch` told it of."""
        kept = self._kept.get(notice.fingerprint)
        if kept is None:
            self._kept[notice.fingerprint] = _Kept(notice, is_news=True)
            self._count()
            self._news.set()
        elif kept.notice.mark == notice.mark:
            kept.notice = notice

    def stand_by(self) -> None:
        """Forget everything; who speaks now repeats it."""
        self._kept.clear()
        self._count()

    async def run(self) -> None:
        """Tell what changes at once and everything else every minute, until cancelled."""
        attempt = 0
        async with make_client(self._target, self._transport) as client:
            while True:
                due = self._due()
                if not due:
                    self._news.clear()
                    await finished_within(_wait(self._news), self.clock, self._idle_s())
                    continue
                if await self._send(client, due[:MOST_OF_ONE]):
                    attempt = 0
                    continue
                self.tally.retried += 1
                await self.clock.sleep(pause_s(attempt))
                attempt += 1

    def _due(self) -> list[_Kept]:
        """Return what is to be told now, news first; forget what has resolved long ago."""
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
            if not kept.is_news and not kept.is_refused and now_s - kept.sent_s >= REPEATED_EVERY_S
        ]
        return [kept for kept in self._kept.values() if kept.is_news] + repeated

    def _idle_s(self) -> float:
        now_s = self.clock.monotonic_s()
        waits = [
            REPEATED_EVERY_S - (now_s - kept.sent_s) for kept in self._kept.values() if not kept.is_refused
        ]
        return max(0.05, min([REPEATED_EVERY_S, *waits]))

    async def _send(self, client: httpx.AsyncClient, batch: list[_Kept]) -> bool:
        """Send a batch; say whether that is settled, be it refused."""
        wall_ns = self.clock.wall_ns()
        sent = [kept.notice for kept in batch]
        answer = await post_json(client, self._url, [_alert(notice, wall_ns) for notice in sent], self.clock)
        if answer.outcome is Outcome.FAILED:
            self._complain("alertmanager_unreachable", answer.why)
            return False
        if answer.outcome is Outcome.REFUSED and len(batch) > 1:
            # One bad alert must not keep the others out: halves find it.
            half = len(batch) // 2
            return await self._send(client, batch[:half]) and await self._send(client, batch[half:])
        now_s = self.clock.monotonic_s()
        for kept, notice in zip(batch, sent, strict=True):
            kept.sent_s = now_s
            if kept.notice.mark == notice.mark:
                was_news, kept.is_news = kept.is_news, False
            else:
                was_news = True
            if answer.outcome is Outcome.REFUSED:
                kept.is_refused = True
                self.tally.refused += 1
                self._complain("alertmanager_refused", answer.why, alert=notice.fingerprint)
                continue
            if not notice.is_firing and kept.resolved_s is None:
                kept.resolved_s = now_s
            if was_news:
                self.tally.told += 1
                self.confirm(notice)
        if answer.outcome is Outcome.DONE:
            self.tally.last_error = ""
        self._count()
        return True

    def _count(self) -> None:
        self.tally.waiting = sum(kept.is_news for kept in self._kept.values())

    def _complain(self, event: str, why: str, **more: str) -> None:
        if self.tally.last_error != why:
            # An outage is told once, not with every attempt.
            log.warning(event, receiver=self.name, to=str(self._target), reason=why, **more)
        self.tally.last_error = why


def _alert(notice: Notice, wall_ns: int) -> dict[str, Any]:
    """Return an alert as the API takes it."""
    ends_ns = wall_ns + round(HOLDS_S * NS_PER_S) if notice.ends_ns is None else notice.ends_ns
    return {
        "labels": labels_of(notice.message),
        "annotations": annotations_of(notice.message),
        "startsAt": format_rfc3339(notice.starts_ns),
        # An end that is not after the beginning is refused.
        "endsAt": format_rfc3339(max(ends_ns, notice.starts_ns + 1_000_000)),
    }


async def _wait(event: asyncio.Event) -> None:
    await event.wait()
