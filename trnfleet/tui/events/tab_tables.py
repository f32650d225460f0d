"""The tabs of the Events view as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.clock import format_rfc3339
from trnfleet.monitor.pipeline.publishers import State
from trnfleet.tui.snapshots.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnfleet.monitor.pipeline.publishers import PublisherTable
    from trnfleet.monitor.store.events import Event

EVENT_TITLES = (
    "time",
    "severity",
    "source",
    "name",
    "place",
    "subject",
    "job",
    "nrt",
    "rule",
    "text",
)
PUBLISHER_TITLES = (
    "client",
    "state",
    "chips",
    "paths",
    "rate [messages/s]",
    "rate [bytes/s]",
    "lost",
    "late",
    "duplicates",
    "refused",
    "lag max [s]",
    "skew [s]",
    "for [s]",
    "restarts",
    "boot",
)


def event_table(events: Iterable[Event]) -> Table:
    """Return events as a table."""
    return Table(
        EVENT_TITLES,
        [
            (
                format_rfc3339(event.ts_ns),
                event.severity.value,
                event.source,
                event.name,
                event.path,
                event.subject,
                event.job,
                event.nrt,
                event.rule,
                event.text,
            )
            for event in events
        ],
    )


def publisher_table(table: PublisherTable, rows: Iterable[int]) -> Table:
    """Return some publishers as a table."""
    return Table(
        PUBLISHER_TITLES,
        [
            (
                table.names[row],
                State(table.state[row]).word,
                int(table.chips[row]),
                int(table.paths[row]),
                float(table.messages_per_s[row]),
                float(table.bytes_per_s[row]),
                int(table.lost[row]),
                int(table.late[row]),
                int(table.duplicates[row]),
                int(table.refused[row]),
                float(table.lag_max_s[row]),
                float(table.skew_s[row]),
                float(table.for_s[row]),
                int(table.restarts[row]),
                table.boots[row],
            )
            for row in rows
        ],
    )
