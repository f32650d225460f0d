"""A TCP proxy for one client of a broker: it forwards, delays, throttles or cuts.

Needs no root rights.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Self

from support.processes.mosquitto import free_port

if TYPE_CHECKING:
    from collections.abc import Awaitable

_HOST = "127.0.0.1"
_CHUNK_BYTES = 4_096
_LOOK_S = 0.02
"""Time between two looks at whether it is still held."""


class TcpProxy:
    """A path from a port of its own to another one.

    Settings apply at once, to open connections, too.
    """

    def __init__(self, to_port: int) -> None:
        self.port = free_port()
        self._to_port = to_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._writers: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self.is_held = False
        """Whether nothing passes, while connections stay open: a half-open network."""
        self.is_cut = False
        """Whether new connections are closed at once."""
        self.bytes_per_s: float | None = None
        """Limit in each direction of a connection. None for no limit."""
        self.delay_s = 0.0
        """Time that each piece waits."""

    def cut(self) -> None:
        """Close all connections, and each new one, until it is mended."""
        self.is_cut = True
        self._call(self._close())

    def mend(self) -> None:
        """Pass everything on again."""
        self.is_held = self.is_cut = False
        self.bytes_per_s = None
        self.delay_s = 0.0

    async def _serve(self) -> None:
        self._server = await asyncio.start_server(self._accept, _HOST, self.port)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            if self.is_cut:
                return
            # Cancelled at its end it says nothing: asyncio would log that as an error.
            with contextlib.suppress(OSError, asyncio.CancelledError):
                there, back = await asyncio.open_connection(_HOST, self._to_port)
                self._writers.add(back)
                pumps = [
                    asyncio.create_task(self._pump(reader, back)),
                    asyncio.create_task(self._pump(there, writer)),
                ]
                self._pumps.update(pumps)
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
                self._pumps.difference_update(pumps)
                self._writers.discard(back)
                back.close()
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK_BYTES):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                if self.bytes_per_s is not None:
                    await asyncio.sleep(len(data) / self.bytes_per_s)
                while self.is_held:  # noqa: ASYNC110  set by another thread
                    await asyncio.sleep(_LOOK_S)
                writer.write(data)
                await writer.drain()

    async def _close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _end(self) -> None:
        self._server.close()
        await self._close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _call(self, work: Awaitable[None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=5)  # type: ignore[arg-type]

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._serve())
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(TimeoutError):
            self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        if not self._thread.is_alive():
            self._loop.close()
