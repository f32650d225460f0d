"""Reason codes of MQTT in plain words: of connections that end, and of messages that a broker refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.transport.broker_limits import RETAIN_UNAVAILABLE

if TYPE_CHECKING:
    from paho.mqtt.reasoncodes import ReasonCode

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


def connection_words(code: ReasonCode) -> str:
    """Return why a connection was refused or has ended."""
    return _OF_CONNECTIONS.get(code.value) or str(code).lower()


def refusal_words(code: ReasonCode) -> str:
    """Return why a message was refused, from the reason code of its PUBACK."""
    return _OF_MESSAGES.get(code.value) or str(code).lower()
