"""Findings about a broker and its telemetry: stated limits, results of trials, clock offsets.

All trials use their own prefix, `{root}/v1/_doctor-.../probe`, and are cleared afterwards. No
reader mistakes the prefix for a fleet.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import secrets
import statistics
from typing import TYPE_CHECKING

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.durations import DAY_S
from trnfleet.domain.quantities import counted, duration, size_text
from trnfleet.errors import BrokerError, WireError
from trnfleet.services.discovery import discover_fleets
from trnfleet.services.doctor.findings import Finding, Health, took
from trnfleet.services.doctor.probes import Probes
from trnfleet.services.session import ANSWER_S, CONNECT_LIMIT_S, QUIET_S, BatchReader, BrokerSession
from trnfleet.tasks import background, in_thread
from trnfleet.text import plain
from trnfleet.transport.diagnosis import DialError
from trnfleet.transport.dialing import TlsPeer, look_at_tls
from trnfleet.transport.embedded import RENEWED_DAYS
from trnfleet.transport.packets import UNLIMITED, BrokerLimits
from trnfleet.wire.frame_head import frame_head, frame_time_ns, is_cbor
from trnfleet.wire.telemetry import Head, decode_sample
from trnfleet.wire.topics import VERSION, TopicClass, build_filter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trnfleet.transport.connection import ProtocolName
    from trnfleet.transport.url import BrokerUrl
    from trnfleet.wire.ports import Envelope

KIND_TOPIC = "$SYS/broker/version"
"""Where Mosquitto and some others name themselves."""
MOST_SKEW_S = 2.0
"""Difference of clocks above which ages and the order of events on the screen mislead."""
OTHER_DATE_S = 6 * 3_600.0
"""Difference above which timestamps belong to a simulation or a replay with its own date."""


async def advice_on(url: BrokerUrl) -> str:
    """Return advice on an unreachable broker, after a check of its port."""
    try:
        async with asyncio.timeout(ANSWER_S):
            _, writer = await asyncio.open_connection(url.host, url.port)
    except (OSError, TimeoutError, UnicodeError):
        return "is it running, and do name, port and firewalls let this machine reach it?"
    writer.close()
    return (
        "its port answers: change what the reason names, in the URL, the user, the password or the"
        " certificates"
    )


async def examine(
    session: BrokerSession, report: Callable[[Finding], None], *, retained: int, listen_s: float
) -> None:
    """Report the findings about a broker one after the other.

    Args:
        session: The broker.
        report: Receives the findings.
        retained: Number of retained messages that are tried; 0 for no such trial.
        listen_s: Time to listen for telemetry, whose timestamps tell of clocks.

    Raises:
        BrokerError: it cannot be reached, or is lost meanwhile.
    """
    group = str(session.url)
    begun_s = session.clock.monotonic_s()
    prefix = f"{session.root}/{VERSION}/_doctor-{secrets.token_hex(4)}/probe"
    publisher = session.publisher(f"trnfleet-doctor-{secrets.token_hex(4)}")
    async with background(doctor=publisher.run()):
        await publisher.wait_connected(CONNECT_LIMIT_S)
        connected_s = session.clock.monotonic_s() - begun_s
        report(Finding(group, "connection", Health.OK, f"in {took(connected_s)}"))
        for finding in await _security(session):
            report(finding)
        report(_version(group, publisher.status.protocol))
        # Every further connection is to be of the version that was found.
        spoken: ProtocolName = "5" if publisher.status.protocol == "5" else "3.1.1"
        session = dataclasses.replace(session, protocol=spoken)
        report(await _kind(session))
        if spoken == "5":
            for finding in _stated(group, publisher.limits):
                report(finding)
        await Probes(session, publisher, prefix, group).run(report, retained=retained)
    report(await _fleets(session))
    for finding in await telemetry_findings(session, group, listen_s=listen_s):
        report(finding)


async def _security(session: BrokerSession) -> list[Finding]:
    """Return the connection's encryption, certificate and user."""
    url = session.url
    group = str(session.url)
    if not url.is_tls:
        if url.is_loopback:
            findings = [Finding(group, "encryption", Health.OK, "none, within this machine")]
        else:
            advice = (
                "use mqtts:// where the broker has it: names, telemetry and passwords can be read"
                " on the way"
            )
            findings = [Finding(group, "encryption", Health.WARNING, "none", advice)]
    else:
        try:
            peer = await in_thread(functools.partial(look_at_tls, url, session.tls))
        except (DialError, OSError) as error:
            findings = [
                Finding(
                    group, "encryption", Health.UNKNOWN, f"TLS; a second connection failed: {error}"
                )
            ]
        else:
            findings = [
                Finding(group, "encryption", Health.OK, f"{peer.version}, {peer.cipher}"),
                _certificate(session, peer),
            ]
    if url.user is None and not url.is_loopback and session.tls.cert is None:
        advice = "let the broker ask for users: everybody who reaches it may write"
        findings.append(Finding(group, "user", Health.WARNING, "none is asked for", advice))
    return findings


