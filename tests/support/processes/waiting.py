"""Waiting for real processes: until something holds, with a limit."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from trnfleet.transport.mqtt import MqttSource
    from trnfleet.wire.ports import Envelope


async def eventually(holds: Callable[[], object], within_s: float = 40.0) -> None:
    """Wait until `holds()` is true; fail after `within_s`."""
    until = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < until, f"not within {within_s:g} s"
        await asyncio.sleep(0.02)


async def take_until(
    source: MqttSource, enough: Callable[[list[Envelope]], bool], within_s: float = 40.0
) -> list[Envelope]:
    """Collect a source's messages until `enough`.

    Fail after `within_s`.
    """
    taken: list[Envelope] = []
    try:
        async with asyncio.timeout(within_s):
            while not enough(taken):
                taken += await source.take()
    except TimeoutError:
        raise AssertionError(
            f"not enough within {within_s:g} s: {[each[:2] for each in taken[:10]]}"
        ) from None
    return taken


@contextlib.asynccontextmanager
async def running(*works: Coroutine[Any, Any, None]) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Run coroutines as tasks while the body runs, then cancel and await them."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(
                outcome, asyncio.CancelledError
            ):
                raise outcome
