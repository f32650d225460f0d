"""Which watch to believe about published alerts, and the doubts."""

from __future__ import annotations

import pytest

from trnfleet.domain.alerts.watches import MUTED_S, WatchPresence, Word, word_of, word_text


def watch(
    client: str, since_ns: int = 1, *, leads: bool | None = None, firing: int | None = None
) -> WatchPresence:
    return WatchPresence(client, since_ns, 3.0, leads, firing)


def test_the_word_is_that_of_the_leader() -> None:
    """The watch that claims to lead is believed; without claims, the oldest."""
    a = watch("a", 1, leads=False, firing=0)
    b = watch("b", 2, leads=True, firing=0)
    old = watch("old", 0)
    assert word_of([a, b], 0) == Word(b)
    assert word_of([watch("z", 5), old], 0).leader == old
    assert word_of([a, b, old], 3) == Word(b)
    assert word_text(Word(b), "05:00") == "b leads, which began 05:00; heard 3 s ago"
    assert word_text(Word(b._replace(heard_s=None)), "") == "b leads; not heard yet"


def test_without_a_leader_there_is_no_word() -> None:
    """Nobody there is nobody's word; watches on standby alone are a doubt."""
    assert word_of([], 0) == Word(None)
    assert word_text(Word(None), "") == ""
    word = word_of([watch("a", leads=False)], 0)
    assert word == Word(None, ("no watch leads: a is on standby",))


@pytest.mark.parametrize(
    ("present", "published", "missing", "doubt"),
    [
        (
            [watch("a", leads=True), watch("b", leads=True)],
            1,
            0,
            "2 watches lead, and their alerts may contradict: a, b",
        ),
        (
            [watch("evil", leads=True), watch("b", leads=False, firing=6)],
            0,
            0,
            "evil leads and publishes no alert, while b sees 6 fire",
        ),
        (
            [watch("a", leads=True, firing=2)],
            0,
            0,
            "a leads and publishes no alert, while it sees 2 fire",
        ),
        ([watch("a", leads=True)], 1, 2, "a leads and does not publish 2 that fire here, for 30 s"),
    ],
)
def test_what_speaks_against_a_leader(
    present: list[WatchPresence], published: int, missing: int, doubt: str
) -> None:
    """Another leader, or unpublished alerts seen by another watch or the reader."""
    assert word_of(present, published, missing=missing, missing_s=MUTED_S).doubts == (doubt,)
    if sum(bool(each.leads) for each in present) == 1:
        assert word_of(present, 6, missing=missing, missing_s=MUTED_S - 1).doubts == ()
