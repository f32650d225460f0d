from __future__ import annotations

from support.tui.seek import seek

from trnfleet.monitor.problems.problem import ProblemCounts
from trnfleet.tui.playback.past_banner import past_banner
from trnfleet.tui.widgets.cells import text_of, width_of


def test_the_banner_says_when_and_how_to_return() -> None:
    """In whole sentences where there is room; End and the time are told at any width."""
    text = text_of(past_banner(seek(), None, None, "LIVE continues", 120))
    assert text.strip() == "◀ Viewing 14:03:10, 5 min 11 s ago. LIVE continues. End = live"
    for width in (30, 50, 80):
        parts = past_banner(seek(), None, None, "LIVE continues", width)
        assert width_of(parts) <= width
        assert "14:03:10" in text_of(parts)
        assert "End = live" in text_of(parts)


def test_the_banner_counts_new_alerts_of_the_present() -> None:
    """New alerts of the present are counted; those that were there are no news."""
    before, now = ProblemCounts(0, 2), ProblemCounts(1, 2)
    assert "now firing: ✖ 1 ▲ 2" in text_of(past_banner(seek(), before, now, "", 80))
    assert "firing" not in text_of(past_banner(seek(), before, before, "", 80))
    assert "now 0 firing" in text_of(past_banner(seek(), before, ProblemCounts(), "", 80))
