"""Alert changes, acknowledgements and silences among the events of the Events view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.tui.handled import CHIP, acknowledge, faulty, firing, silence, turn
from support.tui.pilot import fleet_app, running

from trnfleet.monitor.alerting.events import AlertEvents
from trnfleet.monitor.replay.packed_snapshot import PackedSnapshot
from trnfleet.monitor.store.events import KEPT
from trnfleet.tui.events.view import EventsView
from trnfleet.tui.view import View

if TYPE_CHECKING:
    import pytest
    from support.monitor.feed import Feed
    from textual.message import Message


def texts(feed: Feed) -> list[str]:
    return [event.text for event in feed.monitor.ingest.alert_events.newest_first()]


async def test_what_happens_to_alerts_are_events() -> None:
    """Alert transitions have the source `rule`, acknowledgements and silences `operator`.

    Each has its place.
    """
    feed = await faulty()
    feed.monitor.apply([feed.event(CHIP, "row remapped")])
    await acknowledge(feed, firing(feed, "overheated"), note="looking")
    await silence(feed, "link-down")
    feed.set("temperature_c", 50.0)
    await turn(feed, 1.0)
    for _ in range(40):
        await turn(feed)
    async with running(fleet_app(feed), size=(160, 40)) as pilot:
        await pilot.press("9")
        await pilot.paint()
        lines = [" ".join(line.split()) for line in pilot.screen()[4:-4]]
        shown = "\n".join(lines)
        assert "✖ critical rule" in shown
        assert "firing: 1 NeuronLink down" in shown
        assert "• info operator" in shown
        assert "acknowledged: overheated by ann until 02:00 UTC: looking" in shown
        assert 'silenced: alertname="link-down" by bob until 02:00 UTC: cable swap' in shown
        assert "resolved: 1 chip overheated" in shown
        order = [
            next(n for n, line in enumerate(lines) if word in line)
            for word in ("resolved: 1 chip", "row remap", "firing: 1 chip over")
        ]
        assert order == sorted(order)
        assert pilot.screen()[-2].rstrip().endswith(f"1/{len(texts(feed)) + 1}")
        await pilot.press("slash", *"operator", "enter")
        await pilot.paint()
        assert pilot.screen()[-2].rstrip().endswith("1/2")
        # What publishers sent is counted as before.
        assert feed.monitor.summary().events == 1
        assert [event.text for event in feed.monitor.events.newest_first()] == ["row remapped"]


async def test_a_wide_screen_has_the_details_beside_the_list() -> None:
    """Details show event, place, effect of Enter, rule, and the operators' comments.

    Below 180 columns there is only the foot.
    """
    feed = await faulty()
    await acknowledge(feed, firing(feed, "overheated"), note="looking")
    async with running(fleet_app(feed), size=(200, 55)) as pilot:
        await pilot.press("9")
        await pilot.press("slash", *"chip over", "enter")
        await pilot.paint()
        shown = " ".join(pilot.text().split())
        for words in (
            f"where {CHIP}",
            "source rule, firing",
            "rule overheated: temperature > 85",
            "owner ann, acknowledged until",
            ": looking",
            f"Enter goes to {CHIP}",
        ):
            assert words in shown, words
        assert pilot.screen()[-2].rstrip().endswith("1/1")
        event = next(
            each
            for each in feed.monitor.ingest.alert_events.newest_first()
            if each.rule == "overheated"
        )
        assert event.text.count("overheated") <= 1
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("9")
        await pilot.paint()
        assert "Enter goes to" not in pilot.text()


async def test_the_moment_of_an_alert_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """`o` requests the moment the alert fired."""
    feed = await faulty()
    async with running(fleet_app(feed), size=(160, 40)) as pilot:
        await pilot.press("9")
        await pilot.paint()
        assert isinstance(pilot.app.page, EventsView)
        asked: list[Message] = []
        picked = pilot.app.page.list.picked
        assert picked is not None
        assert picked.source == "rule"
        with monkeypatch.context() as patched:
            patched.setattr(pilot.app.page, "post_message", asked.append)
            pilot.app.page.action_moment()
        assert [each.fleet_ns for each in asked if isinstance(each, View.GoTo)] == [picked.ts_ns]
        fired = {each.fired_ns for each in feed.monitor.alerts.active()}
        assert picked.ts_ns in fired


async def test_a_snapshot_keeps_them_and_goes_on() -> None:
    """An earlier moment has the events up to it.

    Each is there once when the monitor continues.
    """
    feed = await faulty(seconds=10)
    at_ten = texts(feed)
    snapshot = PackedSnapshot(feed.monitor)
    for _ in range(10):
        await turn(feed)
    later = texts(feed)
    assert len(later) > len(at_ten) > 0
    feed.monitor.restore(snapshot.unpack())
    assert texts(feed) == at_ten
    feed.monitor.compute()
    assert texts(feed)[-len(at_ten) :] == at_ten


async def test_they_are_bounded_and_counted() -> None:
    """More changes than are kept between two passes are counted as dropped."""
    feed = await faulty(seconds=3)
    taken = AlertEvents()
    taken.take(feed.monitor.alerts, 0.0)
    silences = feed.monitor.alerts.silences
    await silence(feed, "link-down")
    known = next(iter(silences.known))
    before = taken.received
    for _ in range(KEPT + 5):
        silences._silences[known.id] = known
        silences.remove_silence(known.id)
    taken.take(feed.monitor.alerts, 0.0)
    assert taken.received - before == KEPT + 6
    # The one from before makes room, too.
    assert taken.dropped == 7
