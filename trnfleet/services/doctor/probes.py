"""Trials at a broker: messages written below an own prefix, and read back."""

from __future__ import annotations

import functools
import secrets
import statistics
from typing import TYPE_CHECKING

from trnfleet.domain.quantities import size_text
from trnfleet.errors import BrokerError
from trnfleet.services.doctor.findings import Finding, Health, took
from trnfleet.services.publishing import AT_ONCE
from trnfleet.services.session import ANSWER_S, CONNECT_LIMIT_S, BatchReader, BrokerSession
from trnfleet.tasks import background
from trnfleet.transport.inbox import MAX_PAYLOAD_BYTES
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trnfleet.transport.mqtt import MqttPublisher, MqttSource

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
