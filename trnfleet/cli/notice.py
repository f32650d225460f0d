"""A line shown in the app's first seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trnfleet.clock import Clock

NOTICE_S = 20.0
"""Time for which it is shown: as long as a new alert."""


class Notice:
    """A line shown in the app's first seconds; the port `OwnProcess`."""

    figure = ""

    def __init__(self, line: str, clock: Clock) -> None:
        self._line = line
        self._clock = clock
        self._until_s = clock.monotonic_s() + NOTICE_S

    @property
    def note(self) -> str:
        """The line; empty once it has been shown."""
        return self._line if self._clock.monotonic_s() < self._until_s else ""
