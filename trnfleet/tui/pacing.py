"""The terminal's pace, and notifications.

No output is queued beyond the terminal's speed, so that keys stay quick on a slow line. Textual
writes from a thread with a queue of 30 frames and does not show its length. This module reads the
private names `_driver`, `_writer_thread` and `_queue`; Textual's version is pinned for them, and a
test checks them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnfleet.text import plain

if TYPE_CHECKING:
    from textual.app import App

MOST_LINES = 400
LEAST_LINES = 2
LONGEST_NOTIFICATION = 200


class Pacer:
    """The number of lines to repaint per tick.

    It is cut at once while the writer is behind, then raised step by step.
    """

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._lines = float(MOST_LINES)
        self.skipped = 0
        """Ticks not painted because the terminal was behind."""

    @property
    def backlog(self) -> int:
        """Frames waiting to be written; 0 without a writer thread (tests)."""
        writer = getattr(self._app._driver, "_writer_thread", None)  # noqa: SLF001  no public name; pinned and tested
        return writer._queue.qsize() if writer is not None else 0  # noqa: SLF001  no public name; pinned and tested

    def allowance(self) -> int:
        """Return the lines to repaint in this tick; 0 while the terminal is behind."""
        if self.backlog > 1:
            self._lines = max(float(LEAST_LINES), self._lines * 0.6)
            self.skipped += 1
            return 0
        self._lines = min(float(MOST_LINES), self._lines + max(1.0, self._lines * 0.1))
        return int(self._lines)


def notification(text: str) -> str:
    """Return the request for a desktop notification (OSC 9).

    The text cannot end or change the request.
    """
    # A text that begins with a number and a semicolon would be another request, so a word stands
    # before it.
    return f"\x1b]9;trnfleet: {plain(text, LONGEST_NOTIFICATION)}\x07"


def send_notification(app: App[Any], text: str) -> None:
    """Ask the terminal for a desktop notification.

    One without support shows nothing.
    """
    driver = app._driver  # noqa: SLF001  no public name; pinned and tested
    if driver is not None and not app.is_headless:
        driver.write(notification(text))
