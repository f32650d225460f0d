"""Limits of a recording's content, checked before anything is decompressed, parsed or kept."""

from __future__ import annotations

from dataclasses import dataclass

MESSAGE_BYTES = 300
"""Memory of a message beside its payload."""


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """Upper bounds for files of unknown origin; a chunk beyond them counts as damaged."""

    chunk_bytes: int = 64 * 2**20
    """A chunk, decompressed. Ours have about 1 MiB."""
    messages: int = 1_000_000
    """Messages of a chunk: 200 MB of memory. Ours have some thousands."""
    record_bytes: int = 16 * 2**20
    """One message, as it is stored."""
    index_bytes: int = 256 * 2**20
    """Most bytes of the summary at the end of a file. A day has 173,000 chunks and a summary of 30
    MB."""
    chunks: int = 2_000_000
    """Chunks of a file: eleven days at two a second."""
    overlap_bytes: int = 64 * 2**20
    """Most decompressed bytes of chunks read side by side, each counted as at least 1 MiB. Foreign
    chunks may overlap in time."""
    cache_bytes: int = 16 * 2**20
    """Most decompressed bytes cached for the next read."""
    topics: int = 1_000_000
    """Most topics counted one by one in statistics."""
    topic_chars: int = 128 * 2**20
    """Characters of all of them together: a topic may have 65,535."""
    keyframe_bytes: int = 512 * 2**20
    """A keyframe's messages together."""


DEFAULT_RECORD_LIMITS = RecordLimits()
