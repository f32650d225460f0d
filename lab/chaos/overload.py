"""Check of a case's processor time: how long its programs waited while others ran."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LOOK_EVERY_S = 1.0
WINDOW_S = 10.0
MOST_WAITING = 0.25
"""Share of a window a program may wait for a processor. Rules and heartbeats count in seconds, and
a watch works for a tenth of each."""
MOST_OTHERS = 0.4
"""Share of all processors other programs may use. Below it, waits are caused by the case itself,
and this is no excuse."""


class _Look(NamedTuple):
    """Totals at an instant, in seconds."""

    at_s: float
    busy: float
    """Of all processors."""
    used: float
    """By the programs of the case."""
    waited: dict[int, float]
    """By process id, for a processor."""


class Overload:
    """A thread watching the programs of a running case.

    No result if the kernel counts no waits.
    """

    def __init__(self, pids: Callable[[], Mapping[str, int]]) -> None:
        """Prepare it; a program may be absent for a while, and another process later."""
        self.why = ""
        """The worst window of a slow machine. Empty if none."""
        self._worst = 0.0
        self._pids = pids
        self._looks: deque[_Look] = deque(maxlen=round(WINDOW_S / LOOK_EVERY_S) + 1)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._is_over.wait(LOOK_EVERY_S):
            names = {pid: name for name, pid in dict(self._pids()).items()}
            totals = {pid: found for pid in names if (found := _scheduled(pid)) is not None}
            times = psutil.cpu_times()
            used = sum(used for used, _ in totals.values())
            waited = {pid: waited for pid, (_, waited) in totals.items()}
            self._looks.append(
                _Look(time.monotonic(), sum(times) - times.idle - times.iowait, used, waited)
            )
            if len(self._looks) == self._looks.maxlen:
                self._compare(self._looks[0], self._looks[-1], names)

    def _compare(self, first: _Look, last: _Look, names: Mapping[int, str]) -> None:
        passed_s = last.at_s - first.at_s
        # A program that has begun or ended meanwhile makes the others' share look a little larger
        # or smaller.
        others = (
            (last.busy - first.busy - max(0.0, last.used - first.used))
            / passed_s
            / (os.cpu_count() or 1)
        )
        shares = {
            names[pid]: (each - first.waited[pid]) / passed_s
            for pid, each in last.waited.items()
            if pid in first.waited and pid in names
        }
        name = max(shares, key=lambda each: shares[each], default="")
        if name and others > MOST_OTHERS and shares[name] > max(MOST_WAITING, self._worst):
            self._worst = shares[name]
            self.why = (
                f"{name} waited {shares[name]:.0%} of {passed_s:.0f} s for a processor, while"
                f" programs of no case used {others:.0%} of all"
            )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()


def _scheduled(pid: int) -> tuple[float, float] | None:
    """Return a process's running seconds, and its main thread's waiting seconds.

    None if unknown. The main thread reads the broker and evaluates.
    """
    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
        fields = Path(f"/proc/{pid}/schedstat").read_text("ascii").split()
        return times.user + times.system, int(fields[1]) / 1e9
    except (psutil.Error, OSError, ValueError, IndexError):
        return None
