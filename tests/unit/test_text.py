from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnfleet.text import plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("us-0001", "us-0001"),
        ("Größe 5 °C", "Größe 5 °C"),
        ("a\x1b]0;x\x07", "a\\u001b]0;x\\u0007"),
        ("a\u202eb\u200bc", "a\\u202eb\\u200bc"),
        ("\u3164\u115f\ufe0f\u0301", "\\u3164\\u115f\\ufe0f\\u0301"),
        ("\U000e0041b", "\\U000e0041b"),
        ("\x9b31m", "\\u009b31m"),
        ("[@click=app.quit]x[/]", "[@click=app.quit]x[/]"),
    ],
)
def test_what_is_shown(text: str, shown: str) -> None:
    """Control and invisible characters are written out; the rest is unchanged."""
    assert plain(text) == shown


@given(text=st.text())
def test_nothing_hidden_passes(text: str) -> None:
    """The result has only visible characters and spaces, and is within the limit."""
    shown = plain(text, 50)
    assert len(shown) <= 50
    assert all(unicodedata.category(char)[0] in "LNPSZ" for char in shown)
