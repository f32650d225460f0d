"""The playback of a recording, as read and controlled by views.

Also the interface of the rolling recording of the present.
"""

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
"""Available rates: seconds of the recording per second."""


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
        """The answer to the last request, in one line.

        Empty for none.
        """

    @property
    def seeking(self) -> bool:
        """Whether a requested place has not been reached."""

    @property
    def shows_past(self) -> bool:
        """Whether the past, or a file, is shown."""

    @property
    def is_live_possible(self) -> bool:
        """Whether there is a present to go back to."""

    @property
    def is_recording(self) -> bool:
        """Whether the present is recorded."""

    @property
    def recording_problem(self) -> str:
        """Why the present is not recorded any more.

        Empty while it is.
        """

    @property
    def one_in(self) -> int:
        """Thinning at the position: one message in this many was recorded per topic.

        1 if all were, or if unknown.
        """

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
        """The position shown or requested."""

    @property
    def marks(self) -> list[Mark]:
        """Alerts and events, in order."""

    @property
    def surveyed_ns(self) -> int:
        """The time up to which marks are known."""

    @property
    def revision(self) -> int:
        """Increases with any change except of the position."""

    def play(self) -> None:
        """Play from here.

        At the end of a file, play again from its first position.
        """

    def pause(self) -> None:
        """Pause.

        If live, show the present as it is now.
        """

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
        """Go to a position, or to the nearest available one."""

    def go_live_or_end(self) -> None:
        """Go back to the present; in a file, to its end."""

    def go_start(self) -> None:
        """Go to the oldest place."""

    def next_mark(self, kinds: Container[str], direction: int) -> bool:
        """Go to the next or previous mark of some kinds.

        Return False without one.
        """

    def moment_of(self, fleet_ns: int) -> int | None:
        """Return the position for a time of the fleet's clock.

        None if not recorded.
        """

    async def save(self, path: Path) -> int:
        """Save the stored past as a recording.

        Return its number of messages.

        Raises:
            TrnfleetError: this is a recording already, or the file cannot be made.
            OSError: writing failed.
        """


class RollingRecording(Protocol):
    """The recording of the present.

    Its oldest part is deleted.
    """

    @property
    def window_s(self) -> float:
        """Seconds stored."""

    @property
    def problem(self) -> str:
        """Why recording stopped.

        Empty while all is well.
        """

    def one_in(self, time_ns: int) -> int:
        """Return the thinning at a time: one message in this many was recorded per topic.

        1 if all were.
        """

    def to_ns(self, monotonic_s: float) -> int:
        """Return the recording's time of a moment."""

    def save(self, path: Path) -> int:
        """Save everything stored as a recording.

        Return its number of messages.

        Called in a thread.
        """
