"""Export of chunks of several files as one recording, byte for byte, without decompression."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcap.opcode import Opcode

from trnfleet.errors import ConfigError
from trnfleet.record.format.envelopes import CHANNEL_IDS, KEYFRAME
from trnfleet.record.format.records import HEAD, U16, U32
from trnfleet.record.write.part import PartFile
from trnfleet.record.write.writer import RecordingError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trnfleet.record.format.metadata import About
    from trnfleet.record.read.slots import Slot

_KEYFRAME_ID = CHANNEL_IDS[KEYFRAME]


def save_parts(slots: Sequence[Slot], path: Path, about: About) -> int:
    """Write chunks of our own files as one recording, and return its messages.

    Args:
        slots: The chunks in order. All files have the channels of a `PartFile`.
        path: The new file.
        about: Its metadata.

    Raises:
        ConfigError: the file exists or cannot be made.
        RecordingError: the disk is full. The file is deleted.
    """
    try:
        file = PartFile(path, about.with_part(1))
    except FileExistsError:
        raise ConfigError(f"{path}: exists already; name another file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be made: {error.strerror}") from error
    messages = 0
    is_whole = False
    try:
        for slot in slots:
            data = slot.part.raw(slot.entry)
            counts, offsets = _read_indexes(memoryview(data)[slot.entry.length :])
            file.copy(slot.entry, data, counts, offsets)
            messages += sum(count for channel, count in counts.items() if channel != _KEYFRAME_ID)
        file.finish()
        is_whole = True
    except OSError as error:
        raise RecordingError(path, error) from error
    finally:
        if not is_whole:
            file.abandon()
            path.unlink(missing_ok=True)
    return messages


def _read_indexes(data: memoryview) -> tuple[dict[int, int], dict[int, int]]:
    """Return, by channel, how many messages a chunk has and where their index begins."""
    counts: dict[int, int] = {}
    offsets: dict[int, int] = {}
    at = 0
    while at + HEAD.size + 6 <= len(data):
        opcode, length = HEAD.unpack_from(data, at)
        if opcode != Opcode.MESSAGE_INDEX:
            break
        (channel,) = U16.unpack_from(data, at + HEAD.size)
        offsets[channel] = at
        counts[channel] = U32.unpack_from(data, at + HEAD.size + 2)[0] // 16
        at += HEAD.size + length
    return counts, offsets
