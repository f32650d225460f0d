"""The clock of a tape: it stands where it was put, in wall time and in the seconds that snapshots are in."""

from __future__ import annotations

import asyncio

from trnfleet.clock import NS_PER_S, ManualClock
from trnfleet.monitor.replay.clock import TapeClock

ANCHOR_NS = 1_767_571_200 * NS_PER_S


async def test_it_stands_while_real_time_passes_and_goes_where_it_is_put() -> None:
    real = ManualClock(0, 500.0)
    clock = TapeClock(real, ANCHOR_NS, 100.0, ANCHOR_NS)
    await real.advance(60.0)
    assert (clock.wall_ns(), clock.monotonic_s()) == (ANCHOR_NS, 100.0)
    clock.position_ns = ANCHOR_NS - 3 * NS_PER_S // 2
    assert (clock.wall_ns(), clock.monotonic_s()) == (ANCHOR_NS - 3 * NS_PER_S // 2, 98.5)
    assert clock.at_s(ANCHOR_NS + NS_PER_S) == 101.0


async def test_waiting_is_done_in_real_time() -> None:
    real = ManualClock(0, 500.0)
    clock = TapeClock(real, ANCHOR_NS, 100.0, ANCHOR_NS)
    waiting = asyncio.create_task(clock.sleep(2.0))
    await real.advance(1.9)
    assert not waiting.done()
    await real.advance(0.2)
    assert waiting.done()
    assert clock.monotonic_s() == 100.0
