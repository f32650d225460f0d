"""The terminal's pace: nothing is queued that it cannot take, so that keys stay quick on a slow line; and notifications.

Textual writes from a thread with a queue of 30 frames and does not show how full it is; this module reads its private
names `_driver`, `_writer_thread` and `_queue`, for which Textual's version is pinned and a test stands.
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
    """The number of lines that a tick may repaint: less at once while the writer is behind, more step by step."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._lines = float(MOST_LINES)
        self.skipped = 0
        """Ticks on which nothing was painted because the terminal was behind."""

    @property
    def backlog(self) -> int:
        """Frames that wait to be written; 0 where there is no writer thread (tests)."""
        writer = getattr(self._app._driver, "_writer_thread", None)  # noqa: SLF001  no public name; pinned and tested
        return writer._queue.qsize() if writer is not None else 0  # noqa: SLF001  no public name; pinned and tested

    def allowance(self) -> int:
        """Return the lines that this tick may repaint; 0 while the terminal is behind."""
        if self.backlog > 1:
            self._lines = max(float(LEAST_LINES), self._lines * 0.6)
            self.skipped += 1
            return 0
        self._lines = min(float(MOST_LINES), self._lines + max(1.0, self._lines * 0.1))
        return int(self._lines)


def notification(text: str) -> str:
    """Return what asks a terminal for a desktop notification (OSC 9); nothing of the text can end or change the request."""
    # A text that begins with a number and a semicolon would be another request, so a word stands before it.
    return f"\x1b]9;trnfleet: {plain(text, LONGEST_NOTIFICATION)}\x07"


def send_notification(app: App[Any], text: str) -> None:
    """Ask the terminal for a desktop notification; one that knows none shows nothing."""
    driver = app._driver  # noqa: SLF001  no public name; pinned and tested
    if driver is not None and not app.is_headless:
        driver.write(notification(text))
