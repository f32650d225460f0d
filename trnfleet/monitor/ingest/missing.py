"""Retained messages not received although their topics are known, to be requested when due.

A path with telemetry has a descriptor at `node/{path}`. A publisher named by a descriptor has its
presence at `publisher/{client}`. A broker may have withheld them (`Source.request_retained`). The
cost is zero if nothing is missing, and no call scans everything missing.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Any

from trnfleet.wire.topics import TopicClass

ASKED = frozenset({TopicClass.NODE, TopicClass.PUBLISHER, TopicClass.ACK})
"""Classes of messages that are asked for."""
GRACE_S = 0.5
"""Wait for a message to arrive by itself. Retained messages arrive at once, but beside telemetry.
"""
HELD_S = 10.0
"""Longest time in which presences are requested after descriptors. Audible hosts wait for the
latter."""
AT_ONCE = 2_048
"""Messages checked in one call: as many new ones and as many due ones. 3 ms."""
AGAIN_S = (5.0, 300.0)
"""First and longest wait before a message still missing is requested again. The wait doubles."""


class MissingState:
    """The missing messages by class and the path of their topic."""

    def __init__(self, most: int) -> None:
        """Start empty.

        At most `most` messages are tracked.
        """
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
        """Heap of requests: next time, number for stable order, wait after it, message."""
        self._number = 0
        self._refused: set[tuple[TopicClass, str]] = set()
        """Messages received and refused. A new request would only count them again."""

    def __len__(self) -> int:
        """Return how many messages are missing."""
        return len(self._heard)

    @property
    def descriptors(self) -> int:
        """Number of descriptors among them."""
        return self._nodes

    def __getstate__(self) -> dict[str, Any]:
        """Return an empty state for pickles: a past monitor has no broker to ask."""
        return vars(MissingState(self._most))

    def hear(self, topic_class: TopicClass, path: str) -> None:
        """Note a missing message, at every sign of it."""
        key = topic_class, path
        if key in self._refused:
            return
        if key in self._heard:
            self._heard[key] = True
        elif len(self._fresh) + len(self._held) + len(self._due) < self._most:
            self._heard[key] = True
            self._nodes += topic_class is TopicClass.NODE
            self._fresh.append(key)

    def note_arrival(self, topic_class: TopicClass, path: str) -> None:
        """Note the arrival of a message, or its end."""
        self._forget((topic_class, path))
        self._refused.discard((topic_class, path))

    def refused(self, topic_class: TopicClass, path: str) -> None:
        """Note an unusable message.

        It is not requested until another one replaced it.
        """
        self._forget((topic_class, path))
        if topic_class in ASKED and len(self._refused) < self._most:
            self._refused.add((topic_class, path))

    def due(self, now_s: float) -> list[tuple[TopicClass, str]]:
        """Return the requests due now, up to the limit of one call.

        Messages not noted as missing again since their last request are forgotten.

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
