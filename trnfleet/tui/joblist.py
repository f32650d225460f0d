"""The jobs beside the heat map: name, what it is, how fast it goes and how well it uses its chips."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.tui import palette
from trnfleet.tui.lines import Line, LineView, text_line
from trnfleet.tui.plain import plain
from trnfleet.tui.quantities import bare, with_unit

if TYPE_CHECKING:
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.wire.messages import JobMessage

_STATE_GLYPH = {"running": "●", "pending": "◌", "finished": "✔", "failed": "✖"}
"""Beside the word, for states that are known; others stand alone."""


def pace(job: JobMessage) -> str:
    """Return how fast a job goes, in the terms of its kind."""
    if job.tokens_per_s is not None:
        return f"{bare(job.tokens_per_s, '')} tok/s"
    if job.steps_per_s is not None:
        # Steps take seconds: below one a second, the time of one says more.
        return f"{job.steps_per_s:.3g} step/s"
    return "n/a"


class JobList(LineView, can_focus=False):
    """Jobs, one a line, in the order of their names."""

    def __init__(self, monitor: Monitor, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self.monitor = monitor

    def tick(self, limit: int | None = None) -> int:
        """Paint what changed."""
        self.set_extent(0, len(self.monitor.ingest.jobs))
        return super().tick(limit)

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        """Return the jobs in the window."""
        jobs = self.monitor.ingest.jobs
        names = sorted(jobs)[top : top + height]
        if not names:
            return [text_line([(" no jobs", palette.GHOST)], width)]
        room = max(8, min(24, width - 34))
        made: list[Line] = []
        for name in names:
            job = jobs[name]
            glyph = _STATE_GLYPH.get(job.state, "·")
            mfu = with_unit(None if job.mfu is None else 100 * job.mfu, "%")
            made.append(
                text_line(
                    [
                        (f" {glyph} ", palette.BASE if job.state == "running" else palette.QUIET),
                        (_cut(plain(name), room).ljust(room), palette.BASE),
                        (f" {_cut(plain(job.kind), 9):9}", palette.QUIET),
                        (f" {pace(job):>11}", palette.BASE),
                        (f" {mfu:>7}", palette.QUIET),
                        ("" if job.state == "running" else f"  {plain(job.state)}", palette.QUIET),
                    ],
                    width,
                )
            )
        return made


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"
