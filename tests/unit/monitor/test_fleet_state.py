"""The monitor behind views may be exchanged.

Revisions differ between monitors.
"""

from __future__ import annotations

from support.monitor.feed import ready

from trnfleet.monitor.fleet_state import LiveOrPast


def test_monitors_that_have_done_the_same_are_told_apart() -> None:
    """No earlier revision is repeated, even when the first monitor returns."""
    live = ready()
    past = ready()
    for feed in (live, past):
        feed.tick()
    assert live.monitor.revision == past.monitor.revision
    state = LiveOrPast(live.monitor)
    seen = [state.revision]
    for monitor in (past.monitor, live.monitor, past.monitor):
        state.at = monitor
        assert state.store is monitor.store
        seen.append(state.revision)
    assert len(set(seen)) == 4
    assert [each.source for each in seen] == [0, 1, 2, 3]


def test_the_same_monitor_is_no_exchange() -> None:
    live = ready()
    state = LiveOrPast(live.monitor)
    before = state.revision
    state.at = live.monitor
    assert state.revision == before


def test_every_part_that_views_draw_has_a_revision() -> None:
    """Values, events, jobs, reservations and connection change only their part's revision."""
    feed = ready()
    feed.tick()
    monitor = feed.monitor
    for name, messages in (("store", feed.telemetry()), ("events", [feed.event()])):
        before = monitor.revision
        monitor.apply(messages)
        after = monitor.revision
        changed = {
            field for field in after._fields if getattr(before, field) != getattr(after, field)
        }
        assert name in changed
        assert changed <= {"store", name}
    before = monitor.revision
    monitor.link.connects += 1
    assert monitor.revision != before
