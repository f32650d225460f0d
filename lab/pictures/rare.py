"""States without a recording: a lost connection, an overload, cells on a top broker.

Each is a monitor fed by hand, on a clock stopped afterwards. For pictures.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
from support.monitor.alert_messages import alert_message
from support.monitor.feed import Feed, standalone, ultraservers
from support.monitor.top import Top

from trnfleet.clock import ManualClock, format_rfc3339
from trnfleet.domain.alerts.alert import fingerprint_of
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.services.files.rules import load_rules
from trnfleet.wire.alerts import CellAlertMessage
from trnfleet.wire.messages import WatchMessage, encode_message
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trnfleet.monitor.monitor import Monitor

_BROKER = "mqtt://broker.example:1883"
_HOT = "uc1/us-0001/trn2u-0001-2/chip05"
_SECONDS = 150


class Live(NamedTuple):
    """A monitor of the present, and its clock."""

    monitor: Monitor
    clock: ManualClock


async def _watched() -> Feed:
    """Return a fleet with a hot chip, watched for some minutes."""
    feed = Feed(ultraservers(2) + standalone(4))
    feed.monitor.ingest.alerts = Alerts(feed.fleet, load_rules())
    feed.monitor.link.broker = _BROKER
    feed.jobs = {
        "pretrain-70b": ("uc1/us-0001",),
        "serve-70b": ("uc1/us-0002",),
        "finetune-8b": ("uc1/standalone/trn2-0001", "uc1/standalone/trn2-0002"),
    }
    feed.scatter()
    feed.set("temperature_c", 60.0)
    feed.describe()
    hot = feed.layout.find(_HOT)
    assert hot is not None
    powers_w = np.linspace(240.0, 400.0, feed.layout.chips)
    for second in range(_SECONDS):
        feed.set("power_w", powers_w + 60.0 * math.sin(second / 7.0))
        feed.set("temperature_c", 96.0 if second > _SECONDS // 2 else 80.0, [hot.number])
        await feed.clock.advance(1.0)
        feed.tick()
    return feed


async def connection_lost() -> Live:
    """Lose the connection to the broker for 25 s."""
    feed = await _watched()
    link = feed.monitor.link
    link.connected, link.changed_s, link.last_error = (
        False,
        feed.clock.monotonic_s(),
        "connection refused",
    )
    for _ in range(25):
        await feed.advance(1.0)
    return Live(feed.monitor, feed.clock)


async def overload() -> Live:
    """Shed half of the messages for 20 s, and lose some more on the way.

    The monitor cannot process all of them.
    """
    feed = await _watched()
    link = feed.monitor.link
    for second in range(20):
        await feed.clock.advance(1.0)
        link.shed += 6
        link.received += 12
        feed.seq += second % 4 == 0
        feed.tick(list(feed.layout.instances)[second % 2 :: 2])
    return Live(feed.monitor, feed.clock)


async def cells() -> Live:
    """View a top broker with two cells, one with an alert, one without a watch."""
    top = Top(load_rules())
    top.monitor.link.broker = "mqtt://top.example:1883"
    top.monitor.link.protocol = "5"
    top.describe_row("uc1/us-0009")
    watch = WatchMessage(
        client="watch-1", state="online", boot="b", role="watch", leads=True, cell="cell-a"
    )
    for second in range(_SECONDS):
        await top.clock.advance(1.0)
        top.take(TopicClass.PUBLISHER, "cell-a/watch-1", watch)
        wave = math.sin(second / 9.0)
        top.frame((4_000.0, 20_000.0 + 2_000.0 * wave, 10_000.0))
        top.frame_of_row(15_000.0 - 1_500.0 * wave, second)
        if second == _SECONDS - 40:
            _fire(top)
        top.look()
    return Live(top.monitor, top.clock)


def _fire(top: Top) -> None:
    """Take an alert of the cell with a watch."""
    place = "uc1/us-0001"
    name = "links-down"
    now = format_rfc3339(top.monitor.moment().time_ns)
    labels = {"alertname": name, "severity": "critical", "target": place, "scope": "ultraserver"}
    message = alert_message(
        rule=name,
        target=place,
        fingerprint=fingerprint_of("demo", name, place),
        labels=labels,
        title="33 Z links down",
        summary="33 Z links down: UltraServer partitioned",
        place=place,
        chips=64,
        value=33.0,
        since=now,
        fired=now,
    )
    message = CellAlertMessage(**{**msgspec.structs.asdict(message), "cell": "cell-a"})
    topic = build_topic("demo", TopicClass.ALERT, message.path)
    top.monitor.apply([Envelope(topic, encode_message(message), 1, retain=True)])


LIVE: dict[str, Callable[[], Awaitable[Live]]] = {
    "connection-lost": connection_lost,
    "overload": overload,
    "cells": cells,
}
"""By the names of the pictures."""
