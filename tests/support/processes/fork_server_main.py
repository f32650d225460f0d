"""The fork server's own process.

It imports the program once, forks a command per request, and reports its end.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import sys
import termios
import threading
import time
from typing import Any

# Threads of a library do not come along when a process forks.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
# A command does not see this folder.
sys.path.pop(0)

import trnfleet
from trnfleet.cli.main import run

_LARGEST_REQUEST = 1 << 18
_FIRST_FD = 3
"""Behind the standard streams."""
_MOST_FDS = 1_024
_WHEN_USED = ("numpy.ma", "numpy.random", "structlog.stdlib", "structlog.dev", "encodings.idna")
"""Library modules imported by most commands on first use."""


def serve(channel: socket.socket) -> None:
    """Fork a command for each request until nobody is left to ask."""
    for module in pkgutil.walk_packages(trnfleet.__path__, "trnfleet."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in _WHEN_USED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([channel.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4_096)
            _reap(running)
        if channel.fileno() in ready:
            text, fds, _, _ = socket.recv_fds(channel, _LARGEST_REQUEST, 4)
            if not text:
                return
            pid = os.fork()
            if pid == 0:
                channel.detach()
                become(json.loads(text), fds[:3])
                return
            running[pid] = fds.pop()
            for each in fds:
                os.close(each)
            channel.send(str(pid).encode())


def _reap(running: dict[int, int]) -> None:
    """Tell of each that has ended."""
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        fd = running.pop(pid)
        os.write(fd, str(os.waitstatus_to_exitcode(status)).encode())
        os.close(fd)


def become(request: dict[str, Any], streams: list[int]) -> None:
    """Become the command, as a new interpreter would have it, and exit."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if request["has_terminal"]:
        os.setsid()
        fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
    os.closerange(_FIRST_FD, _MOST_FDS)
    os.environ.clear()
    os.environ.update(request["environ"])
    time.tzset()
    os.chdir(request["folder"])
    sys.argv = ["trnfleet", *request["arguments"]]
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(  # type: ignore[misc]  # noqa: SIM115
        2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )
    os._exit(_run_to_the_end())


def _run_to_the_end() -> int:
    """Run the command and an interpreter's exit work, without the teardown of modules.

    The teardown takes 60 ms.
    """
    try:
        status = run()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001  whatever it is, it is told as an interpreter does
        sys.excepthook(*sys.exc_info())
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        sys.excepthook(*sys.exc_info())
        status = 120
    return status


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
