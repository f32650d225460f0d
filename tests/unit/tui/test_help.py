from __future__ import annotations

from trnfleet.tui.keys import key_text


def test_keys_have_their_names() -> None:
    """Arrows are arrows, and combinations are written out."""
    assert (key_text("up,k"), key_text("ctrl+c"), key_text("question_mark")) == (
        "↑ k",
        "Ctrl-c",
        "?",
    )
