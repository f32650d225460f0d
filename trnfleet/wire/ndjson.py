"""Text and lines of files: bounded reading with counts, and writing for any terminal."""

from __future__ import annotations

import codecs
import io
import json
import os
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


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


_PACKED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ": "xz",
    b"BZh": "bzip2",
    b"PK\x03\x04": "zip",
    b"\x04\x22\x4d\x18": "lz4",
}
"""Packings by the begin of a file."""
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Encodings by a text's byte order mark, the longest mark first."""


class TextFile(io.BufferedReader):
    """A file's text as UTF-8, unpacked."""

    def __init__(self, stream: BinaryIO) -> None:
        """Read the begin of a stream that can go back.

        Raises:
            ConfigError: its packing cannot be read.
        """
        self._source = _Utf8(stream)
        super().__init__(self._source)

    @classmethod
    def open(cls, path: Path) -> TextFile:
        """Open a file.

        Raises:
            ConfigError: its packing cannot be read; the message names the file.
        """
        stream = path.open("rb")
        try:
            return cls(stream)
        except ConfigError as error:
            stream.close()
            raise ConfigError(f"{path}: {error}") from error

    @property
    def forms(self) -> list[str]:
        """Encoding and packing, except plain UTF-8."""
        return self._source.forms

    @property
    def problem(self) -> str:
        """Reason why the text read so far ends before the file's; empty without one."""
        return self._source.problem

    @property
    def is_whole(self) -> bool:
        """Whether the text read so far ends with a newline."""
        return self._source.last_byte == b"\n"


class _Utf8(io.RawIOBase):
    """Source of a `TextFile`."""

    def __init__(self, stream: BinaryIO) -> None:
        self.problem = ""
        self.last_byte = b""
        self._stream = stream
        self._is_over = False
        self._rest = b""
        """Packed bytes after the end of a part."""
        begin = stream.read(io.DEFAULT_BUFFER_SIZE)
        stream.seek(-len(begin), os.SEEK_CUR)
        self._packing = next((name for mark, name in _PACKED.items() if begin.startswith(mark)), "")
        self._make = _unpacking(self._packing)
        self._unpacker = self._make() if self._make else None
        data = b""
        while len(data) < len(codecs.BOM_UTF32_LE) and not self._is_over:
            data += self._unpacked()
        encoding = _encoding(data)
        self._decoder = codecs.getincrementaldecoder(encoding)("replace") if encoding else None
        self._ready = memoryview(self._decoded(data.removeprefix(codecs.BOM_UTF8)))
        is_marked = data.startswith(codecs.BOM_UTF8)
        name = "UTF-8 with a byte order mark" if is_marked else encoding.upper()
        self.forms = [form for form in (name, self._packing) if form]

    def readable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Close the file, too."""
        self._stream.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes of the text into a buffer; return their number, 0 at the end."""
        while not self._ready and not self._is_over:
            self._ready = memoryview(self._decoded(self._unpacked()))
        part = self._ready[: len(buffer)]
        buffer[: len(part)] = part
        self._ready = self._ready[len(part) :]
        return len(part)

    def _decoded(self, data: bytes) -> bytes:
        if self._decoder is not None:
            data = self._decoder.decode(data, self._is_over).encode()
        self.last_byte = data[-1:] or self.last_byte
        return data

    def _unpacked(self) -> bytes:
        """Return the next bytes of the unpacked file; none may mean that it needs more."""
        data: bytes
        if self._make is None:
            data = self._stream.read(io.DEFAULT_BUFFER_SIZE)
            self._is_over = not data
            return data
        chunk = self._packed()
        if self._unpacker is None:
            # gzip's parts may be padded.
            chunk = chunk.lstrip(b"\0") or self._packed().lstrip(b"\0")
            if chunk:
                self._unpacker = self._make()
        elif not chunk:
            self.problem = f"its {self._packing} data are cut off"
        if self._unpacker is None or not chunk:
            self._is_over = True
            return b""
        try:
            data = self._unpacker.decompress(chunk)
        except Exception as error:  # noqa: BLE001  each library has errors of its own
            self._is_over = True
            self.problem = f"its {self._packing} data are damaged: {error}"
            return b""
        if self._unpacker.eof:
            self._rest = self._unpacker.unused_data
            self._unpacker = None
        return data

    def _packed(self) -> bytes:
        """Return the next packed bytes.

        512 of zstd's are at most 16 MiB of text: a block of 128 KiB has 4 bytes.
        """
        chunk = self._rest or self._stream.read(512)
        self._rest = b""
        return chunk


def _unpacking(packing: str) -> Callable[[], Any] | None:
    """Return a maker of unpackers of parts; None for a file that is not packed."""
    if packing == "gzip":
        return lambda: zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    if packing == "zstd":
        import zstandard  # noqa: PLC0415  few files are packed so

        return lambda: zstandard.ZstdDecompressor().decompressobj()
    if packing:
        raise ConfigError(f"it is packed with {packing}: unpack it, or pack it with gzip or zstd")
    return None


def _encoding(data: bytes) -> str:
    """Return the encoding of a text's begin; empty for UTF-8."""
    for mark, name in _MARKS.items():
        if data.startswith(mark):
            return name
    even = data[:4:2]
    odd = data[1:4:2]
    if odd == b"\0\0" and even.isascii() and 0 not in even:
        return "utf-16-le"
    return "utf-16-be" if even == b"\0\0" and odd.isascii() and 0 not in odd else ""


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
