"""The brokers of a fleet: the connection to each, and figures from the broker itself.

Brokers publish figures below `$SYS/broker/`. They are read if the access list allows it, and never
needed: everything else was counted here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnfleet.wire.ports import LinkStatus

_SECURE = ("mqtts://", "wss://")
_VERSION = ("version",)
_UPTIME = ("uptime",)
_CLIENTS = ("clients/connected", "clients/active")
_DROPPED = ("publish/messages/dropped", "messages/dropped")
_RETAINED = ("retained messages/count", "messages/retained/count")
_SUBSCRIPTIONS = ("subscriptions/count",)
_RECEIVED = ("load/messages/received/1min", "load/publish/received/1min")
_SENT = ("load/messages/sent/1min", "load/publish/sent/1min")
SYS_PREFIX = "$SYS/broker/"
SYS_TOPICS = tuple(
    f"{SYS_PREFIX}{suffix}"
    for suffix in (
        *_VERSION,
        *_UPTIME,
        *_CLIENTS,
        *_DROPPED,
        *_RETAINED,
        *_SUBSCRIPTIONS,
        *_RECEIVED,
        *_SENT,
    )
)
"""Topics of the figures that are read: as Mosquitto names them, and spellings of others."""
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class BrokerFigures:
    """Figures published by a broker; None if missing."""

    version: str = ""
    uptime_s: float | None = None
    clients: int | None = None
    """Clients that are connected."""
    dropped: int | None = None
    """Messages dropped since the broker's start, for example for slow clients."""
    retained: int | None = None
    """Messages that it retains."""
    subscriptions: int | None = None
    received_per_s: float | None = None
    """Messages received per second, over the last minute."""
    sent_per_s: float | None = None
    """Messages sent per second, over the last minute."""

    @staticmethod
    def of(said: Mapping[str, str]) -> BrokerFigures | None:
        """Return the figures from a broker's messages.

        None without messages.

        The keys are the parts of the topics after `$SYS/broker/`.
        """
        if not said:
            return None
        received = _number(said, _RECEIVED)
        sent = _number(said, _SENT)
        return BrokerFigures(
            version=_text(said, _VERSION),
            uptime_s=_number(said, _UPTIME),
            clients=_count(said, _CLIENTS),
            dropped=_count(said, _DROPPED),
            retained=_count(said, _RETAINED),
            subscriptions=_count(said, _SUBSCRIPTIONS),
            received_per_s=None if received is None else received / 60.0,
            sent_per_s=None if sent is None else sent / 60.0,
        )


@dataclass(frozen=True, slots=True)
class BrokerHealth:
    """One broker and the connection to it.

    received = taken + waiting + shed + dropped + oversize
    """

    address: str
    connected: bool
    for_s: float
    """Seconds since it was connected or disconnected."""
    protocol: str
    """MQTT version in use; `recording` without a broker."""
    is_secure: bool
    """Whether the connection uses TLS."""
    reconnects: int
    last_error: str
    """Why the connection ended last, or could not be made."""
    cannot_write: str
    """Why acknowledgements and silences cannot be written over their own connection. Empty if they
    can, or are not wanted."""
    received: int
    waiting: int
    """Messages received and not yet read."""
    waiting_bytes: int
    queue_peak: int
    shed: int
    dropped: int
    oversize: int
    unsolicited: int
    """Messages on topics without a subscription of ours, not included in the others."""
    withholds_retained: bool
    """Whether, as far as known, subscriptions with wildcards receive no retained messages."""
    figures: BrokerFigures | None
    """Figures published by the broker; None if it publishes none, or not to us."""

    @property
    def taken(self) -> int:
        """Messages read by the monitor."""
        return self.received - self.waiting - self.shed - self.dropped - self.oversize

    @property
    def kind(self) -> str:
        """The broker's name and version, such as `mosquitto version 2.0.11`.

        Empty if unknown.
        """
        return "" if self.figures is None else self.figures.version

    @staticmethod
    def of(link: LinkStatus, now_s: float) -> BrokerHealth:
        """Return the broker of a connection."""
        return BrokerHealth(
            address=link.broker,
            connected=link.connected,
            for_s=max(0.0, now_s - link.changed_s),
            protocol=link.protocol,
            is_secure=link.broker.startswith(_SECURE),
            reconnects=max(0, link.connects - 1),
            last_error=link.last_error,
            cannot_write=link.cannot_write,
            received=link.received,
            waiting=link.waiting,
            waiting_bytes=link.waiting_bytes,
            queue_peak=link.queue_peak,
            shed=link.shed,
            dropped=link.dropped,
            oversize=link.oversize,
            unsolicited=link.unsolicited,
            withholds_retained=link.withholds_retained,
            figures=BrokerFigures.of(link.broker_says),
        )


def _text(said: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((said[name][:_LONGEST] for name in names if name in said), "")


def _number(said: Mapping[str, str], names: tuple[str, ...]) -> float | None:
    """Return a number, perhaps followed by a unit as in `7123 seconds`."""
    for name in names:
        try:
            number = float(said[name].split()[0])
        except (KeyError, ValueError, IndexError):
            continue
        if math.isfinite(number):
            return number
    return None


def _count(said: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    number = _number(said, names)
    return None if number is None else int(number)
