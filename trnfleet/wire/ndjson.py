"""Lines of JSON files: reading with bounded lengths and counts of skipped lines, and writing for any terminal."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class LeftOut:
    """Counts of the lines of a file that were taken and left out."""

    taken: int = 0
    """Valid lines, or other units."""
    count: int = 0
    """Invalid ones."""
    first: str = ""
    """Place and reason of the first that was left out; empty where none was."""

    def add(self, place: str, reason: str) -> None:
        """Count one that is left out; `place` names it, as in `line 7`."""
        self.count += 1
        if not self.first:
            self.first = f"{place}: {reason}"

    def text(self, noun: str) -> str:
        """Return the account for people, in one line: `12 messages, 1 left out (line 3: not JSON)`."""
        left_out = f", {self.count:,} left out (first {self.first})" if self.count else ""
        return f"{self.taken:,} {noun}{'' if self.taken == 1 else 's'}{left_out}"


def read_lines(stream: BinaryIO, most_bytes: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield each line's number, from 1, and its bytes without the line's end; None in place of one that is too long.

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
    """Return whether a line of JSON can go to a terminal as it is: printable ASCII, in which JSON escapes control characters."""
    return line.isascii() and b"\n" not in line and b"\r" not in line and b"\x7f" not in line


def to_plain_json(data: Any) -> bytes:
    """Return JSON in one line without effect on a terminal: all but printable ASCII is escaped, with DEL, C1 and bidi."""
    return json.dumps(data, separators=(",", ":")).replace("\x7f", "\\u007f").encode()
