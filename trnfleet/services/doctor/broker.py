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
from trnfleet.services.publishing import AT_ONCE
from trnfleet.services.session import ANSWER_S, CONNECT_LIMIT_S, QUIET_S, BatchReader, BrokerSession
from trnfleet.tasks import background, in_thread
from trnfleet.text import plain
from trnfleet.transport.diagnosis import DialError
from trnfleet.transport.dialing import TlsPeer, look_at_tls
from trnfleet.transport.embedded import RENEWED_DAYS
from trnfleet.transport.inbox import MAX_PAYLOAD_BYTES
from trnfleet.transport.packets import UNLIMITED, BrokerLimits
from trnfleet.wire.frame_head import frame_head, frame_time_ns, is_cbor
from trnfleet.wire.ports import Envelope
from trnfleet.wire.telemetry import Head, decode_sample
from trnfleet.wire.topics import VERSION, TopicClass, build_filter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trnfleet.transport.connection import ProtocolName
    from trnfleet.transport.mqtt import MqttPublisher, MqttSource
    from trnfleet.transport.url import BrokerUrl


ROUND_TRIPS = 20
FLOOD_S = 20.0
"""Longest time for the trial of many retained messages, each way."""
FLOODED_BYTES = 1_024
"""Payload of such a message, about the size of an instance's descriptor (assumed)."""
SIZES = (16 * 1024, 64 * 1024, MAX_PAYLOAD_BYTES)
"""Payload sizes to try. Telemetry of one host stays below the first; the last is the largest ever
sent."""
SLOW_S = 0.2
"""Round trip with less than 320 acknowledged messages a second. 64 are under way at once."""


