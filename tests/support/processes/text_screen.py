"""Characters of a terminal's screen: pyte's screen without colours.

It uses a seventh of the processor time.
"""

from __future__ import annotations

import contextlib
import re

import pyte
from pyte.screens import Char, wcwidth

_COLOURS = re.compile(rb"\x1b\[[0-9;:]*m")
_BEGUN = re.compile(rb"\x1b(?:\[[0-9;:]*)?$")
"""Possible start of a colour sequence."""


class _Cells(dict[str, Char]):
    """Cells by their character."""

    def __missing__(self, character: str) -> Char:
        return self.setdefault(character, Char(character))


class TextScreen(pyte.Screen):
    """A screen fed with a program's output and read as lines."""

    _cells = _Cells()

    def __init__(self, columns: int, rows: int) -> None:
        self._stream = pyte.ByteStream()
        self._begun = b""
        self._narrow: set[str] = set()
        """Characters of one column."""
        self._rendered: list[str] = []
        super().__init__(columns, rows)
        self._stream.attach(self)

    def feed(self, data: bytes) -> None:
        """Draw what a program has written."""
        data = _COLOURS.sub(b"", self._begun + data)
        begun = _BEGUN.search(data)
        self._begun = begun[0] if begun else b""
        # pyte mistakes the request for pixel sizes and the like for text; none of ours is drawn by
        # it.
        with contextlib.suppress(Exception):
            self._stream.feed(data.removesuffix(self._begun))

    def draw(self, data: str) -> None:
        """Draw text: at once where each character takes a column and all fit the line."""
        begin = self.cursor.x
        end = self.cursor.x + len(data)
        if end > self.columns or not self._are_narrow(data):
            super().draw(data)
            return
        row = self.cursor.y
        self.buffer[row].update(
            zip(range(begin, end), map(self._cells.__getitem__, data), strict=True)
        )
        self.cursor.x = end
        self.dirty.add(row)

    def _are_narrow(self, data: str) -> bool:
        if self._narrow.issuperset(data):
            return True
        self._narrow.update(each for each in data if wcwidth(each) == 1)
        return self._narrow.issuperset(data)

    @property
    def text_lines(self) -> list[str]:
        """Text of each line, without trailing blanks."""
        if self.dirty or len(self._rendered) != self.lines:
            del self._rendered[self.lines :]
            self._rendered += [""] * (self.lines - len(self._rendered))
            columns = range(self.columns)
            for row in self.dirty:
                if row < self.lines:
                    line = self.buffer[row]
                    # The place after a character of two columns is empty.
                    self._rendered[row] = "".join(
                        [line[column].data for column in columns]
                    ).rstrip()
            self.dirty.clear()
        return self._rendered.copy()
