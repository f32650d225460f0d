"""Revisions of what a monitor knows: readers compare them instead of contents.

Every part of a monitor counts its changes in a `revision` of its own, and a reader that keeps something computed from a part
keeps the revision that it was computed from. The counts of two monitors say nothing of each other: where the app shows a moment
of the past, another monitor stands there whose counts may be the same. `source` differs then, so compare it, too, or the
whole `MonitorRevision`. Parts that are never compared are not listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from trnfleet.monitor.ingest.ingest import Ingest
    from trnfleet.monitor.store.findings import Findings
    from trnfleet.monitor.store.rollup import Rollups
    from trnfleet.wire.ports import LinkStatus


class MonitorRevision(NamedTuple):
    """Counts of changes; equal ones mean that nothing has changed between two readings."""

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
    """Events that have come, those of alerts among them."""
    alerts: int
    """Evaluations that have changed any."""
    silences: int
    """Acknowledgements and silences."""
    connects: tuple[bool, int]
    """Whether the connection stands, and how often it, or a part of it, was made or lost."""

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
