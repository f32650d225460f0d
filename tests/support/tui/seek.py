"""A playback at one moment, as the seek bar shows it."""

from __future__ import annotations

from typing import Any

from support.tui.fake_playback import START_NS
from support.tui.past_app import HOUR, MIN
from trnfleet.clock import NS_PER_S
from trnfleet.monitor.replay.controls import Mode
from trnfleet.tui.playback.seek_bar import Seek


def seek(**rest: Any) -> Seek:
    """Return the position 14:03:10 of a ten-minute window ending at 14:08:21."""
    end_ns = START_NS + 14 * HOUR + 8 * MIN + 21 * NS_PER_S
    fields: dict[str, Any] = {
        "mode": Mode.PLAYING,
        "is_live_possible": True,
        "rate": 1.0,
        "reached_rate": 1.0,
        "loops": False,
        "seeking": False,
        "incomplete": "",
        "position_ns": end_ns - 311 * NS_PER_S,
        "start_ns": end_ns - 600 * NS_PER_S,
        "end_ns": end_ns,
        "surveyed_ns": end_ns,
    }
    return Seek(**(fields | rest))
