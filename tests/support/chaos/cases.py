"""Cases of a part: each is a function of the seed, the part and its number, and can be repeated alone."""

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
    """A case did not end as it must; the text names the command that repeats it."""

    def __init__(self, case: Case, what: str) -> None:
        super().__init__(f"{what}\nrepeat it: {case}")


class InconclusiveError(Exception):
    """The machine was too slow for a case to say anything of the programs; it is counted apart."""

    def __init__(self, case: Case, why: str, what: str) -> None:
        super().__init__(f"the machine was too slow: {why}\n{what}\nrepeat it: {case}")


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def percentile(values: list[float], share: float) -> float:
    """Return the value below which a share of them lies; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
