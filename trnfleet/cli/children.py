"""Programs of ours that a command runs as its children: they end with it, even when it is killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

import trnfleet.transport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

END_LIMIT_S = 2.0
KEPT_VARIABLES = ("TRNFLEET_MQTT_PASSWORD",)


@contextlib.asynccontextmanager
async def own_command(arguments: Sequence[str], log_file: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `trnfleet ARGUMENTS` as a child while the body runs; its output goes to the end of `log_file`."""
    starter = os.path.join(os.path.dirname(trnfleet.transport.__file__), "die_with_parent.py")  # noqa: PTH118, PTH120
    with log_file.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", starter, str(os.getpid())),
            *(sys.executable, "-m", "trnfleet", *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            # Settings are given as options; a variable meant for another command must not change what the child does.
            env={
                key: each
                for key, each in os.environ.items()
                if not key.startswith("TRNFLEET_") or key in KEPT_VARIABLES
            },
            # A session of its own: the terminal's ctrl+c is for the app, which then ends its children.
            start_new_session=True,
        )
    try:
        yield process
    finally:
        await end(process)


async def end(process: asyncio.subprocess.Process) -> None:
    """Ask a child to end, and kill it if it does not within `END_LIMIT_S`."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), END_LIMIT_S)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
