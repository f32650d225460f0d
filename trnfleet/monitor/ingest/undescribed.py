"""Undescribed telemetry: not visible on any screen, therefore counted in the header."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trnfleet.domain import address
from trnfleet.domain.address import Level
from trnfleet.monitor.slices import SLICE
from trnfleet.wire.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trnfleet.monitor.slices import Slices

QUIET_S = 3.0
"""Seconds in which messages of an undescribed topic are only counted. The next descriptor request
needs a new message, so this is shorter than the wait for it."""


class QuietTopics:
    """Undescribed topics with a recent descriptor request: further messages are only counted.

    While tens of thousands of hosts join, this applies to most messages. A topic leaves when its
    descriptor arrives or a layout is made.
    """

    def __init__(self, most: int = DEFAULT_LIMITS.undescribed) -> None:
        """Start empty.

        At most `most` topics are stored.
        """
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
        """Remove a topic, if present."""
        self._topics.discard(topic)

    def clear(self) -> None:
        """Remove all topics."""
        self._topics.clear()

    def without(self, numbers: list[int], topics: Sequence[str], now_s: float) -> list[int]:
        """Return the places of messages of other topics.

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
    """Paths with undescribed telemetry."""

    HEARD_WITHIN_S = 30.0
    """Silence after which a path is forgotten, or after twice this time at the latest."""

    def __init__(self, most: int = DEFAULT_LIMITS.undescribed) -> None:
        """Start empty.

        At most `most` paths are counted.
        """
        self._most = most
        self.chips: set[str] = set()
        """Paths of chips."""
        self.others: set[str] = set()
        """Paths with frames or host metrics."""
        self.topics: dict[str, tuple[str, str]] = {}
        """By topic: its path and the path of its missing descriptor."""
        self._heard_s = -math.inf
        self._began_s = -math.inf
        self._former: frozenset[str] = frozenset()
        """Paths heard before the last layout or the last `HEARD_WITHIN_S`."""
        self._former_until_s = -math.inf

    def hear(self, path: str, now_s: float) -> None:
        """Add a path after a message of it."""
        if now_s - self._began_s > self.HEARD_WITHIN_S:
            is_over = now_s - self._heard_s > self.HEARD_WITHIN_S
            self._former = frozenset() if is_over else frozenset(self.chips | self.others)
            self._former_until_s = now_s + self.HEARD_WITHIN_S
            self.chips, self.others = set(), set()
            self.topics.clear()
            self._began_s = now_s
        is_new = path not in self.others and path not in self.chips
        if is_new and len(self.chips) + len(self.others) < self._most:
            (self.chips if address.level_of(path) is Level.CHIP else self.others).add(path)
        self._heard_s = now_s

    def renew(self, undescribed: Callable[[set[str]], set[str]]) -> Slices[None]:
        """Wait for all paths again.

        Missing ones count until each had time to return.

        Args:
            undescribed: Returns the paths without a descriptor among some paths, not of chips.
        """
        former = undescribed(self.others)
        chips = list(self.chips)
        for begin in range(0, len(chips), SLICE):
            yield
            part = chips[begin : begin + SLICE]
            instances = undescribed({address.parent(path) for path in part})
            former.update(path for path in part if address.parent(path) in instances)
        self.chips, self.others = set(), set()
        self._former, self._former_until_s = frozenset(former), self._heard_s + self.HEARD_WITHIN_S

    def counts(self, now_s: float) -> tuple[int, int]:
        """Return the numbers of chips and of other paths.

        Instances of these chips are not counted among the others, if known.
        """
        if now_s - self._heard_s > self.HEARD_WITHIN_S:
            return 0, 0
        chips = self.chips
        others = self.others
        if self._former and now_s < self._former_until_s:
            former_chips = {path for path in self._former if address.level_of(path) is Level.CHIP}
            chips = chips | former_chips
            others = others | (self._former - former_chips)
        if not chips:
            return 0, len(others)
        return len(chips), len(others - {address.parent(path) for path in chips})
