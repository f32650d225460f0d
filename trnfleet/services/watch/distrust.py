"""Watches that led and did not publish what fires here, and what they have published since.

A watch may publish for a moment what it only knows from the one that distrusts it, and end it again. So its word counts again when
what it published has gone on for `MUTED_S`: the leadership does not go to and fro.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trnfleet.domain.alerts.watches import MUTED_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trnfleet.wire.alerts import AlertMessage


@dataclass
class _Record:
    before: dict[str, AlertMessage]
    """Its messages when it was distrusted."""
    since: set[str] = field(default_factory=set)
    """Alerts that it has published as firing since, and not ended."""
    agrees_s: float | None = None
    """Monotonic seconds since when none of what fired here and it published has been ended by it; None while it never agreed."""


class Distrust:
    """The watches that are distrusted."""

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}

    def __contains__(self, client: object) -> bool:
        return client in self._records

    def begin(self, client: str, published: Mapping[str, AlertMessage]) -> None:
        """Distrust a watch from here on."""
        before = {name: message for name, message in published.items() if message.watch == client}
        self._records[client] = _Record(before)

    def regained(
        self, published: Mapping[str, AlertMessage], firing: Iterable[str], now_s: float
    ) -> list[str]:
        """Return the watches that have published again, all that fires here among it, for `MUTED_S`, and forget them here.

        Args:
            published: What is published now.
            firing: Alerts that fire here, by fingerprint.
            now_s: Monotonic seconds.
        """
        found, wanted = [], set(firing)
        for client, record in self._records.items():
            for name, message in published.items():
                if message.watch != client or message is record.before.get(name):
                    continue
                if message.state == "firing":
                    record.since.add(name)
                elif name in record.since:
                    record.since.discard(name)
                    if name in wanted:
                        record.agrees_s = None
            if not record.since or not wanted <= record.since:
                # An alert that has just begun fires at one watch before it does at the other.
                continue
            if record.agrees_s is None:
                record.agrees_s = now_s
            if now_s - record.agrees_s >= MUTED_S:
                found.append(client)
        for client in found:
            del self._records[client]
        return found
