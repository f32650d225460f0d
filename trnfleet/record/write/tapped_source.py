"""A source with its batches recorded.

This module writes no files, so that a monitor loads no compression for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trnfleet.wire.ports import Envelope, LinkStatus, Source


class Taker(Protocol):
    """Consumer of a tapped source's batches."""

    def take(self, batch: Sequence[Envelope]) -> None:
        """Take a batch, at once."""


class TappedSource:
    """A source passing each batch to a recorder and to the caller."""

    def __init__(self, source: Source, recorder: Taker) -> None:
        self._source = source
        self._recorder = recorder

    @property
    def status(self) -> LinkStatus:
        """Connection state."""
        return self._source.status

    async def take(self) -> list[Envelope]:
        """Return the next batch, recorded.

        Empty if the source has ended.
        """
        batch = await self._source.take()
        self._recorder.take(batch)
        return batch

    def request_retained(self, topics: Iterable[str]) -> None:
        """Ask the source."""
        self._source.request_retained(topics)
