"""`make chaos`: one or all parts, until the count or the time is over."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from support.processes.alertmanager import alertmanager_program

from lab.chaos import brokers, files, in_process, live, network, processes
from lab.chaos.broker_ways import WAYS
from lab.chaos.cases import Case, ChaosError, InconclusiveError, say
from trnfleet import logs

if TYPE_CHECKING:
    from collections.abc import Callable


class Part(NamedTuple):
    """A part."""

    run: Callable[[Case, Path], object]
    cases: int
    """Cases where nothing says how many or how long."""


def _messages(case: Case, _folder: Path) -> object:
    return asyncio.run(in_process.run_case(case))


PARTS = {
    "messages": Part(_messages, 10),
    "live": Part(live.run_case, 1),
    "files": Part(files.run_case, 50),
    "brokers": Part(brokers.run_case, len(WAYS)),
    "processes": Part(processes.run_case, 2),
}


UNPLAYED = """\
==== NOT PLAYED: the part processes ====
It needs a real Alertmanager, and there is none: `.ci/programs prometheus` installs it as root, or says how."""  # noqa: E501


def main() -> int:
    """Run the requested parts, and return the exit status.

    It is 1 if a case failed, a part could not be played, or no case succeeded. A failing case does
    not end the others.
    """
    parser = argparse.ArgumentParser(prog="make chaos")
    parser.add_argument(
        "--seed", type=int, default=None, help="one that is printed where it is not given"
    )
    parser.add_argument(
        "--part", choices=PARTS, action="append", help="all of them where none is named"
    )
    parser.add_argument("--count", type=int, help="cases of each part")
    parser.add_argument("--case", type=int, help="this case alone")
    parser.add_argument("--minutes", type=float, help="begin no case of a part after this time")
    asked = parser.parse_args()
    seed = random.randrange(2**31) if asked.seed is None else asked.seed  # noqa: S311  damage, not secrets
    held = failed = inconclusive = 0
    parts = list(asked.part or PARTS)
    is_unplayed = "processes" in parts and alertmanager_program() is None
    if is_unplayed:
        say(UNPLAYED)
        parts.remove("processes")
    if "processes" in parts and not network.isolate():
        say(
            "packets cannot be lost here (that needs root, ip and iptables): proxies hold and delay"
            " instead"
        )
    with tempfile.TemporaryDirectory() as folder:
        # What is refused is logged; a failure's reason is printed.
        logs.configure(file=Path(folder) / "chaos.log")
        for name in parts:
            part = PARTS[name]
            until = time.monotonic() + 60 * (asked.minutes or 1e9)
            default = part.cases if asked.minutes is None else sys.maxsize
            numbers = range(asked.count or default) if asked.case is None else [asked.case]
            for number in numbers:
                if time.monotonic() > until:
                    break
                case = Case(name, seed, number)
                try:
                    say(f"{case}: {part.run(case, Path(folder) / f'{name}-{number}')}")
                    held += 1
                except InconclusiveError as error:
                    inconclusive += 1
                    say(f"INCONCLUSIVE {error}")
                except Exception as error:  # noqa: BLE001  no failure ends the other cases
                    failed += 1
                    is_told = isinstance(error, ChaosError)
                    say(f"FAILED {error if is_told else ChaosError(case, traceback.format_exc())}")
    said = f"{failed} cases failed, {held} held" if failed else f"{held} cases held, none failed"
    say(f"{said}; {inconclusive} were inconclusive" if inconclusive else said)
    if is_unplayed:
        # Again where it is read last.
        say(UNPLAYED)
    return 0 if held and not failed and not is_unplayed else 1


if __name__ == "__main__":
    sys.exit(main())
