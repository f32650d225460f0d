"""The tour: one line of keys for a new user.

It is shown for the first minute of a user's first demo, beside the breadcrumbs. News and the
highlight come before it, and nothing moves when it ends.
"""

from __future__ import annotations

import sys

from trnfleet.tui import theme
from trnfleet.tui.bars.hints import Hints, hint_parts
from trnfleet.tui.widgets.cells import Parts, width_of

TOUR_S = 60.0
"""Seconds after which it goes."""
TOUR_KEYS = 3
"""Number of keys after which the tour ends, because the user has begun."""
_KEYS: Hints = (
    ("next-pane enter", "open a problem"),
    ("next-metric", "what the map shows"),
    ("help", "all keys"),
    ("1-9", "views"),
)


class Tour:
    """Whether the tour is on the screen: in the first view, by time and keys."""

    def __init__(self, *, is_first_run: bool) -> None:
        self._keys_left = TOUR_KEYS if is_first_run else 0
        self._begun_s: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether it is shown no more."""
        return not self._keys_left

    def end(self) -> None:
        """End the tour: another view is shown, and keys differ there."""
        self._keys_left = 0

    def count_key(self) -> bool:
        """Count a pressed key.

        Return True if it ends the tour.
        """
        is_last = self._keys_left == 1
        self._keys_left = max(0, self._keys_left - 1)
        return is_last

    def is_shown(self, now_s: float) -> bool:
        """Return whether the tour is shown; the first call begins its minute.

        Args:
            now_s: Real monotonic seconds.
        """
        if self._begun_s is None:
            self._begun_s = now_s
        if now_s - self._begun_s >= TOUR_S:
            self.end()
        return not self.is_over


def tour_parts(room: int) -> Parts:
    """Return the keys with room in `room` cells.

    A click presses a key.
    """
    return [("  ", theme.BASE), *hint_parts(_KEYS, room - 2, theme.STRONG, theme.QUIET)]


def tour_width() -> int:
    """Return the cells of the whole tour."""
    return width_of(tour_parts(sys.maxsize))
