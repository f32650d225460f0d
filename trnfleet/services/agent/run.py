"""Running the agent: to a broker, or to stdout."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, BinaryIO

from trnfleet.domain.quantities import counted
from trnfleet.errors import BrokerError, TrnfleetError
from trnfleet.files import temporary_folder
from trnfleet.services.agent.host import AgentHost, HostRequest
from trnfleet.services.agent.outbox import Outbox
from trnfleet.services.agent.queued import QueuedPublisher
from trnfleet.services.publishing import LinePublisher, fail_if_all_refused, raise_if_refused
from trnfleet.services.read_back import StateCheck
from trnfleet.services.session import CONNECT_LIMIT_S, BrokerSession
from trnfleet.systemd import STILL_S, ServiceManager, Work, link_works
from trnfleet.tasks import Ending, background, in_thread, run_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trnfleet.clock import Clock
    from trnfleet.wire.ports import Envelope, LinkStatus, Publisher

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
    ending = Ending()
    manager = ServiceManager(clock)
    with ending.on_signals(), temporary_folder(_FOLDER) as folder, contextlib.ExitStack() as stack:
        host = await AgentHost.find(request, clock, folder)
        publisher = session.publisher(host.publisher, will=host.presence("offline"))
        outbox = await in_thread(lambda: Outbox(request.queue, root=request.root))
        stack.callback(outbox.close)
        queued = QueuedPublisher(publisher, outbox, clock)
        queued.on_connect(host.announce)
        check = StateCheck(session, publisher, report)
        async with background(
            publisher=publisher.run(),
            refused=fail_if_all_refused(publisher.status, clock),
            check=check.run(),
            sources=host.run(),
            queue=queued.run(),
        ):
            try:
                await publisher.wait_connected(CONNECT_LIMIT_S)
            except BrokerError as error:
                if once:
                    raise
                report(f"{error}; messages of {host.path} wait for it")
            else:
                report(f"publishing {host.path} of {request.fleet} to {session.url}")
            ticks = Work("ticks", lambda: host.ticks, still_s=STILL_S + 2 * request.period_s)
            works = [ticks, *link_works("connection", [publisher.status])]
            async with background(
                service_manager=manager.run(works, lambda: _status(host, publisher.status))
            ):
                await run_until(ending, Agent(host, queued).run(once=once))
            await check.finish(ending)
    raise_if_refused(publisher.status)
    check.raise_if_lost()


async def write(request: HostRequest, output: BinaryIO, clock: Clock, *, once: bool) -> None:
    """Write a host's messages as NDJSON until a signal, or once.

    Raises:
        BrokenPipeError: the reader has closed the pipe.
        TrnfleetError: the only tick had nothing to write.
    """
    ending = Ending()
    with ending.on_signals(), temporary_folder(_FOLDER) as folder:
        host = await AgentHost.find(request, clock, folder)
        async with background(sources=host.run()):
            publisher = LinePublisher(output, request.root)
            await run_until(ending, Agent(host, publisher).run(once=once))


def _status(host: AgentHost, link: LinkStatus) -> str:
    """Return one line: the ticks so far, or why there is no connection."""
    state = "" if link.connected else f"no connection: {link.last_error}; "
    return f"{state}{host.path}, {counted(host.ticks, 'tick')}"
