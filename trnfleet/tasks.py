"""Supervised background tasks: named, ended together, never failing unseen."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from trnfleet import logs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator

log = logs.get_logger(__name__)

Result = TypeVar("Result")

END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals ending every command in an orderly way."""
END_S = 2.0
"""Longest time until a command ends after a signal, whatever the broker does. An overloaded machine
may take longer."""
GOODBYE_S = 0.7
"""Longest wait for cancelled work, and again for each connection. An example is a last message
without an acknowledgement from the broker. Both fit into `END_S`."""

POLL_S = 0.1
"""Time between two looks at something without an event to wait for."""


@contextlib.asynccontextmanager
async def background(
    **coroutines: Coroutine[Any, Any, None],
) -> AsyncIterator[Callable[[str, Coroutine[Any, Any, None]], asyncio.Task[None]]]:
    """Run coroutines while the body runs, named after their keywords.

    Cancel them at its end. The body may add others, each with a name.

    The first failure among them cancels the body and is raised in its place, so that nothing
    continues half alive.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks: set[asyncio.Task[None]] = set()

            def spawn(name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
                task = group.create_task(work, name=name)
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                return task

            for name, work in coroutines.items():
                spawn(name, work)
            yield spawn
            for task in tasks:
                task.cancel()
    except BaseExceptionGroup as failures:
        failure = _first(failures)
        log.debug(
            "task_group_failed", failures=len(failures.exceptions), first=type(failure).__name__
        )
        raise failure from failure.__cause__


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    failure = failures.exceptions[0]
    return _first(failure) if isinstance(failure, BaseExceptionGroup) else failure


async def preserve_cancellation(work: Awaitable[Result]) -> Result:
    """Await `work` without losing a cancellation to `asyncio.wait_for` in a library.

    Up to Python 3.11 `wait_for` forgets a cancellation arriving together with a result. A caller
    cancelling once would then wait for ever.

    Raises:
        CancelledError: the task was cancelled meanwhile, regardless of the result of `work`.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        return await work
    finally:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError


async def in_thread(call: Callable[[], Result]) -> Result:
    """Run `call` in a thread, and return its result or raise its exception.

    Unlike with `asyncio.to_thread`, a call still waiting for the network does not delay the end of
    the process.
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
        result = None
        failure = None
        try:
            result = call()
        except Exception as error:  # noqa: BLE001  it is raised where the answer is awaited
            failure = error
        # The loop is closed where nothing waits any more.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(deliver, result, failure)

    threading.Thread(target=work, name="blocking-call", daemon=True).start()
    return await done


class Ending:
    """A request to end, by a signal or by the program.

    `signal_number` is the signal.
    """

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self.has_work = False
        """Whether `run_until` is waiting for work it can end."""
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
        """Request the end at SIGINT, SIGTERM and SIGHUP while the body runs, instead of dying.

        A body outside `run_until`, such as one still connecting, is cancelled. A second signal
        cancels a body that is tidying up.

        Raises:
            SystemExit: a signal cancelled the body. The status is the shell's for a death by this
                signal.
        """
        loop = asyncio.get_running_loop()
        body = asyncio.current_task()
        cancelled_by: int | None = None

        def end(number: int) -> None:
            nonlocal cancelled_by
            self.ask(number)
            if not self.has_work and body is not None and cancelled_by is None:
                cancelled_by = number
                body.cancel()

        for number in END_SIGNALS:
            loop.add_signal_handler(number, end, number)
        try:
            yield self
        except asyncio.CancelledError:
            if cancelled_by is None:
                raise
            raise SystemExit(128 + cancelled_by) from None
        finally:
            for number in END_SIGNALS:
                loop.remove_signal_handler(number)


async def run_until(ending: Ending, work: Coroutine[Any, Any, None]) -> None:
    """Run `work` to its end, or cancel it when the end is requested.

    The cancellation is repeated each `GOODBYE_S` until it has ended.
    """
    task = asyncio.create_task(work, name="work")
    waiter = asyncio.create_task(ending.wait(), name="ending")
    ending.has_work = True
    try:
        await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiter.cancel()
        while not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=GOODBYE_S)
        ending.has_work = False
        with contextlib.suppress(asyncio.CancelledError):
            task.result()
