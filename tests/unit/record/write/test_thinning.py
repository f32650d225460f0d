"""Thinning of the past: the stored share, left-out counts, and its end."""

from __future__ import annotations

import itertools
import math

import pytest
from support.record.files import NS_PER_S, START_NS

from trnfleet.record.write import thinning as thinning_module
from trnfleet.record.write.thinning import (
    FORGOTTEN_AFTER_S,
    LESS_AFTER_S,
    MOST_LEFT_OUT,
    RATE_OVER_S,
    SPREAD_S,
    Thinning,
)
from trnfleet.wire.ports import Envelope

TOPICS = [f"t/{number}" for number in range(40)]


class Fed:
    """A fleet with one message a second per topic, thinned."""

    def __init__(self, most_per_s: int) -> None:
        self.thinning = Thinning(lambda topic: topic.startswith("t/"), most_per_s)
        self.now_s = 100.0
        self.gives_way = False

    def second(self, topics: int = len(TOPICS), filled: float = 0.0) -> list[Envelope]:
        """Return the stored messages of a second, in batches of ten."""
        kept: list[Envelope] = []
        for begin in range(0, topics, 10):
            batch = [
                Envelope(topic, b"%d" % self.now_s, received_s=self.now_s + begin / 100)
                for topic in TOPICS[begin:][:10]
            ]
            kept += self.thinning.keep(
                batch,
                filled,
                lambda at_s: START_NS + round(at_s * NS_PER_S),
                gives_way=self.gives_way,
            )
        self.now_s += 1.0
        return kept

    def seconds(
        self, count: float, topics: int = len(TOPICS), filled: float = 0.0
    ) -> list[Envelope]:
        """Return what is kept of some seconds."""
        return [each for _ in range(int(count)) for each in self.second(topics, filled)]


def test_all_is_kept_of_what_can_be_followed() -> None:
    """At a low rate all messages are stored, and shed counts stay as they are."""
    fed = Fed(most_per_s=45)
    assert len(fed.seconds(60)) == 60 * len(TOPICS)
    assert fed.thinning.one_in == 1


def test_of_more_a_part_of_each_topic_is_kept_and_says_what_is_missing() -> None:
    """All topics are thinned alike, in different ticks, and every message is counted."""
    fed = Fed(most_per_s=15)
    fed.seconds(RATE_OVER_S + 1)
    assert fed.thinning.one_in == 3
    fed.seconds(3)
    seconds = [fed.second() for _ in range(30)]
    assert all(0 < len(kept) < len(TOPICS) for kept in seconds)
    for topic in TOPICS:
        of_topic = [each for kept in seconds for each in kept if each.topic == topic]
        times = [int(each.payload) for each in of_topic]
        assert [later - earlier for earlier, later in itertools.pairwise(times)] == [3] * 9
        assert {each.shed for each in of_topic} == {2}


