"""What publishes telemetry that no descriptor covers: on no screen, and therefore counted in the header."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trnfleet.domain import address
from trnfleet.domain.address import Level
from trnfleet.monitor.copies import copied
from trnfleet.wire.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.monitor.slices import Slices

AGAIN_WITHIN_S = 5.0
"""Time within which a path is heard again after a new layout; assumed: several periods of a usual publisher."""
SLICE = 2_048
"""Paths that are looked up in one slice: 2 ms."""


class Undescribed:
    """What publishes telemetry that no descriptor covers."""

    HEARD_WITHIN_S = 30.0
    """Silence after which it is no longer counted: several periods of any usual publisher."""

    def __init__(self, most: int = DEFAULT_LIMITS.undescribed_paths) -> None:
        """Begin empty; of more paths than `most` no further ones are told apart."""
        self._most = most
        self.chips: set[str] = set()
        """Paths of chips."""
        self.others: set[str] = set()
        """Paths of what publishes frames or host metrics."""
        self._heard_s = -math.inf
        self._former: frozenset[str] = frozenset()
        """Paths that were heard before the last layout, and are in none yet."""
        self._former_until_s = -math.inf

    def copy(self) -> Undescribed:
        """Return a copy."""
        return copied(self, chips=self.chips.copy(), others=self.others.copy())

    def hear(self, path: str, now_s: float) -> None:
        """Add what has just published."""
        if now_s - self._heard_s > self.HEARD_WITHIN_S:
            self.chips.clear()
            self.others.clear()
        is_new = path not in self.others and path not in self.chips
        if is_new and len(self.chips) + len(self.others) < self._most:
            (self.chips if address.level_of(path) is Level.CHIP else self.others).add(path)
        self._heard_s = now_s

    def renew(self, is_missing: Callable[[str], bool]) -> Slices[None]:
        """Hear all paths again; those that are still missing count on until each has had time to come again.

        Args:
            is_missing: Returns whether a path has no descriptor.
        """
        former: set[str] = set()
        for number, path in enumerate([*self.chips, *self.others]):
            if number % SLICE == SLICE - 1:
                yield
            if is_missing(path):
                former.add(path)
        self.chips, self.others = set(), set()
        self._former, self._former_until_s = frozenset(former), self._heard_s + AGAIN_WITHIN_S

    def counts(self, now_s: float) -> tuple[int, int]:
        """Return the numbers of chips, and of other paths that are not the instances of these chips, as far as they are told apart."""
        if now_s - self._heard_s > self.HEARD_WITHIN_S:
            return 0, 0
        chips, others = self.chips, self.others
        if self._former and now_s < self._former_until_s:
            former_chips = {path for path in self._former if address.level_of(path) is Level.CHIP}
            chips, others = chips | former_chips, others | (self._former - former_chips)
        if not chips:
            return 0, len(others)
        return len(chips), len(others - {address.parent(path) for path in chips})
