"""Watches that led and did not publish what fires here, and what they have published since."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trnfleet.wire.alerts import AlertMessage


class _Record(NamedTuple):
    before: dict[str, AlertMessage]
    """Its messages when it was distrusted."""
    since: set[str]
    """Alerts that it has published as firing since."""


class Distrust:
    """The watches that are distrusted."""

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}

    def __contains__(self, client: object) -> bool:
        return client in self._records

    def begin(self, client: str, published: Mapping[str, AlertMessage]) -> None:
        """Distrust a watch from here on."""
        before = {name: message for name, message in published.items() if message.watch == client}
        self._records[client] = _Record(before, set())

    def regained(self, published: Mapping[str, AlertMessage], firing: Iterable[str]) -> list[str]:
        """Return the watches that have published again, all that fires here among it, and forget them here.

        Args:
            published: What is published now.
            firing: Alerts that fire here, by fingerprint.
        """
        found, wanted = [], set(firing)
        for client, record in self._records.items():
            record.since.update(
                name
                for name, message in published.items()
                if message.watch == client
                and message.state == "firing"
                and message is not record.before.get(name)
            )
            if record.since and wanted <= record.since:
                found.append(client)
        for client in found:
            del self._records[client]
        return found
