"""Read-ahead in a thread: complete, in order, bounded, and no thread left behind."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from typing import TYPE_CHECKING

import pytest

from trnfleet.errors import ConfigError
from trnfleet.record.read import read_ahead
from trnfleet.record.read.read_ahead import ReadAhead
from trnfleet.wire.ports import Envelope, Stored

if TYPE_CHECKING:
    from collections.abc import Iterator


def messages(count: int | None, size: int = 1) -> Iterator[Stored]:
    numbers = itertools.count() if count is None else range(count)
    return (Stored(number, Envelope("a", b"x" * size)) for number in numbers)


def threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "read-ahead"]


async def gone() -> None:
    """Wait until no thread of ours is left."""
    async with asyncio.timeout(5):
        while threads():
            await asyncio.to_thread(threads()[0].join, 1.0) if threads() else None


@pytest.mark.parametrize(
    "count", [0, 1, read_ahead.BATCH, read_ahead.BATCH * 3 + 1, read_ahead.MOST_MESSAGES * 2]
)
async def test_everything_comes_in_order(count: int) -> None:
    """Whatever the number, each message comes once."""
    found = [each.time_ns async for batch in ReadAhead(messages(count)).batches() for each in batch]
    assert found == list(range(count))
    await gone()


async def test_it_reads_no_more_than_fits() -> None:
    """An endless recording is read within the limits, further on demand, and ends."""
    for size, most in ((1, read_ahead.MOST_MESSAGES), (2**20, read_ahead.MOST_BYTES // 2**20)):
        taken = itertools.count()
        counted = (each for each, _ in zip(messages(None, size), taken, strict=False))
        async with contextlib.aclosing(ReadAhead(counted).batches()) as batches:
            first = await anext(batches)
            assert len(first) == read_ahead.BATCH
        await gone()
        assert next(taken) <= most + 3 * read_ahead.BATCH


async def test_an_error_of_the_recording_is_raised_where_it_is_read() -> None:
    """What was read before comes first."""

    def failing() -> Iterator[Stored]:
        yield from messages(read_ahead.BATCH)
        raise ConfigError("torn")

    batches = ReadAhead(failing()).batches()
    assert len(await anext(batches)) == read_ahead.BATCH
    with pytest.raises(ConfigError, match="torn"):
        await anext(batches)
    await gone()
