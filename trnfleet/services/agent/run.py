"""Running the agent: to a broker, or to stdout."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, BinaryIO

from trnfleet.domain.quantities import counted
from trnfleet.errors import TrnfleetError
from trnfleet.files import temporary_folder
from trnfleet.services.agent.host import AgentHost, HostRequest
from trnfleet.services.agent.outbox import Outbox
from trnfleet.services.agent.queued import QueuedPublisher
from trnfleet.services.publishing import PublisherRun, write_lines
from trnfleet.systemd import STILL_S, Work
from trnfleet.tasks import background, in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trnfleet.clock import Clock
    from trnfleet.services.session import BrokerSession
    from trnfleet.wire.ports import Envelope, Publisher

_FOLDER = "trnfleet-agent-"
"""Prefix of the folder with neuron-monitor's configuration."""


class Agent:
    """Ticks of a host, sent one after the other."""

    def __init__(self, host: AgentHost, publisher: Publisher) -> None:
        self._host = host
        self._publisher = publisher

    async def send(self, envelopes: Iterable[Envelope]) -> None:
        """Send messages: all of a tick go this way."""
        await self._publisher.publish(envelopes)

    async def run(self, *, once: bool) -> None:
        """Tick until cancelled, or once; say goodbye at the end.

        Raises:
            TrnfleetError: the only tick had nothing to publish.
        """
        host = self._host
        try:
            await host.wait_documents(once=once)
            while True:
                await self.send(await host.tick())
                if once:
                    break
                await host.wait()
        finally:
            await self.send([host.presence("offline")])
        if not host.is_known:
            raise TrnfleetError(
                f"nothing to publish: {host.missing}; trnfleet doctor --agent names what is missing"
            )


async def publish(
    request: HostRequest, session: BrokerSession, report: Callable[[str], None], *, once: bool
) -> None:
    """Publish a host to a broker until a signal, or once.

    Args:
        request: The host.
        session: The broker.
        report: Receives a line at the start, and one where the broker does not give back what it
            was sent.
        once: Whether to end after one tick.

    Raises:
        BrokerError: the broker cannot be reached, or refused messages: at once where it refused
            all, else at the end.
        NotConfirmedError: in MQTT 3.1.1, at the end: the broker does not give back what it was
            sent.
        TrnfleetError: the only tick had nothing to publish.
    """
    clock = session.clock
    run = PublisherRun(session, report)
    with (
        run.ending.on_signals(),
        temporary_folder(_FOLDER) as folder,
        contextlib.ExitStack() as stack,
    ):
        host = await AgentHost.find(request, clock, folder)
        publisher = session.publisher(host.publisher, will=host.presence("offline"))
        outbox = await in_thread(lambda: Outbox(request.queue, root=request.root))
        stack.callback(outbox.close)
        queued = QueuedPublisher(publisher, outbox, clock)
        queued.on_connect(host.announce)
        host.tell_dropped = queued.tell_dropped
        host.first_waiting = queued.first_waiting

        async def work() -> None:
            if publisher.status.connected:
                report(f"publishing {host.path} of {request.fleet} to {session.url}")
            await Agent(host, queued).run(once=once)

        await run.run(
            publisher,
            work,
            lambda: f"{host.path}, {counted(host.ticks, 'tick')}",
            works=[Work("ticks", lambda: host.ticks, still_s=STILL_S + 2 * request.period_s)],
            waits=once,
            beside={"sources": host.run(), "queue": queued.run()},
        )


async def write(request: HostRequest, output: BinaryIO, clock: Clock, *, once: bool) -> None:
    """Write a host's messages as NDJSON until a signal, or once.

    Raises:
        BrokenPipeError: the reader has closed the pipe.
        TrnfleetError: the only tick had nothing to write.
    """

    async def work(publisher: Publisher) -> None:
        with temporary_folder(_FOLDER) as folder:
            host = await AgentHost.find(request, clock, folder)
            async with background(sources=host.run()):
                await Agent(host, publisher).run(once=once)

    await write_lines(output, request.root, work)
