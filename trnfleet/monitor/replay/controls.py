"""The playback of a recording as views read and control it, and what the recording of the present offers to it."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Container
    from pathlib import Path

    from trnfleet.monitor.fleet_state import LiveOrPast
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.monitor.replay.marks import Mark

RATES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 125.0, 250.0, 500.0, 1000.0)
"""Seconds of the recording a second that can be chosen."""


class Mode(enum.StrEnum):
    """Requested state of playback."""

    LIVE = "live"
    """The present."""
    PLAYING = "playing"
    PAUSED = "paused"


class Playback(Protocol):
    """Playback as views read and control it."""

    @property
    def state(self) -> LiveOrPast:
        """The state of the fleet that is shown."""

    @property
    def live(self) -> Monitor | None:
        """The live monitor; None for a file."""

    @property
    def mode(self) -> Mode:
        """The requested state."""

    @property
    def rate(self) -> float:
        """Seconds of the recording a second."""

    @property
    def reached_rate(self) -> float:
        """The part of `rate` that the machine manages."""

    @property
    def loops(self) -> bool:
        """Whether a file begins again at its end."""

    @property
    def note(self) -> str:
        """The answer to the last request, in one line; empty for none."""

    @property
    def seeking(self) -> bool:
        """Whether a requested place has not been reached."""

    @property
    def is_exact(self) -> bool:
        """Whether alerts are what they were then."""

    @property
    def alerts_since_ns(self) -> int | None:
        """The time from which on alerts have been followed, where that is not the beginning of the recording."""

    @property
    def shows_past(self) -> bool:
        """Whether the past, or a file, is shown."""

    @property
    def is_live_possible(self) -> bool:
        """Whether there is a present to go back to."""

    @property
    def is_recording(self) -> bool:
        """Whether the present is kept."""

    @property
    def recording_problem(self) -> str:
        """Reason why the present is not kept any more; empty while it is."""

    @property
    def one_in(self) -> int:
        """Of how many messages of a topic one is kept at the position; 1 where all are, or where that is not known."""

    @property
    def window_s(self) -> float:
        """Seconds of the recording."""

    @property
    def start_ns(self) -> int:
        """The oldest place."""

    @property
    def end_ns(self) -> int:
        """The newest place: the present, where there is one."""

    @property
    def position_ns(self) -> int:
        """The place that is shown, or that is requested."""

    @property
    def marks(self) -> list[Mark]:
        """Alerts and events, in order."""

    @property
    def surveyed_ns(self) -> int:
        """The time up to which marks are known."""

    @property
    def revision(self) -> int:
        """Goes up with any change but that of the place."""

    def play(self) -> None:
        """Go on from here; at the end of a file, from where it began to be shown."""

    def pause(self) -> None:
        """Stand still; the present is shown as it is now."""

    def toggle(self) -> None:
        """Pause, or go on."""

    def faster(self) -> None:
        """Play at the next higher rate."""

    def slower(self) -> None:
        """Play at the next lower rate."""

    def toggle_loop(self) -> None:
        """Switch between pausing and beginning again at the end."""

    def step(self, seconds: float) -> None:
        """Go forward, or back where it is negative."""

    def seek(self, time_ns: int) -> None:
        """Go to a place, or to the nearest that there is."""

    def go_live_or_end(self) -> None:
        """Go back to the present; in a file, to its end."""

    def go_start(self) -> None:
        """Go to the oldest place."""

    def next_mark(self, kinds: Container[str], direction: int) -> bool:
        """Go to the next mark of some kinds, or to the previous one; return whether there is one."""

    def moment_of(self, fleet_ns: int) -> int | None:
        """Return the place at which the fleet's clock showed a time; None where it is not in the recording."""

    async def save(self, path: Path) -> int:
        """Write what is kept as a recording; return how many messages that were.

        Raises:
            TrnfleetError: this is a recording already, or the file cannot be made.
            OSError: writing failed.
        """


class RollingRecording(Protocol):
    """The recording of the present, of which the oldest part is deleted."""

    @property
    def window_s(self) -> float:
        """Seconds that are kept."""

    @property
    def problem(self) -> str:
        """The reason why nothing more is kept; empty while all is well."""

    def one_in(self, time_ns: int) -> int:
        """Return of how many messages of a topic one was kept at a time; 1 where all were."""

    def to_ns(self, monotonic_s: float) -> int:
        """Return the recording's time of a moment."""

    def save(self, path: Path) -> int:
        """Write all that is kept as a recording and return how many messages those are; called in a thread."""
