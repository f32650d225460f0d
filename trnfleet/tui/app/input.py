"""A terminal's input: its characters as events, keys in the order typed, selection by mouse.

Textual's parser raises on some key reports, and types an unknown control sequence as keys, a `q` in
it included. Here a sequence ends at the end defined by ECMA-48, and one unknown to Textual is
dropped whole.

Keys are processed in the order typed, also in one burst: after a key that opens a field, keys go to
the field. After a key that closes it, keys go to the view. The mouse selects within one widget. A
click selects nothing. A key or the next press of the button ends the selection.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual import constants, events
from textual._xterm_parser import (
    _MAX_SEQUENCE_SEARCH_THRESHOLD,
    BRACKETED_PASTE_END,
    BRACKETED_PASTE_START,
    XTermParser,
)
from textual.app import App
from textual.errors import NoWidget
from textual.events import CursorPosition, Key, Paste, Resize
from textual.geometry import Offset
from textual.message import Message
from textual.messages import InBandWindowResize
from textual.widgets import Input

from trnfleet.tui.widgets.prompt import PromptField
from trnfleet.tui.widgets.selection import SelectableWidget, Selection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.widget import AwaitMount, Widget

ESC = "\x1b"
_STRINGS = "]P_^X"
"""Second characters of OSC, DCS, APC, PM and SOS. BEL or ST ends these."""
_STRING_END = re.compile(r"(\x07|\x1b\\|[\x18\x1a])\Z")
_BEGUN = re.compile(r"\x1b(\[[ -?]*|O[ -?]*|\[\[|\[M.{0,2})", re.DOTALL)
"""CSI and SS3 without their last character. Function keys of Linux's console and old mouse reports
go on behind that."""
_MOST_HELD = 4_096
"""Most characters of a sequence; longer ones are dropped."""
_REST_WITHIN_S = 1.0
"""Longest wait for the rest of a sequence or of pasted text."""
_UNASKED = (CursorPosition, InBandWindowResize, Resize)
"""Answers to requests never made; the size comes from the kernel."""
_ENDING = frozenset({"enter", "escape"})
"""Keys that close a field."""
LEFT = 1
"""The button that selects."""


@dataclass
class InputDropped(Message):
    """A control sequence was dropped, because nothing here understands it."""

    sequence: str


class InputParser:
    """Parser of a terminal's input."""

    def __init__(self) -> None:
        self._parser = XTermParser()
        self._sequence = ""
        """The received part of an unfinished sequence."""
        self._pasted: list[str] | None = None
        """Characters of an unfinished paste; None for none."""

    @property
    def wait_s(self) -> float | None:
        """How long to wait for more before `flush`; None while nothing has begun."""
        if self._pasted is not None or len(self._sequence) > 2:
            return _REST_WITHIN_S
        return constants.ESCAPE_DELAY if self._sequence else None

    def feed(self, text: str) -> Iterator[Message]:
        """Parse received characters."""
        for character in text:
            if self._pasted is not None:
                yield from self._paste(character)
            elif self._sequence[1:2] and self._sequence[1:2] in _STRINGS:
                yield from self._go_on_with_string(character)
            elif character == ESC:
                yield from self._begin()
            elif self._sequence:
                yield from self._go_on(character)
            else:
                yield from self._parse(character) or ()

    def flush(self) -> Iterator[Message]:
        """Parse the received part as if it were complete.

        The result is Escape, a key with Alt, or a sequence without an end.
        """
        if self._pasted is not None:
            yield self._end_paste()
        elif self._sequence == ESC:
            self._reset()
            yield Key("escape", ESC)
        elif len(self._sequence) == 2:
            yield from self._with_alt()
        elif self._sequence:
            yield self._drop()

    def _begin(self) -> Iterator[Message]:
        yield from self.flush()
        self._sequence = ESC
        self._parse(ESC)

    def _go_on(self, character: str) -> Iterator[Message]:
        if character < " " and len(self._sequence) > 1:
            # A key: no sequence has such a character.
            yield self._drop()
            yield from self.feed(character)
            return
        self._sequence += character
        if self._sequence[1] in _STRINGS:
            return
        is_parsed = len(self._sequence) <= _MAX_SEQUENCE_SEARCH_THRESHOLD
        parsed = self._parse(character) if is_parsed else ()
        if parsed is None:
            yield self._drop()
        elif is_parsed and self._parser._awaiting.timeout is None:  # noqa: SLF001  it waits for a new key
            if self._sequence == BRACKETED_PASTE_START:
                self._reset()
                self._pasted = []
            elif any(isinstance(message, _UNASKED) for message in parsed):
                yield self._drop()
            else:
                self._sequence = ""
                yield from parsed
        elif len(self._sequence) == 2 and character not in "[O":
            yield from self._with_alt()
        elif len(self._sequence) > _MOST_HELD or not _BEGUN.fullmatch(self._sequence):
            yield self._drop()

    def _go_on_with_string(self, character: str) -> Iterator[Message]:
        if self._sequence.endswith(ESC) and character != "\\":
            # It was cut off by another sequence.
            yield self._drop()
            yield from self.feed(ESC + character)
            return
        self._sequence += character
        if (
            _STRING_END.search(self._sequence, len(self._sequence) - 2)
            or len(self._sequence) > _MOST_HELD
        ):
            yield self._drop()

    def _paste(self, character: str) -> Iterator[Message]:
        pasted = self._pasted or []
        pasted.append(character)
        self._pasted = pasted
        if character == BRACKETED_PASTE_END[-1]:
            end = len(BRACKETED_PASTE_END)
            if "".join(pasted[-end:]) == BRACKETED_PASTE_END:
                del pasted[-end:]
                yield self._end_paste()

    def _end_paste(self) -> Paste:
        text = "".join(self._pasted or ())
        self._pasted = None
        return Paste(text.replace("\0", ""))

    def _with_alt(self) -> Iterator[Key]:
        character = self._sequence[1]
        self._reset()
        yield from self._parser._sequence_to_key_events(character, alt=True)  # noqa: SLF001  what it does itself later

    def _parse(self, character: str) -> tuple[Message, ...] | None:
        """Return the messages completed by a character; None if Textual fails on it."""
        try:
            return tuple(self._parser.feed(character))
        except Exception:  # noqa: BLE001  it converts numbers in several ways without a look
            return None

    def _drop(self) -> InputDropped:
        sequence = self._sequence
        self._reset()
        return InputDropped(sequence)

    def _reset(self) -> None:
        self._sequence = ""
        # Its place in the sequence is that of a generator, which cannot be set back.
        self._parser = XTermParser()