def test_what_was_left_out_before_it_came_here_is_part_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ticks shed by a late monitor count as left out in the next message."""
    monkeypatch.setattr(thinning_module, "BEHIND_FROM", math.inf)
    fed = Fed(most_per_s=10)
    fed.seconds(RATE_OVER_S + 1)
    assert fed.thinning.one_in == 4
    fed.thinning.keep([Envelope("t/x", b"0", shed=3, received_s=fed.now_s)], 0.0, int)
    kept: list[Envelope] = []
    for tick, shed in ((1, 0), (3, 1), (4, 0), (10, 5), (11, 0), (13, 1), (14, 0)):
        message = Envelope("t/x", b"%d" % tick, shed=shed, received_s=fed.now_s)
        kept += fed.thinning.keep([message], 0.0, int)
    assert [(int(each.payload), each.shed) for each in kept] == [(4, 3), (10, 5), (14, 3)]


def test_state_and_events_are_always_kept() -> None:
    """Retained messages, QoS 1 and other classes are never thinned, whatever the topic."""
    fed = Fed(most_per_s=1)
    fed.seconds(2 * RATE_OVER_S)
    state = [
        Envelope(TOPICS[0], b"state", retain=True, received_s=fed.now_s),
        Envelope(TOPICS[1], b"event", 1, received_s=fed.now_s),
        Envelope("other", b"other", received_s=fed.now_s),
    ] * 3
    kept = fed.thinning.keep(state, 0.0, int)
    assert [each.payload for each in kept] == [each.payload for each in state]


def test_a_queue_that_fills_up_thins_whatever_the_rate() -> None:
    """Thinning doubles each second with a half-full queue, up to a limit.

    It ends by halves afterwards.
    """
    fed = Fed(most_per_s=1_000)
    fed.seconds(3, filled=0.6)
    assert fed.thinning.one_in == 8
    fed.seconds(20, filled=0.6)
    assert fed.thinning.one_in == MOST_LEFT_OUT
    fed.seconds(LESS_AFTER_S + 3 * RATE_OVER_S)
    assert fed.thinning.one_in == MOST_LEFT_OUT // 2


def test_much_more_than_can_be_kept_is_thinned_within_two_seconds() -> None:
    """A large fleet is thinned before its rate is known; an allowed burst is not."""
    fed = Fed(most_per_s=5)
    fed.seconds(2)
    assert fed.thinning.one_in == 4
    fed.seconds(RATE_OVER_S)
    assert fed.thinning.one_in == 8
    fed = Fed(most_per_s=10)
    fed.second()
    assert fed.thinning.one_in == 1


def test_a_reader_that_sheds_much_keeps_less_of_the_past() -> None:
    """Thinning doubles each second while a reader sheds: values come before the past.

    Not at a low rate.
    """
    for most_per_s, expected in ((39, 16), (160, 1)):
        fed = Fed(most_per_s)
        for _ in range(4):
            fed.thinning.keep(
                [Envelope("t/0", b"", shed=9, received_s=fed.now_s)] * 40,
                0.0,
                lambda _at_s: START_NS,
            )
            fed.now_s += 1.0
        assert fed.thinning.one_in == expected, most_per_s


def test_it_gives_way_to_what_is_more_urgent() -> None:
    """While giving way, thinning is strongest for too much telemetry, and none otherwise.

    Afterwards it is as before at once.
    """
    fed = Fed(most_per_s=45)
    fed.gives_way = True
    assert len(fed.seconds(20)) == 20 * len(TOPICS), "all can be followed"
    fed = Fed(most_per_s=30)
    fed.seconds(RATE_OVER_S + 1)
    assert fed.thinning.one_in == 2
    fed.gives_way = True
    kept = fed.seconds(2 * MOST_LEFT_OUT)
    assert fed.thinning.one_in == MOST_LEFT_OUT
    assert len(kept) == pytest.approx(2 * len(TOPICS), abs=len(TOPICS) // 2)
    fed.gives_way = False
    fed.second()
    assert fed.thinning.one_in == 2
    ends = [START_NS + round(at_s * NS_PER_S) for at_s in (104.5, 106.5, fed.now_s)]
    assert [fed.thinning.at(each) for each in ends] == [2, MOST_LEFT_OUT, 2]


def test_what_was_left_out_comes_again_bit_by_bit() -> None:
    """Topics switch to less thinning over some seconds, and none is forgotten."""
    fed = Fed(most_per_s=30)
    fed.seconds(RATE_OVER_S + 1)
    fed.gives_way = True
    fed.seconds(MOST_LEFT_OUT // 2)
    fed.gives_way = False
    by_second = [fed.second() for _ in range(int(SPREAD_S) + 3)]
    usual = len(TOPICS) / 2
    assert max(len(each) for each in by_second[:-3]) < 1.5 * usual
    assert {each.topic for second in by_second for each in second} == set(TOPICS)
    kept = [(each.topic, int(each.payload), each.shed) for second in by_second for each in second]
    for topic in TOPICS:
        times = [(at_s, shed) for each, at_s, shed in kept if each == topic]
        assert all(
            later - former == shed + 1 for (former, _), (later, shed) in itertools.pairwise(times)
        ), "every message that is not there is accounted for"


def test_it_ends_when_less_comes_for_long_and_says_what_was_left_out_last() -> None:
    """Thinning ends late and by halves, without oscillation.

    The time of each change is known afterwards.
    """
    fed = Fed(most_per_s=15)
    fed.seconds(RATE_OVER_S + 1)
    began_s = fed.now_s
    fed.seconds(LESS_AFTER_S / 2, topics=10)
    assert fed.thinning.one_in == 3
    kept = fed.seconds(2 * (LESS_AFTER_S + 2 * RATE_OVER_S), topics=10)
    assert fed.thinning.one_in == 1
    last = [each for each in kept if each.topic == TOPICS[0]]
    times = [int(each.payload) for each in last]
    gaps = [later - earlier - 1 for earlier, later in itertools.pairwise(times)]
    assert gaps == [each.shed for each in last[1:]]
    at = [
        fed.thinning.at(START_NS + round(second * NS_PER_S)) for second in (99, began_s, fed.now_s)
    ]
    assert at == [1, 3, 1]


def test_topics_that_are_gone_are_forgotten() -> None:
    """Silent topics are forgotten, active ones not.

    Without thinning batches pass unchanged.
    """
    fed = Fed(most_per_s=15)
    fed.seconds(RATE_OVER_S + 3)
    assert fed.thinning.known == len(TOPICS)
    fed.seconds(FORGOTTEN_AFTER_S / 2, topics=30)
    assert fed.thinning.known == len(TOPICS)
    fed.seconds(2 * FORGOTTEN_AFTER_S, topics=30)
    assert (fed.thinning.one_in, fed.thinning.known) == (2, 30)
    fed.seconds(2 * FORGOTTEN_AFTER_S + RATE_OVER_S, topics=10)
    assert (fed.thinning.one_in, fed.thinning.known) == (1, 0)
    batch = [Envelope(TOPICS[39], b"", received_s=fed.now_s)]
    assert fed.thinning.keep(batch, 0.0, int) is batch


def test_no_more_topics_are_known_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Invented topics replace older ones, and active topics' messages are all counted."""
    monkeypatch.setattr("trnfleet.record.write.thinning._MOST_TOPICS", 100)
    fed = Fed(most_per_s=15)
    fed.seconds(RATE_OVER_S + 3)
    kept: list[Envelope] = []
    for number in range(30):
        made_up = [Envelope(f"t/{number}/{each}", b"", received_s=fed.now_s) for each in range(50)]
        fed.thinning.keep(made_up, 0.0, int)
        kept += [each for each in fed.second() if each.topic == TOPICS[0]]
        assert fed.thinning.known <= 200
    times = [int(each.payload) for each in kept]
    gaps = [later - earlier - 1 for earlier, later in itertools.pairwise(times)]
    assert gaps == [each.shed for each in kept[1:]]


def test_a_topic_that_is_forgotten_each_time_is_kept_now_and_then() -> None:
    """A topic forgotten between its messages is still stored sometimes.

    Its name does not decide.
    """
    fed = Fed(most_per_s=15)
    kept = 0
    for _ in range(12):
        fed.seconds(FORGOTTEN_AFTER_S + RATE_OVER_S)
        fed.seconds(FORGOTTEN_AFTER_S + RATE_OVER_S)
        kept += len(fed.thinning.keep([Envelope("t/slow", b"", received_s=fed.now_s)], 0.0, int))
    assert fed.thinning.one_in == 3
    assert 3 <= kept <= 6
