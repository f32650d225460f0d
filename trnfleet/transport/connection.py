"""Connection to a broker, from CONNECT to its end, with failures in plain words.

The common part of both clients: dialing, diagnosis and subscriptions. It does not reconnect; `link`
does.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal

from paho.mqtt.packettypes import PacketTypes

from trnfleet import logs
from trnfleet.errors import ConfigError
from trnfleet.tasks import in_thread
from trnfleet.transport.diagnosis import (
    FIRST_FAILURE,
    NOT_AUTHORISED,
    QOS_REFUSED,
    VERSION_REFUSED,
    DialError,
    EndedEarlyError,
    LinkDown,
    connect_and_look,
    reason_words,
    what_it_speaks,
)
from trnfleet.transport.dialing import HANDSHAKE_S, TCP_CONNECT_S, dial

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.transport.security import Login

log = logs.get_logger(__name__)

ProtocolName = Literal["5", "3.1.1"]
ClientName = Literal["mqtt5", "aiomqtt"]
"""MQTT 5 reader: mqtt5 or aiomqtt. aiomqtt does everything else."""

DIAL_S = 7.0
"""Longest wait for a usable socket. Each of its steps has a limit of its own."""
ANSWER_S = 10.0
"""Longest wait for the answer to SUBSCRIBE or PUBLISH. Above the longest fsync of a broker that
persists."""
SUBSCRIBED_AT_ONCE = 8
"""Filters per SUBSCRIBE accepted by every broker. AWS IoT Core ends a connection over more
(published)."""


class Connection(ABC):
    """One connection, for one use.

    Call `open`, then `subscribe`, wait for `ended`, and `close` in any case.
    """

    ended: asyncio.Future[str]
    """Done when the connection has ended; its result is the reason."""

    def __init__(self, login: Login, protocol: ProtocolName) -> None:
        """Describe a connection; nothing is connected yet.

        Raises:
            LinkDown: the token cannot be read.
        """
        self.protocol = protocol
        self._login = login
        try:
            self._password = login.reveal()
        except ConfigError as error:
            raise LinkDown(str(error)) from None
        self._socket: Any = None
        self._is_given_up = False

    async def open(self) -> None:
        """Connect.

        Raises:
            LinkDown: it cannot be done; nothing is left behind.
        """
        try:
            await connect_and_look(self._connect(), self._look_if_silent)
        except DialError as error:
            self._drop()
            looks = error.is_foreign and not self._login.is_known
            foreign = await self._look(has_tls=error.has_tls) if looks else ""
            raise LinkDown(foreign or str(error)) from error
        except EndedEarlyError as error:
            self._drop()
            raise await self._explained(str(error)) from error
        except UnicodeError as error:
            self._drop()
            raise LinkDown("name not found") from error
        except OSError as error:
            self._drop()
            words = _why_unreachable(error) or str(error).lower() or "connection failed"
            raise LinkDown(words, unreached=True) from error
        except BaseException:
            self._drop()
            raise
        if self._login.is_unverified:
            log.warning("broker_not_verified", broker=str(self._login.url), reason="--insecure")

    async def subscribe(
        self, topics: Sequence[tuple[str, int]], at_once: int = SUBSCRIBED_AT_ONCE
    ) -> list[str]:
        """Subscribe to (filter, QoS) pairs, `at_once` in a packet; return refused filters.

        Raises:
            LinkDown: the connection ended meanwhile, or the broker did not answer.
        """
        refused: list[str] = []
        for begin in range(0, len(topics), at_once):
            chunk = list(topics[begin : begin + at_once])
            codes = await self._subscribe(chunk)
            if len(codes) != len(chunk):
                raise LinkDown(f"the broker answers {len(codes)} of {len(chunk)} subscriptions")
            refused += [
                topic
                for (topic, _), code in zip(chunk, codes, strict=True)
                if code >= FIRST_FAILURE
            ]
        return refused

    async def unsubscribe(self, topics: Sequence[str], at_once: int = SUBSCRIBED_AT_ONCE) -> None:
        """Unsubscribe from filters, `at_once` in a packet.

        Raises:
            LinkDown: the connection ended meanwhile, or the broker did not answer.
        """
        for begin in range(0, len(topics), at_once):
            await self._unsubscribe(list(topics[begin : begin + at_once]))

    @abstractmethod
    def cut(self, why: str = "") -> None:
        """End without DISCONNECT, with our own reason if set.

        The broker publishes the last will.
        """

    @abstractmethod
    async def close(self) -> None:
        """Send DISCONNECT and close; at once if it has ended.

        The broker then discards the last will.
        """

    @abstractmethod
    async def _greet(self) -> int:
        """Send CONNECT on the socket, wait for the answer, and return the broker's highest QoS.

        Raises:
            EndedEarlyError: the connection ended before the answer.
            LinkDown: the broker refuses.
            ValueError: no CONNECT can be made.
        """

    @abstractmethod
    async def _subscribe(self, chunk: list[tuple[str, int]]) -> list[int]:
        """Send one SUBSCRIBE and return the reason codes of its answer."""

    @abstractmethod
    async def _unsubscribe(self, chunk: list[str]) -> None:
        """Send one UNSUBSCRIBE and wait for its answer."""

    @abstractmethod
    def _first_bytes(self) -> bytes:
        """Return the first bytes that came."""

    async def _connect(self) -> None:
        async with asyncio.timeout(DIAL_S):
            await in_thread(self._dial)
        self._socket.setblocking(False)
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                highest_qos = await self._greet()
        except TimeoutError:
            # A broker without MQTT 5 may just stay silent.
            raise LinkDown(f"no answer to CONNECT within {HANDSHAKE_S:g} s", silent=True) from None
        except ValueError:
            # The error's own words might repeat a part of the password.
            raise LinkDown(
                "client id, user or password is not UTF-8, or over 65,535 bytes"
            ) from None
        if highest_qos < 1:
            log.warning("qos_lowered", broker=str(self._login.url), highest=highest_qos)

    def _dial(self) -> None:
        # Runs in a thread, which is left alone where nobody waits any more.
        connection = dial(self._login.url, self._login.tls)
        self._socket = connection
        if self._is_given_up:
            connection.close()

    def _drop(self) -> None:
        """Close the socket, even while a thread is still opening it."""
        self._is_given_up = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()

    def _refusal(self, code: int) -> LinkDown:
        """Return the failure for a CONNACK with a reason code."""
        if code in NOT_AUTHORISED:
            return LinkDown(f"not authorised: {self._login.why_not_authorised()}", answered=True)
        return LinkDown(
            reason_words(PacketTypes.CONNACK, code),
            answered=True,
            wrong_version=code == VERSION_REFUSED,
            wrong_qos=code == QOS_REFUSED,
        )

    async def _look(self, *, has_tls: bool) -> str:
        login = self._login
        return await what_it_speaks(login.url, login.tls, self._first_bytes(), has_tls=has_tls)

    async def _look_if_silent(self) -> str:
        """Return the protocol of a silent port after TCP connected.

        Empty if a broker was there before.
        """
        if self._socket is None or self._login.is_known:
            return ""
        return await self._look(has_tls=self._login.url.is_tls)

    async def _explained(self, words: str) -> LinkDown:
        """Return why CONNECT was not answered, after a probe of the port if necessary."""
        if words:
            return LinkDown(words)
        has_tls = self._login.url.is_tls
        problem = await self._look(has_tls=has_tls) if has_tls or not self._login.is_known else ""
        if problem:
            return LinkDown(problem, foreign=True)
        return LinkDown(
            "the broker ends the connection instead of an answer to CONNECT", ended_early=True
        )


def _why_unreachable(error: OSError) -> str | None:
    """Return the reason for a failed TCP connection; None for another kind of error."""
    if isinstance(error, socket.gaierror):
        return "name not found"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, TimeoutError):
        return f"no answer within {TCP_CONNECT_S:g} s"
    return error.strerror.lower() if error.strerror else None
