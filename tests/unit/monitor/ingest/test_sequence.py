from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trnfleet.monitor.ingest.sequence import WINDOW, SequenceTracker, Verdict
from trnfleet.monitor.pipeline.counts import PipelineCounts


def feed(numbers: list[int]) -> tuple[PipelineCounts, list[Verdict]]:
    tracker, counts = SequenceTracker(), PipelineCounts()
    return counts, [tracker.accept(seq, counts) for seq in numbers]


def test_in_order() -> None:
    """What comes in order is newest, and nothing is counted."""
    counts, verdicts = feed([3, 4, 5])
    assert set(verdicts) == {Verdict.NEWEST}
    assert counts == PipelineCounts(sent=3, accepted=3)


def test_a_gap_is_lost_and_a_late_one_mends_it() -> None:
    """Each missing tick counts once; one that comes late is not lost any more."""
    counts, verdicts = feed([0, 4, 2])
    assert verdicts == [Verdict.NEWEST, Verdict.NEWEST, Verdict.LATE]
    assert (counts.lost, counts.late, counts.duplicates) == (2, 1, 0)


def test_duplicates() -> None:
    """The same tick twice counts as a duplicate, also when it was late the first time."""
    counts, _ = feed([0, 2, 2, 1, 1])
    assert (counts.lost, counts.late, counts.duplicates) == (0, 1, 2)


def test_before_the_first_is_nothing() -> None:
    """What was sent before we listened was not lost: it is late when it comes, and a duplicate the second time."""
    counts, verdicts = feed([10, 9, 9])
    assert verdicts[1:] == [Verdict.LATE, Verdict.DUPLICATE]
    assert (counts.lost, counts.late, counts.duplicates) == (0, 1, 1)


def test_a_jump_beyond_reason_restarts() -> None:
    """A seq that jumps by more than anybody could have lost is no loss, and costs nothing, either way."""
    counts, verdicts = feed([5, 2**62, 2**62 + 2, 7, 8])
    assert set(verdicts) == {Verdict.NEWEST}
    assert (counts.lost, counts.late, counts.duplicates) == (1, 0, 0)


@given(
    order=st.lists(st.integers(1, 40), min_size=1, max_size=40, unique=True),
    again=st.lists(st.integers(0, 40), max_size=10),
)
def test_counts_are_exact_within_the_window(order: list[int], again: list[int]) -> None:
    """Whatever the order, lost is what never came, and every repetition is a duplicate."""
    counts, _ = feed([0, *order, *(seq for seq in again if seq == 0 or seq in order)])
    highest = max(order)
    assert counts.lost == highest + 1 - len({0, *order})
    assert counts.duplicates == sum(seq == 0 or seq in order for seq in again)


def test_far_behind() -> None:
    """What is older than the window counts as a duplicate and mends nothing."""
    counts, verdicts = feed([0, WINDOW + 5, 1])
    assert verdicts[-1] is Verdict.DUPLICATE
    assert counts.lost == WINDOW + 4


def test_what_was_left_out_here_is_not_lost() -> None:
    """A gap is lost but for what the message says was shed before it; both add up to the gap."""
    counts, tracker = PipelineCounts(), SequenceTracker()
    tracker.accept(0, counts)
    tracker.accept(6, counts, shed=5)
    assert (counts.lost, counts.gaps) == (0, 0)
    tracker.accept(12, counts, shed=3)
    assert (counts.lost, counts.gaps) == (2, 1)
    tracker.accept(14, counts, shed=9)
    assert (counts.lost, counts.gaps) == (2, 1)


def test_a_number_too_high_hides_what_is_newer_for_two_ticks() -> None:
    """Behind in number and ahead in time, three times in a row: the counter has gone back, and counting starts again."""
    tracker, counts = SequenceTracker(), PipelineCounts()
    sent = [(5, 5), (900_005, 6), (6, 7), (7, 8), (8, 9), (9, 10)]
    verdicts = [tracker.accept(seq, counts, ts_ns=ts_ns) for seq, ts_ns in sent]
    assert [each is Verdict.NEWEST for each in verdicts] == [True, True, False, False, True, True]


def test_old_messages_again_do_not_start_it_again() -> None:
    """What is delivered twice or late is behind in time, too, however many messages it is."""
    tracker, counts = SequenceTracker(), PipelineCounts()
    for _ in range(2):
        for seq in range(100):
            tracker.accept(seq, counts, ts_ns=1_000 + seq)
    assert (tracker.last, counts.duplicates, counts.lost) == (99, 100, 0)
