"""The brokers of a fleet at a moment: the connection to each as this program has it, and what the broker says of itself.

Brokers publish figures of themselves below `$SYS/broker/`. They are read where the access list allows it, and are never needed:
what is shown without them is what was counted here.
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
    f"{SYS_PREFIX}{each}"
    for each in (
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
    """What a broker says of itself; None where it does not say it."""

    version: str = ""
    uptime_s: float | None = None
    clients: int | None = None
    """Clients that are connected."""
    dropped: int | None = None
    """Messages that it dropped since its start, such as for clients that are slow to take them."""
    retained: int | None = None
    """Messages that it retains."""
    subscriptions: int | None = None
    received_per_s: float | None = None
    """Messages a second that it took, over the last minute."""
    sent_per_s: float | None = None
    """Messages a second that it passed on, over the last minute."""

    @staticmethod
    def of(said: Mapping[str, str]) -> BrokerFigures | None:
        """Return the figures of what a broker has said, by the part of the topic after `$SYS/broker/`; None for nothing."""
        if not said:
            return None
        received, sent = _number(said, _RECEIVED), _number(said, _SENT)
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
    """One broker, and the connection to it: received = taken + waiting + shed + dropped + oversize."""

    address: str
    connected: bool
    for_s: float
    """Seconds for which it has been connected, or not."""
    protocol: str
    """MQTT version that is spoken; `recording` where there is no broker."""
    is_secure: bool
    """Whether the connection uses TLS."""
    reconnects: int
    last_error: str
    """Why the connection ended last, or could not be made."""
    cannot_write: str
    """Why acknowledgements and silences cannot be written, over a connection of their own; empty where they can, or are not wanted."""
    received: int
    waiting: int
    """Messages that have come and wait to be taken."""
    waiting_bytes: int
    queue_peak: int
    shed: int
    dropped: int
    oversize: int
    unsolicited: int
    """Messages on topics without a subscription of ours; they are in none of the others."""
    withholds_retained: bool
    """Whether it gives retained messages to no subscription with wildcards, as far as that shows."""
    figures: BrokerFigures | None
    """What the broker says of itself; None where it does not say, or not to us."""

    @property
    def taken(self) -> int:
        """Messages that the monitor has taken."""
        return self.received - self.waiting - self.shed - self.dropped - self.oversize

    @property
    def kind(self) -> str:
        """The broker's name and version, such as `mosquitto version 2.0.11`; empty where it is not known."""
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
    """Return a number, which may have its unit behind it, as in `7123 seconds`."""
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
