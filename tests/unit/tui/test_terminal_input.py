"""The thread that reads keys: it sleeps until something comes, and tells Escape from the begin of another key."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest
from textual.drivers.linux_driver import LinuxDriver

from trnfleet.tui import terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.events import Event


class Input(terminal.TerminalDriver):
    """A driver that only reads, from a pipe."""

    def __init__(self) -> None:
        self._debug = False
        self.fileno, self.end = os.pipe()
        self.events: queue.Queue[Event] = queue.Queue()
        self.exit_event = self._input_end = terminal._WakingEvent()
        self._input_end.open()

    def process_message(self, message: Any) -> None:
        self.events.put(message)

    def keys(self, count: int) -> list[str]:
        """Return the next keys, as soon as they are told."""
        return [cast("Any", self.events.get(timeout=5)).key for _ in range(count)]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """Return the list to which the thread's waits are added as they begin."""
    begun: list[float | None] = []

    def note(*arguments: Any) -> Any:
        begun.append(arguments[3])
        return select.select(*arguments)

    monkeypatch.setattr(terminal, "_PARSED_WITHIN_S", 0.001)
    monkeypatch.setattr(terminal, "select", type("Select", (), {"select": staticmethod(note)}))
    return begun


@contextlib.contextmanager
def reading() -> Iterator[Input]:
    """Run the thread until the end."""
    source = Input()
    thread = threading.Thread(target=source.run_input_thread)
    thread.start()
    try:
        yield source
    finally:
        source.exit_event.set()
        thread.join(timeout=5)
        assert not thread.is_alive()
        source._input_end.close()
        with contextlib.suppress(OSError):
            os.close(source.end)
        os.close(source.fileno)


def test_keys_come_whole_and_escape_by_itself() -> None:
    """A character in two parts is one, and so is a key; Escape is one after a moment without anything behind it."""
    with reading() as source:
        os.write(source.end, "aä".encode()[:2])
        assert source.keys(1) == ["a"]
        os.write(source.end, "ä".encode()[1:] + b"\x1b[A")
        assert source.keys(2) == ["ä", "up"]
        os.write(source.end, b"\x1b")
        assert source.keys(1) == ["escape"]
        os.write(source.end, b"q")
        assert source.keys(1) == ["q"]


def test_nothing_wakes_it_while_nothing_is_typed(waits: list[float | None]) -> None:
    """It waits for as long as it takes, some moments after the last key, too."""
    with reading() as source:
        os.write(source.end, b"x")
        source.keys(1)
    with reading() as source:
        os.write(source.end, b"y")
        source.keys(1)
        for _ in range(500):
            if waits[-1] is None:
                break
            select.select([], [], [], 0.01)
        assert waits[-1] is None
        before = len(waits)
    assert len(waits) == before
    assert waits[0] is None
    assert waits.count(terminal._PARSED_WITHIN_S) >= terminal._PARSER_WAITS


def test_an_input_that_has_ended_wakes_it_no_more(waits: list[float | None]) -> None:
    """Where stdin is no terminal but a file at its end."""
    with reading() as source:
        os.close(source.end)
        for _ in range(500):
            if len(waits) > 1 and waits[-1] is None:
                break
            select.select([], [], [], 0.01)
    assert len(waits) <= terminal._PARSER_WAITS + 2


def test_it_is_given_back_and_taken_again() -> None:
    """The event wakes what waits for its file while it is open, and is an event like any other before and after."""
    event = terminal._WakingEvent()
    event.set()
    event.clear()
    for _ in range(2):
        event.open()
        assert select.select([event.fileno], [], [], 0)[0] == []
        event.set()
        assert select.select([event.fileno], [], [], 0)[0] == [event.fileno]
        event.clear()
        event.close()
        assert event.fileno == -1


def test_textuals_thread_is_the_one_that_is_replaced() -> None:
    """It is run under this name, and ended by this event."""
    assert "exit_event" in LinuxDriver.disable_input.__code__.co_names
    assert "run_input_thread" in LinuxDriver._run_input_thread.__code__.co_names
