"""Documents in a file of `neuron-monitor`: one per line, or indented over several lines.

They follow one another or are in a JSON array. Each line may be an entry of a log, with its time:
Kubernetes' and Docker's, the journal's, or one in JSON.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import msgspec
from pydantic_core import from_json, to_json

from trnfleet.clock import NS_PER_US, parse_rfc3339
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


_LOGGED = re.compile(rb'\{\s*"(?:log|message|time|@?timestamp|[A-Z_]+)"\s*:')
"""Begin of a log's entry in JSON."""
_PREFIX = re.compile(
    rb"(?P<pod>\[pod/[^\]\s]{1,500}\] )?"
    rb"(?:(?P<time>\d{4}-\d\d-\d\dT[\d:.,]{5,20}(?:Z|[+-]\d\d:?\d\d))(?: |$)"
    rb"(?:(?P<stream>stdout|stderr) (?P<tag>[FP])\S*(?: |$)"
    rb"|(?P<unit>[^\s{\[]{1,255} [^\s{\[]{1,255}\[\d+\]: ))?)?"
)
"""What a log writes before each line: pod of `kubectl logs --prefix`, time, then stream and tag of
a container runtime's file, or host and unit of the journal."""


class Document(NamedTuple):
    """One document, or what is in its place."""

    line: int
    """On which it begins, counted from 1."""
    text: bytes | None
    """None if too long."""
    ts_ns: int | None = None
    """Time of its line in a log; None without one."""


class _Record(msgspec.Struct):
    """A log's entry in JSON: Docker's json-file, Fluent Bit's, `journalctl -o json`."""

    log: str | None = None
    message: str | None = None
    journal: str | None = msgspec.field(default=None, name="MESSAGE")
    stream: Any = None
    logtag: Any = None
    time: Any = None
    timestamp: Any = None
    at_timestamp: Any = msgspec.field(default=None, name="@timestamp")
    microseconds: Any = msgspec.field(default=None, name="__REALTIME_TIMESTAMP")


_RECORDS = msgspec.json.Decoder(_Record)


class _LogEntry(NamedTuple):
    """One entry of a log."""

    form: str
    text: bytes
    ts_ns: int | None
    is_stderr: bool
    is_part: bool
    """Whether the line goes on in the next entry: container runtimes cut at 16 KiB."""


def read_documents(
    stream: BinaryIO, most_bytes: int = MOST_DOCUMENT_BYTES, forms: Counter[str] | None = None
) -> Iterator[Document]:
    """Yield the documents.

    A document with open brackets at the end of a line continues while lines are indented, so that a
    damaged one does not swallow another. Blank lines between documents are skipped. An array may
    have any length if a line begins each member; else it is one text.

    Args:
        stream: The text.
        most_bytes: Longest line and document.
        forms: Continued with the number of indented documents, of entries by form of log, and of
            lines to stderr, which are no documents.
    """
    forms = Counter() if forms is None else forms
    parts: list[bytes] = []
    begin = Document(0, None)
    size = depth = 0
    for number, whole, ts_ns in _unwrapped(stream, most_bytes, forms):
        for line in _cut(whole):
            if line is not None and not line.strip():
                continue
            if depth and (line is None or not line.startswith(_CONTINUES)):
                yield from _joined(begin, parts, size, most_bytes)
                parts = []
                size = 0
                depth = 0
            if line is None:
                yield Document(number, None, ts_ns)
                continue
            if not depth:
                if line.strip() in _AROUND:
                    continue
                begin = Document(number, None, ts_ns)
                depth = _depth(line)
                if depth <= 0:
                    depth = 0
                    yield from _members(begin, line)
                    continue
            else:
                depth = max(0, depth + _depth(line))
            size += len(line) + 1
            if size <= most_bytes:
                parts.append(line)
            if not depth:
                forms["indented"] += 1
                yield from _joined(begin, parts, size, most_bytes)
                parts = []
                size = 0
    if depth:
        yield from _joined(begin, parts, size, most_bytes)


