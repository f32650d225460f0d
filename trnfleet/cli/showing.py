"""The app in front of a fleet on a broker: monitor, desk, and what keeps the past; what the demo and `monitor` share."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Literal

from trnfleet.cli import keeping
from trnfleet.cli.alerting import make_desk
from trnfleet.cli.app import Showing, run_app
from trnfleet.cli.watching import watch_fleet

if TYPE_CHECKING:
    from pathlib import Path

    from trnfleet.cli.alerting import Alerting
    from trnfleet.clock import Clock
    from trnfleet.transport.url import BrokerUrl, Password


async def show_fleet(
    url: BrokerUrl,
    fleet: str,
    alerting: Alerting,
    *,
    root: str,
    password: Password | None,
    clock: Clock,
    pue: float | None,
    past_bytes: int,
    log_file: Path,
    broker_kind: str = "",
    protocol: Literal["5", "3.1.1"] | None = None,
) -> int:
    """Show a fleet until the app ends, and return its exit status.

    Args:
        url: The broker.
        fleet: The fleet's name.
        alerting: Rules, who may write what, and how the app calls.
        root: First part of the topics.
        password: The user's.
        clock: The time to go by.
        pue: Power usage effectiveness of the site; by default AWS's published one.
        past_bytes: Disk for going back in time; 0 for none.
        log_file: Where the log is.
        broker_kind: The broker's name and version, where they are known.
        protocol: Speak only this version of MQTT.

    Raises:
        TrnfleetError: the app crashed; the message names the log.
    """
    buffer = keeping.make_buffer(fleet, root, url, clock=clock, disk_bytes=past_bytes)
    watch = watch_fleet(
        url,
        fleet,
        root=root,
        password=password,
        clock=clock,
        protocol=protocol,
        pue=pue,
        rules=alerting.rules,
        buffer=buffer,
    )
    desk = make_desk(
        url,
        fleet,
        root=root,
        password=password,
        clock=clock,
        owner=alerting.owner,
        may_write=alerting.may_write,
        protocol=protocol,
    )
    with contextlib.ExitStack() as stack:
        showing = Showing(watch.monitor, {"source": watch.source.run(), "monitor": watch.monitor.run()})
        if buffer is not None:
            buffer.start()
            stack.callback(buffer.close)
            deck = keeping.make_deck(watch, buffer, clock=clock, root=root, rules=alerting.rules)
            showing = Showing(deck.shown, {**showing.running, "deck": deck.run()}, deck)
        return await run_app(
            showing,
            clock=clock,
            broker_kind=broker_kind,
            log_file=log_file,
            desk=desk,
            calling=alerting.calling,
        )
