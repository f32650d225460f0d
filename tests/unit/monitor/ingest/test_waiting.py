"""Telemetry that is held back for a layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.monitor.ingest import waiting
from trnfleet.monitor.ingest.waiting import Waiting
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    import pytest


def test_what_was_held_is_released_once_and_in_order() -> None:
    """Messages come out as they came in, and then no more."""
    held = Waiting()
    messages = [Envelope(f"t/{number}", b"x") for number in range(5)]
    assert all(held.hold(each) for each in messages)
    assert held.release() == messages
    assert held.release() == []


def test_room_is_bounded_by_number_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond either bound nothing is held, and what was released makes room."""
    monkeypatch.setattr(waiting, "MOST_MESSAGES", 3)
    monkeypatch.setattr(waiting, "MOST_BYTES", 10)
    held = Waiting()
    assert [held.hold(Envelope("t", b"x")) for _ in range(4)] == [True, True, True, False]
    held.release()
    assert [held.hold(Envelope("t", b"x" * size)) for size in (6, 5, 4, 1)] == [True, False, True, False]
    assert [len(each.payload) for each in held.release()] == [6, 4]
    assert held.hold(Envelope("t", b"x" * 10))
