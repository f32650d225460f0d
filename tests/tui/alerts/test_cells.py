"""Alerts of cells in the app.

Their cell in list, details and Problems, the header's count, and where they are handled.
"""

from __future__ import annotations

import msgspec
import pytest
from support.monitor.alert_messages import alert_message
from support.tui.alerts_scene import alerts_app, alerts_feed
from support.tui.pilot import running

from trnfleet.domain.alerts.alert import fingerprint_of
from trnfleet.wire.alerts import CellAlertMessage
from trnfleet.wire.messages import encode_message
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic

PLACE = "uc1/us-0001"


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_an_alert_of_a_cell_names_it_and_is_handled_there(size: tuple[int, int]) -> None:
    """An undescribed cell is shown as not observed.

    a, z and x show where to go and open nothing.
    """
    feed = alerts_feed()
    labels = {
        "alertname": "links-down",
        "severity": "critical",
        "target": PLACE,
        "scope": "ultraserver",
    }
    published = alert_message(
        rule="links-down",
        target=PLACE,
        fingerprint=fingerprint_of("demo", "links-down", PLACE),
        labels=labels,
        title="links down",
        summary="64 chips have links down",
        description="{odd}",
        place=PLACE,
        chips=64,
        value=None,
    )
    message = CellAlertMessage(**{**msgspec.structs.asdict(published), "cell": "cell-a"})
    topic = build_topic("demo", TopicClass.ALERT, message.path)
    app, publisher = alerts_app(feed)
    async with running(app, size=size) as pilot:
        feed.monitor.apply([Envelope(topic, encode_message(message), 1, retain=True)])
        await pilot.telemetry(feed)
        assert "links down [cell-a" in pilot.text()
        await pilot.press("8", telemetry=feed)
        assert "[active 1]" in pilot.text()
        assert "cell-a; not observed: as last known" in pilot.text()
        # The status is as wide as its column, or has the place of the extent.
        assert "cell-a n" in pilot.screen()[6]
        assert "1 crit" in pilot.screen()[0]
        for key in ("a", "z", "x"):
            await pilot.press(key)
            assert "it is of cell cell-a" in pilot.text()
        assert publisher.sent == []
        feed.monitor.apply([Envelope(topic, b"", 1, retain=True)])
        await pilot.telemetry(feed)
        assert "No problems" in pilot.screen()[0]
