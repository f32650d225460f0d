"""Replay of a recording to a broker.

It is refused over a live fleet of the same name.
"""

from __future__ import annotations

import secrets
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trnfleet.domain.quantities import duration as duration_text
from trnfleet.errors import ConfigError, WireError
from trnfleet.garbage import spare_collector
from trnfleet.record.read.player import Player
from trnfleet.services.files.recordings import fleet_of, fleets_of, part_of
from trnfleet.services.publishing import PublisherRun
from trnfleet.services.retained import LiveFleets, find_live_fleets
from trnfleet.text import plain
from trnfleet.transport.filters import topic_matches
from trnfleet.wire.topics import class_hint, parse_topic

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.record.read.recording import Recording
    from trnfleet.services.session import BrokerSession

SWITCH_S = 0.0005
"""Longest delay of the publishing thread by the reading one."""


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """The part of a recording to replay, and the fleet's new name."""

    file: str
    """Name of the recording's first file, for messages."""
    fleet: str | None = None
    """The fleet to replay; None for all topics."""
    begin: str | None = None
    end: str | None = None
    speed: float = 1.0
    """Seconds of the recording per second."""
    loops: bool = False
    filters: tuple[str, ...] = ()
    """Filters of recorded topics; all topics if empty."""
    new_name: str | None = None
    """Name of the fleet to replay as."""
    root: str | None = None
    """Root of the topics to publish to; None for the recording's."""
    clears: bool = False
    """Whether to clear its retained messages at the end."""


async def publish_recording(
    session: BrokerSession,
    recording: Recording,
    request: ReplayRequest,
    report: Callable[[str], None],
) -> None:
    """Replay a recording to a broker until its end or a signal.

    Args:
        session: The broker.
        recording: The recording; the caller closes it.
        request: The part to replay.
        report: Receives a line at the begin and one at the end.

    Raises:
        BrokerError: the broker cannot be reached, has a live fleet of that name, or refused
            messages: at once where it refused all, else at the end.
        NotConfirmedError: in MQTT 3.1.1, at the end: the broker does not give back what it was
            sent.
        ConfigError: the recording lacks the requested fleet or part, or what the filters name.
    """
    # The cyclic collector would hold messages up, for cycles that hardly exist.
    spare_collector()
    # Python lets a thread go on for 5 ms before another gets its turn: as long as a message may be
    # late.
    sys.setswitchinterval(SWITCH_S)
    clock = session.clock
    run = PublisherRun(session, report)
    if hint := next(
        filter(
            None, (class_hint(topic_filter, recording.root) for topic_filter in request.filters)
        ),
        "",
    ):
        raise ConfigError(f"--filter {' '.join(request.filters)}: {hint}")
    # Topics of other programs have no fleet; they are left out where one is chosen.
    fleet = (
        fleet_of(recording, request.fleet, request.file)
        if request.fleet or request.new_name
        else None
    )
    fleets = fleets_of(recording) if fleet is None else (fleet,)
    from_ns, to_ns = part_of(recording, request.begin, request.end)
    with run.ending.on_signals():
        live = await find_live_fleets(session)
        if live.unknown:
            report(f"not known whether a fleet of that name is live: {live.unknown}")
        topics = _ReplayedTopics(str(session.url), request, recording.root, live)
        for name in fleets:
            topics.refuse_live(name)
        player = Player(
            recording,
            clock,
            root=recording.root,
            speed=request.speed,
            from_ns=from_ns,
            to_ns=to_ns,
            is_replayed=topics,
            loops=request.loops,
            fleet=fleet,
            name=request.new_name,
            to_root=request.root,
            reads_ahead=True,
        )
        publisher = session.publisher(f"trnfleet-replay-{secrets.token_hex(4)}", will=player.will())
        player.attach(publisher)

        async def work() -> None:
            names = ", ".join(fleets) or "topics of no fleet"
            renamed = f" as {request.new_name}" if request.new_name else ""
            speed = "" if request.speed == 1 else f", {request.speed:g} times as fast"
            again = ", in a loop" if request.loops else ""
            report(
                f"replaying {plain(names, 200)}{renamed} to {session.url}: "
                f"{duration_text(player.length_s)}{speed}{again}"
            )
            await player.run()

        def progress() -> str:
            return (
                f"replayed {player.published:,} messages; dropped {publisher.status.dropped:,}"
                " without a connection; the latest was late by"
                f" {duration_text(player.latest_s)}"
            )

        await run.run(
            publisher,
            work,
            progress,
            summary=progress,
            clears=request.clears,
            root=request.root or recording.root,
        )
    if request.filters and not player.published:
        raise ConfigError(
            f"--filter {' '.join(request.filters)}: nothing was replayed: no recorded topic falls"
            " under it"
        )


class _ReplayedTopics:
    """Predicate for the recorded topics to replay.

    A recording names the fleets present at its start. A live fleet that began later is refused
    here.
    """

    def __init__(self, broker: str, request: ReplayRequest, root: str, live: LiveFleets) -> None:
        self._broker = broker
        self._request = request
        self._root = root
        self._live = live

    def __call__(self, topic: str) -> bool:
        """Return whether a topic matches one of the filters.

        Raises:
            BrokerError: its fleet is live; the message names --as.
        """
        filters = self._request.filters
        if filters and not any(topic_matches(topic_filter, topic) for topic_filter in filters):
            return False
        try:
            fleet = parse_topic(topic, self._root).fleet
        except WireError:
            return True
        self.refuse_live(fleet)
        return True

    def refuse_live(self, fleet: str) -> None:
        """Refuse to replay a fleet under the name of a live one.

        Raises:
            BrokerError: that fleet has live publishers; the message names --as.
        """
        name = self._request.new_name or fleet
        self._live.refuse(
            self._broker, name, f"replay under another name, as with --as {name}-replay"
        )
