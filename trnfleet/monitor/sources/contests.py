"""Contests: publishers that replace each other on a path or a client id.

A publisher that replaces another leaves a few late messages of the old one. In a contest both go
on: telemetry of the described publisher arrives again after the other's, or a client id returns to
an earlier boot. It is unknown then which values are right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

FROM_S = 3.0
"""Seconds of alternating messages on a path for a contest to begin."""
OVER_AFTER_S = 60.0
"""Seconds without an alternation for a contest to end. Longer than any client's pause before it
connects again."""
MOST_PAIRS = 100
MOST_PATHS = 10_000
"""Most pairs told apart, counted paths of each, and checked clients and paths."""
BOOTS = 4
"""Earlier boots of a client remembered for a return."""
UNANNOUNCED = "an unannounced publisher"


class Contest:
    """Two publishers of the same paths, or two boots of one client id."""

    __slots__ = ("first_s", "last_s", "paths")

    def __init__(self, first_s: float) -> None:
        self.first_s = self.last_s = first_s
        self.paths: set[str] = set()


class Contests:
    """The contests of one fleet."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], Contest] = {}
        """Keyed by described publisher and the other's boot. For a client id, by itself twice."""
        self._heard_s: dict[str, float] = {}
        """When a boot not named by the descriptor was last heard, by path."""
        self._boots: dict[str, tuple[str, ...]] = {}
        """Earlier boots of clients that have booted again."""

    def note(self, path: str, boot: str, described: str, now_s: float, seen_s: float) -> bool:
        """Record a message from a boot not named by the path's descriptor.

        Return whether both publishers alternate.

        Args:
            path: The path.
            boot: The boot of the message.
            described: The publisher in the descriptor.
            now_s: Monotonic seconds.
            seen_s: When the described publisher was last heard on the path.
        """
        before_s = self._heard_s.pop(path, None)
        if before_s is None and len(self._heard_s) >= MOST_PATHS:
            return False
        self._heard_s[path] = now_s
        # Messages of one batch have one time.
        if before_s is not None and before_s <= seen_s and now_s - before_s <= OVER_AFTER_S:
            self._turn((described, boot), path, now_s, now_s)
        contest = self._of.get((described, boot))
        return (
            contest is not None and path in contest.paths and now_s - contest.last_s <= OVER_AFTER_S
        )

    def note_boot(self, client: str, former: str, boot: str, now_s: float) -> None:
        """Record a boot of a client.

        A return to an earlier boot shows that both run.
        """
        if former in {"", boot}:
            return
        boots = self._boots.pop(client, ())
        if len(self._boots) >= MOST_PATHS:
            del self._boots[next(iter(self._boots))]
        self._boots[client] = (*boots, former)[-BOOTS:]
        if boot in boots:
            self._turn((client, ""), client, now_s, now_s - FROM_S)

    def _turn(self, key: tuple[str, str], path: str, now_s: float, first_s: float) -> None:
        contest = self._of.get(key)
        if contest is None or now_s - contest.last_s > OVER_AFTER_S:
            self._of = {
                pair: other
                for pair, other in self._of.items()
                if now_s - other.last_s <= OVER_AFTER_S
            }
            if len(self._of) >= MOST_PAIRS:
                return
            contest = self._of[key] = Contest(first_s)
        contest.last_s = now_s
        if len(contest.paths) < MOST_PATHS:
            contest.paths.add(path)

    def is_open(self, now_s: float) -> bool:
        """Return whether the next seconds show whether there is a contest."""
        newest_s = next(reversed(self._heard_s.values()), None)
        return newest_s is not None and now_s - newest_s <= FROM_S and not self._present(now_s)

    def pairs(self, now_s: float, client_of: Callable[[str], str]) -> dict[str, int]:
        """Return the contested paths per pair of names, such as `sim-1 and sim-2`.

        Two boots of one client id have the same name twice.

        Args:
            now_s: Monotonic seconds.
            client_of: Returns the publisher of a boot; empty for an unknown one.
        """
        paths: dict[str, set[str]] = {}
        for (described, boot), contest in self._present(now_s).items():
            other = (client_of(boot) or UNANNOUNCED) if boot else described
            paths.setdefault(" and ".join(sorted((described, other))), set()).update(contest.paths)
        return {name: len(contested) for name, contested in paths.items()}

    def _present(self, now_s: float) -> dict[tuple[str, str], Contest]:
        return {
            key: contest
            for key, contest in self._of.items()
            if contest.last_s - contest.first_s >= FROM_S and now_s - contest.last_s <= OVER_AFTER_S
        }
