"""Composition of the app for a broker or a recording.

It makes the monitor, recorder, playback and operator. The app itself knows the monitor and the
domain; the command passes it the ports in a `Viewing`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet import __version__, logs
from trnfleet.clock import Clock, format_rfc3339
from trnfleet.domain.quantities import size_text
from trnfleet.errors import ConfigError
from trnfleet.folders import cache_folder
from trnfleet.monitor.alerting.operator import OperatorActions
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.replay.playback import RecordingPlayback
from trnfleet.monitor.replay.seeker import PastMonitors
from trnfleet.monitor.sources.leases import Leases
from trnfleet.monitor.store.history import History
from trnfleet.record.format.metadata import About
from trnfleet.record.format.schema import SCHEMA
from trnfleet.record.write.live import LiveBuffer
from trnfleet.record.write.orphaned_buffers import delete_orphaned_buffers
from trnfleet.services.brokers import FanOutPublisher, FleetSession
from trnfleet.services.discovery import FoundFleet, appearing_fleets
from trnfleet.services.live_monitor import LiveMonitor, monitor_fleet
from trnfleet.services.operator import connect_operator, hold_leases, operator_name
from trnfleet.services.simulator.backfill import Backfill
from trnfleet.tasks import background
from trnfleet.wire.topics import TopicClass, build_filter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Sequence
    from pathlib import Path

    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.domain.site import Site
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.replay.seeker import Maker
    from trnfleet.record.read.recording import Recording
    from trnfleet.wire.ports import Source

LEAST_BYTES = 4 * 2**20
"""Least disk space for a useful past."""
MOST_FLEETS = 32
"""Most fleets in one app if all are shown. Any number can be shown by name. Measured with 192 chips
each: 13 MB a fleet, 0.09 s for a new one, and 25 ms for a tick with news of 32."""
log = logs.get_logger(__name__)


class Viewing(NamedTuple):
    """Ports of the app."""

    state: FleetState
    running: dict[str, Coroutine[Any, Any, None]]
    """Coroutines to run with the app, by task name."""
    playback: RecordingPlayback | None = None
    operator: OperatorActions | None = None
    leases: Leases | None = None
    """Requests to relays for chips. None for a recording."""
    buffer: LiveBuffer | None = None
    """Buffer of the past. None without a past, and for a recording."""


@contextlib.contextmanager
def view_fleet(
    session: FleetSession,
    fleet: str,
    *,
    rules: tuple[Rule, ...],
    owner: str | None,
    may_write: bool,
    site: Site,
    past_bytes: int,
    backfill_from: Path | None = None,
    turns: asyncio.Lock | None = None,
) -> Iterator[Viewing]:
    """Compose the app for a fleet on one or several brokers.

    The last minutes are recorded to disk.

    Args:
        session: The broker, or the brokers.
        fleet: The fleet's name.
        rules: The alert rules to evaluate.
        owner: Name for acknowledgements and silences; by default the user's name.
        may_write: Whether acknowledgements and silences may be written.
        site: Facts and limits that a person sets.
        past_bytes: Disk for going back in time; 0 for none.
        backfill_from: Recording of the minutes before, which may come into being later; None for
            none.
        turns: Held during each pass of the monitor, by one of several monitors at a time; None for
            one that is alone.

    Raises:
        ConfigError: that is too little disk.
    """
    buffer = make_buffer(session, fleet, disk_bytes=past_bytes)
    live = monitor_fleet(
        session, fleet, site=site, rules=rules, tap=buffer, recorder=buffer, has_charts=True
    )
    if turns is not None:
        live.monitor.turns = turns
    running = {"source": live.source.run(), "monitor": live.monitor.run()}
    if may_write:
        operator, publisher = connect_operator(session, fleet, owner=owner)
        running["operator"] = publisher.run()
        live.source.status.pair(publisher.status)
        if isinstance(publisher, FanOutPublisher):
            publisher.chosen = lambda: live.monitor.store.links_heard
    else:
        operator = OperatorActions(
            fleet, publisher=None, owner=operator_name(owner), root=session.root
        )
    leases = Leases(
        fleet,
        root=session.root,
        by=operator_name(owner),
        why_not=""
        if may_write
        else "this screen is read-only; trnfleet monitor --allow-commands asks relays",
    )
    if may_write:
        running["leases"] = hold_leases(session, live.monitor, leases)
    if buffer is None:
        if backfill_from is not None:
            running["backfill"] = Backfill(live.monitor, session.clock).run(backfill_from)
        yield Viewing(live.monitor, running, operator=operator, leases=leases)
        return
    buffer.start()
    try:
        playback = play_back_buffer(
            live, buffer, clock=session.clock, root=session.root, rules=rules
        )
        running["playback"] = playback.run()
        if backfill_from is not None:
            backfill = Backfill(live.monitor, session.clock, buffer=buffer, playback=playback)
            running["backfill"] = backfill.run(backfill_from)
        yield Viewing(playback.state, running, playback, operator, leases, buffer)
    finally:
        buffer.close()


class NotShown(NamedTuple):
    """A fleet found when the app was full."""

    name: str


class FleetViewings:
    """The fleets of one app, each with its own monitor, past and connections.

    Their passes take turns. More fleets may come.
    """

    def __init__(
        self,
        stack: contextlib.ExitStack,
        *,
        rules: tuple[Rule, ...],
        owner: str | None,
        may_write: bool,
        site: Site,
        past_bytes: int,
    ) -> None:
        """Store the settings of all fleets.

        `view_fleets` explains them.
        """
        self._stack = stack
        self._past_bytes = past_bytes
        self._turns = asyncio.Lock()
        self._view = partial(
            view_fleet, rules=rules, owner=owner, may_write=may_write, site=site, turns=self._turns
        )
        self._arrivals: asyncio.Queue[Viewing | NotShown] = asyncio.Queue()
        self.shown: dict[str, Viewing] = {}
        """The shown viewings, by fleet name."""

    def add(self, fleets: Sequence[FoundFleet]) -> None:
        """Compose the app for further fleets.

        From then on every fleet has an equal share of the disk.

        Raises:
            ConfigError: that is too little disk for the fleets, and none was shown before.
        """
        share_bytes = self._past_bytes // (len(self.shown) + len(fleets))
        if self.shown and share_bytes < LEAST_BYTES:
            # What is shown keeps its past.
            share_bytes = 0
        for viewing in self.shown.values() if share_bytes else ():
            if viewing.buffer is not None:
                viewing.buffer.share(share_bytes)
        for session, name in ((fleet.session, fleet.name) for fleet in fleets):
            self.shown[name] = self._stack.enter_context(
                self._view(session, name, past_bytes=share_bytes)
            )

    @property
    def running(self) -> dict[str, Coroutine[Any, Any, None]]:
        """All coroutines to run for the shown fleets, by task name."""
        return {
            f"{name}_{number}" if number else name: work
            for number, viewing in enumerate(self.shown.values())
            for name, work in viewing.running.items()
        }

    async def follow(self, session: FleetSession, most: int = MOST_FLEETS) -> None:
        """Show new fleets while the app runs, and run their coroutines, until cancelled.

        Args:
            session: The broker, or the brokers, of new fleets.
            most: Most fleets to show, besides as many former ones; further ones are named.
        """
        announcements = session.source([(build_filter("+", TopicClass.PUBLISHER, session.root), 0)])
        async with background(fleets=announcements.run()), asyncio.TaskGroup() as group:
            async for name in appearing_fleets(announcements, session.root, tuple(self.shown)):
                if len(self.shown) - min(self._gone(), most) >= most:
                    log.warning("fleet_not_shown", fleet=name, shown=len(self.shown))
                    self._arrivals.put_nowait(NotShown(name))
                    continue
                self.add([FoundFleet(name, session)])
                viewing = self.shown[name]
                log.info("fleet_appeared", fleet=name)
                for task, work in viewing.running.items():
                    group.create_task(work, name=f"{task}_{len(self.shown) - 1}")
                self._arrivals.put_nowait(viewing)

    def _gone(self) -> int:
        """Return how many shown fleets had publishers and now have none online."""
        monitors = (
            (viewing.playback and viewing.playback.live) or viewing.state
            for viewing in self.shown.values()
        )
        pipelines = (monitor.pipeline() for monitor in monitors)
        return sum(
            bool(len(pipeline.publishers)) and not pipeline.publishers_online
            for pipeline in pipelines
        )

    async def arrivals(self) -> AsyncIterator[Viewing | NotShown]:
        """Yield new fleets: shown from then on, or not shown."""
        while True:
            yield await self._arrivals.get()


@contextlib.contextmanager
def view_fleets(
    fleets: Sequence[FoundFleet],
    *,
    rules: tuple[Rule, ...],
    owner: str | None,
    may_write: bool,
    site: Site,
    past_bytes: int,
) -> Iterator[FleetViewings]:
    """Compose the app for several fleets.

    Args:
        fleets: The fleets, and where they are heard.
        rules: The alert rules to evaluate.
        owner: Name for acknowledgements and silences; by default the user's name.
        may_write: Whether acknowledgements and silences may be written.
        site: Facts and limits that a person sets.
        past_bytes: Disk for going back in time, shared by the fleets; 0 for none.

    Raises:
        ConfigError: that is too little disk.
    """
    with contextlib.ExitStack() as stack:
        viewings = FleetViewings(
            stack, rules=rules, owner=owner, may_write=may_write, site=site, past_bytes=past_bytes
        )
        viewings.add(fleets)
        yield viewings


def view_recording(
    recording: Recording,
    fleet: str,
    *,
    from_ns: int,
    to_ns: int,
    speed: float,
    loops: bool,
    rules: tuple[Rule, ...],
    site: Site,
    clock: Clock,
) -> Viewing:
    """Compose the app for a recording.

    Args:
        recording: The recording; the caller closes it.
        fleet: The fleet to show.
        from_ns: Begin of the part to show.
        to_ns: Its end.
        speed: Seconds of the recording per second.
        loops: Whether to begin again at the end.
        rules: The alert rules to evaluate.
        site: Facts and limits that a person sets.
        clock: The time to go by.
    """
    first = recording.abouts[0]
    playback = RecordingPlayback(
        recording,
        monitor_maker(fleet, root=first.root, site=site, rules=rules),
        clock=clock,
        name="a recording" + (f" of {first.broker}" if first.broker else ""),
        rate=speed,
        loops=loops,
        begin_ns=from_ns,
        until_ns=to_ns,
    )
    return Viewing(playback.state, {"playback": playback.run()}, playback)


def monitors_at(
    recording: Recording,
    fleet: str,
    instants_ns: Iterable[int],
    *,
    rules: tuple[Rule, ...],
    site: Site,
    clock: Clock,
) -> Iterator[Monitor]:
    """Yield one monitor at each of some instants of a recording, played from its beginning.

    Args:
        recording: The recording; the caller closes it.
        fleet: The fleet to read.
        instants_ns: Times of the recording, in order.
        rules: The alert rules to evaluate.
        site: Facts and limits that a person sets.
        clock: The real clock.
    """
    monitors = PastMonitors(
        recording,
        monitor_maker(fleet, root=recording.root, site=site, rules=rules),
        clock,
        name="a recording",
        anchor=(recording.start_ns, 0.0),
        charted=None,
    )
    past = monitors.make(History())
    for _ in past.begin():
        pass
    for instant_ns in instants_ns:
        for _ in past.reach(instant_ns):
            pass
        yield past.monitor


def past_folder() -> Path:
    """Return the parent folder of every running app's past."""
    return cache_folder().path / "past"


