"""A broker's own figures below `$SYS/broker/`, read over a separate connection.

They are never needed. Access lists refuse them, many brokers have none, and some (AWS IoT Core) end
a connection that subscribes to a forbidden topic: on a separate connection this does no harm. It
ends for good, without a warning in the log, once all topics are refused or nothing arrives. NATS
Server refuses only topics with spaces.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from trnfleet import logs
from trnfleet.errors import BrokerError
from trnfleet.monitor.pipeline.brokers import SYS_PREFIX, SYS_TOPICS
from trnfleet.tasks import background, preserve_cancellation
from trnfleet.transport.mqtt import READER_SUFFIX, MqttSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.clock import Clock
    from trnfleet.wire.ports import LinkStatus

log = logs.get_logger(__name__)

LOOK_EVERY_S = 0.2
"""Time between two looks whether the source is connected."""
CONNECT_S = 5.0
SAID_WITHIN_S = 25.0
"""Silence after which a broker publishes no figures. Mosquitto repeats changed ones every 10 s."""
LONGEST_BYTES = 200


class FiguresSource(MqttSource):
    """A source with its broker's figures in its status while they arrive."""

    async def run(self) -> None:
        """Keep the connection up until cancelled."""
        login, clock = self.login, self.clock

        def of_figures() -> MqttSource:
            return MqttSource(
                login.url,
                [(topic, 0) for topic in SYS_TOPICS],
                client_id=f"{login.client_id.removesuffix(READER_SUFFIX)}-s",
                password=login.password,
                tls=login.tls,
                clock=clock,
                protocol="3.1.1" if self.status.protocol == "3.1.1" else None,
                client=self.client,
                is_needed=False,
            )

        async with background(broker_figures=read_figures(of_figures, self.status, clock)):
            await super().run()


async def read_figures(make: Callable[[], MqttSource], status: LinkStatus, clock: Clock) -> None:
    """Read figures into a status once its connection is up, until no more arrive.

    Args:
        make: Makes a source of `SYS_TOPICS`.
        status: Receives them.
        clock: The time to go by.
    """
    while not status.connected:
        await clock.sleep(LOOK_EVERY_S)
    source = make()
    async with background(figures_source=source.run()):
        try:
            await source.wait_connected(CONNECT_S)
        except BrokerError as error:
            log.debug("broker_figures_refused", broker=status.broker, reason=str(error))
            return
        while True:
            try:
                batch = await preserve_cancellation(asyncio.wait_for(source.take(), SAID_WITHIN_S))
            except TimeoutError:
                status.broker_says.clear()
                if source.status.connected:
                    log.debug("broker_figures_none", broker=status.broker)
                    return
                continue
            for envelope in batch:
                text = envelope.payload[:LONGEST_BYTES].decode(errors="replace")
                status.broker_says[envelope.topic.removeprefix(SYS_PREFIX)] = text
