"""Documents in a file of `neuron-monitor`: one per line, or indented over several lines.

They follow one another or are in a JSON array.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, BinaryIO

from pydantic_core import from_json, to_json

from trnfleet.wire.ndjson import read_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_DOCUMENT_BYTES = 16 * 2**20
"""Longest document: 192 vCPUs and some hundred loaded models need less than 1 MiB."""

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_CONTINUES = (b" ", b"\t", b"}", b"]")
"""Begins of the lines of an indented document after its first."""
_AROUND = frozenset({b"[", b"]", b","})
"""Lines of an array outside its members."""


def read_documents(
    stream: BinaryIO, most_bytes: int = MOST_DOCUMENT_BYTES
) -> Iterator[tuple[int, bytes | None]]:
    """Yield each document's first line number, from 1, and its text; None if too long.

    A document with open brackets at the end of a line continues while lines are indented, so that a
    damaged one does not swallow another. Blank lines between documents are skipped. An array may
    have any length if a line begins each member; else it is one text.
    """
    parts: list[bytes] = []
    begin = size = depth = 0
    for number, whole in read_lines(stream, most_bytes):
        for line in _cut(whole):
            if line is not None and not line.strip():
                continue
            if depth and (line is None or not line.startswith(_CONTINUES)):
                yield from _joined(begin, parts, size, most_bytes)
                parts = []
                size = 0
                depth = 0
            if line is None:
                yield number, None
                continue
            if not depth:
                if line.strip() in _AROUND:
                    continue
                depth = _depth(line)
                if depth <= 0:
                    depth = 0
                    yield from _members(number, line)
                    continue
                begin = number
            else:
                depth = max(0, depth + _depth(line))
            size += len(line) + 1
            if size <= most_bytes:
                parts.append(line)
            if not depth:
                yield from _joined(begin, parts, size, most_bytes)
                parts = []
                size = 0
    if depth:
        yield from _joined(begin, parts, size, most_bytes)


def _cut(line: bytes | None) -> tuple[bytes | None, ...]:
    """Split a line into a document's end and the next one's begin.

    Return the line alone if it does not have both.
    """
    if line is not None and line.startswith(b"}") and line[1:].lstrip().startswith(b"{"):
        return line[:1], line[1:].lstrip()
    return (line,)


def _joined(
    begin: int, parts: list[bytes], size: int, most_bytes: int
) -> Iterator[tuple[int, bytes | None]]:
    """Yield the document, or documents, of the lines from `begin` on."""
    if size > most_bytes:
        yield begin, None
    else:
        yield from _members(begin, b"\n".join(parts))


def _members(begin: int, text: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the members of an array.

    Text without members is yielded as it is, without the comma of the array around it.
    """
    members = []
    if text.startswith(b"["):
        with contextlib.suppress(ValueError):
            members = from_json(text, cache_strings="keys")
    for member in members:
        yield begin, to_json(member)
    if not members:
        yield begin, text.rstrip().removesuffix(b",")


def _depth(line: bytes) -> int:
    """Return how many more brackets a line opens than it closes."""
    if line.startswith(b"{") and line.endswith(b"}"):
        # A document in one line, the usual case, is not looked through.
        return 0
    bare = _STRING.sub(b"", line)
    return bare.count(b"{") + bare.count(b"[") - bare.count(b"}") - bare.count(b"]")
