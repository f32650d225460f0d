"""A connection with reconnects, described by a `LinkStatus`.

Owns reconnecting, the choice of the MQTT version and the status. It sends and receives nothing
itself.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
from typing import TYPE_CHECKING

from trnfleet import logs
from trnfleet.errors import BrokerError
from trnfleet.transport.diagnosis import TAKEN_OVER, LinkDown
from trnfleet.transport.filters import topic_pattern
from trnfleet.transport.inbox import Reception
from trnfleet.transport.reading import ReadingConnection
from trnfleet.transport.writing import UNACKNOWLEDGED, WritingConnection
from trnfleet.wire.ports import STOPPED, Envelope, LinkStatus

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from random import Random

    from trnfleet.clock import Clock
    from trnfleet.transport.connection import Connection, ProtocolName
    from trnfleet.transport.security import Login


FIRST_WAIT_S = 1.0
YOUNG_OUTAGE_S = 300.0
"""Longest outage that counts as a broker's restart. After a restart everyone must be back within 10
s."""
SHORT_LONGEST_WAIT_S = 8.0
LONGEST_WAIT_S = 30.0
STABLE_S = 10.0
"""Seconds after which a connection ends the outage. The next one starts with the first wait again.
A guessed MQTT 3.1.1 connection then first asks for MQTT 5 again: the broker was silent at MQTT 5.
"""


def backoff_s(attempt: int, outage_s: float, rng: Random, *, is_unreached: bool = False) -> float:
    """Return the seconds to wait after failed attempt number `attempt` (from 0).

    The wait doubles from 1 s to 30 s, and to 8 s while the outage is young or nothing listens (an
    attempt then costs one packet): a broker that returns is found within 10 s however long it was
    away, and one that answers and refuses is spared TLS and CONNECT. A random half is subtracted,
    so that a thousand clients do not come back in the same instant.

    Args:
        attempt: Number of the attempt.
        outage_s: Seconds since the outage began.
        rng: Spreads the attempts.
        is_unreached: Whether nothing listened at the attempt.
    """
    longest = SHORT_LONGEST_WAIT_S if is_unreached or outage_s < YOUNG_OUTAGE_S else LONGEST_WAIT_S
    base = min(longest, FIRST_WAIT_S * float(1 << min(attempt, 10)))
    return base * rng.uniform(0.5, 1.0)


log = logs.get_logger(__name__)

SHORT_CONNECTIONS = 3
"""Connections in a row shorter than `STABLE_S` that suggest a second client. It would have the same
id."""


class Link:
    """Keeps one connection up while `run` runs."""

    def __init__(
        self,
        login: Login,
        *,
        clock: Clock,
        rng: Random,
        prepare: Callable[[Connection], Awaitable[None]],
        deliver: Callable[[Sequence[Envelope]], None] | None = None,
        is_full: Callable[[], bool] | None = None,
        filters: Sequence[str] = (),
        newest_of: str = "",
        protocol: ProtocolName | None = None,
        only_reads: bool = False,
        is_needed: bool = True,
    ) -> None:
        """Describe the link; nothing is connected yet.

        Args:
            login: address and credentials.
            clock: paces the attempts and stamps messages.
            rng: spreads the attempts.
            prepare: prepares a fresh connection (announce, subscribe) before the link counts as
                connected; may raise `LinkDown`.
            deliver: receives messages, inside the client's callback.
            is_full: returns whether the next message pushes out one that counts.
            filters: subscriptions of `prepare`; messages on other topics are counted and dropped.
            newest_of: prefix of topics reduced to their newest message when behind.
            protocol: the only version to speak; None finds out.
            only_reads: whether MQTT 5 uses the faster connection without publishing.
            is_needed: whether a missing connection is worth a warning.
        """
        self._warn = log.warning if is_needed else log.debug
        self.status = LinkStatus(
            broker=str(login.url), changed_s=clock.monotonic_s(), is_unverified=login.is_unverified
        )
        self._login = login
        self._clock = clock
        self._rng = rng
        self._prepare = prepare
        self._reception = Reception(
            deliver, topic_pattern(*filters), self.status, newest_of, {}, is_full
        )
        self._protocol = protocol
        self._only_reads = only_reads
        self._spoke_5 = False
        self._is_guess = False
        """Whether 3.1.1 was chosen because the broker was silent. It may have been stopped or slow.
        """
        self._is_switching = False
        self._is_doubtful = False
        """Whether a password went to a port that may not be a broker. It was silent or speaks
        another protocol, and gets no password before it answers."""
        self._short = 0
        """Short connections in a row."""
        self._tried = asyncio.Event()
        self._connection: Connection | None = None
        self._away_until_s = -math.inf
        self._hurried = asyncio.Event()

    async def run(self) -> None:
        """Connect and reconnect until cancelled; then send DISCONNECT."""
        attempt = 0
        outage_since_s = self._clock.monotonic_s()
        while True:
            is_unreached = False
            try:
                held_s = await self._connect_once()
            except LinkDown as down:
                is_unreached = down.unreached
                self._went_down(self._taken_over() if str(down) == TAKEN_OVER else str(down))
            else:
                if held_s >= STABLE_S:
                    attempt = 0
                    outage_since_s = self._clock.monotonic_s()
            if self._is_switching:
                self._is_switching = False
                continue
            outage_s = self._clock.monotonic_s() - outage_since_s
            await self._pause(backoff_s(attempt, outage_s, self._rng, is_unreached=is_unreached))
            while (away_s := self._away_until_s - self._clock.monotonic_s()) > 0.0:
                self.status.attempts += 1
                await self._clock.sleep(min(away_s, LONGEST_WAIT_S))
            attempt += 1

    def interrupt(self, seconds: float) -> None:
        """Drop the connection without DISCONNECT, and don't reconnect for `seconds`.

        A longer interruption stays in force.
        """
        self._away_until_s = max(self._away_until_s, self._clock.monotonic_s() + seconds)
        if self._connection is not None:
            self._connection.cut()

    def hurry(self) -> None:
        """End the wait for the next attempt: another connection shows that the broker is back."""
        self._hurried.set()

    async def _pause(self, seconds: float) -> None:
        self._hurried.clear()
        waits = [
            asyncio.create_task(work, name=f"mqtt-wait-{self._login.client_id}")
            for work in (self._clock.sleep(seconds), self._hurried.wait())
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def wait_connected(self, timeout_s: float) -> None:
        """Wait for the first attempt to succeed.

        For commands that fail at the start instead of waiting for a broker.

        Raises:
            BrokerError: the attempt failed, or `timeout_s` passed; the message names the broker and
                says why.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._tried.wait()
        except TimeoutError:
            raise BrokerError(
                f"broker {self._login.url}: no answer within {timeout_s:g} s"
            ) from None
        if not self.status.connected:
            raise BrokerError(f"broker {self._login.url}: {self.status.last_error}")

    async def _connect_once(self) -> float:
        """Connect, stay until the end, and return how many seconds the connection held."""
        self.status.attempts += 1
        connection = self._connection = await self._open()
        since_s = self._clock.monotonic_s()
        if since_s < self._away_until_s:
            connection.cut()
        try:
            await self._prepare(connection)
            if not connection.ended.done():
                self._went_up(connection.protocol)
            await self._stay(connection)
            if self._is_switching:
                self._went_down("connects again with MQTT 5")
            else:
                self._went_down(self._suspicion(connection.ended.result(), since_s))
        except asyncio.CancelledError:
            self._went_down(STOPPED)
            raise
        finally:
            self._connection = None
            await connection.close()
        return self._clock.monotonic_s() - since_s

    async def _stay(self, connection: Connection) -> None:
        """Wait for the end, or until the broker turns out to speak MQTT 5."""
        # A wait that is cancelled leaves the watcher alone; it ends with the connection.
        if not self._is_guess:
            await asyncio.wait((connection.ended,))
            return
        probing = asyncio.create_task(self._probe(), name=f"mqtt-probe-{self._login.client_id}")
        try:
            await asyncio.wait((connection.ended, probing), return_when=asyncio.FIRST_COMPLETED)
            self._is_switching = probing.done() and not connection.ended.done()
        finally:
            probing.cancel()
            await asyncio.gather(probing, return_exceptions=True)

    async def _probe(self) -> None:
        """Try MQTT 5 repeatedly, on a connection of its own, until the broker answers."""
        login = dataclasses.replace(self._login, client_id=f"{self._login.client_id}-5", will=None)
        reception = self._reception._replace(deliver=None)
        wait_s = STABLE_S
        while True:
            await self._clock.sleep(wait_s)
            wait_s *= 2
            try:
                connection = WritingConnection(login, "5", self._clock, reception)
                await connection.open()
            except LinkDown as down:
                log.debug("broker_protocol_probed", broker=self.status.broker, reason=str(down))
                continue
            await connection.close()
            self._protocol = None
            self._is_guess = False
            log.info("broker_protocol_found", broker=self.status.broker, protocol="5")
            return

    def _suspicion(self, why: str, since_s: float) -> str:
        """Return why a connection ended.

        With the client id if another client may have the same.
        """
        if why == TAKEN_OVER:
            return self._taken_over()
        if why == UNACKNOWLEDGED:
            if why != self.status.last_error:
                self._warn("broker_does_not_acknowledge", broker=self.status.broker, reason=why)
            return why
        client = self._login.client_id
        now_s = self._clock.monotonic_s()
        is_short = now_s - since_s < STABLE_S and now_s >= self._away_until_s
        self._short = self._short + 1 if is_short else 0
        if self._short < SHORT_CONNECTIONS:
            return why
        why += f" {self._short} times in a row: is there another client with the id {client}?"
        if self._short == SHORT_CONNECTIONS:
            self._warn(
                "connection_does_not_hold", broker=self.status.broker, client_id=client, reason=why
            )
        return why

    def _taken_over(self) -> str:
        client = self._login.client_id
        self._warn("client_id_taken_over", broker=self.status.broker, client_id=client)
        return f"{TAKEN_OVER}, {client}"

    async def _open(self) -> Connection:
        if self._protocol is not None:
            return await self._open_as(self._protocol)
        try:
            connection = await self._open_as("5")
        except LinkDown as down:
            if not (down.wrong_version or down.silent or down.ended_early):
                raise
            connection = await self._open_as("3.1.1")
            # A broker that has spoken MQTT 5 before and was only slow to answer gets another chance
            # next time.
            if down.wrong_version or not self._spoke_5:
                self._protocol = "3.1.1"
            self._is_guess = not down.wrong_version
            log.info(
                "broker_protocol_fallback",
                broker=self.status.broker,
                protocol="3.1.1",
                reason=str(down),
            )
        else:
            self._spoke_5 = True
            self._is_guess = False
        return connection

    async def _open_as(self, protocol: ProtocolName) -> Connection:
        if self._is_doubtful:
            await self._await_answer(protocol)
        connection: Connection
        if self._only_reads and protocol == "5":
            connection = ReadingConnection(self._login, self._clock, self._reception)
        else:
            connection = WritingConnection(self._login, protocol, self._clock, self._reception)
        try:
            await connection.open()
        except LinkDown as down:
            exposes = self._login.exposes_password and not self._login.is_known
            self._is_doubtful = exposes and (down.silent or down.foreign)
            will = self._login.will
            if not down.wrong_qos or will is None or not will.qos:
                raise
            self._login = dataclasses.replace(self._login, will=will._replace(qos=0))
            return await self._open_as(protocol)
        return connection

    async def _await_answer(self, protocol: ProtocolName) -> None:
        """Connect without user and password, and disconnect, to test whether a broker is there.

        A refusal proves it, too, and so does an end of the connection: some brokers just close
        connections without a user.

        Raises:
            LinkDown: it answers nothing.
        """
        reception = self._reception._replace(deliver=None)
        connection = WritingConnection(self._login.anonymous, protocol, self._clock, reception)
        try:
            await connection.open()
        except LinkDown as down:
            if not (down.answered or down.ended_early):
                raise
        else:
            await connection.close()
        self._is_doubtful = False

    def _went_up(self, protocol: ProtocolName) -> None:
        status = self.status
        status.connected = True
        status.changed_s = self._clock.monotonic_s()
        status.connects += 1
        status.protocol = protocol
        if not self._login.is_known:
            self._login = dataclasses.replace(self._login, is_known=True)
        self._tried.set()
        log.info(
            "broker_connected", broker=status.broker, protocol=protocol, connects=status.connects
        )

    def _went_down(self, why: str) -> None:
        status = self.status
        if status.connected:
            status.connected = False
            status.changed_s = self._clock.monotonic_s()
            log.info(
                "broker_disconnected",
                broker=status.broker,
                reason=why,
                unsolicited=status.unsolicited,
            )
        elif why not in (status.last_error, STOPPED):
            self._warn("broker_unreachable", broker=status.broker, reason=why)
        status.last_error = why
        self._tried.set()
