"""Limits of a recording's content, checked before anything is decompressed, parsed or kept."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """Upper bounds for files of unknown origin; a chunk beyond them counts as damaged."""

    chunk_bytes: int = 64 * 2**20
    """A chunk, decompressed. Ours have about 1 MiB."""
    messages: int = 1_000_000
    """Messages of a chunk. Ours have some thousands."""
    record_bytes: int = 16 * 2**20
    """One message, as it is stored."""
    ratio: int = 2_000
    """Decompressed bytes a compressed one, where the chunk has more than `free_bytes`."""
    free_bytes: int = 20 * 2**20
    """Size allowed to a chunk regardless of its compression: the largest of our own writer."""
    index_bytes: int = 256 * 2**20
    """Most bytes of the summary at the end of a file. A day has 173,000 chunks and a summary of 30
    MB."""
    chunks: int = 2_000_000
    """Chunks of a file: eleven days at two a second."""
    parts: int = 10_000
    """Files of a recording."""
    channels: int = 4_096
    """Channels of a file."""
    overlap: int = 16
    """Most chunks read side by side. Chunks of foreign writers may overlap in time."""
    overlap_bytes: int = 128 * 2**20
    """Decompressed bytes of these chunks."""
    cache_bytes: int = 16 * 2**20
    """Most decompressed bytes cached for the next read."""
    topics: int = 1_000_000
    """Most topics counted one by one in statistics."""
    topic_chars: int = 128 * 2**20
    """Characters of all of them together: a topic may have 65,535."""
    keyframe_bytes: int = 512 * 2**20
    """A keyframe's messages together."""
    text_chars: int = 4_096
    """Characters of a text in a file's metadata."""


DEFAULT_RECORD_LIMITS = RecordLimits()
