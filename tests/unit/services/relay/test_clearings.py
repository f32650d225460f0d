"""Clearings that a relay assumes after a reconnect: topics without an answer.

It assumes none if the broker may not answer at all.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest
from support.monitor.queue_source import QueueSource
from support.processes.waiting import running

from trnfleet.clock import ManualClock
from trnfleet.services.relay import clearings
from trnfleet.services.relay.clearings import ANSWER_S, MissedClearings
from trnfleet.services.relay.passed import SETTLED_S
from trnfleet.services.relay.role import PERIOD_S
from trnfleet.wire.messages import REPEAT_S
from trnfleet.wire.ports import Envelope, LinkStatus
from trnfleet.wire.topics import DEFAULT_ROOT, TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

JOBS = [build_topic("demo", TopicClass.JOB, f"job-{number}") for number in range(40)]
AWAY_S = 5.0


class Cell:
    """A broker and a relay's connection to its retained messages."""

    def __init__(self, *, gives_to_wildcards: bool = True, answers: bool = True) -> None:
        self.clock = ManualClock()
        self.status = LinkStatus(connected=True, connects=1)
        self.missed = MissedClearings("demo", DEFAULT_ROOT, self.clock)
        self.retained = set(JOBS)
        self.gives_to_wildcards = gives_to_wildcards
        self.answers = answers
        self.lost = 0
        """Answers beyond the broker's queue."""
        self.refused: set[str] = set()
        """Topics with refused single subscriptions."""
        self.reports: list[str] = []
        self.asked: list[str] = []
        self.cleared: list[str] = []
        self.come(JOBS)

    async def take(self) -> list[Envelope]:
        """Never called."""
        raise AssertionError("batches are given to what looks for clearings")

    def come(self, topics: Iterable[str], *, retain: bool = True) -> None:
        now_s = self.clock.monotonic_s()
        self.missed.take([Envelope(each, b"{}", 1, retain, received_s=now_s) for each in topics])

    def request_retained(self, topics: Iterable[str]) -> None:
        """Answer what is retained, in order."""
        wanted = list(topics)
        self.asked += wanted
        self.status.refused_topics.update(self.refused.intersection(wanted))
        answered = self.retained - self.refused if self.answers else set[str]()
        held = [each for each in wanted if each in answered]
        self.lost, begin = 0, self.lost
        self.come(held[begin:])

    async def clear(self, batch: list[Envelope]) -> None:
        assert all(each.retain and not each.payload for each in batch)
        self.cleared += [each.topic for each in batch]

    async def lose(self, *cleared: str) -> None:
        """Lose the connection, have topics cleared, and connect again."""
        self.status.connected = False
        await self.clock.advance(AWAY_S)
        self.retained.difference_update(cleared)
        self.status.connected, self.status.changed_s = True, self.clock.monotonic_s()
        self.status.connects += 1
        if self.gives_to_wildcards:
            self.come(sorted(self.retained))


@contextlib.asynccontextmanager
async def relayed(cell: Cell) -> AsyncIterator[Cell]:
    """Yield a cell with a relay connected for a while."""
    async with running(cell.missed.run(cell, cell.clear, cell.reports.append)):
        await cell.clock.advance(SETTLED_S + 2 * PERIOD_S)
        assert cell.asked == []
        yield cell


@pytest.mark.parametrize("gives_to_wildcards", [True, False])
async def test_what_a_broker_does_not_answer_is_cleared(*, gives_to_wildcards: bool) -> None:
    """Unanswered topics are cleared once, after some time with a connection.

    Wildcards may return nothing. Others are not requested again.
    """
    async with relayed(Cell(gives_to_wildcards=gives_to_wildcards)) as cell:
        await cell.lose(*JOBS[:3])
        await cell.clock.advance(SETTLED_S - PERIOD_S)
        assert (cell.asked, cell.cleared) == ([], [])
        await cell.clock.advance(10 * PERIOD_S)
        assert cell.cleared == JOBS[:3]
        asked = len(cell.asked)
        await cell.clock.advance(2 * REPEAT_S)
        assert (cell.cleared, len(cell.asked)) == (JOBS[:3], asked)
        await cell.lose(JOBS[5])
        await cell.clock.advance(SETTLED_S + 10 * PERIOD_S)
    assert cell.cleared == [*JOBS[:3], JOBS[5]]


