"""What is shown may be exchanged: views tell what they have drawn by revisions, which never come again."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from support.monitor.feed import ready

from trnfleet.monitor.fleet_state import Shown

if TYPE_CHECKING:
    from trnfleet.monitor.monitor import Monitor


def revisions(shown: Shown | Monitor) -> tuple[int, ...]:
    return (
        shown.store.revision,
        shown.rollups.revision,
        shown.ingest.jobs_revision,
        shown.alerts.revision,
        shown.alerts.silences.revision,
        shown.reservations.revision,
    )


def test_every_exchange_lifts_all_revisions_above_those_shown_before() -> None:
    """Two monitors that have done just the same are told apart, also when the first one comes back."""
    live, past = ready(), ready()
    for feed in (live, past):
        feed.tick()
    assert revisions(live.monitor) == revisions(past.monitor)
    shown = Shown(live.monitor)
    seen = [revisions(shown)]
    for monitor in (past.monitor, live.monitor, past.monitor):
        shown.at = monitor
        seen.append(revisions(shown))
    for former, later in itertools.pairwise(seen):
        assert all(was < now for was, now in zip(former, later, strict=True)), (former, later)
    assert shown.turn == 3


def test_the_same_monitor_is_no_exchange() -> None:
    live = ready()
    shown = Shown(live.monitor)
    before = revisions(shown)
    shown.at = live.monitor
    assert (revisions(shown), shown.turn) == (before, 0)


def test_a_monitor_goes_on_counting_from_where_it_was_lifted_to() -> None:
    live, past = ready(), ready()
    shown = Shown(live.monitor)
    shown.at = past.monitor
    before = revisions(shown)
    past.tick()
    assert revisions(shown)[0] > before[0]
    assert revisions(shown)[1] > before[1]
