"""Retained messages that have not come although their topics are known: to be asked for, each at its time.

A path that publishes without a descriptor has one at `node/{path}`; a publisher that a descriptor names has its presence at
`publisher/{client}`. A broker may have withheld them (`Source.request_retained`). It costs nothing where nothing is missing, and
never looks through all that is.
"""

from __future__ import annotations

import heapq
from collections import deque

from trnfleet.wire.topics import TopicClass

ASKED = frozenset({TopicClass.NODE, TopicClass.PUBLISHER, TopicClass.ACK})
"""Classes of messages that are asked for."""
GRACE_S = 0.5
"""Time for which a message is given to come by itself: what is retained comes at once, but beside telemetry."""
HELD_S = 10.0
"""Longest time for which presences are asked for after descriptors: these are what hosts that are heard wait for."""
AT_ONCE = 2_048
"""Messages that are looked at in one call, of what is new and of what is due: 3 ms."""
AGAIN_S = (5.0, 300.0)
"""First wait before a message that has not come is asked for again, if it is still missing then, and the longest; it doubles."""


class MissingState:
    """The missing messages by class and the path of their topic."""

    def __init__(self, most: int) -> None:
        """Begin with none; of more than `most` no further ones are kept."""
        self._most = most
        self._heard: dict[tuple[TopicClass, str], bool] = {}
        """Whether each was missing again since it was last asked for."""
        self._fresh: deque[tuple[TopicClass, str]] = deque()
        self._held: deque[tuple[TopicClass, str]] = deque()
        """Presences that are asked for after all descriptors."""
        self._held_since_s = 0.0
        self._nodes = 0
        """Descriptors among what is missing."""
        self._due: list[tuple[float, int, float, tuple[TopicClass, str]]] = []
        """Heap of when each is asked for next, a number that keeps their order, and the wait after that."""
        self._number = 0
        self._refused: set[tuple[TopicClass, str]] = set()
        """Messages that have come and were refused: asked for, they would only be refused and counted once more."""

    def __len__(self) -> int:
        """Return how many messages are missing."""
        return len(self._heard)

    @property
    def descriptors(self) -> int:
        """How many of them are descriptors."""
        return self._nodes

    def copy(self) -> MissingState:
        """Return one in which nothing is missing: a copy of a monitor has no broker to ask."""
        return MissingState(self._most)

    def hear(self, topic_class: TopicClass, path: str) -> None:
        """Note that a message is missing; called whenever that shows."""
        key = topic_class, path
        if key in self._refused:
            return
        if key in self._heard:
            self._heard[key] = True
        elif len(self._fresh) + len(self._held) + len(self._due) < self._most:
            self._heard[key] = True
            self._nodes += topic_class is TopicClass.NODE
            self._fresh.append(key)

    def found(self, topic_class: TopicClass, path: str) -> None:
        """Note that a message has come, or that there is none any more."""
        self._forget((topic_class, path))
        self._refused.discard((topic_class, path))

    def refused(self, topic_class: TopicClass, path: str) -> None:
        """Note that a message has come and cannot be used: it is not asked for until another has come in its place."""
        self._forget((topic_class, path))
        if topic_class in ASKED and len(self._refused) < self._most:
            self._refused.add((topic_class, path))

    def due(self, now_s: float) -> list[tuple[TopicClass, str]]:
        """Return what is to be asked for now, as far as one call goes; what was not missing again since it was last asked for is forgotten.

        Args:
            now_s: Monotonic seconds.
        """
        for _ in range(min(len(self._fresh), AT_ONCE)):
            key = self._fresh.popleft()
            if key[0] is TopicClass.PUBLISHER and self._nodes:
                if not self._held:
                    self._held_since_s = now_s
                self._held.append(key)
            else:
                self._plan(key, now_s + GRACE_S, AGAIN_S[0])
        if self._held and (not self._nodes or now_s - self._held_since_s >= HELD_S):
            for _ in range(min(len(self._held), AT_ONCE)):
                self._plan(self._held.popleft(), now_s, AGAIN_S[0])
        asked: list[tuple[TopicClass, str]] = []
        for _ in range(AT_ONCE):
            if not self._due or self._due[0][0] > now_s:
                break
            _, _, wait_s, key = heapq.heappop(self._due)
            if self._heard.get(key):
                self._heard[key] = False
                asked.append(key)
                self._plan(key, now_s + wait_s, min(2 * wait_s, AGAIN_S[1]))
            else:
                self._forget(key)
        return asked

    def _forget(self, key: tuple[TopicClass, str]) -> None:
        if self._heard.pop(key, None) is not None:
            self._nodes -= key[0] is TopicClass.NODE

    def _plan(self, key: tuple[TopicClass, str], at_s: float, wait_s: float) -> None:
        self._number += 1
        heapq.heappush(self._due, (at_s, self._number, wait_s, key))
