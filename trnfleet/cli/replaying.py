"""`trnfleet replay FILE` in the app: a recording on the deck."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.cli.app import Showing, run_app
from trnfleet.cli.keeping import monitor_maker
from trnfleet.clock import SystemClock
from trnfleet.domain.power import PUE
from trnfleet.monitor.replay.playback import Deck

if TYPE_CHECKING:
    from pathlib import Path

    from trnfleet.cli.alerting import Alerting
    from trnfleet.record.read.recording import Recording


async def run_replay_app(
    recording: Recording,
    fleet: str,
    *,
    from_ns: int,
    to_ns: int,
    speed: float,
    loops: bool,
    alerting: Alerting,
    pue: float | None,
    log_file: Path,
) -> int:
    """Play a recording into the app until it ends, and return its exit status.

    Args:
        recording: What is played; the caller closes it.
        fleet: Which of its fleets.
        from_ns: Where it begins to be shown.
        to_ns: Where it stops.
        speed: Seconds of the recording a second.
        loops: Whether it begins anew at its end.
        alerting: Rules, and how the app calls; nothing is written.
        pue: Power usage effectiveness of the site.
        log_file: Where the log is.

    Raises:
        TrnfleetError: the app crashed; the message names the log.
    """
    clock = SystemClock()
    first = recording.abouts[0]
    maker = monitor_maker(fleet, root=first.root, pue=PUE if pue is None else pue, rules=alerting.rules)
    deck = Deck(
        recording,
        maker,
        clock=clock,
        name="a recording" + (f" of {first.broker}" if first.broker else ""),
        rate=speed,
        loops=loops,
        begin_ns=from_ns,
        until_ns=to_ns,
    )
    showing = Showing(deck.shown, {"deck": deck.run()}, deck)
    return await run_app(showing, clock=clock, broker_kind="", log_file=log_file, calling=alerting.calling)
