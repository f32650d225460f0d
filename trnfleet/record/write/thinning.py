"""Thinning of the past: of more telemetry than it can follow, every second, third and so on message of each topic is kept.

Each message that is kept says how many of its topic before it were left out, so that they are no loss when it is played. State and
events are always kept. It goes by the times of messages and reads no clock.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trnfleet.wire.ports import Envelope

MOST_KEPT_PER_S = 16_000
"""Messages a second that are all kept: one takes 5 us by itself, half of it for the compression, and 7 to 12 beside a reader of
62,500 (measured), so that these are a fifth of a core at most."""
RATE_OVER_S = 4.0
"""Time over which their rate is taken: some ticks, of which a part more or less says little."""
FULL_FROM = 0.5
"""Share of the queue before the file from which twice as many are left out, whatever their rate."""
BEHIND_FROM = 0.1
"""Messages shed for each that came from which the same is done where much comes: what is live is before the past."""
LESS_AFTER_S = 30.0
"""Time for which fewer would do before fewer are left out."""
MOST_LEFT_OUT = 64
"""Of that many messages one is kept at least."""
FORGOTTEN_AFTER_S = 600.0
"""Time without a message after which a topic is forgotten, at twice that at the latest."""
SPREAD_S = 8.0
"""Time over which topics come for which fewer are left out than had been: all at once they would fill the queue."""
_MOST_TOPICS = 131_072
"""Topics that have come last and are known; as many of before them, until these are as many again."""
_MOST_CHANGES = 256


class Thinning:
    """Which messages are kept, by how many come and how many wait to be written."""

    def __init__(
        self, is_telemetry: Callable[[str], bool], most_per_s: int = MOST_KEPT_PER_S
    ) -> None:
        """Begin with all of them.

        Args:
            is_telemetry: Whether a topic is one of telemetry.
            most_per_s: Messages a second that are all kept.
        """
        self._usual = 1
        """Of that many messages of a topic one is kept by what comes and what waits."""
        self._gives_way = False
        self._is_telemetry = is_telemetry
        self._most_per_s = most_per_s
        self._left_out: dict[str, int] = {}
        """Messages since the last one that was kept, by topic."""
        self._former: dict[str, int] = {}
        """The same of topics of which nothing has come since the last turn: they are forgotten with the next."""
        self._turns, self._turned_s = 0, -FORGOTTEN_AFTER_S
        self._since_s: float | None = None
        self._count = self._shed = 0
        """Messages since then, and those that were shed before they came here."""
        self._fewer_since_s: float | None = None
        """Since when fewer would do."""
        self._needed = 1
        """The most that was needed since then."""
        self._full_at_s = -LESS_AFTER_S
        self._fewer_at_s = -math.inf
        """When fewer were left out than before, last."""
        self._changes: list[tuple[int, int]] = []
        """Times, ns since 1970, and what held from each on."""

    @property
    def one_in(self) -> int:
        """Of that many messages of a topic one is kept."""
        return MOST_LEFT_OUT if self._gives_way else self._usual

    @property
    def known(self) -> int:
        """Topics that are known."""
        return len(self._left_out) + len(self._former)

    def at(self, time_ns: int) -> int:
        """Return of how many messages of a topic one was kept at a time, ns since 1970."""
        place = bisect_right(self._changes, time_ns, key=lambda change: change[0])
        return self._changes[place - 1][1] if place else 1

    def keep(
        self,
        batch: Sequence[Envelope],
        filled: float,
        to_ns: Callable[[float], int],
        *,
        gives_way: bool = False,
    ) -> Sequence[Envelope]:
        """Return what is kept of a batch.

        Args:
            batch: What came.
            filled: Share of the queue that is taken.
            to_ns: Returns the time, ns since 1970, of monotonic seconds.
            gives_way: Whether the reader has more urgent work, for which as few as ever are kept of what is too much in any case.
        """
        if not batch:
            return batch
        now_s = batch[-1].received_s
        self._shed += sum([envelope.shed for envelope in batch])
        before = self.one_in
        self._measure(len(batch), filled, now_s, gives_way=gives_way)
        self._gives_way = gives_way and self._usual > 1
        if self.one_in != before:
            self._note_change(before, now_s, to_ns)
        knows_any = bool(self._left_out or self._former)
        return self._thinned(batch, now_s) if self.one_in > 1 or knows_any else batch

    def _measure(self, count: int, filled: float, now_s: float, *, gives_way: bool) -> None:
        since_s = now_s if self._since_s is None else self._since_s
        passed_s = now_s - since_s
        self._count += count
        is_behind = (
            self._count > self._most_per_s
            and self._shed > self._count * BEHIND_FROM
            and not gives_way
        )
        if (filled >= FULL_FROM or is_behind) and now_s - self._full_at_s >= 1.0:
            self._full_at_s = now_s
            self._change(min(MOST_LEFT_OUT, 2 * self._usual))
        if 0 <= passed_s < RATE_OVER_S and self._since_s is not None:
            # Of a fleet that an app joins more may have come already than is kept in all of that time.
            needed = min(MOST_LEFT_OUT, -int(-self._count // (self._most_per_s * RATE_OVER_S)))
            if needed > self._usual:
                self._change(needed)
            return
        rate = self._count / passed_s if passed_s > 0 else 0.0
        self._since_s, self._count, self._shed = now_s, 0, 0
        if now_s - self._turned_s >= FORGOTTEN_AFTER_S:
            self._turned_s = now_s
            self._turn()
        needed = max(1, min(MOST_LEFT_OUT, -int(-rate // self._most_per_s)))
        if needed > self._usual:
            self._change(needed)
        if needed >= self._usual:
            self._fewer_since_s = None
        elif self._fewer_since_s is None or now_s - self._full_at_s < RATE_OVER_S:
            self._fewer_since_s, self._needed = now_s, needed
        else:
            self._needed = max(self._needed, needed)
            if now_s - self._fewer_since_s >= LESS_AFTER_S:
                # What a full queue asked for goes by halves: it may be that it is needed.
                self._change(max(self._needed, self._usual // 2))

    def _change(self, one_in: int) -> None:
        self._usual, self._fewer_since_s = one_in, None

    def _note_change(self, before: int, now_s: float, to_ns: Callable[[float], int]) -> None:
        if self.one_in < before:
            self._fewer_at_s = now_s
        self._changes.append((to_ns(now_s), self.one_in))
        del self._changes[:-_MOST_CHANGES]

    def _turn(self) -> None:
        """Forget the topics of which nothing has come since the last turn."""
        self._former, self._left_out = self._left_out, {}
        self._turns += 1

    def _thinned(self, batch: Sequence[Envelope], now_s: float) -> list[Envelope]:
        one_in, kept = self.one_in, []
        # Of topics for which more was left out than is now, those whose hash is below this place of 1,024.
        overdue_below = (
            int(1_024 * (now_s - self._fewer_at_s) / SPREAD_S)
            if now_s - self._fewer_at_s < SPREAD_S
            else 1_024
        )
        left_out, former = self._left_out, self._former
        for envelope in batch:
            topic = envelope.topic
            left = left_out.get(topic)
            if left is None and former:
                left = former.pop(topic, None)
            if left is None:
                if envelope.retain or envelope.qos or not self._is_telemetry(topic):
                    kept.append(envelope)
                    continue
                if len(left_out) >= _MOST_TOPICS:
                    self._turn()
                    left_out, former = self._left_out, self._former
                # The first of all topics are not kept in the same tick, nor is one that is forgotten each time never kept.
                left = (hash(topic) + self._turns) % one_in
            # What was left out before it came here counts as well: it is a tick that is not there.
            left += envelope.shed
            is_left_out = left + 1 < one_in or (
                left + 1 > one_in and hash(topic) & 1_023 >= overdue_below
            )
            if is_left_out and not (envelope.retain or envelope.qos):
                left_out[topic] = left + 1
                continue
            if one_in > 1:
                left_out[topic] = 0
            else:
                left_out.pop(topic, None)
            kept.append(envelope._replace(shed=left) if left != envelope.shed else envelope)
        return kept
