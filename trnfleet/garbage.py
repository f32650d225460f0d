"""Rare full garbage collections for programs running for days, and return of freed memory.

The collector's own steps are far apart there (`gc.set_threshold`), since each walks all objects of
a large fleet. Objects that survive the first step and become garbage later, such as dropped
snapshots of the past, would then stay for hours. The objects of a very large fleet are not walked
at all: it would take longer than messages can wait.
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
"""Least size of a large block. Chunks of recordings are large, the largest frames (128 KB) are not.
"""
_M_MMAP_THRESHOLD = -3
"""The option's number (malloc.h)."""
MANY_BLOCKS = 1_500_000
"""Interpreter memory blocks from which a full collection is too slow. A walk then takes a tenth of
a second (measured; 62,500 hosts have 3,700,000, and 0.3 s). Nothing is read meanwhile, and the
buffers between a broker and here have room for less of 62,500 messages a second."""
STARTS_FOR_S = 60.0
LOOKS_EVERY_S = 5.0
"""Time for a large fleet to come in, and interval of size checks then."""
GROWN = 1.2
"""Growth from which new objects are spared, too."""
DOUBLED = 2.0
"""Growth since the start from which all objects are walked anyway: they may be garbage."""
SHARE = 0.002
"""Most time spent on collections. The demo's take 15 ms, so the minute is the limit there; large
fleets wait longer."""


def spare_collector(thresholds: tuple[int, int, int]) -> None:
    """Exclude long-lived objects from all later collections, and set the collector's thresholds."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*thresholds)


async def collect_garbage(
    clock: Clock, empty_caches: Callable[[], object] | None = None
) -> NoReturn:
    """Collect all cyclic garbage each minute, and return free memory to the system.

    Collections are rarer if `SHARE` requires it.

    Args:
        clock: Clock for the minute.
        empty_caches: Called before each collection, to drop data that can be made again.
    """
    many = _ManyObjects()
    map_large_blocks()
    for _ in range(round(STARTS_FOR_S / LOOKS_EVERY_S) - 1):
        await clock.sleep(LOOKS_EVERY_S)
        many.spare(is_start=True)
    pause_s = LOOKS_EVERY_S
    is_start = True
    while True:
        await clock.sleep(pause_s)
        begun_s = clock.monotonic_s()
        if empty_caches is not None:
            empty_caches()
        # At the end of the start spare everything, even if there is less than at the last check.
        many.spare(0.0 if is_start else GROWN, is_start=is_start)
        is_start = False
        give_back_memory()
        pause_s = max(EVERY_S, (clock.monotonic_s() - begun_s) / SHARE)


class _ManyObjects:
    """Objects of a large fleet, excluded from collections.

    They live as long as the program, and hardly any is in a cycle.
    """

    def __init__(self) -> None:
        self._spared_blocks = self._walked_blocks = 0

    def spare(self, grown: float = GROWN, *, is_start: bool = False) -> None:
        """Exclude all objects from later collections if they are many and have grown.

        Include them again at twice as many.

        Args:
            grown: Least growth since the last exclusion, as a factor.
            is_start: Whether the new objects are the fleet itself.
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
    """Collect all cyclic garbage now, and return free memory to the system.

    For use after work with much garbage: later objects then fill its place.
    """
    gc.collect()
    trim_memory()


def trim_memory() -> None:
    """Return free memory to the system, if the C library can.

    glibc keeps free memory below any used block. After the history of a start these are 11 MiB of
    the demo's app. Measured: 20 to 60 ms for 70 MB in 15,000 free blocks, below 1 ms with nothing
    to return. A thread would block the event loop as long, because malloc is locked meanwhile.
    """
    trim = _of_glibc("malloc_trim")
    if trim is not None:
        trim(0)


def map_large_blocks() -> None:
    """Allocate large blocks outside of the heap, with glibc.

    Each is mapped by itself, and returns to the system once free. By default glibc raises the
    threshold to the largest block ever freed. Chunks of recordings and decoded arrays then lie
    between long-lived small blocks, and the heap grows by the holes: measured, the demo's app had
    6.1 MiB of free blocks after 20 minutes and 8.3 after 75, with the same 21.5 MiB in use. Passes
    over 1,000,000 chips cost the same with and without it.
    """
    set_option = _of_glibc("mallopt")
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, LARGE_BYTES)


@functools.cache
def _of_glibc(name: str) -> Callable[..., object] | None:
    """Return a function of glibc's; None where there is another C library."""
    try:
        function: Callable[..., object] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):
        return None
    return function
