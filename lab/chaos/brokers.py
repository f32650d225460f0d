"""Misbehaving brokers against the commands.

Each command reports the reason or continues, and ends at a signal.
"""

from __future__ import annotations

import contextlib
import re
import signal
import time
from typing import TYPE_CHECKING, NamedTuple

import psutil
from support.monitor.feed import Feed, ultraservers
from support.processes.forked import Ended, ForkedCommands
from support.processes.terminal import Terminal

from lab.chaos.broker_ways import WAYS
from lab.chaos.cases import Case, ChaosError
from lab.chaos.fake_broker import FakeBroker, Way

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


ALIVE_S = 6.0
"""Time of commands with a broker. The waits for CONNACK in both versions are over by then."""
END_S = 3.0
"""2 s are promised, and the rest is for a busy machine."""
MEMORY_MB = 250.0
STATUSES = {
    "watch": {0, 1, 143, -15},
    "simulate": {0, 1, 4, 143, -15},
    "record": {0, 1, 143, -15},
    "status": {0, 1, 3, 143, -15},
}
"""Documented exit statuses, 143 while a command connects, and a death by SIGTERM before."""
_RAW = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Seen(NamedTuple):
    """What came of a case."""

    way: str
    ended: dict[str, Ended]

    def __str__(self) -> str:
        told = [
            f"{name} {each.status} in {each.after_s:.1f} s {each.output.strip().splitlines()[-1:]}"
            for name, each in self.ended.items()
        ]
        return f"{self.way}: {', '.join(told)}"


def commands(url: str, folder: Path) -> dict[str, tuple[str, ...]]:
    """Return long-running commands, and one that ends by itself."""
    broker = ("--broker", url)
    return {
        "watch": ("watch", *broker, "--name", "demo"),
        "simulate": ("simulate", *broker, "--fleet", "lab"),
        "record": ("record", str(folder / "a.mcap"), *broker),
        "status": ("status", *broker, "--name", "demo", "--wait", "3s"),
    }


def run_case(
    case: Case,
    folder: Path,
    *,
    names: Sequence[str] = tuple(STATUSES),
    app: bool = True,
    alive_s: float = ALIVE_S,
) -> Seen:
    """Run a case: one way against every command at once.

    Raises:
        ChaosError: a command said nothing, too much, ended otherwise than documented, or not at
            all.
    """
    way = WAYS[case.number % len(WAYS)]
    feed = Feed(ultraservers(1))
    feed.scatter()
    fleet = [*feed.announcements(), *feed.telemetry()]
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(FakeBroker(way, case.random(), fleet))
        forked = stack.enter_context(ForkedCommands(folder))
        for name, arguments in commands(broker.url, folder).items():
            if name in names:
                forked.start(name, *arguments)
        terminal = None
        if app:
            log = str(folder / "app.log")
            terminal = stack.enter_context(
                Terminal(
                    "monitor",
                    "--broker",
                    broker.url,
                    "--name",
                    "demo",
                    "--log-file",
                    log,
                    "--past",
                    "0",
                )
            )
            terminal.wait_for_match(r"\w", within_s=30)
        time.sleep(alive_s)
        _check_memory(case, way, forked)
        ended = forked.end(signal.SIGTERM)
        for name, each in ended.items():
            _check(case, way, name, each)
        if terminal is not None:
            _check_app(case, way, terminal)
        if broker.error is not None:
            raise ChaosError(case, f"{way.name}: the fake broker itself: {broker.error!r}")
    return Seen(way.name, ended)


def _check(case: Case, way: Way, name: str, ended: Ended) -> None:
    said = (
        f"{way.name}: {name} ended with {ended.status} after {ended.after_s:.1f} s:"
        f" {ended.output[-2_000:]}"
    )
    if ended.status not in STATUSES[name] or ended.after_s > END_S:
        raise ChaosError(case, said)
    if "Traceback" in ended.output or _RAW.search(ended.output):
        raise ChaosError(case, f"raw or a traceback: {said!r}")
    if ended.status == 1 and not ended.output.strip():
        raise ChaosError(case, f"no reason: {said}")


def _check_memory(case: Case, way: Way, forked: ForkedCommands) -> None:
    for process in psutil.Process(forked._process.pid).children():
        with contextlib.suppress(psutil.Error):
            used_mb = process.memory_info().rss / 2**20
            if used_mb > MEMORY_MB:
                raise ChaosError(
                    case, f"{way.name}: {' '.join(process.cmdline()[-4:])} uses {used_mb:.0f} MB"
                )


def _check_app(case: Case, way: Way, terminal: Terminal) -> None:
    if terminal.process.status() == psutil.STATUS_ZOMBIE:
        raise ChaosError(case, f"{way.name}: the app has ended: {terminal.text}")
    used_mb = terminal.process.memory_info().rss / 2**20
    if used_mb > MEMORY_MB:
        raise ChaosError(case, f"{way.name}: the app uses {used_mb:.0f} MB")
    try:
        status = terminal.end(signal.SIGTERM, within_s=END_S)
    except AssertionError as error:
        raise ChaosError(case, f"{way.name}: the app {error}") from None
    if status not in {0, 143} or not terminal.is_restored() or b"Traceback" in terminal.raw:
        raise ChaosError(case, f"{way.name}: the app ended with {status}: {terminal.text}")
