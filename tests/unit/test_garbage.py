"""Collection of cyclic garbage."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import subprocess
import sys
import weakref
from typing import TYPE_CHECKING

import pytest

from trnfleet import garbage
from trnfleet.clock import ManualClock
from trnfleet.garbage import EVERY_S, LARGE_BYTES, MANY_BLOCKS, collect_garbage

if TYPE_CHECKING:
    from collections.abc import Iterator


class Cycle:
    """An object that only a collection frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _no_steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Disable automatic collection, and ignore other tests' objects for the fleet size."""
    monkeypatch.setattr(sys, "getallocatedblocks", lambda: 0)
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


async def test_free_memory_goes_back_to_the_system_after_each_collection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the C library cannot give it back, collections go on as ever."""
    given: list[int] = []
    for trim in (given.append, None):
        functions = {"malloc_trim": trim}
        monkeypatch.setattr(garbage, "_of_glibc", functions.get)
        clock = ManualClock()
        work = asyncio.create_task(collect_garbage(clock))
        await clock.advance(EVERY_S)
        await clock.advance(EVERY_S)
        assert not work.done()
        work.cancel()
    assert given == [0, 0]


async def test_the_objects_of_a_large_fleet_are_never_walked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A large fleet's objects are spared, and again as many new ones.

    A small fleet is collected as ever.
    """
    blocks, did = [0], list[str]()
    monkeypatch.setattr(sys, "getallocatedblocks", lambda: blocks[0])
    for name in ("collect", "freeze"):
        monkeypatch.setattr(gc, name, lambda name=name: did.append(name))
    clock = ManualClock()
    work = asyncio.create_task(collect_garbage(clock))

    async def wait(share: float) -> list[str]:
        blocks[0] = round(MANY_BLOCKS * share)
        did.clear()
        await clock.advance(EVERY_S)
        return list(did)

    assert await wait(0.9) == ["collect"]
    assert await wait(1.5) == ["freeze", "collect"]
    assert await wait(2.4) == ["collect"]
    assert await wait(2.5) == ["freeze", "collect"]
    assert await wait(2.5) == ["collect"]
    work.cancel()


MAPPED = """
import ctypes, sys
from trnfleet.garbage import map_large_blocks

class Blocks(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]

glibc = ctypes.CDLL(None)
glibc.mallinfo2.restype = Blocks
glibc.malloc.restype, glibc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
glibc.free.argtypes = [ctypes.c_void_p]
if sys.argv[1] == "apart":
    map_large_blocks()
glibc.free(glibc.malloc(16 * int(sys.argv[2])))
before = glibc.mallinfo2().hblks
glibc.malloc(2 * int(sys.argv[2]))
print(glibc.mallinfo2().hblks - before)
"""  # noqa: E501


@pytest.mark.parametrize(("how", "mapped"), [("as ever", 0), ("apart", 1)])
def test_large_blocks_stay_out_of_the_heap_also_after_larger_ones(how: str, mapped: int) -> None:
    """Large blocks leave no holes between long-lived ones, even after larger ones."""
    if not hasattr(ctypes.CDLL(None), "mallinfo2"):
        return
    command = [sys.executable, "-c", MAPPED, how, str(LARGE_BYTES)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) == mapped
