"""Cyclic garbage of programs that run for days, collected whole and seldom, and freed memory given back to the system.

The collector's own steps are far apart there (`gc.set_threshold`), since each walks all that is kept of a large fleet. What outlives
the first step and becomes garbage later, such as dropped snapshots of the past, would then stay for hours. Of a very large fleet what is
there is not walked at all, for that would take longer than messages can wait.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.clock import Clock

EVERY_S = 60.0
"""Seconds between two collections, at least."""
LARGE_BYTES = 256 * 1024
"""Size from which on a block is large: chunks of recordings are, the largest frames (128 KB) are not."""
_M_MMAP_THRESHOLD = -3
"""The option's number (malloc.h)."""
MANY_BLOCKS = 1_500_000
"""Blocks of the interpreter's memory from which a walk over all objects takes a tenth of a second (measured; 62,500 hosts have 3,700,000, and
0.3 s). Nothing is read meanwhile, and the buffers between a broker and here hold less of 62,500 messages a second."""
STARTS_FOR_S, LOOKS_EVERY_S = 60.0, 5.0
"""Time in which a large fleet may come in after the start, and between two looks at how much there is then."""
GROWN = 1.2
"""Growth after which what has come is spared, too."""
DOUBLED = 2.0
"""Growth since the start after which all is walked all the same: it may be garbage."""
SHARE = 0.002
"""Share of time that they may take: 15 ms for the demo, so that it is the minute that counts; more for large fleets."""


def spare_collector(thresholds: tuple[int, int, int]) -> None:
    """Keep what lives as long as the program out of all collections to come, and set what their steps wait for."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*thresholds)


async def collect_garbage(
    clock: Clock, empty_caches: Callable[[], object] | None = None
) -> NoReturn:
    """Collect all cyclic garbage each minute, or as seldom as `SHARE` asks for, and give what is free back to the system.

    Args:
        clock: By which a minute passes.
        empty_caches: Called before each collection, to drop what can be made again.
    """
    many = _ManyObjects()
    map_large_blocks()
    for _ in range(round(STARTS_FOR_S / LOOKS_EVERY_S) - 1):
        await clock.sleep(LOOKS_EVERY_S)
        many.spare(is_start=True)
    pause_s, is_start = LOOKS_EVERY_S, True
    while True:
        await clock.sleep(pause_s)
        begun_s = clock.monotonic_s()
        if empty_caches is not None:
            empty_caches()
        # Of a start that is over nothing is left to walk, even where there is less than at the last look.
        many.spare(0.0 if is_start else GROWN, is_start=is_start)
        is_start = False
        give_back_memory()
        pause_s = max(EVERY_S, (clock.monotonic_s() - begun_s) / SHARE)


class _ManyObjects:
    """Objects of a large fleet, which collections leave alone: they live as long as the program, and hardly any is in a cycle."""

    def __init__(self) -> None:
        self._spared_blocks = self._walked_blocks = 0

    def spare(self, grown: float = GROWN, *, is_start: bool = False) -> None:
        """Leave what there is out of later collections where it is much, and has grown; put all back where there is twice as much.

        Args:
            grown: How many times what was spared last it is then, at least.
            is_start: Whether what has come is the fleet itself.
        """
        blocks = sys.getallocatedblocks()
        if blocks < max(MANY_BLOCKS, grown * self._spared_blocks):
            return
        if is_start or not self._walked_blocks:
            self._walked_blocks = blocks
        elif blocks >= DOUBLED * self._walked_blocks:
            gc.unfreeze()
            gc.collect()
            blocks = self._walked_blocks = sys.getallocatedblocks()
        # Nothing is walked for this.
        gc.freeze()
        self._spared_blocks = blocks


def give_back_memory() -> None:
    """Collect all cyclic garbage now, and give back what is free: after work that leaves much, so that what comes next lies in its place."""
    gc.collect()
    trim_memory()


def trim_memory() -> None:
    """Give free memory back to the system, where the C library can: glibc keeps what lies below anything that is still used.

    After the history of a start that is 11 MiB of the demo's app. Measured: 20 to 60 ms for 70 MB in 15,000 free blocks, below 1 ms
    where nothing is to be given back. In a thread it would hold the event loop up for as long, because malloc is locked meanwhile.
    """
    trim = _of_glibc("malloc_trim")
    if trim is not None:
        trim(0)


def map_large_blocks() -> None:
    """Keep large blocks out of the heap, where the C library is glibc: each is mapped by itself, and goes back to the system once free.

    Else glibc lets the threshold rise to the largest block that was ever freed. Chunks of recordings and decoded arrays then lie
    between small blocks that live on, and the heap grows by the holes: measured, the demo's app had 6.1 MiB of free blocks after
    20 minutes and 8.3 after 75, with the same 21.5 MiB in use. Passes over 1,000,000 chips cost the same with and without it.
    """
    set_option = _of_glibc("mallopt")
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, LARGE_BYTES)


@functools.cache
def _of_glibc(name: str) -> Callable[..., object] | None:
    """Return a function of glibc's; None where there is another C library."""
    try:
        found: Callable[..., object] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):
        return None
    return found
