"""What commands that read from a broker have in common: a source for one fleet, and a monitor on it."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Literal, NamedTuple

from trnfleet.domain.power import PUE
from trnfleet.monitor.monitor import Monitor
from trnfleet.transport.mqtt import MqttSource
from trnfleet.wire.topics import TopicClass, build_filter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.clock import Clock
    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.record.write.live import LiveBuffer
    from trnfleet.transport.url import BrokerUrl, Password
    from trnfleet.wire.ports import Source


class Watch(NamedTuple):
    """A monitor and the source that must run for it."""

    source: MqttSource
    monitor: Monitor


def watch_fleet(
    url: BrokerUrl,
    fleet: str,
    *,
    root: str,
    password: Password | None,
    clock: Clock,
    protocol: Literal["5", "3.1.1"] | None = None,
    pue: float | None = None,
    rules: Sequence[Rule] = (),
    adopts_alerts: bool = False,
    buffer: LiveBuffer | None = None,
) -> Watch:
    """Return a monitor of a fleet on a broker; run both, the source first.

    Args:
        url: The broker.
        fleet: The fleet's name.
        root: First part of the topics.
        password: The user's.
        clock: The time to go by.
        protocol: Speak only this version of MQTT.
        pue: Power usage effectiveness of the site; by default AWS's published one.
        rules: What alerts are made by.
        adopts_alerts: Whether alerts that a former `watch` left are taken over before they are seen.
        buffer: What keeps all that comes.
    """
    # The cyclic collector walks all that is kept of a large fleet again and again, for cycles that hardly exist.
    gc.set_threshold(100_000, 20, 100)
    gc.enable()
    # State first: descriptors that come before the telemetry let the layout stand when it arrives.
    filters = [
        (build_filter(fleet, TopicClass.PUBLISHER, root), 1),
        (build_filter(fleet, TopicClass.NODE, root), 0),
        (build_filter(fleet, TopicClass.JOB, root), 1),
        (build_filter(fleet, TopicClass.RESERVATION, root), 1),
        (build_filter(fleet, TopicClass.EVENT, root), 1),
        (build_filter(fleet, TopicClass.ACK, root), 1),
        (build_filter(fleet, TopicClass.SILENCE, root), 1),
        (build_filter(fleet, TopicClass.ALERT, root), 1),
        (build_filter(fleet, TopicClass.TELEMETRY, root), 0),
    ]
    source = MqttSource(url, filters, password=password, clock=clock, protocol=protocol)
    tapped: Source = source
    if buffer is not None:
        from trnfleet.record.write.recorder import TappedSource  # noqa: PLC0415  most readers keep nothing

        tapped = TappedSource(source, buffer)
    monitor = Monitor(
        tapped,
        fleet,
        clock=clock,
        root=root,
        pue=PUE if pue is None else pue,
        rules=rules,
        adopts_alerts=adopts_alerts,
    )
    return Watch(source, monitor)
