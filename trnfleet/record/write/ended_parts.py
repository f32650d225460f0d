"""Finished files of a running recording.

The oldest are deleted.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class EndedPart(NamedTuple):
    """A finished part on disk."""

    path: Path
    size_bytes: int
    chunks: int
    last_ns: int
    """Time of its last message."""


class EndedParts:
    """Finished parts, oldest first, and their retention."""

    def __init__(
        self,
        *,
        keep_ns: int | None = None,
        keep_bytes: int | None = None,
        keep_chunks: int | None = None,
        on_drop: Callable[[Path], None] | None = None,
    ) -> None:
        """Begin with none.

        Args:
            keep_ns: Parts ended longer ago are deleted.
            keep_bytes: The oldest parts beyond this total are deleted.
            keep_chunks: The oldest parts beyond this number of chunks are deleted.
            on_drop: Called with every part about to be deleted.
        """
        self.keep_bytes = keep_bytes
        self._keep_ns = keep_ns
        self._keep_chunks = keep_chunks
        self._on_drop = on_drop
        self._parts: deque[EndedPart] = deque()
        self._size_bytes = self._chunks = self._deleted_bytes = 0

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def paths(self) -> list[Path]:
        """The files."""
        return [part.path for part in self._parts]

    @property
    def bytes_written(self) -> int:
        """Bytes of all parts, including deleted ones."""
        return self._deleted_bytes + self._size_bytes

    def append(self, part: EndedPart) -> None:
        """Add a part just finished."""
        self._parts.append(part)
        self._size_bytes += part.size_bytes
        self._chunks += part.chunks

    def forget(self, now_ns: int, size_bytes: int, chunks: int) -> None:
        """Delete the oldest parts beyond the limits.

        Args:
            now_ns: Time of the last message.
            size_bytes: Bytes of the part being written, with room for the next data.
            chunks: Chunks of the part being written.
        """
        while self._parts:
            oldest = self._parts[0]
            is_old = self._keep_ns is not None and oldest.last_ns < now_ns - self._keep_ns
            is_over = (
                self.keep_bytes is not None and self._size_bytes + size_bytes > self.keep_bytes
            ) or (self._keep_chunks is not None and self._chunks + chunks > self._keep_chunks)
            if not (is_old or is_over):
                return
            self._parts.popleft()
            self._size_bytes -= oldest.size_bytes
            self._chunks -= oldest.chunks
            self._deleted_bytes += oldest.size_bytes
            if self._on_drop is not None:
                self._on_drop(oldest.path)
            oldest.path.unlink(missing_ok=True)