def _certificate(session: BrokerSession, peer: TlsPeer) -> Finding:
    group = str(session.url)
    if peer.valid_until_s is None:
        advice = (
            "leave --insecure out, and give the authority's certificate with --ca: anybody could be"
            " the broker"
        )
        return Finding(group, "certificate", Health.WARNING, "not verified", advice)
    until_ns = int(peer.valid_until_s) * NS_PER_S
    left_days = (until_ns - session.clock.wall_ns()) / NS_PER_S / DAY_S
    value = f"valid until {format_rfc3339(until_ns)[:10]}, {left_days:,.0f} days from now"
    if left_days < RENEWED_DAYS:
        return Finding(
            group, "certificate", Health.WARNING, value, "renew it: nothing connects after that"
        )
    return Finding(group, "certificate", Health.OK, value)


def _version(group: str, protocol: str) -> Finding:
    if protocol == "5":
        return Finding(group, "MQTT", Health.OK, "5")
    advice = (
        "what an access list forbids is dropped without a word in this version; give publishers"
        " what they need to write"
    )
    return Finding(group, "MQTT", Health.WARNING, f"{protocol} only", advice)


async def _kind(session: BrokerSession) -> Finding:
    source = session.source([(KIND_TOPIC, 0)])
    name = ""
    try:
        async with background(kind=source.run()):
            await source.wait_connected(CONNECT_LIMIT_S)
            for envelope in await BatchReader(source, session.clock, limit_s=QUIET_S).next():
                name = envelope.payload.decode("utf-8", "replace")
    except BrokerError:
        pass  # it lets nobody read it
    group = str(session.url)
    if name:
        return Finding(group, "broker", Health.OK, plain(name))
    return Finding(group, "broker", Health.UNKNOWN, f"says nothing on {KIND_TOPIC}")


def _stated(group: str, limits: BrokerLimits) -> list[Finding]:
    """Return the limits stated by an MQTT 5 broker on connect."""
    size = (
        "any packet"
        if limits.packet_bytes >= UNLIMITED
        else f"packets up to {size_text(limits.packet_bytes)}"
    )
    said = f"{size}, QoS {limits.qos}, {limits.under_way:,} unacknowledged messages"
    findings = [Finding(group, "limits", Health.OK, f"as it says: {said}")]
    if limits.qos < 1:
        advice = "let it take QoS 1: commands and alerts are not acknowledged without"
        findings.append(Finding(group, "QoS", Health.WARNING, "0 only", advice))
    return findings


async def _fleets(session: BrokerSession) -> Finding:
    group = str(session.url)
    try:
        fleets = await discover_fleets(session, TopicClass.PUBLISHER, QUIET_S)
    except BrokerError as error:
        advice = f"let this user read {session.root}/{VERSION}/#"
        return Finding(
            group, "fleets", Health.WARNING, str(error).removeprefix(f"broker {group}: "), advice
        )
    if not fleets:
        return Finding(group, "fleets", Health.OK, f"none under {session.root}/ yet")
    named = (
        f"{plain(name, 64)} ({'live' if is_live else 'offline'})"
        for name, is_live in sorted(fleets.items())
    )
    return Finding(
        group, "fleets", Health.OK, f"{counted(len(fleets), 'fleet')}: {', '.join(named)}"[:300]
    )


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
                    seen = boots.get(envelope.topic)
                    if seen is None:
                        off_s.append((now_ns - head.ts_ns) / NS_PER_S)
                        boots[envelope.topic] = [head.boot]
                    elif seen[-1] != head.boot:
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
