"""Lines of JSON files: bounded reading with counts, and writing for any terminal."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class LeftOut:
    """Counts of a file's accepted and skipped lines."""

    taken: int = 0
    """Valid lines, or other units."""
    count: int = 0
    """Invalid ones."""
    first: str = ""
    """Place and reason of the first skipped one; empty without any."""
    doubts: int = 0
    """Unusable values, names and contradictions in valid lines, treated as not available."""
    first_doubt: str = ""
    """Place and reason of the first of them."""

    def add(self, place: str, reason: str) -> None:
        """Count a skipped one; `place` names it, as in `line 7`."""
        self.count += 1
        if not self.first:
            self.first = f"{place}: {reason}"

    def doubt(self, place: str, reason: str, times: int = 1) -> None:
        """Count unusable values of a valid one, `times` of them."""
        self.doubts += times
        if not self.first_doubt:
            self.first_doubt = f"{place}: {reason}"

    @property
    def is_sound(self) -> bool:
        """Whether all of it could be used."""
        return not self.count and not self.doubts

    def text(self, noun: str) -> str:
        """Return the summary for people, in one line.

        For example `12 messages, 1 left out (first line 3: not JSON)`.
        """
        left_out = f", {self.count:,} left out (first {self.first})" if self.count else ""
        if self.doubts:
            left_out += (
                f", {self.doubts:,} problem{'' if self.doubts == 1 else 's'} in them (first"
                f" {self.first_doubt})"
            )
        return f"{self.taken:,} {noun}{'' if self.taken == 1 else 's'}{left_out}"


def read_lines(stream: BinaryIO, most_bytes: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield each line's number, from 1, and its bytes without the newline.

    None instead of the bytes if the line is too long.

    Args:
        stream: Read to its end, never more than `most_bytes` at a time.
        most_bytes: Longest line, its end included.
    """
    number = 0
    while line := stream.readline(most_bytes + 1):
        number += 1
        if len(line) > most_bytes:
            while line and not line.endswith(b"\n"):
                line = stream.readline(most_bytes)
            yield number, None
        else:
            yield number, line.rstrip(b"\r\n")


def is_plain(line: bytes) -> bool:
    """Return whether a line of JSON is safe for a terminal: printable ASCII.

    JSON escapes control characters within it.
    """
    return line.isascii() and b"\n" not in line and b"\r" not in line and b"\x7f" not in line


def to_plain_json(data: Any) -> bytes:
    """Return JSON in one line, safe for a terminal.

    All but printable ASCII is escaped, including DEL, C1 and bidi.
    """
    return json.dumps(data, separators=(",", ":")).replace("\x7f", "\\u007f").encode()
