"""The filter by typed text."""

from __future__ import annotations

import pytest

from trnfleet.tui.widgets.text_filter import TextFilter


@pytest.mark.parametrize(
    ("pattern", "is_left"),
    [
        ("", True),
        ("!", True),
        ("us", True),
        ("US", True),
        ("!us", False),
        ("uc", False),
        ("!uc", True),
        ("1 b", False),
    ],
)
def test_a_part_of_any_text_is_enough(pattern: str, is_left: bool) -> None:
    """A part counts within one text, in either case; `!` turns the filter round; nothing typed leaves everything."""
    assert TextFilter.of(pattern).keeps("us-1", "Busy") is is_left


def test_texts_in_lower_case_are_searched_as_they_are() -> None:
    """The quick way for long texts that are kept in lower case gives the same answers."""
    assert TextFilter.of("US").keeps_lower("us-1 busy")
    assert not TextFilter.of("!us").keeps_lower("us-1 busy")
    assert TextFilter.of("!").keeps_lower("us-1 busy")


def test_an_empty_filter_says_so() -> None:
    """Nothing typed, or `!` alone, is no filter."""
    assert TextFilter.of("").is_empty
    assert TextFilter.of("!").is_empty
    assert not TextFilter.of("!a").is_empty
