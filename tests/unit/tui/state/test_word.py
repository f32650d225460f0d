"""The watch in charge in the app's Alerts view.

Tested are received heartbeats, and alerts firing here but not published.
"""

from __future__ import annotations

import msgspec
from support.tui.past_app import burning

from trnfleet.tui.state.alerts import AlertSnapshot
from trnfleet.wire.messages import WatchMessage, encode_message
from trnfleet.wire.ports import Envelope


def beat(client: str, *, leads: bool, state: str = "online", retain: bool = False) -> Envelope:
    message = msgspec.convert(
        {
            "client": client,
            "state": state,
            "boot": "b",
            "role": "watch",
            "since": "2026-01-05T00:00:00Z",
            "leads": leads,
        },
        WatchMessage,
    )
    return Envelope(f"trnfleet/v1/demo/publisher/{client}", encode_message(message), 1, retain)


async def test_the_leader_and_what_it_does_not_publish() -> None:
    """The leading watch is named.

    It is doubted after half a minute with an unpublished alert.
    """
    feed = await burning(3)
    monitor = feed.monitor
    snapshot = AlertSnapshot(feed.monitor)
    monitor.link.connected = True
    snapshot.refresh(0.0)
    assert snapshot.word(0.0).leader is None
    monitor.apply([beat("w", leads=True)])
    leader = snapshot.word(0.0).leader
    assert leader is not None
    assert (leader.client, leader.leads, leader.heard_s) == ("w", True, 0.0)
    for at_s in (1.0, 20.0, 29.0, 31.5):
        monitor.alerts.revision += 1
        snapshot.refresh(at_s)
        assert snapshot.word(at_s).doubts == (
            ("w leads and does not publish 1 that fire here, for 30 s",) if at_s > 30 else ()
        )
    monitor.apply([beat("w", leads=True, state="offline")])
    assert snapshot.word(31.5).leader is None


async def test_a_retained_message_is_no_heartbeat() -> None:
    """A retained message counts for 12 s, without a time of its watch.

    A heartbeat counts for 35 s.
    """
    feed = await burning(3)
    watches = feed.monitor.ingest.watches
    now_s = feed.monitor.clock.monotonic_s()
    feed.monitor.apply([beat("w", leads=True, retain=True), beat("z", leads=False)])
    assert [(each.client, each.heard_s) for each in watches.present(now_s)] == [
        ("w", None),
        ("z", 0.0),
    ]
    assert [each.client for each in watches.present(now_s + 12.0)] == ["z"]
    assert [each.client for each in watches.present(now_s + 34.9)] == ["z"]
    assert watches.present(now_s + 35.0) == []
