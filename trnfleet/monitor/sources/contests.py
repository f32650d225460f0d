"""Paths that two publishers describe at once, such as two simulators of one fleet: each takes the place of the other.

A publisher that takes over from another leaves at most a few stragglers of that one; where both go on, nobody knows whose values
are right.
"""

from __future__ import annotations

from trnfleet.monitor.copies import copied

FROM_S = 5.0
"""Time for which messages of a replaced publisher keep coming from which both are taken to go on."""
OVER_AFTER_S = 30.0
"""Time without one after which the contest is over."""
MOST_PAIRS = 100
MOST_PATHS = 10_000
"""Pairs that are told apart, and paths of each that are counted."""


class Contest:
    """Two publishers of the same paths."""

    __slots__ = ("first_s", "last_s", "paths")

    def __init__(self, now_s: float) -> None:
        self.first_s = self.last_s = now_s
        self.paths: set[str] = set()


class Contests:
    """The contests of one fleet, by the names of the two publishers."""

    def __init__(self) -> None:
        self._of: dict[str, Contest] = {}

    def copy(self) -> Contests:
        """Return a copy; the contests themselves are shared, as they are seen again within seconds."""
        return copied(self, _of=self._of.copy())

    def note(self, path: str, one: str, other: str, now_s: float) -> None:
        """Note a message of a publisher on a path that another one describes now."""
        name = " and ".join(sorted((one, other)))
        contest = self._of.get(name)
        if contest is None or now_s - contest.last_s > OVER_AFTER_S:
            if contest is None and len(self._of) >= MOST_PAIRS:
                return
            contest = self._of[name] = Contest(now_s)
        contest.last_s = now_s
        if len(contest.paths) < MOST_PATHS:
            contest.paths.add(path)

    def pairs(self, now_s: float) -> dict[str, int]:
        """Return the number of contested paths by the names of the two, such as `sim-1 and sim-2`."""
        return {
            name: len(each.paths)
            for name, each in self._of.items()
            if each.last_s - each.first_s >= FROM_S and now_s - each.last_s <= OVER_AFTER_S
        }
