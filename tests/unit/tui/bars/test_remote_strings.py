"""Strings from outside in header, status line, banner and breadcrumbs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from trnfleet.domain.severity import Severity
from trnfleet.monitor.problems.problem import ProblemCounts
from trnfleet.monitor.store.events import Event
from trnfleet.tui.bars.breadcrumbs import breadcrumbs
from trnfleet.tui.bars.header import header
from trnfleet.tui.bars.status import banner, status
from trnfleet.tui.widgets.cells import text_of
from trnfleet.wire.ports import LinkStatus

if TYPE_CHECKING:
    from trnfleet.monitor.summary import Summary

LINK = LinkStatus(broker="mqtt://127.0.0.1:1883", connected=True, connects=1, protocol="5")
HINTS = (("?", "help"), ("q", "quit"))


def said(summary: Summary, link: LinkStatus = LINK, width: int = 200) -> str:
    return "\n".join(text_of(row) for row in header(summary, link, width, ProblemCounts()))


@pytest.mark.parametrize("text", ["[@click=app.quit]x[/]", "[/nope]", "\x1b]0;x\x07", "a\u202eb"])
def test_remote_strings_are_plain(summary: Summary, text: str) -> None:
    """No control or override character reaches a line.

    Markup is shown literally.
    """
    link = replace(LINK, broker=text, last_error=text, protocol=text)
    down = replace(link, connected=False)
    event = Event(1, 0.0, 0, Severity.WARNING, text, text, text, text, None, text)
    lines = [
        said(replace(summary, fleet=text), link),
        said(replace(summary, fleet=text, chips=0), down),
        text_of(status(summary, link, text, HINTS, 200)),
        getattr(banner(summary, down, 2.0, 1.0), "text", ""),
        text_of(breadcrumbs(text.replace("/", "_"), 80)),
        text_of(breadcrumbs("", 80, event)),
    ]
    for line in "\n".join(lines).split("\n"):
        assert line.isprintable()
