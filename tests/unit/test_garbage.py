"""Collection of cyclic garbage."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import TYPE_CHECKING

import pytest

from trnfleet import garbage
from trnfleet.clock import ManualClock
from trnfleet.garbage import EVERY_S, collect_garbage

if TYPE_CHECKING:
    from collections.abc import Iterator


class Cycle:
    """An object that only a collection frees."""

    def __init__(self) -> None:
        self.itself = self


class BusyClock(ManualClock):
    """A clock that goes on while nothing waits."""

    def spend(self, seconds: float) -> None:
        self._move_to(self.monotonic_s() + seconds)


@pytest.fixture(autouse=True)
def _no_steps() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


async def test_what_was_kept_for_long_and_is_garbage_goes_within_a_minute() -> None:
    clock = ManualClock()
    work = asyncio.create_task(collect_garbage(clock))
    cycle = Cycle()
    seen = weakref.ref(cycle)
    gc.collect()
    gc.collect()
    del cycle
    await clock.advance(EVERY_S - 1.0)
    assert seen() is not None
    await clock.advance(1.0)
    assert seen() is None
    work.cancel()


async def test_a_collection_that_takes_long_is_made_more_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = BusyClock()
    made: list[float] = []

    def collect() -> int:
        made.append(clock.monotonic_s())
        clock.spend(0.5)
        return 0

    monkeypatch.setattr(gc, "collect", collect)
    work = asyncio.create_task(collect_garbage(clock))
    await clock.advance(EVERY_S)
    await clock.advance(200.0)
    assert len(made) == 1
    await clock.advance(51.0)
    assert len(made) == 2
    work.cancel()


async def test_free_memory_goes_back_to_the_system_after_each_collection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the C library cannot give it back, collections go on as ever."""
    given: list[int] = []
    for trim in (given.append, None):
        monkeypatch.setattr(garbage, "_malloc_trim", lambda trim=trim: trim)
        clock = ManualClock()
        work = asyncio.create_task(collect_garbage(clock))
        await clock.advance(EVERY_S)
        await clock.advance(EVERY_S)
        assert not work.done()
        work.cancel()
    assert given == [0, 0]


async def test_caches_are_empty_before_each_collection() -> None:
    """What they hold is free when it is given back."""
    clock = ManualClock()
    emptied: list[float] = []
    work = asyncio.create_task(collect_garbage(clock, lambda: emptied.append(clock.monotonic_s())))
    begun_s = clock.monotonic_s()
    for _ in range(3):
        await clock.advance(EVERY_S)
    assert [round(at_s - begun_s) for at_s in emptied] == [60, 120, 180]
    work.cancel()
