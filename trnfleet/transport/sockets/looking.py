"""Probe a port's protocol while CONNECT's answer is slow, or after it failed to arrive."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any

from trnfleet.tasks import in_thread
from trnfleet.transport.reasons import LinkDown
from trnfleet.transport.sockets.identify import foreign_words, within_tls_words

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from trnfleet.transport.security.tls import TlsSettings
    from trnfleet.transport.url import BrokerUrl

SLOW_ANSWER_S = 1.0
"""Wait for CONNECT's answer before the port's protocol is probed. Brokers answer within
milliseconds."""


async def connect_and_look(
    connecting: Coroutine[Any, Any, None], look: Callable[[], Coroutine[Any, Any, str]]
) -> None:
    """Connect, and probe the port's protocol while the answer is slow.

    Raises:
        LinkDown: the port speaks another protocol than its URL.
    """
    work: asyncio.Task[None] = asyncio.create_task(connecting, name="mqtt-connect")
    tasks: list[asyncio.Task[Any]] = [work]
    try:
        await asyncio.wait(tasks, timeout=SLOW_ANSWER_S)
        if not work.done():
            looking = asyncio.create_task(look(), name="mqtt-look")
            tasks.append(looking)
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and looking.result():
                raise LinkDown(looking.result(), foreign=True)
        await work
    finally:
        for task in tasks:
            task.add_done_callback(look_at)
            task.cancel()


async def what_it_speaks(url: BrokerUrl, tls: TlsSettings, heard: bytes, *, has_tls: bool) -> str:
    """Return the protocol of a port without a proper answer; empty if not found.

    Args:
        url: The expected broker.
        tls: The settings for it.
        heard: The first bytes received.
        has_tls: Whether TLS has begun.
    """
    if has_tls:
        return await in_thread(functools.partial(within_tls_words, url, tls))
    return await in_thread(functools.partial(foreign_words, url, heard))


def look_at(future: asyncio.Future[Any]) -> None:
    """Retrieve a future's exception.

    Otherwise asyncio logs it as never retrieved.
    """
    if future.done() and not future.cancelled():
        future.exception()
