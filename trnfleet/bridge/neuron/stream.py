"""Documents in a file of `neuron-monitor`: one a line, or indented over several lines, one after the other or in a JSON array."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, BinaryIO

from pydantic_core import from_json, to_json

from trnfleet.wire.ndjson import read_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_DOCUMENT_BYTES = 16 * 2**20
"""Longest document: 192 vCPUs and some hundred loaded models take less than 1 MiB."""

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_CONTINUES = (b" ", b"\t", b"}", b"]")
"""Begins of the lines of an indented document after its first."""
_AROUND = frozenset({b"[", b"]", b","})
"""Lines of an array that belong to none of its members."""


def read_documents(
    stream: BinaryIO, most_bytes: int = MOST_DOCUMENT_BYTES
) -> Iterator[tuple[int, bytes | None]]:
    """Yield the number of the line on which each document begins, from 1, and its text; None where that is too long.

    A document whose brackets are open at the end of a line goes on for as long as lines are indented, so that a damaged one
    takes no other with it. Blank lines between documents are none. An array is as long as it likes where a line begins each
    member; else it is one text.
    """
    parts: list[bytes] = []
    begin = size = depth = 0
    for number, whole in read_lines(stream, most_bytes):
        for line in _cut(whole):
            if line is not None and not line.strip():
                continue
            if depth and (line is None or not line.startswith(_CONTINUES)):
                yield from _joined(begin, parts, size, most_bytes)
                parts, size, depth = [], 0, 0
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
                parts, size = [], 0
    if depth:
        yield from _joined(begin, parts, size, most_bytes)


def _cut(line: bytes | None) -> tuple[bytes | None, ...]:
    """Return the end of a document and the begin of the next, where a line has both; else the line."""
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
    """Yield the members of an array; what has none as it is, without the comma of the array around it."""
    members = []
    if text.startswith(b"["):
        with contextlib.suppress(ValueError):
            members = from_json(text, cache_strings="keys")
    for each in members:
        yield begin, to_json(each)
    if not members:
        yield begin, text.rstrip().removesuffix(b",")


def _depth(line: bytes) -> int:
    """Return how many more brackets a line opens than it closes."""
    if line.startswith(b"{") and line.endswith(b"}"):
        # A document in one line, the usual case, is not looked through.
        return 0
    bare = _STRING.sub(b"", line)
    return bare.count(b"{") + bare.count(b"[") - bare.count(b"}") - bare.count(b"]")
