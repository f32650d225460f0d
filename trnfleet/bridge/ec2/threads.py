"""Blocking calls in a thread beside the event loop, abandoned on cancellation."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")


async def in_thread(call: Callable[[], Result]) -> Result:
    """Return what `call` returns, or raise what it raises, while the loop goes on.

    Unlike with `asyncio.to_thread`, a call that still waits for the network when the process ends does not hold the end up.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def deliver(result: Result | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]  # it is one where there is no error

    def work() -> None:
        result, failure = None, None
        try:
            result = call()
        except Exception as error:  # noqa: BLE001  it is raised where the answer is awaited
            failure = error
        # The loop is closed where nothing waits any more.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(deliver, result, failure)

    threading.Thread(target=work, name="ec2", daemon=True).start()
    return await done
