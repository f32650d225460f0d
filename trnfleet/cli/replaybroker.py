"""A recording back to a broker: the connection around a player, and the refusal to play over what is live."""

from __future__ import annotations

import gc
import secrets
import sys
from typing import TYPE_CHECKING, Literal, NamedTuple

import click

from trnfleet.cli.discovery import CONNECT_LIMIT_S, RETAINED_S, seen_fleets
from trnfleet.cli.recording import fleet_of, fleets_of, part_of
from trnfleet.clock import SystemClock
from trnfleet.domain.quantities import duration as duration_text
from trnfleet.errors import ConfigError, WireError
from trnfleet.record.read.player import Player
from trnfleet.tasks import Ending, background, run_until
from trnfleet.text import plain
from trnfleet.transport.filters import topic_matches
from trnfleet.transport.mqtt import MqttPublisher
from trnfleet.wire.topics import TopicClass, parse_topic

if TYPE_CHECKING:
    from collections.abc import Collection

    from trnfleet.cli.recording import Asked
    from trnfleet.clock import Clock
    from trnfleet.record.read.recording import Recording
    from trnfleet.transport.url import BrokerUrl, Password

SWITCH_S = 0.0005
"""How long the thread that reads ahead may keep the one that publishes waiting."""


class ToBroker(NamedTuple):
    """Where to, as what, and how much."""

    url: BrokerUrl
    password: Password | None
    root: str | None
    filters: tuple[str, ...]
    new_name: str | None
    protocol: Literal["5", "3.1.1"] | None


async def publish(recording: Recording, asked: Asked, to: ToBroker) -> None:
    """Play a recording to a broker until its end, or until told to stop.

    Raises:
        BrokerError: the broker cannot be reached.
        ConfigError: the broker has a live fleet of that name, or the options ask for what the recording does not have.
    """
    # The cyclic collector would hold messages up, for cycles that hardly exist.
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    # Python lets a thread go on for 5 ms before another gets its turn: as long as a message may be late.
    sys.setswitchinterval(SWITCH_S)
    clock, ending = SystemClock(), Ending()
    # Topics of other programs have no fleet; they are left out where one is chosen.
    fleet = fleet_of(recording, asked.name, asked.files[0]) if asked.name or to.new_name else None
    fleets = fleets_of(recording) if fleet is None else (fleet,)
    from_ns, to_ns = part_of(recording, asked.begin, asked.end)
    with ending.on_signals():
        live = await _live_fleets(to, root=to.root or recording.root, clock=clock)
        for each in fleets:
            _refuse_live(to, to.new_name or each, live)
        player = Player(
            recording,
            clock,
            root=recording.root,
            speed=asked.speed,
            from_ns=from_ns,
            to_ns=to_ns,
            wanted=_Wanted(to, recording.root, live),
            loops=asked.loop,
            fleet=fleet,
            name=to.new_name,
            to_root=to.root,
            reads_ahead=True,
        )
        publisher = MqttPublisher(
            to.url,
            client_id=f"trnfleet-replay-{secrets.token_hex(4)}",
            password=to.password,
            will=player.will(),
            clock=clock,
            protocol=to.protocol,
        )
        player.attach(publisher)
        async with background(publisher=publisher.run()):
            await publisher.wait_connected(CONNECT_LIMIT_S)
            what = ", ".join(fleets) or "topics of no fleet"
            renamed = f" as {to.new_name}" if to.new_name else ""
            speed = "" if asked.speed == 1 else f", {asked.speed:g} times as fast"
            again = ", again and again" if asked.loop else ""
            click.echo(
                f"replaying {plain(what, 200)}{renamed} to {to.url}: {duration_text(player.length_s)}{speed}{again}",
                err=True,
            )
            await run_until(ending, player.run())
            status = publisher.status
    click.echo(
        f"replayed {player.published:,} messages; dropped {status.dropped:,} without a connection; "
        f"the latest was late by {duration_text(player.latest_s)}",
        err=True,
    )


class _Wanted:
    """Says of a recorded topic whether it is replayed.

    A recording names the fleets that were there at its begin. One that came later is met here.
    """

    def __init__(self, to: ToBroker, root: str, live: Collection[str]) -> None:
        self._to = to
        self._root = root
        self._live = live

    def __call__(self, topic: str) -> bool:
        """Say whether a topic falls under one of the filters.

        Raises:
            ConfigError: it is of a fleet that is live; the message names --as.
        """
        to = self._to
        if to.filters and not any(topic_matches(each, topic) for each in to.filters):
            return False
        try:
            fleet = parse_topic(topic, self._root).fleet
        except WireError:
            return True
        _refuse_live(to, to.new_name or fleet, self._live)
        return True


def _refuse_live(to: ToBroker, fleet: str, live: Collection[str]) -> None:
    """Refuse to replay over a fleet that is there.

    Raises:
        ConfigError: somebody publishes telemetry of it; the message names --as.
    """
    if fleet in live:
        raise ConfigError(
            f"{to.url} has a live fleet {fleet!r}: replay under another name, as with --as {fleet}-replay"
        )


async def _live_fleets(to: ToBroker, *, root: str, clock: Clock) -> set[str]:
    """Return the fleets of which a publisher of telemetry is there."""
    online = await seen_fleets(
        to.url, TopicClass.PUBLISHER, RETAINED_S, root=root, password=to.password, clock=clock
    )
    return {fleet for fleet, is_live in online.items() if is_live}
