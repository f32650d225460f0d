"""What publishes telemetry that no descriptor covers: on no screen, and therefore counted in the header."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trnfleet.domain import address
from trnfleet.domain.address import Level
from trnfleet.monitor.copies import copied
from trnfleet.wire.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trnfleet.monitor.slices import Slices

QUIET_S = 3.0
"""Time for which of a topic that nothing describes messages are only counted: less than what a descriptor is asked for again after, for
which it has to be heard again."""
AGAIN_WITHIN_S = 5.0
"""Time within which a path is heard again after a new layout; assumed: several periods of a usual publisher."""
SLICE = 2_048
"""Paths that are looked up in one slice: 2 ms."""


class QuietTopics:
    """Topics of telemetry that no descriptor of the layout covers and whose descriptor was asked for a moment ago: further messages are only counted.

    While tens of thousands of hosts join, most messages are such. A topic is none of these any more when its descriptor comes or a layout is made.
    """

    def __init__(self, most: int = DEFAULT_LIMITS.undescribed_paths) -> None:
        """Begin empty; of more topics than `most` no further ones are kept."""
        self._most = most
        self._topics: set[str] = set()
        self._since_s = -math.inf

    def add(self, topic: str, now_s: float) -> None:
        """Add a topic; all are removed `QUIET_S` after the first."""
        if not self._topics:
            self._since_s = now_s
        if len(self._topics) < self._most:
            self._topics.add(topic)

    def discard(self, topic: str) -> None:
        """Remove a topic, if it is one of these."""
        self._topics.discard(topic)

    def clear(self) -> None:
        """Remove all topics."""
        self._topics.clear()

    def without(self, numbers: list[int], topics: Sequence[str], now_s: float) -> list[int]:
        """Return the places of messages that are not of these topics.

        Args:
            numbers: Places.
            topics: The topic at each place.
            now_s: Monotonic seconds.
        """
        quiet = self._topics
        if not quiet:
            return numbers
        if now_s - self._since_s >= QUIET_S:
            quiet.clear()
            return numbers
        return [number for number in numbers if topics[number] not in quiet]


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

    def renew(self, undescribed: Callable[[set[str]], set[str]]) -> Slices[None]:
        """Hear all paths again; those that are still missing count on until each has had time to come again.

        Args:
            undescribed: Returns those of some paths, not of chips, that have no descriptor.
        """
        former = undescribed(self.others)
        chips = list(self.chips)
        for begin in range(0, len(chips), SLICE):
            yield
            part = chips[begin : begin + SLICE]
            instances = undescribed({address.parent(path) for path in part})
            former.update(path for path in part if address.parent(path) in instances)
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
