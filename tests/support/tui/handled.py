"""A fleet with the shipped rules, alerts of one chip, and operators' messages about them.

The alerts are on a link, a metric and a counter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.monitor.feed import Feed, ultraservers
from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.services.files.rules import load_rules
from trnfleet.wire.alerts import AckMessage, SilenceMessage
from trnfleet.wire.messages import encode_message
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from trnfleet.domain.alerts.alert import Alert

INSTANCE = "uc1/us-0001/trn2u-0001-2"
CHIP = f"{INSTANCE}/chip05"
LINK = "north"
"""The link of the chip that goes down."""


async def faulty(*, seconds: int = 20) -> Feed:
    """Return a fleet with a faulty chip: link down, hot, an uncorrectable error."""
    feed = Feed(ultraservers(2))
    feed.monitor.ingest.alerts = Alerts("demo", load_rules())
    feed.jobs = {"pretrain-70b": ("uc1/us-0001",)}
    feed.scatter()
    feed.describe()
    feed.tick()
    node = feed.layout.find(CHIP)
    assert node is not None
    row = node.number
    names = feed.layout.lane_names_of(int(feed.layout.instance_of_chip[row]))
    feed.columns["links_up"][row] &= 0xFF ^ (1 << names.index(LINK))
    feed.set("temperature_c", 96.0, [row])
    for second in range(seconds):
        if second == 4:
            feed.columns["mem_ecc_uncorrected"][row] = 3
        await turn(feed)
    return feed


async def turn(feed: Feed, seconds: float = 1.0) -> None:
    """Let time pass for the fleet, and telemetry come."""
    await feed.clock.advance(seconds)
    feed.tick()


def firing(feed: Feed, name: str) -> Alert:
    """Return the active alert of a rule."""
    return next(each for each in feed.monitor.alerts.active() if each.name == name)


async def acknowledge(feed: Feed, alert: Alert, owner: str = "ann", note: str = "") -> None:
    """Acknowledge an alert for two hours."""
    now_ns = feed.monitor.moment().time_ns
    message = AckMessage(
        fingerprint=alert.fingerprint,
        owner=owner,
        note=note,
        at=format_rfc3339(now_ns),
        until=format_rfc3339(now_ns + 7_200 * NS_PER_S),
        alert=f"{alert.name} {alert.target}",
        revision=1,
    )
    await _retain(feed, TopicClass.ACK, alert.fingerprint, encode_message(message))


async def silence(feed: Feed, name: str, who: str = "bob", why: str = "cable swap") -> None:
    """Silence all alerts of a rule for two hours."""
    now_ns = feed.monitor.moment().time_ns
    message = SilenceMessage(
        id=f"silence-{name}",
        matchers=(f'alertname="{name}"',),
        starts=format_rfc3339(now_ns),
        until=format_rfc3339(now_ns + 7_200 * NS_PER_S),
        who=who,
        why=why,
        revision=1,
    )
    await _retain(feed, TopicClass.SILENCE, message.id, encode_message(message))


async def _retain(feed: Feed, topic_class: TopicClass, path: str, payload: bytes) -> None:
    feed.monitor.apply(
        [Envelope(build_topic(feed.fleet, topic_class, path), payload, qos=1, retain=True)]
    )
    await turn(feed)
