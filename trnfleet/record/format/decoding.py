"""Decoding of chunks: limits, decompression, checksums, sorting by time."""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING, NamedTuple

import lz4.frame
import zstandard
from mcap.opcode import Opcode

from trnfleet.errors import WireError
from trnfleet.record.format.envelopes import MAX_NS
from trnfleet.record.format.records import (
    HEAD,
    MESSAGE_FIELDS,
    MESSAGE_HEAD,
    ChunkEntry,
    ChunkFields,
    parse_chunk_head,
)

if TYPE_CHECKING:
    from trnfleet.record.format.limits import RecordLimits


class ChunkItem(NamedTuple):
    """A message's time, channel and position in its chunk."""

    time_ns: int
    channel: int
    begin: int
    """Of its data."""
    end: int


class Messages(NamedTuple):
    """A chunk's messages in the order of their times."""

    data: bytes
    items: list[ChunkItem]
    was_sorted: bool
    """Whether the chunk had this order already."""
    channels: dict[int, bytes]
    """Fields of the channel records among the messages."""


def read_messages(file: int, entry: ChunkEntry, limits: RecordLimits) -> Messages:
    """Return the messages of a chunk.

    Raises:
        WireError: it is damaged, or beyond the limits.
        OSError: the file cannot be read.
    """
    if entry.length > limits.chunk_bytes + HEAD.size + 64:
        raise WireError(f"chunk of {entry.length} bytes is over the limit of {limits.chunk_bytes}")
    record = os.pread(file, entry.length, entry.offset)
    if len(record) != entry.length:
        raise WireError("chunk is cut short")
    if entry.is_loose:
        return _within(entry, _parse(record, limits))
    head = parse_chunk_head(record)
    if head.data_at + head.data_size != len(record):
        raise WireError("chunk's length is not what its index says")
    if head.size != entry.size:
        raise WireError("chunk's size is not what its index says")
    data = _decompress(memoryview(record)[head.data_at :], head, limits)
    if head.crc and zlib.crc32(data) != head.crc:
        raise WireError("chunk's checksum does not agree")
    return _within(entry, _parse(data, limits))


def _within(entry: ChunkEntry, messages: Messages) -> Messages:
    """Return the messages within the chunk's stated times.

    Reading in order relies on these times.
    """
    items = messages.items
    if items and not entry.start_ns <= items[0].time_ns <= items[-1].time_ns <= entry.end_ns:
        raise WireError("chunk has messages outside of its times")
    return messages


def _decompress(data: memoryview, head: ChunkFields, limits: RecordLimits) -> bytes:
    size = head.size
    if size > limits.chunk_bytes:
        raise WireError(f"chunk of {size} bytes is over the limit of {limits.chunk_bytes}")
    if head.compression == "zstd":
        result = _unzstd(data, size)
    elif head.compression == "lz4":
        result = _unlz4(data, size)
    else:
        result = bytes(data)
    if len(result) != size:
        raise WireError(f"chunk has {len(result)} bytes, not {size}")
    return result


def _unzstd(data: memoryview, size: int) -> bytes:
    """Decompress at most `size` bytes and one more."""
    try:
        said = zstandard.get_frame_parameters(data).content_size
        if said not in {size, zstandard.CONTENTSIZE_UNKNOWN}:
            raise WireError(f"chunk's frame has {said} bytes, not {size}")
        if said == size and size:
            return zstandard.ZstdDecompressor().decompress(data)
        with zstandard.ZstdDecompressor().stream_reader(bytes(data)) as reader:
            return reader.read(size + 1)
    except (zstandard.ZstdError, MemoryError) as error:
        raise WireError("chunk cannot be decompressed") from error


def _unlz4(data: memoryview, size: int) -> bytes:
    """Decompress at most `size` bytes and one more."""
    try:
        return bytes(lz4.frame.LZ4FrameDecompressor().decompress(bytes(data), max_length=size + 1))
    except (RuntimeError, EOFError, MemoryError, ValueError) as error:
        raise WireError("chunk cannot be decompressed") from error


def _parse(data: bytes, limits: RecordLimits) -> Messages:
    """Return the positions of the messages."""
    items: list[ChunkItem] = []
    channels: dict[int, bytes] = {}
    at = 0
    size = len(data)
    last_ns = 0
    is_sorted = True
    unpack = MESSAGE_HEAD.unpack_from
    head_size = MESSAGE_HEAD.size
    most = limits.record_bytes + MESSAGE_FIELDS
    while at < size:
        if at + HEAD.size > size:
            raise WireError("chunk ends within a record")
        opcode, length = HEAD.unpack_from(data, at)
        if not opcode:
            raise WireError("chunk has a record without an opcode")
        past = at + HEAD.size + length
        if past > size:
            raise WireError("chunk ends within a record")
        if opcode == Opcode.MESSAGE:
            if not MESSAGE_FIELDS <= length <= most:
                raise WireError("chunk has a message of an impossible length")
            _, _, channel, _, time_ns, _ = unpack(data, at)
            if time_ns < last_ns:
                is_sorted = False
            if time_ns > MAX_NS:
                raise WireError("chunk has a message of an impossible time")
            if len(items) >= limits.messages:
                raise WireError(f"chunk has more than {limits.messages} messages")
            last_ns = time_ns
            items.append(ChunkItem(time_ns, channel, at + head_size, past))
        elif opcode == Opcode.CHANNEL and length >= 2:
            fields = data[at + HEAD.size : past]
            channels[int.from_bytes(fields[:2], "little")] = fields
        at = past
    if not is_sorted:
        items.sort(key=lambda item: item.time_ns)
    return Messages(data, items, is_sorted, channels)
