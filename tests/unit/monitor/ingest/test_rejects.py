"""Messages that are not taken: how they are counted, and how many of them are logged."""

from __future__ import annotations

from typing import Any

import pytest

from trnfleet.errors import WireError
from trnfleet.monitor.ingest import rejects
from trnfleet.monitor.ingest.rejects import LOGGED_OF_A_KIND, MisplacedError, RejectedError, refuse
from trnfleet.monitor.ingest.sequence import Pipeline
from trnfleet.wire.ports import Envelope


class Log:
    """Keeps what is logged."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def warning(self, _event: str, **fields: Any) -> None:
        """Take a line."""
        self.lines.append(fields)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """Return what stands in the place of the module's log."""
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
    """A refused message is counted once, by what is wrong with it."""
    counts = Pipeline()
    refuse(counts, Envelope("a/topic", b""), error)
    assert counts == Pipeline(**{kind: 1}, last_problem="a/topic: no")
    assert log.lines == [{"kind": kind, "count": 1, "topic": "a/topic", "error": "no", "exc_info": None}]


def test_a_bug_is_named_by_its_type_and_logged_whole(log: Log) -> None:
    """What nobody foresaw may quote the message: the screen gets its type, the log its traceback."""
    counts, bug = Pipeline(), ZeroDivisionError("of secrets")
    refuse(counts, Envelope("t" * 1_000, b""), bug)
    assert counts.undecodable == 1
    assert counts.last_problem == "t" * 200 + ": ZeroDivisionError"
    assert log.lines[0]["exc_info"] is bug


def test_a_flood_is_no_flood_of_lines(log: Log) -> None:
    """The first of a kind are logged one by one, then one of each hundred; another kind begins anew."""
    counts = Pipeline()
    for _ in range(3 * LOGGED_OF_A_KIND + 5):
        refuse(counts, Envelope("t", b""), RejectedError("no"))
    assert len(log.lines) == LOGGED_OF_A_KIND + 2
    refuse(counts, Envelope("t", b""), MisplacedError("no"))
    assert len(log.lines) == LOGGED_OF_A_KIND + 3
