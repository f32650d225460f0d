"""Cases of a part: functions of the seed, the part and its number, repeatable alone."""

from __future__ import annotations

import sys
from random import Random
from typing import NamedTuple


class Case(NamedTuple):
    """One case."""

    part: str
    seed: int
    number: int

    def random(self) -> Random:
        """Return its generator; strings are hashed the same way in every process."""
        return Random(f"{self.part}/{self.seed}/{self.number}")  # noqa: S311  damage, not secrets

    def __str__(self) -> str:
        return f"make chaos SEED={self.seed} PART={self.part} CASE={self.number}"


class ChaosError(AssertionError):
    """Failure of a case.

    The text names the command to repeat it.
    """

    def __init__(self, case: Case, what: str) -> None:
        super().__init__(f"{what}\nrepeat it: {case}")


class InconclusiveError(Exception):
    """The machine was too slow for a result.

    Counted separately.
    """

    def __init__(self, case: Case, why: str, what: str) -> None:
        super().__init__(f"the machine was too slow: {why}\n{what}\nrepeat it: {case}")


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def percentile(values: list[float], share: float) -> float:
    """Return the value at a share of the sorted values; 0 if empty."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