def _unwrapped(
    stream: BinaryIO, most_bytes: int, forms: Counter[str]
) -> Iterator[tuple[int, bytes | None, int | None]]:
    """Yield each line's number, its text without what a log added, and its time in the log.

    The text is None if too long. Parts of a line are joined.
    """
    parts: list[bytes] = []
    size = 0
    begin: tuple[int, int | None] = (0, None)
    for number, line in read_lines(stream, most_bytes):
        entry = _entry(line) if line is not None else None
        if entry is not None:
            forms["stderr" if entry.is_stderr else entry.form] += 1
        if entry is not None and entry.is_stderr:
            continue
        if parts and entry is None:
            yield begin[0], b"".join(parts), begin[1]
            parts = []
        if entry is None:
            yield number, line, None
            continue
        if not parts:
            size = 0
            begin = (number, entry.ts_ns)
        size += len(entry.text)
        parts.append(entry.text if size <= most_bytes else b"")
        if entry.is_part and (len(parts) > 1 or not _is_json(entry.text)):
            continue
        for text in [None] if size > most_bytes else b"".join(parts).splitlines():
            yield begin[0], text, begin[1]
        parts = []
    if parts:
        yield begin[0], b"".join(parts) if size <= most_bytes else None, begin[1]


def _entry(line: bytes) -> _LogEntry | None:
    """Return a line as a log's entry; None if it is none."""
    if line.startswith(b"{"):
        return _recorded(line) if _LOGGED.match(line) else None
    match = _PREFIX.match(line)
    if match is None or not match.end():
        return None
    form = "lines of kubectl logs --prefix" if match["pod"] else "lines with times"
    if match["stream"]:
        form = "lines of a container runtime's log"
    elif match["unit"]:
        form = "lines of the journal"
    ts_ns = _time((match["time"] or b"").decode())
    is_part = match["tag"] == b"P"
    return _LogEntry(form, line[match.end() :], ts_ns, match["stream"] == b"stderr", is_part)


def _recorded(line: bytes) -> _LogEntry | None:
    try:
        record = _RECORDS.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    texts = [text for text in (record.log, record.message, record.journal) if text is not None]
    if not texts:
        return None
    times = (record.time, record.timestamp, record.at_timestamp)
    ts_ns = next((ts_ns for time in times if (ts_ns := _time(time)) is not None), None)
    if record.microseconds is not None:
        ts_ns = _microseconds(record.microseconds)
    form = "entries of a log in JSON"
    is_part = record.logtag == "P"
    if record.log is not None and record.logtag is None:
        form = "entries of Docker's json-file"
        is_part = not record.log.endswith("\n")
    return _LogEntry(form, texts[0].encode(), ts_ns, record.stream == "stderr", is_part)


def _time(text: object) -> int | None:
    """Return ns since 1970 of an RFC 3339 instant; None for anything else."""
    try:
        ts_ns = parse_rfc3339(text) if isinstance(text, str) else -1
    except ValueError:
        return None
    return ts_ns if 0 <= ts_ns < 2**63 else None


def _microseconds(text: object) -> int | None:
    """Return ns since 1970 of the journal's time; None for anything else."""
    if isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) < 17:
        return int(text) * NS_PER_US
    return None


def _is_json(text: bytes) -> bool:
    """Return whether a text is a whole JSON object, though no newline ends it."""
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, RecursionError):
        return False


def _cut(line: bytes | None) -> tuple[bytes | None, ...]:
    """Split a line into a document's end and the next one's begin.

    Return the line alone if it does not have both.
    """
    if line is not None and line.startswith(b"}") and line[1:].lstrip().startswith(b"{"):
        return line[:1], line[1:].lstrip()
    return (line,)


def _joined(begin: Document, parts: list[bytes], size: int, most_bytes: int) -> Iterator[Document]:
    """Yield the document, or documents, of the lines from `begin` on."""
    if size > most_bytes:
        yield begin
    else:
        yield from _members(begin, b"\n".join(parts))


def _members(begin: Document, text: bytes) -> Iterator[Document]:
    """Yield the members of an array.

    Text without members is yielded as it is, without the comma of the array around it.
    """
    members = []
    if text.startswith(b"["):
        with contextlib.suppress(ValueError):
            members = from_json(text, cache_strings="keys")
    for member in members:
        yield begin._replace(text=to_json(member))
    if not members:
        yield begin._replace(text=text.rstrip().removesuffix(b","))


def _depth(line: bytes) -> int:
    """Return how many more brackets a line opens than it closes."""
    if line.startswith(b"{") and line.endswith(b"}"):
        # A document in one line, the usual case, is not looked through.
        return 0
    bare = _STRING.sub(b"", line)
    return bare.count(b"{") + bare.count(b"[") - bare.count(b"}") - bare.count(b"]")
