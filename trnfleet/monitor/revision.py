"""Revisions of a monitor's state: readers compare them instead of contents.

Every part of a monitor counts its changes in its own `revision`. A reader that caches a result of a
part stores that part's revision with it. Counts of two monitors are not comparable: for a moment of
the past the app shows another monitor, and its counts may be the same. `source` differs then, so
compare it, too, or the whole `MonitorRevision`. Parts that are never compared are not listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from trnfleet.monitor.ingest.ingest import Ingest
    from trnfleet.monitor.store.findings import Findings
    from trnfleet.monitor.store.rollup import Rollups
    from trnfleet.wire.ports import LinkStatus


class MonitorRevision(NamedTuple):
    """Counts of changes.

    Equal ones mean no change between two readings.
    """

    source: int
    """Exchanges of the monitor before this one; 0 for a monitor itself."""
    layout: int
    """The layout's generation."""
    store: int
    """Values and freshness."""
    rollups: int
    jobs: int
    """Placements of jobs on instances."""
    reservations: int
    findings: int
    """Their number."""
    events: int
    """Events received, including those of alerts."""
    alerts: int
    """Evaluations that have changed any."""
    silences: int
    """Acknowledgements and silences."""
    connects: tuple[bool, int]
    """Whether it is connected, and the count of connects and losses in any part."""

    @staticmethod
    def of(
        source: int, ingest: Ingest, rollups: Rollups, findings: Findings, link: LinkStatus
    ) -> MonitorRevision:
        """Return the revisions of a monitor's parts."""
        alerts = ingest.alerts
        return MonitorRevision(
            source,
            ingest.store.generation,
            ingest.store.revision,
            rollups.revision,
            ingest.jobs_revision,
            ingest.reservations.revision,
            findings.total,
            ingest.events.received + ingest.alert_events.received,
            alerts.revision + alerts.cells.revision,
            alerts.silences.revision,
            link.changes,
        )
