"""Contests of publishers: ended ones make room for others."""

from __future__ import annotations

from trnfleet.monitor.sources.contests import FROM_S, MOST_PAIRS, OVER_AFTER_S, Contests

HOST = "uc1/standalone/a"


def take_turns(contests: Contests, boot: str, described: str, now_s: float) -> None:
    """Let another boot speak twice, before and after the described one."""
    for at_s in (now_s, now_s):
        contests.note(HOST, boot, described, at_s, at_s)


def test_what_is_over_makes_room() -> None:
    """Current contests are shown after any number of earlier ones."""
    contests = Contests()
    for number in range(MOST_PAIRS):
        take_turns(contests, f"boot-{number}", f"q{number}", 0.0)
    take_turns(contests, "late", "other", 1.0)
    assert len(contests._of) == MOST_PAIRS
    now_s = OVER_AFTER_S + 1.0
    for at_s in (now_s, now_s + FROM_S):
        take_turns(contests, "late", "other", at_s)
    assert contests.pairs(now_s + FROM_S, {"late": "host-b"}.__getitem__) == {"host-b and other": 1}
    assert len(contests._of) == 1


def test_one_that_speaks_between_two_descriptors_is_no_contest() -> None:
    """A boot after another is no contest: the described one is not heard again."""
    contests = Contests()
    for at_s in range(1, 60):
        assert not contests.note(HOST, "next", "former", float(at_s), 0.5)
    assert contests.pairs(60.0, lambda boot: boot) == {}
