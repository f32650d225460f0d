"""Rejected messages, and telemetry waiting for its descriptor."""

from __future__ import annotations

from typing import Any

import pytest

from trnfleet.errors import WireError
from trnfleet.monitor.ingest import rejects
from trnfleet.monitor.ingest.rejects import (
    MisplacedError,
    PendingTelemetry,
    RejectedError,
    reject,
)
from trnfleet.monitor.pipeline.counts import PipelineCounts
from trnfleet.wire.ports import Envelope


class Log:
    """Stores log lines."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def warning(self, _event: str, **fields: Any) -> None:
        """Store a line."""
        self.lines.append(fields)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """Return a replacement for the module's log."""
    kept = Log()
    monkeypatch.setattr(rejects, "log", kept)
    return kept


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MisplacedError("no"), "misplaced"),
        (RejectedError("no"), "rejected"),
        (WireError("no"), "undecodable"),
    ],
)
def test_each_kind_has_its_count(log: Log, error: WireError, kind: str) -> None:
    """A rejected message is counted once, by its fault."""
    counts = PipelineCounts()
    reject(counts, Envelope("a/topic", b""), error)
    assert counts.refused == {"other": 1}
    counts.refused.clear()
    assert counts == PipelineCounts(**{kind: 1}, last_problem="a/topic: no")
    assert log.lines == [
        {"reason": kind, "count": 1, "topic": "a/topic", "error": "no", "exc_info": None}
    ]


def test_a_bug_is_named_by_its_type_and_logged_whole(log: Log) -> None:
    """An unexpected error is shown by type only, with its traceback in the log.

    Its text may quote the message.
    """
    counts = PipelineCounts()
    bug = ZeroDivisionError("of secrets")
    reject(counts, Envelope("t" * 1_000, b""), bug)
    assert counts.undecodable == 1
    assert counts.last_problem == "t" * 256 + ": ZeroDivisionError"
    assert log.lines[0]["exc_info"] is bug


def test_what_was_held_is_released_once_and_in_order() -> None:
    """Pending messages are released once, in order of arrival."""
    held = PendingTelemetry()
    messages = [Envelope(f"t/{number}", b"x") for number in range(5)]
    assert all(held.hold(each) for each in messages)
    assert held.take() == messages
    assert held.take() == []


def test_room_is_bounded_by_number_and_by_bytes() -> None:
    """The buffer is limited in messages and bytes, and released ones make room."""
    held = PendingTelemetry(most_messages=3, most_bytes=10)
    assert [held.hold(Envelope("t", b"x")) for _ in range(4)] == [True, True, True, False]
    held.take()
    assert [held.hold(Envelope("t", b"x" * size)) for size in (6, 5, 4, 1)] == [
        True,
        False,
        True,
        False,
    ]
    assert [len(each.payload) for each in held.take()] == [6, 4]
    assert held.hold(Envelope("t", b"x" * 10))


def test_a_half_of_the_room_is_for_what_is_described() -> None:
    """Undescribed telemetry leaves room for telemetry waiting for its layout."""
    held = PendingTelemetry(most_messages=4, most_bytes=100)
    assert [held.hold(Envelope("t", b"x"), is_described=False) for _ in range(3)] == [
        True,
        True,
        False,
    ]
    assert [held.hold(Envelope("t", b"x")) for _ in range(3)] == [True, True, False]
    held.take()
    assert not held.hold(Envelope("t", b"x" * 51), is_described=False)
    assert held.hold(Envelope("t", b"x" * 51))


def test_refused_messages_are_counted_by_class() -> None:
    """Refused messages are counted by topic class, or as other without one."""
    counts = PipelineCounts()
    for topic in (
        "site/v1/demo/node/a/b/c",
        "site/v1/demo/alert/0",
        "site/v1/demo/alert/1",
        "lamp",
    ):
        reject(counts, Envelope(topic, b""), WireError("no"), root="site")
    assert counts.refused == {"node": 1, "alert": 2, "other": 1}
