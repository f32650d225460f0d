"""A terminal's input as Textual's events: keys, mouse, focus, pasted text.

Textual's parser raises on some key reports, and types an unknown control sequence as keys, a `q` in
it included. Here a sequence ends at the end defined by ECMA-48, and one unknown to Textual is
dropped whole.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from textual import constants
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.events import CursorPosition, Key, Paste, Resize
from textual.message import Message
from textual.messages import InBandWindowResize

if TYPE_CHECKING:
    from collections.abc import Iterator

ESC = "\x1b"
_STRINGS = "]P_^X"
"""Second characters of OSC, DCS, APC, PM and SOS. BEL or ST ends these."""
_STRING_END = re.compile(r"(\x07|\x1b\\|[\x18\x1a])\Z")
_BEGUN = re.compile(r"\x1b(\[[ -?]*|O[ -?]*|\[\[|\[M.{0,2})", re.DOTALL)
"""CSI and SS3 without their last character. Function keys of Linux's console and old mouse reports
go on behind that."""
_MOST_PARSED = 32
"""Characters before Textual's parser gives up on a sequence and types it."""
_MOST_HELD = 4_096
"""Most characters of a sequence; longer ones are dropped."""
_REST_WITHIN_S = 1.0
"""Longest wait for the rest of a sequence or of pasted text."""
_UNASKED = (CursorPosition, InBandWindowResize, Resize)
"""Answers to requests never made; the size comes from the kernel."""


class InputDropped(Message):
    """A control sequence was dropped, because nothing here understands it."""

    def __init__(self, sequence: str) -> None:
        super().__init__()
        self.sequence = sequence


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
        is_parsed = len(self._sequence) <= _MOST_PARSED
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