def make_buffer(session: FleetSession, fleet: str, *, disk_bytes: int) -> LiveBuffer | None:
    """Return the recorder of a fleet's past, not started yet; None for no disk.

    Args:
        session: The broker.
        fleet: The fleet's name.
        disk_bytes: Disk to use; 0 for none.

    Raises:
        ConfigError: that is too little to go back in time.
    """
    if not disk_bytes:
        return None
    if disk_bytes < LEAST_BYTES:
        raise ConfigError(
            f"--past: {size_text(disk_bytes)} is too little to go back in time; "
            f"at least {size_text(LEAST_BYTES)}, or 0 for none"
        )
    clock = session.clock
    parent = past_folder()
    delete_orphaned_buffers(parent, clock.wall_ns())
    name = os.urandom(8).hex()
    about = About(
        schema=SCHEMA,
        id=name,
        fleets=(fleet,),
        root=session.root,
        version=__version__,
        broker=", ".join(f"{url.host}:{url.port}" for url in session.urls),
        started=format_rfc3339(clock.wall_ns()),
    )
    return LiveBuffer(parent / f"{fleet}-{name}", about, clock=clock, disk_bytes=disk_bytes)


def play_back_buffer(
    live: LiveMonitor, buffer: LiveBuffer, *, clock: Clock, root: str, rules: tuple[Rule, ...]
) -> RecordingPlayback:
    """Return the playback of a live monitor's past.

    The past is recorded in full unless the monitor has more urgent work.
    """
    monitor = live.monitor
    buffer.gives_way = monitor.is_joining
    return RecordingPlayback(
        buffer,
        monitor_maker(
            monitor.fleet_name, root=root, site=monitor.site, rules=rules, caps=monitor.caps
        ),
        clock=clock,
        name=f"the past of {live.source.status.broker}",
        live=monitor,
        rolling=buffer,
    )


def monitor_maker(
    fleet: str,
    *,
    root: str,
    site: Site,
    rules: tuple[Rule, ...],
    caps: dict[str, float] | None = None,
) -> Maker:
    """Return a function to make monitors of the past, which share their power caps."""
    caps = dict(site.power_caps) if caps is None else caps

    def make(source: Source, clock: Clock, history: History | None) -> Monitor:
        return Monitor(
            source,
            fleet,
            clock=clock,
            root=root,
            site=site,
            rules=rules,
            history=history,
            caps=caps,
        )

    return make
