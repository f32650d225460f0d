"""The last minutes of what the app watches, kept on disk so that one can go back in time; what the demo and `monitor` share."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from trnfleet import __version__
from trnfleet.cli.options import CommandT, setting
from trnfleet.cli.recording import Size, size_text
from trnfleet.clock import format_rfc3339
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from trnfleet.cli.watching import Watch
    from trnfleet.clock import Clock
    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.monitor.replay.playback import Deck, Maker
    from trnfleet.monitor.store.history import History
    from trnfleet.record.write.live import LiveBuffer
    from trnfleet.transport.url import BrokerUrl
    from trnfleet.wire.ports import Source

LEAST_BYTES = 4 * 2**20
"""Disk for less than this keeps nothing worth going back for."""


def past_option(command: CommandT) -> CommandT:
    """Add the option that says how much of the past is kept."""
    option = setting(
        "--past",
        type=Size(0),
        default="1GiB",
        help="Disk for going back in time; 0 keeps nothing. Deleted at the end.",
    )
    return option(command)


def past_folder() -> Path:
    """Return the folder below which every running app keeps its past."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trnfleet" / "past"


def make_buffer(fleet: str, root: str, url: BrokerUrl, *, clock: Clock, disk_bytes: int) -> LiveBuffer | None:
    """Return what keeps the past of a fleet, not started yet; None where nothing is to be kept.

    Args:
        fleet: The fleet's name.
        root: First part of its topics.
        url: The broker that it comes from.
        clock: The time to go by.
        disk_bytes: How much disk may be taken; 0 for none.

    Raises:
        ConfigError: that is too little to keep anything worth going back for.
    """
    if not disk_bytes:
        return None
    if disk_bytes < LEAST_BYTES:
        raise ConfigError(
            f"--past: {size_text(disk_bytes)} is too little to go back in time; at least {size_text(LEAST_BYTES)}, or 0 for none"
        )
    from trnfleet.record.format.metadata import About  # noqa: PLC0415  --help stays quick
    from trnfleet.record.write.live import LiveBuffer  # noqa: PLC0415  --help stays quick
    from trnfleet.record.write.orphaned_buffers import clear_leftovers  # noqa: PLC0415  --help stays quick

    parent = past_folder()
    clear_leftovers(parent, clock.wall_ns())
    name = secrets.token_hex(8)
    about = About(
        id=name,
        fleets=(fleet,),
        root=root,
        version=__version__,
        broker=f"{url.host}:{url.port}",
        started=format_rfc3339(clock.wall_ns()),
    )
    return LiveBuffer(parent / f"{fleet}-{name}", about, clock=clock, disk_bytes=disk_bytes)


def make_deck(watch: Watch, buffer: LiveBuffer, *, clock: Clock, root: str, rules: tuple[Rule, ...]) -> Deck:
    """Return the deck that goes back from what is watched."""
    from trnfleet.monitor.replay.playback import Deck  # noqa: PLC0415  --help stays quick

    name = f"the past of {watch.source.status.broker}"
    monitor = watch.monitor
    maker = monitor_maker(monitor.fleet_name, root=root, pue=monitor.pue, rules=rules)
    return Deck(buffer, maker, clock=clock, name=name, live=monitor, keeper=buffer)


def monitor_maker(fleet: str, *, root: str, pue: float, rules: tuple[Rule, ...]) -> Maker:
    """Return what makes monitors of the past."""
    from trnfleet.monitor.monitor import Monitor  # noqa: PLC0415  --help stays quick

    def make(source: Source, clock: Clock, history: History | None) -> Monitor:
        return Monitor(source, fleet, clock=clock, root=root, pue=pue, rules=rules, history=history)

    return make