class Probes:
    """The trials, one after the other."""

    def __init__(
        self, session: BrokerSession, publisher: MqttPublisher, prefix: str, group: str
    ) -> None:
        """Prepare the trials.

        Args:
            session: The broker, with its MQTT version.
            publisher: A running connection.
            prefix: Prefix of all topics used.
            group: Section of the findings.
        """
        self._session = session
        self._clock = session.clock
        self._publisher = publisher
        self._prefix = prefix
        self._group = group
        self._retained: list[str] = []
        """Topics to be cleared."""

    async def run(self, report: Callable[[Finding], None], *, retained: int) -> None:
        """Report each trial's findings, and clear its messages at the broker.

        Args:
            report: Receives the findings.
            retained: Number of retained messages to try; 0 skips this trial.

        Raises:
            BrokerError: the broker is lost.
        """
        trip = await self._round_trip()
        report(trip)
        if trip.health in {Health.UNKNOWN, Health.PROBLEM}:
            return
        try:
            single = await self._single()
            report(single)
            if retained and single.health is Health.OK:
                report(await self._many(retained))
        finally:
            left = await self._clear()
        if left:
            advice = (
                f"clear what is retained under {self._prefix}/#, as with mosquitto_sub"
                " --remove-retained"
            )
            report(
                self._finding(
                    "clean-up", Health.WARNING, f"{left:,} retained messages are left", advice
                )
            )
        report(await self._will())
        report(await self._size())

    def _finding(self, name: str, health: Health, value: str, advice: str = "") -> Finding:
        return Finding(self._group, name, health, value, advice)

    async def _round_trip(self) -> Finding:
        """Publish acknowledged messages, one after the other, and read them."""
        name = "round trip"
        topic = f"{self._prefix}/echo"
        trips_s: list[float] = []
        source = self._session.source([(topic, 1)])
        try:
            async with background(echo=source.run()):
                await source.wait_connected(CONNECT_LIMIT_S)
                for number in range(ROUND_TRIPS):
                    payload = str(number).encode()
                    begun_s = self._clock.monotonic_s()
                    result = await self._publisher.publish([Envelope(topic, payload, qos=1)])
                    if result.unsent:
                        advice = (
                            "give the trials a user that may write below the root, or take the"
                            " broker's other findings alone"
                        )
                        return self._finding(
                            name, Health.UNKNOWN, f"not tried: {result.error}", advice
                        )
                    if not await self._comes(source, functools.partial(_holds, payload)):
                        break
                    trips_s.append(self._clock.monotonic_s() - begun_s)
        except BrokerError as error:
            return self._finding(name, Health.UNKNOWN, f"not tried: {_reason(error, self._group)}")
        if len(trips_s) < ROUND_TRIPS:
            value = f"{len(trips_s)} of {ROUND_TRIPS} messages came back within {ANSWER_S:g} s"
            if trips_s:
                return self._finding(
                    name, Health.PROBLEM, value, "look at the broker's queues and its log"
                )
            advice = (
                f"let this user write and read {self._prefix.rsplit('/', 2)[0]}/#, if the trials"
                " shall be made"
            )
            return self._finding(name, Health.UNKNOWN, value, advice)
        median_s = statistics.median(trips_s)
        most_s = max(trips_s)
        value = (
            f"{took(median_s)} in the median of {ROUND_TRIPS} with QoS 1, {took(most_s)} at most"
        )
        if median_s <= SLOW_S:
            return self._finding(name, Health.OK, value)
        advice = (
            "run programs that publish near the broker: 64 acknowledged messages are under way at"
            " once"
        )
        return self._finding(name, Health.WARNING, value, advice)

    async def _single(self) -> Finding:
        """Retain a message, and subscribe to it with a wildcard, then exactly."""
        name = "retained"
        topic = f"{self._prefix}/retained/one"
        self._retained.append(topic)
        result = await self._publisher.publish([Envelope(topic, b"kept", qos=1, retain=True)])
        if result.unsent:
            self._retained.remove(topic)
            advice = (
                "let the broker keep retained messages: descriptors, jobs, alerts and silences are"
                " such"
            )
            return self._finding(name, Health.PROBLEM, result.error, advice)
        if await self._is_given(f"{self._prefix}/retained/#"):
            return self._finding(name, Health.OK, "reach subscriptions with wildcards")
        if await self._is_given(topic):
            advice = (
                "readers ask for descriptors by their topics, which takes longer; silences from"
                " before a reader's start are not known to it"
            )
            return self._finding(
                name, Health.WARNING, "reach exact subscriptions only, no wildcards", advice
            )
        advice = (
            "let the broker keep retained messages, or take another: descriptors, jobs, alerts and"
            " silences are such"
        )
        return self._finding(name, Health.PROBLEM, "are not kept", advice)

    async def _is_given(self, topic_filter: str) -> bool:
        source = self._session.source([(topic_filter, 1)])
        async with background(retained=source.run()):
            await source.wait_connected(CONNECT_LIMIT_S)
            return await self._comes(
                source, lambda envelope: envelope.retain and envelope.payload == b"kept"
            )

    async def _many(self, count: int) -> Finding:
        """Retain many messages, and count how many a new wildcard subscriber receives."""
        name = "many retained"
        topics = [f"{self._prefix}/many/{number}" for number in range(count)]
        begun_s = self._clock.monotonic_s()
        retained = 0
        for begin in range(0, count, AT_ONCE):
            chunk = topics[begin : begin + AT_ONCE]
            self._retained += chunk
            result = await self._publisher.publish(
                [Envelope(topic, bytes(FLOODED_BYTES), qos=1, retain=True) for topic in chunk]
            )
            retained += result.sent
            if result.unsent or self._clock.monotonic_s() - begun_s > FLOOD_S:
                break
        written_s = self._clock.monotonic_s() - begun_s
        # As monitors subscribe to descriptors.
        source = self._session.source([(f"{self._prefix}/many/#", 0)])
        given: set[str] = set()
        begun_s = self._clock.monotonic_s()
        async with background(many=source.run()):
            await source.wait_connected(CONNECT_LIMIT_S)
            reader = BatchReader(source, self._clock, limit_s=FLOOD_S, quiet_s=ANSWER_S)
            while len(given) < retained and (batch := await reader.next()):
                given.update(envelope.topic for envelope in batch)
        read_s = self._clock.monotonic_s() - begun_s
        value = (
            f"{len(given):,} of {retained:,} ({size_text(FLOODED_BYTES)} each) reach a new reader in"  # noqa: E501
            f" {took(read_s)}; written in {took(written_s)}"
        )
        if len(given) < retained:
            advice = (
                "raise what the broker queues for a client, such as max_queued_messages 4000 of"
                " Mosquitto; the rest is asked for"
            )
            return self._finding(name, Health.WARNING, value, advice)
        if retained < count:
            advice = "fleets with as many hosts take long to announce themselves"
            return self._finding(name, Health.WARNING, f"{value}; {count:,} were meant", advice)
        return self._finding(name, Health.OK, value)

    async def _will(self) -> Finding:
        """Cut a connection with a last will, and wait for the will."""
        name = "last will"
        topic = f"{self._prefix}/will"
        source = self._session.source([(topic, 1)])
        will = Envelope(topic, b"gone", qos=1)
        client = self._session.publisher(f"trnfleet-doctor-{secrets.token_hex(4)}", will=will)
        async with background(reader=source.run()):
            await source.wait_connected(CONNECT_LIMIT_S)
            try:
                async with background(victim=client.run()):
                    await client.wait_connected(CONNECT_LIMIT_S)
                    begun_s = self._clock.monotonic_s()
                    # It is not to come back before the trial is over.
                    client.interrupt(2 * ANSWER_S)
                    came = await self._comes(source, functools.partial(_holds, b"gone"))
            except BrokerError as error:
                advice = "let clients of this user have a last will below the root"
                return self._finding(
                    name, Health.WARNING, f"refused: {_reason(error, self._group)}", advice
                )
        if came:
            return self._finding(
                name, Health.OK, f"comes {took(self._clock.monotonic_s() - begun_s)} after a cut"
            )
        advice = "a publisher that dies is noticed by its silence alone, three periods later"
        return self._finding(
            name, Health.WARNING, f"did not come within {ANSWER_S:g} s after a cut", advice
        )

    async def _size(self) -> Finding:
        """Send messages of the usual sizes, each on its own connection.

        A broker may end a connection.
        """
        name = "largest message"
        topic = f"{self._prefix}/size"
        largest = 0
        why = ""
        stated = self._publisher.limits.packet_bytes
        source = self._session.source([(topic, 0)])
        async with background(reader=source.run()):
            await source.wait_connected(CONNECT_LIMIT_S)
            for size in SIZES:
                if size + len(topic) + 16 > stated:
                    why = f"it says that it takes packets up to {size_text(stated)}"
                    break
                why = await self._lost(topic, size, source)
                if why:
                    break
                largest = size
        if not why:
            return self._finding(
                name,
                Health.OK,
                f"{size_text(largest)} comes through, the largest that is ever sent",
            )
        value = f"{size_text(size)} does not come through: {why}"
        if not largest:
            advice = (
                f"raise the broker's limit to {size_text(2 * MAX_PAYLOAD_BYTES)}: telemetry of a"
                " host may not come through"
            )
            return self._finding(name, Health.PROBLEM, value, advice)
        advice = (
            f"raise the broker's limit to {size_text(2 * MAX_PAYLOAD_BYTES)}, or publish by"
            " instance: frames of blocks are larger"
        )
        return self._finding(name, Health.WARNING, f"{size_text(largest)}; {value}", advice)

    async def _lost(self, topic: str, size: int, source: MqttSource) -> str:
        """Return why a message of a size does not come through; empty where it does."""
        client = self._session.publisher(f"trnfleet-doctor-{secrets.token_hex(4)}")
        try:
            async with background(client=client.run()):
                await client.wait_connected(CONNECT_LIMIT_S)
                result = await client.publish([Envelope(topic, bytes(size), qos=1)])
                if result.unsent:
                    return result.error.removeprefix(f"{topic}: ")
                if await self._comes(source, lambda envelope: len(envelope.payload) == size):
                    return ""
                return "nothing comes back"
        except BrokerError as error:
            return _reason(error, self._group)

    async def _comes(
        self,
        source: MqttSource,
        is_wanted: Callable[[Envelope], bool],
    ) -> bool:
        """Wait for a message, and return whether it has come."""
        reader = BatchReader(source, self._clock, limit_s=ANSWER_S)
        while batch := await reader.next():
            if any(map(is_wanted, batch)):
                return True
        return False

    async def _clear(self) -> int:
        """Clear the retained messages.

        Return how many were not confirmed.
        """
        topics = self._retained
        self._retained = []
        left = 0
        for begin in range(0, len(topics), AT_ONCE):
            chunk: Sequence[str] = topics[begin : begin + AT_ONCE]
            result = await self._publisher.publish(
                [Envelope(topic, b"", qos=1, retain=True) for topic in chunk]
            )
            left += result.unsent
        return left


def _holds(payload: bytes, envelope: Envelope) -> bool:
    return envelope.payload == payload


def _reason(error: BrokerError, broker: str) -> str:
    return str(error).removeprefix(f"broker {broker}: ")


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
