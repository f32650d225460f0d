"""Publishing a simulation to a broker."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.domain.quantities import counted
from trnfleet.errors import BrokerError
from trnfleet.services.publishing import PublisherRun
from trnfleet.services.retained import find_live_fleets
from trnfleet.services.session import CONNECT_LIMIT_S, BrokerSession
from trnfleet.services.simulator.engine import make_engine, unreliable
from trnfleet.services.simulator.lead_in import SETTLING_TICKS, LeadIn
from trnfleet.sim.ids import ec2_id
from trnfleet.sim.publish.commands import CommandHandler
from trnfleet.sim.publish.faulty_publisher import TransportControl
from trnfleet.sim.publish.service import Simulation
from trnfleet.sim.publish.state import new_boot, will_envelope
from trnfleet.systemd import STILL_S, Work
from trnfleet.wire.commands.server import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from pathlib import Path

    from trnfleet.services.simulator.run import Run
    from trnfleet.sim.engine import Engine
    from trnfleet.wire.messages import Descriptor


class PublishOptions(NamedTuple):
    """Limits and client id of a publishing simulator."""

    client_id: str
    ticks: int | None = None
    """Ticks to publish; None for no limit."""
    duration_s: float | None = None
    """Wall time to publish for; None for no limit."""
    jump_s: float = 0.0
    """Simulated time before the first tick."""
    allow_commands: bool = False
    lead_in_to: Path | None = None
    """Recording to make of the engine's ticks before the start; None where it has none."""
    clears: bool = False
    """Whether to clear its retained messages at the end."""
    is_checked: bool = False
    """Whether the name is known to belong to no live fleet."""


async def publish(
    session: BrokerSession,
    engine: Engine,
    run: Run,
    options: PublishOptions,
    report: Callable[[str], None],
) -> None:
    """Publish a simulation to a broker until a signal or its limits end it.

    Args:
        session: The broker.
        engine: The run's engine.
        run: The run.
        options: Limits, and the publisher's name.
        report: Receives a line at the start and one at the end.

    Raises:
        BrokerError: the broker cannot be reached, has a live fleet of that name, or refused
            messages: at once where it refused all, else at the end.
        NotConfirmedError: in MQTT 3.1.1, at the end: the broker does not give back what it was
            sent.
    """
    clock = session.clock
    boot = new_boot()
    publisher_run = PublisherRun(session, report)
    client = options.client_id
    will = will_envelope(engine.fleet.name, client, boot, root=session.root)
    mqtt = session.publisher(client, will=will)
    publisher = unreliable(mqtt, run, engine, clock)
    simulation = Simulation(
        engine,
        publisher,
        clock=clock,
        client_id=client,
        boot=boot,
        root=session.root,
        speed=run.speed,
        is_dated=run.start is not None,
        jump_s=options.jump_s,
        first_seq=max(0, engine.lead_in - SETTLING_TICKS),
    )
    commands = CommandHandler(
        TransportControl(simulation, publisher),
        engine.fleet.name,
        allowed=options.allow_commands,
        simulator=client,
        root=session.root,
        # Of a simulation's shards the one with the fleet's first instance answers for all.
        answers=engine.own.start == 0,
    )
    requests = session.source(commands.filters(), beside=client)
    beside: dict[str, Coroutine[Any, Any, None]] = {}
    if options.lead_in_to is not None and engine.lead_in:

        def twin() -> Engine:
            return make_engine(run, engine.fleet, lead_in=engine.lead_in)

        lead_in = LeadIn(
            simulation,
            twin,
            run,
            options.lead_in_to,
            clock=clock,
            client_id=client,
            boot=boot,
            root=session.root,
        )
        beside["lead_in"] = lead_in.run()
    part = engine.own
    chips = int(engine.layout.chip_start[part.stop] - engine.layout.chip_start[part.start])

    async def work() -> None:
        # A broker may forbid commands altogether; that is no reason not to publish.
        with contextlib.suppress(BrokerError):
            await requests.wait_connected(CONNECT_LIMIT_S)
        speed = "" if run.speed == 1 else f", {run.speed:g} times as fast as the wall clock"
        report(
            f"publishing {engine.fleet.name}: {counted(chips, 'chip')} of"
            f" {counted(len(part), 'instance')} to {session.url},"
            f" {simulation.messages_per_tick:,} messages every {run.period_s:g} s{speed}"
        )
        await simulation.run(ticks=options.ticks, duration_s=options.duration_s)

    def summary() -> str:
        return (
            f"published {simulation.published:,} ticks, {mqtt.status.sent:,} messages; dropped"
            f" {mqtt.status.dropped:,} without a connection, left out {simulation.overruns:,} ticks"
            " for want of time"
        )

    # A jump makes many ticks before one is published, and a large fleet is announced before the
    # first.
    still_s = STILL_S + 2 * run.period_s
    with publisher_run.ending.on_signals():
        if not options.is_checked:
            await _refuse_live(session, engine, client, report)
        await publisher_run.run(
            mqtt,
            work,
            lambda: _status(simulation, counted(chips, "chip")),
            works=[Work("ticks", lambda: (engine.ticks, mqtt.status.sent), still_s=still_s)],
            summary=summary,
            clears=options.clears,
            beside={
                "late": publisher.run(),
                "requests": requests.run(),
                "commands": serve(commands, requests, publisher, clock),
                **beside,
            },
        )


async def _refuse_live(
    session: BrokerSession, engine: Engine, client: str, report: Callable[[str], None]
) -> None:
    """Refuse to publish under the name of a live fleet that is not this simulation.

    Raises:
        BrokerError: there is one; the message names --name.
    """

    def is_own(publisher: str, descriptors: Sequence[Descriptor]) -> bool:
        return publisher == client or _is_other_shard(engine, descriptors)

    fleet = engine.fleet.name
    live = await find_live_fleets(session, fleet, is_own)
    if live.unknown:
        report(f"not known whether fleet {fleet!r} is live: {live.unknown}")
    live.refuse(str(session.url), fleet, f"simulate under another name, as with --name {fleet}-sim")


def _is_other_shard(engine: Engine, descriptors: Sequence[Descriptor]) -> bool:
    """Return whether a publisher has another part of the same fleet and seed.

    The EC2 ids of a simulation follow from its seed. A shard that has just started describes
    nothing yet.
    """
    if engine.shard.is_whole:
        return False
    layout = engine.layout
    token = engine.rng.token
    described = [spec for descriptor in descriptors for spec in descriptor.instances]
    for spec in described:
        node = layout.find(spec.path)
        if node is None or layout.instance_range(node).start in engine.own:
            return False
    return not described or any(spec.ec2_id == ec2_id(token, spec.path) for spec in described)


def _status(simulation: Simulation, chips: str) -> str:
    """Return the ticks so far in one line."""
    skipped = f", left out {simulation.overruns:,}" if simulation.overruns else ""
    return f"{chips}, {counted(simulation.published, 'tick')}{skipped}"
