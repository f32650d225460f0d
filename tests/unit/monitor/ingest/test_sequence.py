from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trnfleet.monitor.ingest.sequence import WINDOW, SequenceTracker, Verdict
from trnfleet.monitor.pipeline.counts import PipelineCounts


def feed(numbers: list[int]) -> tuple[PipelineCounts, list[Verdict]]:
    tracker = SequenceTracker()
    counts = PipelineCounts()
    return counts, [tracker.accept(seq, counts) for seq in numbers]


def test_in_order() -> None:
    """Messages in order are newest, and nothing is counted."""
    counts, verdicts = feed([3, 4, 5])
    assert set(verdicts) == {Verdict.NEWEST}
    assert counts == PipelineCounts(sent=3, accepted=3)


def test_a_gap_is_lost_and_a_late_one_mends_it() -> None:
    """Each missing tick counts as lost until it arrives late."""
    counts, verdicts = feed([0, 4, 2])
    assert verdicts == [Verdict.NEWEST, Verdict.NEWEST, Verdict.LATE]
    assert (counts.lost, counts.late, counts.duplicates) == (2, 1, 0)


def test_duplicates() -> None:
    """A repeated tick is a duplicate, even if it was late first."""
    counts, _ = feed([0, 2, 2, 1, 1])
    assert (counts.lost, counts.late, counts.duplicates) == (0, 1, 2)


def test_before_the_first_is_nothing() -> None:
    """Ticks before the first are not lost: late on arrival, then duplicates."""
    counts, verdicts = feed([10, 9, 9])
    assert verdicts[1:] == [Verdict.LATE, Verdict.DUPLICATE]
    assert (counts.lost, counts.late, counts.duplicates) == (0, 1, 1)


def test_a_jump_beyond_reason_restarts() -> None:
    """An unreasonable jump in either direction is no loss and costs nothing."""
    counts, verdicts = feed([5, 2**62, 2**62 + 2, 7, 8])
    assert set(verdicts) == {Verdict.NEWEST}
    assert (counts.lost, counts.late, counts.duplicates) == (1, 0, 0)


@given(
    order=st.lists(st.integers(1, 40), min_size=1, max_size=40, unique=True),
    again=st.lists(st.integers(0, 40), max_size=10),
)
def test_counts_are_exact_within_the_window(order: list[int], again: list[int]) -> None:
    """In any order, missing ticks are lost and repetitions duplicates."""
    counts, _ = feed([0, *order, *(seq for seq in again if seq == 0 or seq in order)])
    highest = max(order)
    assert counts.lost == highest + 1 - len({0, *order})
    assert counts.duplicates == sum(seq == 0 or seq in order for seq in again)


def test_far_behind() -> None:
    """A tick older than the window is a duplicate and reduces no loss."""
    counts, verdicts = feed([0, WINDOW + 5, 1])
    assert verdicts[-1] is Verdict.DUPLICATE
    assert counts.lost == WINDOW + 4


def test_what_was_left_out_here_is_not_lost() -> None:
    """A gap is the sum of lost and shed messages."""
    counts = PipelineCounts()
    tracker = SequenceTracker()
    tracker.accept(0, counts)
    tracker.accept(6, counts, shed=5)
    assert (counts.lost, counts.gaps) == (0, 0)
    tracker.accept(12, counts, shed=3)
    assert (counts.lost, counts.gaps) == (2, 1)
    tracker.accept(14, counts, shed=9)
    assert (counts.lost, counts.gaps) == (2, 1)


def test_a_number_too_high_hides_what_is_newer_for_two_ticks() -> None:
    """Three messages behind in number but ahead in time restart the counting."""
    tracker = SequenceTracker()
    counts = PipelineCounts()
    sent = [(5, 5), (900_005, 6), (6, 7), (7, 8), (8, 9), (9, 10)]
    verdicts = [tracker.accept(seq, counts, ts_ns=ts_ns) for seq, ts_ns in sent]
    assert [each is Verdict.NEWEST for each in verdicts] == [True, True, False, False, True, True]


def test_old_messages_again_do_not_start_it_again() -> None:
    """Duplicate or late messages never restart the counting: they are behind in time."""
    tracker = SequenceTracker()
    counts = PipelineCounts()
    for _ in range(2):
        for seq in range(100):
            tracker.accept(seq, counts, ts_ns=1_000 + seq)
    assert (tracker.last, counts.duplicates, counts.lost) == (99, 100, 0)


def test_backlog_mends_what_was_lost_once() -> None:
    """Numbers within the counted gap, each once and in order; the counts still add up."""
    tracker = SequenceTracker()
    counts = PipelineCounts()
    for seq in (10, 300, 302):
        tracker.accept(seq, counts)
    assert counts.lost == 290
    for seq in (9, 10, 11, 12, 12, 11, 299, 300, 301, 302, 303):
        tracker.mend(seq, counts)
    assert (counts.lost, counts.mended) == (290 - 4, 4)
    assert counts.sent == counts.accepted + counts.mended + counts.lost
    assert tracker.accept(301, counts) is Verdict.DUPLICATE
