"""Full garbage collections each minute for programs running for days, and return of freed memory.

The collector's own steps are far apart there, since each walks all objects of a large fleet.
Objects that survive the first step and become garbage later, such as dropped snapshots of the past,
would then stay for hours.
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

THRESHOLDS = (100_000, 20, 100)
"""The collector's thresholds in programs with a fleet."""
EVERY_S = 60.0
"""Seconds between two collections."""
M_MMAP_THRESHOLD = -3
"""Number of this option in glibc's malloc.h."""
LARGE_BYTES = 2**18
MANY_BLOCKS = 1_500_000
"""Interpreter memory blocks walked in a tenth of a second (measured). Nothing is read meanwhile."""


def spare_collector() -> None:
    """Exclude long-lived objects from later collections, and make these rare."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


async def collect_garbage(clock: Clock) -> NoReturn:
    """Collect all cyclic garbage each minute, and return free memory to the system.

    Once `MANY_BLOCKS` new objects exist, they are a large fleet's: they live as long as the
    program, and hardly any is in a cycle. They are excluded from this and later collections.

    Args:
        clock: Clock for the minute.
    """
    map_large_blocks()
    spared_blocks = 0
    while True:
        await clock.sleep(EVERY_S)
        blocks = sys.getallocatedblocks()
        if blocks - spared_blocks >= MANY_BLOCKS:
            gc.freeze()
            spared_blocks = blocks
        give_back_memory()


def give_back_memory() -> None:
    """Collect all cyclic garbage now, and return free memory to the system.

    glibc keeps free memory below any used block. After the history of a start these are 11 MiB of
    the demo's app. A trim takes 20 to 60 ms for 70 MB in 15,000 free blocks, and below 1 ms with
    nothing to return (measured). A thread would block the event loop as long, because malloc is
    locked meanwhile.
    """
    gc.collect()
    trim = _of_glibc("malloc_trim")
    if trim is not None:
        trim(0)


def map_large_blocks() -> None:
    """Allocate blocks from `LARGE_BYTES` on outside of the heap, with glibc.

    Each returns to the system once free. By default glibc raises the threshold to the largest block
    ever freed. Arrays of a fleet whose hosts come and go then lie between small objects that stay,
    and the heap keeps the holes: 188 instead of 54 MiB after a quarter of an hour (measured).
    """
    set_option = _of_glibc("mallopt")
    if set_option is not None:
        set_option(M_MMAP_THRESHOLD, LARGE_BYTES)


@functools.cache
def _of_glibc(name: str) -> Callable[..., object] | None:
    """Return a function of glibc; None with another C library."""
    try:
        function: Callable[..., object] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):
        return None
    return function
