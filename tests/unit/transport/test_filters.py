from __future__ import annotations

import pytest

from trnfleet.transport.filters import topic_matches, topic_pattern


@pytest.mark.parametrize(
    ("topic_filter", "topic", "matches"),
    [
        ("a/b", "a/b", True),
        ("a/b", "a/bc", False),
        ("a/b", "a/b/c", False),
        ("a/+", "a/b", True),
        ("a/+", "a/", True),
        ("a/+", "a", False),
        ("a/+", "a/b/c", False),
        ("+/+", "a/b", True),
        ("+/b/+", "a/b/c", True),
        ("a/#", "a", True),
        ("a/#", "a/b/c", True),
        ("a/#", "ab", False),
        ("#", "a/b", True),
        ("#", "$SYS/x", False),
        ("+/x", "$SYS/x", False),
        ("$SYS/#", "$SYS/x", True),
        ("a/b.c", "a/bxc", False),
        ("/+", "/a", True),
        ("+", "/a", False),
    ],
)
def test_filter_matches_as_the_standard_says(topic_filter: str, topic: str, matches: bool) -> None:
    """`+` matches one level, `#` the rest with its parent.

    Neither matches the broker's own topics.
    """
    assert topic_matches(topic_filter, topic) is matches


@pytest.mark.parametrize("topic_filter", ["", "a/#/b", "a+", "a/b#", "#/a"])
def test_bad_filter_is_refused(topic_filter: str) -> None:
    """A wildcard in a place where none may stand is refused."""
    with pytest.raises(ValueError, match="not a topic filter"):
        topic_matches(topic_filter, "a")


def test_several_filters_are_one_pattern() -> None:
    """Topics of any filter match, each with its own bounds; without filters none does."""
    pattern = topic_pattern("a/+", "+/b", "c/#")
    assert [
        topic
        for topic in ("a/x", "x/b", "c", "c/d/e", "a/x/b", "$SYS/b", "ca")
        if pattern.fullmatch(topic)
    ] == [
        "a/x",
        "x/b",
        "c",
        "c/d/e",
    ]
    assert not topic_pattern().fullmatch("")
    assert not topic_pattern().fullmatch("a")
