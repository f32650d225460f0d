"""Findings from telemetry: clock offsets of publishers, and shared paths."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from trnfleet.clock import NS_PER_S
from trnfleet.domain.quantities import counted, duration
from trnfleet.errors import BrokerError, WireError
from trnfleet.services.doctor.findings import Finding, Health, took
from trnfleet.services.session import CONNECT_LIMIT_S, BatchReader
from trnfleet.tasks import background
from trnfleet.text import plain
from trnfleet.wire.frame_head import frame_head, frame_time_ns, is_cbor
from trnfleet.wire.telemetry import Head, decode_sample
from trnfleet.wire.topics import TopicClass, build_filter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.services.session import BrokerSession
    from trnfleet.wire.ports import Envelope

ENOUGH = 64
"""Messages whose timestamps are compared."""
MOST_TOPICS = 10_000
"""Topics whose boots are compared."""
MOST_SKEW_S = 2.0
"""Difference of clocks above which ages and the order of events on the screen mislead."""
OTHER_DATE_S = 6 * 3_600.0
"""Difference above which timestamps belong to a simulation or a replay with its own date."""


async def telemetry_findings(
    session: BrokerSession, group: str, *, listen_s: float
) -> list[Finding]:
    """Return clock offsets to this machine, and paths shared by two publishers."""
    off_s: list[float] = []
    boots: dict[str, list[str]] = {}
    contested: set[str] = set()
    source = session.source([(build_filter("+", TopicClass.TELEMETRY, session.root), 0)])
    try:
        async with background(telemetry=source.run()):
            await source.wait_connected(CONNECT_LIMIT_S)
            reader = BatchReader(source, session.clock, limit_s=listen_s)
            while batch := await reader.next():
                now_ns = session.clock.wall_ns()
                for envelope in batch:
                    head = _head(envelope)
                    if head is None:
                        continue
                    if len(off_s) < ENOUGH:
                        off_s.append((now_ns - head.ts_ns) / NS_PER_S)
                    if envelope.topic in boots or len(boots) < MOST_TOPICS:
                        seen = boots.setdefault(envelope.topic, [head.boot])
                        if seen[-1] != head.boot:
                            if head.boot in seen:
                                contested.add(envelope.topic)
                            seen.append(head.boot)
    except BrokerError:
        return [Finding(group, "clocks", Health.UNKNOWN, "this user may not read telemetry")]
    findings = [_clocks(group, off_s, listen_s)]
    if contested:
        value = (
            f"two publishers take turns on {counted(len(contested), 'topic')}, such as"
            f" {plain(min(contested))}"
        )
        advice = (
            "two simulators or agents were started for the same hosts: end one, or rename its fleet"
        )
        findings.append(Finding(group, "publishers", Health.PROBLEM, value, advice))
    return findings


def _clocks(group: str, off_s: Sequence[float], listen_s: float) -> Finding:
    name = "clocks"
    if not off_s:
        return Finding(
            group, name, Health.UNKNOWN, f"no telemetry within {duration(listen_s)} to compare with"
        )
    dated = [seconds for seconds in off_s if abs(seconds) > OTHER_DATE_S]
    own = [seconds for seconds in off_s if abs(seconds) <= OTHER_DATE_S]
    if not own:
        return Finding(
            group,
            name,
            Health.UNKNOWN,
            f"all of {counted(len(dated), 'message')} have another date: a simulation, or a replay",
        )
    median_s = statistics.median(own)
    value = (
        f"telemetry is {took(abs(median_s))} {'old' if median_s >= 0 else 'ahead'} when it comes"
        f" ({counted(len(own), 'message')})"
    )
    if abs(median_s) <= MOST_SKEW_S:
        return Finding(group, name, Health.OK, value)
    advice = (
        "set the clocks of the publishers and of this machine by NTP; if they agree, messages wait"
        " on the way"
    )
    return Finding(group, name, Health.WARNING, value, advice)


def _head(envelope: Envelope) -> Head | None:
    """Return the head of a telemetry message.

    None if unreadable.
    """
    try:
        if is_cbor(envelope):
            return Head(*frame_head(envelope.payload), frame_time_ns(envelope.payload))
        return decode_sample(envelope.payload).head
    except WireError:
        return None