async def test_a_broker_that_may_not_answer_clears_nothing() -> None:
    """A broker that refuses single topics is asked again now and then.

    A published message is not an answer.
    """
    async with relayed(Cell(answers=False)) as cell:
        await cell.lose(*JOBS[:3])
        await cell.clock.advance(SETTLED_S + 2 * PERIOD_S)
        assert len(cell.asked) == 4
        cell.come(JOBS[3:], retain=False)
        await cell.clock.advance(2.5 * (ANSWER_S + REPEAT_S))
        assert (cell.cleared, len(cell.asked)) == ([], 3 * 4)
        cell.answers = True
        await cell.clock.advance(REPEAT_S + ANSWER_S)
    assert cell.cleared == JOBS[:3]


async def test_a_topic_whose_subscription_is_refused_is_not_cleared_but_told() -> None:
    """A refused topic stays as last known and is logged once; others are checked as usual.

    The next connection may answer.
    """
    async with relayed(Cell(gives_to_wildcards=False)) as cell:
        cell.status.broker = "mqtt://cell:1883"
        cell.refused = {*JOBS[2:5], *JOBS[20:22]}
        await cell.lose(*JOBS[:3])
        await cell.clock.advance(SETTLED_S + 3 * (ANSWER_S + REPEAT_S))
        assert cell.cleared == JOBS[:2]
        (line,) = cell.reports
        assert "mqtt://cell:1883 refuses the subscription to 5 retained topics" in line
        assert JOBS[2] in line
        cell.refused = set()
        cell.status.refused_topics.clear()
        await cell.lose()
        await cell.clock.advance(SETTLED_S + 10 * PERIOD_S)
    assert cell.cleared == JOBS[:3]
    assert len(cell.reports) == 1


async def test_a_topic_that_is_refused_is_no_proof_for_others() -> None:
    """A refused topic proves nothing; another one is used a minute later.

    There is no wait for the impossible answer.
    """
    async with relayed(Cell()) as cell:
        cell.refused = {JOBS[2]}
        await cell.lose(JOBS[0])
        await cell.clock.advance(SETTLED_S + 5 * PERIOD_S)
        assert cell.asked == [JOBS[0], JOBS[2]]
        await cell.clock.advance(REPEAT_S + 5 * PERIOD_S)
    assert cell.cleared == [JOBS[0]]


async def test_more_refused_topics_than_are_named_clear_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Any of the others may be one of them."""
    monkeypatch.setattr("trnfleet.services.relay.clearings.MOST_REFUSED_TOPICS", 3)
    async with relayed(Cell()) as cell:
        cell.refused = set(JOBS[1:4])
        await cell.lose(*JOBS[:4])
        await cell.clock.advance(SETTLED_S + 10 * PERIOD_S)
    assert cell.cleared == []
    assert len(cell.reports) == 1


async def test_a_broker_that_came_back_empty_clears_nothing_until_something_is_heard() -> None:
    """An empty broker clears nothing until its publishers return.

    Topics without a publisher are over then.
    """
    async with relayed(Cell()) as cell:
        await cell.lose(*JOBS)
        await cell.clock.advance(SETTLED_S + ANSWER_S)
        assert cell.cleared == []
        cell.retained = set(JOBS[10:])
        cell.come(JOBS[10:], retain=False)
        await cell.clock.advance(REPEAT_S + ANSWER_S)
    assert cell.cleared == JOBS[:10]


async def test_a_broker_of_which_nothing_is_heard_is_asked_for_some_topics_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A silent broker is asked for an even sample of topics, different each time."""
    monkeypatch.setattr("trnfleet.services.relay.clearings.MOST_AT_ONCE", 5)
    async with relayed(Cell(gives_to_wildcards=False)) as cell:
        await cell.lose(*JOBS)
        await cell.clock.advance(SETTLED_S + 2 * PERIOD_S)
        assert cell.asked == JOBS[::8]
        await cell.clock.advance(ANSWER_S + REPEAT_S + PERIOD_S)
        assert cell.asked == [*JOBS[::8], *JOBS[1::8]]
        cell.retained = {JOBS[2]}
        await cell.clock.advance(2 * (ANSWER_S + REPEAT_S))
    assert sorted(cell.cleared) == sorted({*JOBS} - {JOBS[2]})


