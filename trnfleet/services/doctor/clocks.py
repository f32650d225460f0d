"""The finding about clocks: by how much publishers' timestamps are off ours."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from trnfleet.clock import NS_PER_S
from trnfleet.domain.quantities import counted, duration
from trnfleet.errors import BrokerError, WireError
from trnfleet.services.doctor.findings import Finding, Health, took
from trnfleet.services.session import CONNECT_LIMIT_S, BatchReader
from trnfleet.tasks import background
from trnfleet.wire.frame_head import frame_time_ns, is_cbor
from trnfleet.wire.telemetry import decode_sample
from trnfleet.wire.topics import TopicClass, build_filter

if TYPE_CHECKING:
    from trnfleet.services.session import BrokerSession
    from trnfleet.wire.ports import Envelope

ENOUGH = 64
"""Messages after which no more are waited for."""
MOST_SKEW_S = 2.0
"""Difference of clocks above which ages and the order of events on the screen mislead."""
OTHER_DATE_S = 6 * 3_600.0
"""Difference above which the timestamps are those of a simulation or a replay with a date of its own."""


async def clock_finding(session: BrokerSession, group: str, *, listen_s: float) -> Finding:
    """Return how far the timestamps of telemetry are off this machine's clock."""
    name = "clocks"
    off_s: list[float] = []
    source = session.source([(build_filter("+", TopicClass.TELEMETRY, session.root), 0)])
    try:
        async with background(clocks=source.run()):
            await source.wait_connected(CONNECT_LIMIT_S)
            reader = BatchReader(source, session.clock, limit_s=listen_s)
            while len(off_s) < ENOUGH and (batch := await reader.next()):
                now_ns = session.clock.wall_ns()
                off_s += [
                    (now_ns - ts_ns) / NS_PER_S
                    for ts_ns in map(_time_ns, batch)
                    if ts_ns is not None
                ]
    except BrokerError:
        return Finding(group, name, Health.UNKNOWN, "this user may not read telemetry")
    if not off_s:
        return Finding(
            group, name, Health.UNKNOWN, f"no telemetry within {duration(listen_s)} to compare with"
        )
    dated = [each for each in off_s if abs(each) > OTHER_DATE_S]
    own = [each for each in off_s if abs(each) <= OTHER_DATE_S]
    if not own:
        return Finding(
            group,
            name,
            Health.UNKNOWN,
            f"all of {counted(len(dated), 'message')} have another date: a simulation, or a replay",
        )
    median_s = statistics.median(own)
    value = f"telemetry is {took(abs(median_s))} {'old' if median_s >= 0 else 'ahead'} when it comes ({counted(len(own), 'message')})"
    if abs(median_s) <= MOST_SKEW_S:
        return Finding(group, name, Health.OK, value)
    advice = "set the clocks of the publishers and of this machine by NTP; if they agree, messages wait on the way"
    return Finding(group, name, Health.WARNING, value, advice)


def _time_ns(envelope: Envelope) -> int | None:
    """Return the timestamp of a message of telemetry; None where it has none that can be read."""
    try:
        if is_cbor(envelope):
            return frame_time_ns(envelope.payload)
        return decode_sample(envelope.payload).head.ts_ns
    except WireError:
        return None
