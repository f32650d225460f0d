"""The key-reading thread, and the parser of a terminal's input."""

from __future__ import annotations

import contextlib
import os
import queue
import random
import select
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Event, Key, Paste

from trnfleet.tui.app import terminal
from trnfleet.tui.app.input import InputDropped, InputParser

if TYPE_CHECKING:
    from collections.abc import Iterator


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
        """Return the next keys once they are reported."""
        return [cast("Any", self.events.get(timeout=5)).key for _ in range(count)]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """Return the list of the thread's waits, extended as they begin."""
    begun: list[float | None] = []

    def note(*arguments: Any) -> Any:
        begun.append(arguments[3])
        return select.select(*arguments)

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
    """Characters and keys split in two arrive whole.

    Escape arrives after a moment without further input.
    """
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
    assert set(waits) == {None}


def test_an_input_that_has_ended_wakes_it_no_more(waits: list[float | None]) -> None:
    """Where stdin is no terminal but a file at its end."""
    with reading() as source:
        os.close(source.end)
        for _ in range(500):
            if len(waits) > 1 and waits[-1] is None:
                break
            select.select([], [], [], 0.01)
    assert waits == [None, None]


def test_it_is_given_back_and_taken_again() -> None:
    """The event wakes a wait for its file while open.

    Before and after it is a plain event.
    """
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
    assert "_run_input_thread" in LinuxDriver.start_application_mode.__code__.co_names


def parsed(text: str) -> list[str]:
    """Return the events parsed from a text.

    Keys appear by name, other events by class, dropped input in angle brackets.
    """
    parser = InputParser()
    return [
        message.key
        if isinstance(message, Key)
        else f"<{message.sequence}>"
        if isinstance(message, InputDropped)
        else f"pasted {message.text}"
        if isinstance(message, Paste)
        else type(message).__name__
        for message in (*parser.feed(text), *parser.flush())
    ]


@pytest.mark.parametrize(
    "sequence",
    [
        *("\x1b[97;1:3u", "\x1b[97:65;2;65u", "\x1b[1;1:3B", "\x1b[1114112u", "\x1b[99999999999u"),
        *("\x1b[12z", "\x1b[[Z", "\x1b[?62;1;2c", "\x1b[" + "1;" * 40 + "z", "\x1b[ 1q", "\x1bOz"),
        *(
            "\x1b]11;rgb:00/11/qq\x1b\\",
            "\x1bP1$r q\x1b\\",
            "\x1b_q\x07",
            "\x1bXqq\x18",
            "\x1b^qq\x1a",
        ),
        *("\x1b[48;0;0;0;0t", "\x1b[48;99999999;99999999;1;1t", "\x1b[5;5R", "\x1b[?2048;2$y"),
    ],
)
def test_a_sequence_that_nothing_understands_is_dropped_whole(sequence: str) -> None:
    """The keys before and after it are keys, and none of its characters is."""
    assert parsed(f"a{sequence}b") == ["a", f"<{sequence}>", "b"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("\x1b[A\x1bOP\x1b[3$x", ["up", "f1", "shift+delete", "x"]),
        ("\x1b[97;5u\x1b[[Aä", ["ctrl+a", "f1", "ä"]),
        ("\x1bx\x1bf\x1b", ["alt+x", "ctrl+right", "escape"]),
        ("\x1b\x1b[A", ["escape", "up"]),
        ("\x1b[<0;2;3M\x1b[<0;2;3m\x1b[I", ["MouseDown", "MouseUp", "AppFocus"]),
        ("\x1b[M   q", ["q"]),
        ("\x1b[200~a\x1b[31mq~\x1b[201~b", ["pasted a\x1b[31mq~", "b"]),
        ("\x1b[200~without an end", ["pasted without an end"]),
        ("\x1b[12\rq", ["<\x1b[12>", "enter", "q"]),
        ("\x1b]11;rgb\x1b[Aq", ["<\x1b]11;rgb\x1b>", "up", "q"]),
        ("\x1bP" + "q" * 5_000, ["<\x1bP" + "q" * 4_095 + ">", *("q" * 905)]),
    ],
)
def test_what_a_terminal_sends(text: str, wanted: list[str]) -> None:
    """Keys, keys with Alt, mouse, focus and paste are parsed; so are broken sequences."""
    assert parsed(text) == wanted


def test_random_sequences_type_nothing() -> None:
    """A random sequence is a known key or dropped.

    It never raises, and never types its own characters.
    """
    draw = random.Random(1)  # noqa: S311  a fixed choice
    for _ in range(3_000):
        parameters = "".join(draw.choices("0123456789;:<=>?", k=draw.randrange(12)))
        last = chr(draw.randrange(0x40, 0x7F))
        sequence = draw.choice(
            [
                f"\x1b[{parameters}{last}",
                f"\x1b]{parameters}{last}\x07",
                f"\x1bP{parameters}{last}\x1b\\",
            ]
        )
        if sequence[:3] not in {"\x1b[[", "\x1b[M"}:
            keys = parsed(f"<{sequence}>")
            assert keys[0] == "less_than_sign"
            assert keys[-1] == "greater_than_sign"
            assert len(keys) <= 3, sequence