async def test_an_answer_that_is_lost_is_asked_for_again() -> None:
    """A full queue drops answers: one round does not prove a topic cleared."""
    async with relayed(Cell()) as cell:
        cell.retained = set(JOBS[:20])
        await cell.lose()
        cell.retained = set(JOBS) - {JOBS[39]}
        cell.lost = 10
        await cell.clock.advance(SETTLED_S + 10 * PERIOD_S)
    assert cell.cleared == [JOBS[39]]


async def test_many_are_asked_for_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost connection ends a check.

    The next one starts from the beginning.
    """
    monkeypatch.setattr("trnfleet.services.relay.clearings.MOST_AT_ONCE", 5)
    async with relayed(Cell(gives_to_wildcards=False)) as cell:
        await cell.lose(*JOBS[:12])
        await cell.clock.advance(SETTLED_S + 2 * PERIOD_S)
        assert cell.cleared == []
        await cell.lose(*JOBS[12:14])
        await cell.clock.advance(SETTLED_S + REPEAT_S + ANSWER_S)
    assert sorted(cell.cleared) == sorted(JOBS[:14])


async def test_what_is_no_retained_state_or_cleared_in_time_is_not_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Telemetry and events retain nothing.

    The number of known topics is limited.
    """
    monkeypatch.setattr("trnfleet.services.relay.clearings.MOST_TOPICS", 42)
    async with relayed(Cell()) as cell:
        others = [
            build_topic("demo", each, "uc1/us-0001")
            for each in (TopicClass.TELEMETRY, TopicClass.EVENT)
        ]
        cell.come([*others, "other/topic"], retain=False)
        cell.come(build_topic("demo", TopicClass.ALERT, f"{number:016x}") for number in range(10))
        cell.missed.take([Envelope(JOBS[0], b"", 1)])
        await cell.lose()
        await cell.clock.advance(SETTLED_S + 10 * PERIOD_S)
    assert cell.cleared == [
        build_topic("demo", TopicClass.ALERT, f"{number:016x}") for number in range(2)
    ]


async def test_what_comes_again_while_others_are_cleared_is_not_cleared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Hosts back while thousands of topics are cleared in parts are not cleared."""
    monkeypatch.setattr("trnfleet.services.relay.clearings.MOST_AT_ONCE", 5)
    cell = Cell()
    clear = cell.clear

    async def clear_slowly(batch: list[Envelope]) -> None:
        await clear(batch)
        cell.come(JOBS[10:12], retain=False)

    monkeypatch.setattr(cell, "clear", clear_slowly)
    async with relayed(cell):
        await cell.lose(*JOBS[:15])
        await cell.clock.advance(SETTLED_S + 10 * PERIOD_S)
    assert cell.cleared == [*JOBS[:10], *JOBS[12:15]]


async def test_a_top_broker_that_sends_on_is_read_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its retained messages do not fill the memory."""
    monkeypatch.setattr(clearings, "MOST_READ_BYTES", 1_000)
    batches = [[Envelope(topic, b"x" * 600, 1, retain=True)] for topic in JOBS]
    async with asyncio.timeout(2.0):
        retained = await clearings.retained_of(QueueSource(*batches))
    assert [envelope.topic for envelope in retained] == JOBS[:2]
