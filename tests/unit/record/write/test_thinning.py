"""Thinning of the past: what is kept of how much, what it says of the rest, and when it ends."""

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
    """A fleet whose topics each publish once a second, and what is kept of it."""

    def __init__(self, most_per_s: int) -> None:
        self.thinning = Thinning(lambda topic: topic.startswith("t/"), most_per_s)
        self.now_s = 100.0
        self.gives_way = False

    def second(self, topics: int = len(TOPICS), filled: float = 0.0) -> list[Envelope]:
        """Return what is kept of a second's messages, in batches of ten."""
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
    """Not a message is left out, and what was left out before it came here stays as it is."""
    fed = Fed(most_per_s=45)
    assert len(fed.seconds(60)) == 60 * len(TOPICS)
    assert fed.thinning.one_in == 1


def test_of_more_a_part_of_each_topic_is_kept_and_says_what_is_missing() -> None:
    """Each topic is there as often as any other, not all in one tick, and no message between two is unaccounted for."""
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
    """Of a monitor that is behind ticks are missing already: they count as left out, and are in what the next one says."""
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
    """What is retained, has QoS 1 or is no telemetry is no part of it, whatever its topic."""
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
    """Twice as much for each second in which it is half full, up to a limit; it ends by halves once it is not."""
    fed = Fed(most_per_s=1_000)
    fed.seconds(3, filled=0.6)
    assert fed.thinning.one_in == 8
    fed.seconds(20, filled=0.6)
    assert fed.thinning.one_in == MOST_LEFT_OUT
    fed.seconds(LESS_AFTER_S + 3 * RATE_OVER_S)
    assert fed.thinning.one_in == MOST_LEFT_OUT // 2


def test_much_more_than_can_be_kept_is_thinned_within_two_seconds() -> None:
    """A fleet that an app joins is not written as a whole until its rate is known, but a burst that may all be kept is."""
    fed = Fed(most_per_s=5)
    fed.seconds(2)
    assert fed.thinning.one_in == 4
    fed.seconds(RATE_OVER_S)
    assert fed.thinning.one_in == 8
    fed = Fed(most_per_s=10)
    fed.second()
    assert fed.thinning.one_in == 1


def test_a_reader_that_sheds_much_keeps_less_of_the_past() -> None:
    """Twice as little each second, since values come before the past; not where little comes at all."""
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
    """As few as ever are kept of what is too much in any case, all of what is not, and afterwards it is as before at once."""
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
    """Topics of which more was left out than is now are kept over some seconds, and none is forgotten."""
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
    """Not at once, and by halves, so that it does not change to and fro; the time of each change is known afterwards."""
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
    """Not those that still come; once all is kept again, nothing of the others is left, and batches pass as they are."""
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
    """Made-up ones push out those that came before them, and of those that go on coming nothing is unaccounted for."""
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
    """One that publishes less often than topics are forgotten: not all of its messages are left out because of its name."""
    fed = Fed(most_per_s=15)
    kept = 0
    for _ in range(12):
        fed.seconds(FORGOTTEN_AFTER_S + RATE_OVER_S)
        fed.seconds(FORGOTTEN_AFTER_S + RATE_OVER_S)
        kept += len(fed.thinning.keep([Envelope("t/slow", b"", received_s=fed.now_s)], 0.0, int))
    assert fed.thinning.one_in == 3
    assert 3 <= kept <= 6
