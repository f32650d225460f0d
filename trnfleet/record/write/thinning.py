"""Thinning of the past: under load, 1 message in n per topic is recorded.

A recorded message has the number of its topic's messages left out before it, so that a replay does
not count them as lost. State and events are always recorded. Thinning uses the times of messages
and reads no clock.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trnfleet.wire.ports import Envelope

MOST_KEPT_PER_S = 16_000
"""Messages a second recorded without thinning. One costs 5 us by itself, half of it for
compression, and 7 to 12 us beside a reader of 62,500 messages a second (measured): at most a fifth
of a core."""
RATE_OVER_S = 4.0
"""Time over which the message rate is measured. It covers several ticks: part of a tick more or
less changes little."""
FULL_FROM = 0.5
"""Used share of the queue at which thinning doubles at any rate."""
BEHIND_FROM = 0.1
"""Shed messages per received one at which thinning doubles at a high rate. Live data goes before
the past."""
LESS_AFTER_S = 30.0
"""Time during which less thinning must suffice before it is reduced."""
MOST_LEFT_OUT = 64
"""Strongest thinning: at least 1 message in this many is recorded."""
FORGOTTEN_AFTER_S = 600.0
"""Time without messages until a topic is forgotten. It may take up to twice as long."""
SPREAD_S = 8.0
"""Time over which topics switch to less thinning. All at once would fill the queue."""
_MOST_TOPICS = 131_072
"""Most recent topics known. As many older ones are known until this number is reached again."""
_MOST_CHANGES = 256


class Thinning:
    """Choice of recorded messages, by rate and by the length of the queue."""

    def __init__(
        self, is_telemetry: Callable[[str], bool], most_per_s: int = MOST_KEPT_PER_S
    ) -> None:
        """Begin without thinning.

        Args:
            is_telemetry: Whether a topic is one of telemetry.
            most_per_s: Messages a second recorded without thinning.
        """
        self._usual = 1
        """1 of this many messages per topic is recorded, by rate and queue."""
        self._gives_way = False
        self._is_telemetry = is_telemetry
        self._most_per_s = most_per_s
        self._left_out: dict[str, int] = {}
        """Messages since the last recorded one, by topic."""
        self._former: dict[str, int] = {}
        """The same for topics without a message since the last turn. The next turn forgets them."""
        self._turns = 0
        self._turned_s = -FORGOTTEN_AFTER_S
        self._since_s: float | None = None
        self._count = self._shed = 0
        """Messages since then, and messages shed before they arrived here."""
        self._fewer_since_s: float | None = None
        """Time since which less thinning would suffice."""
        self._needed = 1
        """Strongest thinning needed since then."""
        self._full_at_s = -LESS_AFTER_S
        self._fewer_at_s = -math.inf
        """Time of the last reduction."""
        self._changes: list[tuple[int, int]] = []
        """Times (ns since 1970) with the value of `one_in` from then on."""

    @property
    def one_in(self) -> int:
        """1 of this many messages per topic is recorded."""
        return MOST_LEFT_OUT if self._gives_way else self._usual

    @property
    def known(self) -> int:
        """Number of known topics."""
        return len(self._left_out) + len(self._former)

    def at(self, time_ns: int) -> int:
        """Return the value of `one_in` at a time (ns since 1970)."""
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
        """Return the messages of a batch to record.

        Args:
            batch: The received messages.
            filled: Used share of the queue.
            to_ns: Converts monotonic seconds to ns since 1970.
            gives_way: Whether the reader has more urgent work. Thinning, if any, is then the
                strongest.
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
            # When an app joins a fleet, more may have arrived already than is stored in this time.
            needed = min(MOST_LEFT_OUT, -int(-self._count // (self._most_per_s * RATE_OVER_S)))
            if needed > self._usual:
                self._change(needed)
            return
        rate = self._count / passed_s if passed_s > 0 else 0.0
        self._since_s = now_s
        self._count = 0
        self._shed = 0
        if now_s - self._turned_s >= FORGOTTEN_AFTER_S:
            self._turned_s = now_s
            self._turn()
        needed = max(1, min(MOST_LEFT_OUT, -int(-rate // self._most_per_s)))
        if needed > self._usual:
            self._change(needed)
        if needed >= self._usual:
            self._fewer_since_s = None
        elif self._fewer_since_s is None or now_s - self._full_at_s < RATE_OVER_S:
            self._fewer_since_s = now_s
            self._needed = needed
        else:
            self._needed = max(self._needed, needed)
            if now_s - self._fewer_since_s >= LESS_AFTER_S:
                # Thinning of a full queue is reduced by halves: it may still be needed.
                self._change(max(self._needed, self._usual // 2))

    def _change(self, one_in: int) -> None:
        self._usual = one_in
        self._fewer_since_s = None

    def _note_change(self, before: int, now_s: float, to_ns: Callable[[float], int]) -> None:
        if self.one_in < before:
            self._fewer_at_s = now_s
        self._changes.append((to_ns(now_s), self.one_in))
        del self._changes[:-_MOST_CHANGES]

    def _turn(self) -> None:
        """Forget topics without a message since the last turn."""
        self._former = self._left_out
        self._left_out = {}
        self._turns += 1

    def _thinned(self, batch: Sequence[Envelope], now_s: float) -> list[Envelope]:
        one_in = self.one_in
        stored = []
        # Overdue topics with a hash (of 1,024) below this number are stored. More was left out for
        # them than is now.
        overdue_below = (
            int(1_024 * (now_s - self._fewer_at_s) / SPREAD_S)
            if now_s - self._fewer_at_s < SPREAD_S
            else 1_024
        )
        left_out = self._left_out
        former = self._former
        for envelope in batch:
            topic = envelope.topic
            left = left_out.get(topic)
            if left is None and former:
                left = former.pop(topic, None)
            if left is None:
                if envelope.retain or envelope.qos or not self._is_telemetry(topic):
                    stored.append(envelope)
                    continue
                if len(left_out) >= _MOST_TOPICS:
                    self._turn()
                    left_out = self._left_out
                    former = self._former
                # Spreads the first stored messages of topics over ticks. A topic forgotten each
                # time is stored sometimes.
                left = (hash(topic) + self._turns) % one_in
            # Messages shed before count as well: each is a missing tick.
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
            stored.append(envelope._replace(shed=left) if left != envelope.shed else envelope)
        return stored
