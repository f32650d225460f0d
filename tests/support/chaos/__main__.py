"""`make chaos`: one part or all of them, a case after the other, until the count or the time is over."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from support.chaos import brokers, files, in_process, processes
from support.chaos.broker_ways import WAYS
from support.chaos.cases import Case, ChaosError, say
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
    "files": Part(files.run_case, 50),
    "brokers": Part(brokers.run_case, len(WAYS)),
    "processes": Part(processes.run_case, 5),
}


def main() -> int:
    """Run what is asked for; return 1 where a case failed, which does not end the others."""
    parser = argparse.ArgumentParser(prog="make chaos")
    parser.add_argument("--seed", type=int, default=None, help="one that is printed where it is not given")
    parser.add_argument("--part", choices=PARTS, action="append", help="all of them where none is named")
    parser.add_argument("--count", type=int, help="cases of each part")
    parser.add_argument("--case", type=int, help="this case alone")
    parser.add_argument("--minutes", type=float, help="begin no case of a part after this time")
    asked = parser.parse_args()
    seed = random.randrange(2**31) if asked.seed is None else asked.seed  # noqa: S311  damage, not secrets
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        # What is refused is logged; a failure's reason is printed.
        logs.configure(file=Path(folder) / "chaos.log")
        for name in asked.part or PARTS:
            part, until = PARTS[name], time.monotonic() + 60 * (asked.minutes or 1e9)
            default = part.cases if asked.minutes is None else sys.maxsize
            numbers = range(asked.count or default) if asked.case is None else [asked.case]
            for number in numbers:
                if time.monotonic() > until:
                    break
                case = Case(name, seed, number)
                try:
                    say(f"{case}: {part.run(case, Path(folder) / f'{name}-{number}')}")
                except ChaosError as error:
                    failed += 1
                    say(f"FAILED {error}")
    say(f"{failed} cases failed" if failed else "every case held")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