class InputApp(App[None]):
    """An app with selectable lines that finishes each key before it reads the next.

    A slow connection or a paste sends many keys at once. Textual passes each key to the widget with
    the focus at the time of reading, and looks up its binding only after it has bubbled up again:
    the rest of a command would be keys of the view below. A view opened for the first time also
    receives the keys after the one that opened it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.being_mounted: list[AwaitMount] = []
        """Views that have no widgets yet."""
        self._pressed_at: tuple[SelectableWidget, Offset] | None = None
        """Where the button went down and still is, in cells of a widget."""
        self._selected: SelectableWidget | None = None

    async def wait_mounted(self) -> None:
        """Wait until views being mounted have their widgets."""
        while self.being_mounted:
            await self.being_mounted.pop()

    async def on_event(self, event: events.Event) -> None:
        """Follow the pointer, and run a key's binding at once unless a field receives the key.

        The end of a selection is not a click. No widget but a field handles keys except by
        bindings.
        """
        if isinstance(event, events.InputEvent) and not event.is_forwarded and self._follow(event):
            return
        if isinstance(event, events.Key) and self.being_mounted:
            await self.wait_mounted()
        if not isinstance(event, events.Key) or event.is_forwarded:
            await super().on_event(event)
            return
        if isinstance(self.focused, PromptField) and event.key in _ENDING:
            await _wait_typed(self.focused)
        elif isinstance(self.focused, Input):
            await super().on_event(event)
            return
        if not self.app_focus:
            self.app_focus = True
        if not await self._check_bindings(event.key, priority=True):
            event._set_forwarded()  # noqa: SLF001  as the app does it
            await super().on_event(event)

    @property
    def selected_text(self) -> str:
        """Selected text on screen.

        Empty without a selection.
        """
        widget = self._selected
        return widget.selected_text() if widget is not None and widget.is_on_screen else ""

    def drop_selection(self) -> None:
        """Select nothing."""
        if self._selected is not None:
            self._selected.select(None)
            self._selected = None

    def _follow(self, event: events.InputEvent) -> bool:
        """Follow keys and the pointer; return whether an event is the selection's alone."""
        if isinstance(event, events.Key):
            if event.key != "ctrl+c":
                self.drop_selection()
        elif isinstance(event, events.MouseDown):
            self.drop_selection()
            widget = self._selectable_at(event) if event.button == LEFT else None
            self._pressed_at = None if widget is None else (widget, _cell(widget, event))
        elif isinstance(event, events.MouseMove):
            return self._drag(event)
        elif isinstance(event, events.MouseUp):
            was_pressed = self._pressed_at is not None
            self._pressed_at = None
            return was_pressed and self._selected is not None
        return False

    def _drag(self, event: events.MouseMove) -> bool:
        """Select up to the pointer while the button is down.

        Return True if selected.
        """
        if self._pressed_at is None:
            return False
        widget, begin = self._pressed_at
        end = _cell(widget, event)
        if self.mouse_captured is not None or (self._selected is None and begin == end):
            # A bar is being dragged, or the pointer has not left its cell.
            return False
        self._selected = widget
        widget.select(Selection.of(begin, end))
        return True

    def _selectable_at(self, event: events.MouseEvent) -> SelectableWidget | None:
        try:
            widget, _region = self.screen.get_widget_at(event.x, event.y)
        except NoWidget:
            return None
        return widget if isinstance(widget, SelectableWidget) else None


def _cell(widget: Widget, event: events.MouseEvent) -> Offset:
    """Return the cell of a widget nearest to the pointer."""
    region = widget.content_region
    x = event.x - region.x
    y = event.y - region.y
    return Offset(max(0, min(x, region.width - 1)), max(0, min(y, region.height - 1)))


async def _wait_typed(field: PromptField) -> None:
    """Wait until a field has received the earlier keys."""
    has_them = asyncio.Event()
    if field.call_later(has_them.set):
        await has_them.wait()
