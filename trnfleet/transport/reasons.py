"""MQTT reasons in plain words: ended or failed connections, and refused messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paho.mqtt.reasoncodes import ReasonCode

from trnfleet.transport.broker_limits import RETAIN_UNAVAILABLE

if TYPE_CHECKING:
    import asyncio

FIRST_FAILURE = 128
"""Reason codes from here on are failures."""
VERSION_REFUSED = 132
NOT_AUTHORISED = (134, 135)
QOS_REFUSED = 155
TAKEN_OVER = "another client took over the same client id"

_OF_CONNECTIONS = {
    128: "connection lost",
    130: "protocol error",
    VERSION_REFUSED: "the broker does not support this MQTT version",
    133: "the broker refuses the client id",
    136: "the broker is unavailable",
    137: "the broker is busy",
    138: "the broker has banned this client",
    139: "the broker is shutting down",
    141: "no answer within twice the keepalive",
    142: TAKEN_OVER,
    149: "a packet was too large for the broker",
    151: "the broker's quota is used up",
    154: f"{RETAIN_UNAVAILABLE}, which the last will is",
    QOS_REFUSED: "the broker does not support the QoS of the last will",
}
_OF_MESSAGES = {
    128: "the broker gives no reason",
    131: "a rule of the broker's own",
    135: "not authorised",
    144: "the broker does not accept the topic name",
    149: "too large for the broker",
    151: "the broker's quota is used up",
    153: "the broker finds the payload format invalid",
}


class LinkDown(Exception):  # noqa: N818  it is an event in a connection's life more than an error
    """A failed or ended connection; its text is the reason in plain words."""

    def __init__(
        self,
        why: str,
        *,
        wrong_version: bool = False,
        silent: bool = False,
        ended_early: bool = False,
        foreign: bool = False,
        wrong_qos: bool = False,
        answered: bool = False,
        unreached: bool = False,
    ) -> None:
        super().__init__(why)
        self.wrong_version = wrong_version
        """Whether the broker reports this version of MQTT as unsupported."""
        self.silent = silent
        """Whether TCP connected, and nothing came in answer to CONNECT."""
        self.ended_early = ended_early
        """Whether it ended instead of an answer to CONNECT. Brokers with MQTT 3.1.1 only do that.
        """
        self.foreign = foreign
        """Whether the port was found to speak something else."""
        self.wrong_qos = wrong_qos
        """Whether the broker does not support the QoS of the last will."""
        self.answered = answered
        """Whether a broker refused CONNECT by an answer."""
        self.unreached = unreached
        """Whether TCP did not connect: nothing listens there, or no way leads there."""


def why_ended(ended: asyncio.Future[str]) -> str:
    """Return why an ended connection ended: the broker's reasons, or our close."""
    return "connection closed" if ended.cancelled() else ended.result()


def connection_words(code: ReasonCode) -> str:
    """Return why a connection was refused or has ended."""
    return _OF_CONNECTIONS.get(code.value) or str(code).lower()


def reason_words(packet_type: int, number: int) -> str:
    """Return why a connection was refused or ended, from a packet's reason code."""
    try:
        return connection_words(ReasonCode(packet_type, identifier=number))
    except ValueError:
        # Not all of MQTT's are in paho's table, such as that of a will whose format is invalid.
        return f"reason code {number}"


def refusal_words(code: ReasonCode) -> str:
    """Return why a message was refused, from the reason code of its PUBACK."""
    return _OF_MESSAGES.get(code.value) or str(code).lower()
