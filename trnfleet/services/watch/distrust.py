"""Former leaders that did not publish the alerts firing here, and their messages since.

A watch may briefly publish alerts known only from the watch that distrusts it, and end them again.
So it is trusted again once its alerts have gone on for `MUTED_S`: the leadership does not flap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trnfleet.domain.alerts.watches import MUTED_S

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from trnfleet.wire.alerts import AlertMessage


@dataclass
class _Record:
    before: dict[str, AlertMessage]
    """Its messages when it was distrusted."""
    since: set[str] = field(default_factory=set)
    """Alerts it has published as firing since, and not ended."""
    agrees_s: float | None = None
    """Monotonic seconds since when it has agreed. It published alerts firing here and ended none.
    None if it never agreed."""


class Distrust:
    """The watches that are distrusted."""

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}

    def __contains__(self, client: object) -> bool:
        return client in self._records

    def keep(self, clients: Container[str]) -> None:
        """Forget all other watches."""
        self._records = {
            client: record for client, record in self._records.items() if client in clients
        }

    def begin(self, client: str, published: Mapping[str, AlertMessage]) -> None:
        """Distrust a watch from here on."""
        before = {name: message for name, message in published.items() if message.watch == client}
        self._records[client] = _Record(before)

    def regained(
        self, published: Mapping[str, AlertMessage], firing: Iterable[str], now_s: float
    ) -> list[str]:
        """Return and forget the watches that agree again.

        They have published all alerts firing here for `MUTED_S`.

        Args:
            published: Alerts published now.
            firing: Alerts that fire here, by fingerprint.
            now_s: Monotonic seconds.
        """
        agreeing = []
        here = set(firing)
        for client, record in self._records.items():
            for name, message in published.items():
                if message.watch != client or message is record.before.get(name):
                    continue
                if message.state == "firing":
                    record.since.add(name)
                elif name in record.since:
                    record.since.discard(name)
                    if name in here:
                        record.agrees_s = None
            if not record.since or not here <= record.since:
                # An alert that has just begun fires at one watch before it does at the other.
                continue
            if record.agrees_s is None:
                record.agrees_s = now_s
            if now_s - record.agrees_s >= MUTED_S:
                agreeing.append(client)
        for client in agreeing:
            del self._records[client]
        return agreeing
