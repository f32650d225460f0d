"""A benchmark's view of an app in a terminal, and of the processes around it."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psutil
    from support.processes.terminal import Terminal

ALERTS = re.compile(r"\d+ (?:firing|pending|critical|warnings?|info)\b")
_RULE = re.compile(
    r"^[ >]\S? *(?:critical|warning|info) +\d+[smhd](?: ?\d+[smhd])? +([a-z][a-z0-9-]+) ",
    re.MULTILINE,
)
_LAG = re.compile(r"lag (\d+(?:\.\d+)?) (ms|s)\b")
_ACCOUNT = re.compile(
    r"published ([\d,]+) by sequence numbers = ([\d,]+) came \+ ([\d,]+) came late \+ ([\d,]+) lost"
    r" \+ ([\d,]+) shed"
)


class Usage(NamedTuple):
    """Usage over some seconds of an app, and of the processes around it."""

    elapsed_s: float
    cpu_pct: dict[str, float]
    """Percent of a core by process."""
    memory_mib: dict[str, float]
    lags_ms: list[float]
    keys_ms: list[float]


def usage(terminal: Terminal, processes: dict[str, psutil.Process], seconds: float) -> Usage:
    """Watch an app for some seconds while pressing keys."""
    before = {name: cpu_s(process) for name, process in processes.items()}
    begun_s = time.monotonic()
    lags: list[float] = []
    keys: list[float] = []
    while time.monotonic() - begun_s < seconds:
        time.sleep(0.5)
        shown_s = shown_lag_s(terminal.text)
        if shown_s is not None:
            lags.append(shown_s * 1_000)
        keys.append(key_ms(terminal, len(keys)))
    elapsed_s = time.monotonic() - begun_s
    shares = {
        name: (cpu_s(process) - before[name]) / elapsed_s * 100
        for name, process in processes.items()
    }
    memory = {name: process.memory_info().rss / 2**20 for name, process in processes.items()}
    return Usage(elapsed_s, shares, memory, lags, keys)


def cpu_s(process: psutil.Process) -> float:
    """Return the CPU seconds used by a process."""
    times = process.cpu_times()
    return times.user + times.system


def waited_s(pid: int) -> float:
    """Return the seconds a process's main thread has waited for a processor."""
    return int(Path(f"/proc/{pid}/schedstat").read_text("ascii").split()[1]) / 1e9


def quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile; NaN of nothing."""
    return (
        sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else float("nan")
    )


def shown_lag_s(text: str) -> float | None:
    """Return the lag in a screen's status line.

    None if not shown.
    """
    found = _LAG.search(text.splitlines()[-1])
    return None if found is None else float(found[1]) / (1_000 if found[2] == "ms" else 1)


def alerts_in(text: str) -> set[str]:
    """Return the numbers of alerts in a screen's header."""
    return set(ALERTS.findall("\n".join(text.splitlines()[:2])))


def alert_names(terminal: Terminal) -> set[str]:
    """Return the rule names in the app's alerts view, and go back to Fleet."""
    names: set[str] = set()
    terminal.send("8")
    end_s = time.perf_counter() + 3.0
    while not names and time.perf_counter() < end_s:
        time.sleep(0.05)
        names = set(_RULE.findall(terminal.text)) if "[8 Alerts" in terminal.text else names
    terminal.send("1")
    while "[1 Fleet" not in terminal.text and time.perf_counter() < end_s + 3.0:
        time.sleep(0.05)
    return names


def key_ms(terminal: Terminal, number: int) -> float:
    """Press a key to change the heat map's metric, and time its first output."""
    size = len(terminal.raw)
    begun_s = time.perf_counter()
    terminal.send("m" if number % 2 == 0 else "M")
    while len(terminal.raw) == size and time.perf_counter() - begun_s < 2:
        time.sleep(0.0005)
    return (time.perf_counter() - begun_s) * 1e3


def account(terminal: Terminal) -> dict[str, int]:
    """Return the app's message counts, from the page of publishers and brokers.

    The page stays open.
    """
    # What is wrong stands above it, and may be long.
    terminal.resize(120, 80)
    terminal.send("9")
    terminal.wait_for("publishers")
    terminal.send("t")
    screen = terminal.wait_for("by sequence numbers", within_s=10)
    found = _ACCOUNT.search(" ".join(screen.split()))
    assert found, screen
    names = ("published", "came", "mended", "lost", "passed_over")
    return {
        name: int(each.replace(",", "")) for name, each in zip(names, found.groups(), strict=True)
    }
