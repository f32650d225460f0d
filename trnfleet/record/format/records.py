"""MCAP records as bytes, for speed or safety beyond the `mcap` package's classes.

Numbers are little-endian. A record is an opcode, a length and its fields. See
https://mcap.dev/spec.
"""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from mcap.data_stream import ReadDataStream, RecordBuilder
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Channel, Header, McapRecord, Metadata, Statistics

from trnfleet.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Iterable


MAGIC = b"\x89MCAP0\r\n"
HEAD = struct.Struct("<BQ")
"""Opcode and length of every record."""
MESSAGE_HEAD = struct.Struct("<BQHIQQ")
"""Opcode, length, channel, sequence, log time, publish time."""
MESSAGE_FIELDS = MESSAGE_HEAD.size - HEAD.size
CHUNK_HEAD = struct.Struct("<QQQII")
"""Begin, end, size and CRC of a chunk and the length of its compression's name."""
CHUNK_INDEX_HEAD = struct.Struct("<QQQQI")
FOOTER = struct.Struct("<BQQQI")
FOOTER_BYTES = FOOTER.size + len(MAGIC)
U16 = struct.Struct("<H")
U32 = struct.Struct("<I")
U64 = struct.Struct("<Q")
COMPRESSIONS = ("", "zstd", "lz4")
LARGEST_CHUNK_HEAD = HEAD.size + CHUNK_HEAD.size + max(map(len, COMPRESSIONS)) + U64.size

RecordT = TypeVar("RecordT", Header, Channel, Metadata, Statistics)


class ChunkEntry(NamedTuple):
    """A chunk's place and the facts known without decompressing it."""

    start_ns: int
    end_ns: int
    offset: int
    """Of its record in the file."""
    length: int
    """Of its record, head and all; of a run of loose messages, their records."""
    index_length: int
    """Bytes of the message indexes behind it."""
    compression: str
    compressed_size: int
    size: int
    """Decompressed."""
    channels: tuple[int, ...] | None
    """Channels with messages in this chunk, in order. None if unknown."""
    is_loose: bool = False
    """Whether the entry is a stretch of messages outside of chunks."""


class ChunkFields(NamedTuple):
    """Fields of a chunk record before its data."""

    start_ns: int
    end_ns: int
    size: int
    crc: int
    compression: str
    data_at: int
    """Offset of its data from the record's begin."""
    data_size: int


def to_bytes(records: Iterable[McapRecord]) -> bytes:
    """Return records as bytes."""
    builder = RecordBuilder()
    for record in records:
        record.write(builder)
    data: bytes = builder.end()  # type: ignore[no-untyped-call]  # mcap leaves this one without types
    return data


def parse_chunk_head(data: bytes | memoryview, at: int = 0) -> ChunkFields:
    """Return a chunk's fields.

    `data` has the start of the record at `at`; its end may be missing.

    Raises:
        WireError: it is no chunk, or its compression is unknown.
    """
    try:
        opcode, length = HEAD.unpack_from(data, at)
        start_ns, end_ns, size, crc, name_size = CHUNK_HEAD.unpack_from(data, at + HEAD.size)
        names_at = at + HEAD.size + CHUNK_HEAD.size
        compression = (
            bytes(data[names_at : names_at + name_size]).decode("ascii") if name_size <= 8 else "?"
        )
        (data_size,) = U64.unpack_from(data, names_at + name_size)
    except (struct.error, UnicodeDecodeError) as error:
        raise WireError("chunk's head is damaged") from error
    data_at = HEAD.size + CHUNK_HEAD.size + name_size + 8
    if opcode != Opcode.CHUNK or compression not in COMPRESSIONS:
        raise WireError("not a chunk, or in an unknown compression")
    if data_at + data_size != HEAD.size + length or end_ns < start_ns:
        raise WireError("chunk's lengths do not agree")
    return ChunkFields(start_ns, end_ns, size, crc, compression, data_at, data_size)


def parse_chunk_index(data: memoryview) -> ChunkEntry:
    """Return the content of a chunk index.

    `data` is the record's fields.

    Raises:
        WireError: it is damaged.
    """
    try:
        start_ns, end_ns, offset, length, offsets_size = CHUNK_INDEX_HEAD.unpack_from(data)
        at = CHUNK_INDEX_HEAD.size
        if offsets_size % 10 or at + offsets_size > len(data):
            raise WireError("chunk index is damaged")
        channels = tuple(
            sorted({U16.unpack_from(data, at + place)[0] for place in range(0, offsets_size, 10)})
        )
        at += offsets_size
        (index_length,) = U64.unpack_from(data, at)
        (name_size,) = U32.unpack_from(data, at + 8)
        if name_size > 8:
            raise WireError("chunk index has an unknown compression")
        compression = bytes(data[at + 12 : at + 12 + name_size]).decode("ascii")
        at += 12 + name_size
        (compressed_size,) = U64.unpack_from(data, at)
        (size,) = U64.unpack_from(data, at + 8)
    except (struct.error, UnicodeDecodeError) as error:
        raise WireError("chunk index is damaged") from error
    return ChunkEntry(
        start_ns,
        end_ns,
        offset,
        length,
        index_length,
        compression,
        compressed_size,
        size,
        channels or None,
    )


def parse_record(data: bytes, kind: type[RecordT]) -> RecordT:
    """Return a record of one of the `mcap` package's classes from the record's fields.

    Raises:
        WireError: it is damaged.
    """
    try:
        record: RecordT = kind.read(ReadDataStream(io.BytesIO(data)))
    except (McapError, struct.error, UnicodeDecodeError, ValueError) as error:
        raise WireError(f"{kind.__name__.lower()} is damaged") from error
    return record
