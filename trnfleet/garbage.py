"""Cyclic garbage of programs that run for days, collected whole and seldom, and freed memory given back to the system.

The collector's own steps are far apart there (`gc.set_threshold`), since each walks all that is kept of a large fleet. What outlives
the first step and becomes garbage later, such as dropped snapshots of the past, would then stay for hours.
"""

from __future__ import annotations

import ctypes
import functools
import gc
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.clock import Clock

EVERY_S = 60.0
"""Seconds between two collections, at least."""
SHARE = 0.002
"""Share of time that they may take: 15 ms for the demo, so that it is the minute that counts; more for large fleets."""


def spare_collector(thresholds: tuple[int, int, int]) -> None:
    """Keep what lives as long as the program out of all collections to come, and set what their steps wait for."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*thresholds)


async def collect_garbage(clock: Clock, empty_caches: Callable[[], object] | None = None) -> NoReturn:
    """Collect all cyclic garbage each minute, or as seldom as `SHARE` asks for, and give what is free back to the system.

    Args:
        clock: By which a minute passes.
        empty_caches: Called before each collection, to drop what can be made again.
    """
    pause_s = EVERY_S
    while True:
        await clock.sleep(pause_s)
        begun_s = clock.monotonic_s()
        if empty_caches is not None:
            empty_caches()
        gc.collect()
        trim_memory()
        pause_s = max(EVERY_S, (clock.monotonic_s() - begun_s) / SHARE)


def trim_memory() -> None:
    """Give free memory back to the system, where the C library can: glibc keeps what lies below anything that is still used.

    After the history of a start that is 11 MiB of the demo's app. Measured: 20 to 60 ms for 70 MB in 15,000 free blocks, below 1 ms
    where nothing is to be given back. In a thread it would hold the event loop up for as long, because malloc is locked meanwhile.
    """
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@functools.cache
def _malloc_trim() -> Callable[[int], object] | None:
    """Return glibc's function; None where there is another C library."""
    try:
        found: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
    return found
