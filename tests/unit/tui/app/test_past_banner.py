from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.monitor.feed import Feed, standalone
from support.tui.fake_playback import FakePlayback
from support.tui.past_app import seek

from trnfleet.monitor.problems.problem import ProblemCounts
from trnfleet.tui import theme
from trnfleet.tui.app.bars import kept_text, past_banner, past_hints
from trnfleet.tui.widgets.cells import text_of, width_of

if TYPE_CHECKING:
    from trnfleet.domain.minutes import KeptSeries, Wanted


def test_the_banner_says_when_and_how_to_return() -> None:
    """The banner has whole sentences if there is room.

    End and the time are shown at any width.
    """
    text = text_of(past_banner(seek(), None, None, "LIVE continues", 120))
    assert text.strip() == "◀ Viewing 14:03:10, 5 min 11 s ago. LIVE continues. End = live"
    for width in (30, 50, 80):
        parts = past_banner(seek(), None, None, "LIVE continues", width)
        assert width_of(parts) <= width
        assert "14:03:10" in text_of(parts)
        assert "End = live" in text_of(parts)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_that_the_present_has_no_connection_is_told_loudly(width: int) -> None:
    """At every width, and not in the colour of the past."""
    parts = past_banner(seek(), None, None, "", width, is_connected=False)
    assert width_of(parts) <= width
    assert (" ✖ LIVE has no connection ", theme.BAR_DOWN) in parts
    assert "End = live" in text_of(parts)
    assert "LIVE" not in text_of(past_banner(seek(), None, None, "", width))


def test_the_space_bar_plays_a_file_once_more_at_its_end() -> None:
    """Else it goes on, or pauses."""
    playback = FakePlayback(Feed(standalone(1)).monitor, is_file=True)
    said = []
    for _ in range(2):
        said.append(dict(past_hints(playback))["pause"])
        playback.toggle()
        said.append(dict(past_hints(playback))["pause"])
        playback.go_live_or_end()
    assert said == ["pause", "resume", "play again", "pause"]


def test_the_banner_counts_new_alerts_of_the_present() -> None:
    """New alerts of the present are counted, earlier ones are not."""
    before = ProblemCounts(0, 2)
    now = ProblemCounts(1, 2)
    assert "now firing: ✖ 1 ▲ 2" in text_of(past_banner(seek(), before, now, "", 80))
    assert "firing" not in text_of(past_banner(seek(), before, before, "", 80))
    assert "now 0 firing" in text_of(past_banner(seek(), before, ProblemCounts(), "", 80))


class Unread:
    """History with an unreadable part."""

    revision = 1
    reach = None

    def __init__(self, problem: str) -> None:
        self.problem = problem

    def ask(self, wanted: Wanted) -> KeptSeries | None:
        """Return that there is no answer."""
        del wanted
        return None


def test_the_status_line_says_why_history_is_not_read_however_long_the_path_is() -> None:
    """Folders go, and of a file the reason comes first."""
    path = "/var/lib/trnfleet/history/fleet=demo/day=2026-01-05/cell=main/chips-20260105T0001Z-20260105T0001Z-host-a.parquet"  # noqa: E501
    text, is_problem = kept_text(None, Unread(f"left out (torn: it has no footer): {path}"))
    assert is_problem
    assert text.startswith("history not read: left out (torn: it has no footer): …/chips-2026")
    assert len(text) <= len("history not read: ") + 61
    text, is_problem = kept_text(None, Unread(f"/{'long/' * 20}history: no such folder"))
    assert (text, is_problem) == ("history not read: …/history: no such folder", True)


def test_the_status_line_says_how_far_charts_reach() -> None:
    """Also where nothing goes back in time."""
    assert kept_text(None, None, 2 * 86_400) == ("charts 2 d 0 h", False)
    assert kept_text(None) == ("", False)


def test_the_status_line_says_how_much_of_the_past_is_kept() -> None:
    """A complete recording shows its length; a thinned one also its share of messages."""
    playback = FakePlayback(Feed(standalone(1)).monitor)
    assert kept_text(playback) == ("history 10 min", False)
    playback.one_in = 4
    assert kept_text(playback) == ("history 10 min, thinned: 1 of 4 messages", False)
