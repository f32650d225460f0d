"""Background tasks that cannot die unseen: named, supervised, ended together."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING, Any, TypeVar

from trnfleet import logs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator

log = logs.get_logger(__name__)

Result = TypeVar("Result")

END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals at which every command ends in an orderly way."""


@contextlib.asynccontextmanager
async def background(**coroutines: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run coroutines, each under its keyword's name, while the body runs; cancel them when it ends.

    The first failure among them cancels the body and is raised in its place, so that nothing goes on half alive.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work, name=name) for name, work in coroutines.items()]
            yield
            for task in tasks:
                task.cancel()
    except BaseExceptionGroup as failures:
        failure = _first(failures)
        log.debug("task_group_failed", failures=len(failures.exceptions), first=type(failure).__name__)
        raise failure from failure.__cause__


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    failure = failures.exceptions[0]
    return _first(failure) if isinstance(failure, BaseExceptionGroup) else failure


async def preserve_cancellation(work: Awaitable[Result]) -> Result:
    """Await `work` of a library that waits with `asyncio.wait_for`, and lose no cancellation over it.

    Up to Python 3.11 `wait_for` forgets a cancellation that comes along with a result: a caller that cancels once waits for
    ever then.

    Raises:
        CancelledError: the task was cancelled meanwhile, whatever came of `work`.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        return await work
    finally:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError


class Ending:
    """A request to end, by a signal or by the program itself; `signal_number` says which signal it was."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self.signal_number: int | None = None

    def ask(self, signal_number: int | None = None) -> None:
        """Ask for the end; the first reason stays."""
        if not self._asked.is_set():
            self.signal_number = signal_number
            self._asked.set()

    @property
    def asked(self) -> bool:
        """Whether the end has been asked for."""
        return self._asked.is_set()

    async def wait(self) -> None:
        """Wait until the end is asked for."""
        await self._asked.wait()

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[Ending]:
        """Ask for the end at SIGINT, SIGTERM and SIGHUP, instead of dying at once, while the body runs."""
        loop = asyncio.get_running_loop()
        for number in END_SIGNALS:
            loop.add_signal_handler(number, self.ask, number)
        try:
            yield self
        finally:
            for number in END_SIGNALS:
                loop.remove_signal_handler(number)


async def run_until(ending: Ending, work: Coroutine[Any, Any, None]) -> None:
    """Run `work` to its end, or cancel it when the end is asked for."""
    task = asyncio.create_task(work, name="work")
    waiter = asyncio.create_task(ending.wait(), name="ending")
    try:
        await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiter.cancel()
        if not task.done():
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
