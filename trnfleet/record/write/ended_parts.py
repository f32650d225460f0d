"""The finished files of a recording that goes on, of which the oldest are deleted."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class EndedPart(NamedTuple):
    """A part that is finished and still there."""

    path: Path
    size_bytes: int
    chunks: int
    last_ns: int
    """Time of its last message."""


class EndedParts:
    """The finished parts, oldest first, and what is kept of them."""

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
            keep_ns: Parts that ended longer ago are deleted.
            keep_bytes: The oldest are deleted where all have more bytes.
            keep_chunks: And where they have more chunks.
            on_drop: Told of every part that is about to be deleted.
        """
        self.keep_bytes = keep_bytes
        self._keep_ns, self._keep_chunks, self._on_drop = keep_ns, keep_chunks, on_drop
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
        """Bytes of all of them, those deleted since included."""
        return self._deleted_bytes + self._size_bytes

    def append(self, part: EndedPart) -> None:
        """Take in a part that has just ended."""
        self._parts.append(part)
        self._size_bytes += part.size_bytes
        self._chunks += part.chunks

    def forget(self, now_ns: int, size_bytes: int, chunks: int) -> None:
        """Delete the oldest as far as what is to be kept asks for it.

        Args:
            now_ns: Time of the last message.
            size_bytes: Bytes of the part that is written, with room for what comes.
            chunks: Its chunks.
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
