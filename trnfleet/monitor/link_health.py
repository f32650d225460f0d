"""Health of the link to the sources.

Own failures do not count as their silence.

Three things of our own stop messages: no connection, or one without any messages; a pause of this
process, such as SIGSTOP; and a backlog, here or at the broker. During the first, rules about the
fleet pause. After each of them every source has its three periods again, plus the time it may need
to reconnect. `publisher_breaks.py` handles breaks of single publishers, `link_outages.py` breaks of
one connection among several. The module reads no clock.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.monitor.link_outages import RECONNECT_S, LinkOutages
from trnfleet.monitor.publisher_breaks import QUIET_FROM_PERIODS, QUIET_FROM_S, PublisherBreaks
from trnfleet.monitor.store.store import STALE_AFTER_PERIODS, Freshness
from trnfleet.wire.ports import RECORDING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.monitor.store.store import Store
    from trnfleet.wire.ports import LinkStatus

PAUSE_FROM_S = 1.0
"""Least delay of the loop to count as a pause of the process. The longest slice of work is far
shorter."""
BEHIND_FROM_S = 2.0
"""Age of applied messages above which the monitor is behind. Two ticks of a usual source."""
KNOWN_FOR_S = 1.0
"""Seconds the age of the last applied message is valid for the queue."""
PERIOD_PARTS = 10
"""Parts of a period for counting late messages."""
LOSS_WINDOW_S = 3.0
LOSSY_FROM = 0.5
"""Share of messages with a sequence gap above which silence means loss. Needs most topics at once.
"""
LOSSY_OVERLOADED_FROM = 0.1
"""`LOSSY_FROM` while this monitor sheds telemetry.

The broker's queue for it then drops messages as well. Of ten thousand hosts ten would miss three in
a row.
"""
OVERLOAD_GAP_S = 5.0
"""Overloads less than this apart count as one."""
TOLD_FROM_S = 3.0
"""Length of an overload from which the rule about it fires, as `config/alerts/pipeline.toml` has
it."""
THINNED_FOR_S = 10.0
"""Seconds without an equally thinned topic before a recording counts as thinned less."""
JOINS_FROM = 1_000
"""Instances whose retained messages fill Mosquitto's queue for a client. It then drops telemetry
beside them."""
JOINS_FOR_S = 10.0
"""Seconds after a large layout for the first telemetry of all its instances. Assumed."""
JOINS_WITHIN_S = 120.0
"""Longest time after a connection for joining."""
LEAST_MESSAGES = 10
"""Fewest messages of a window for a meaningful share."""
JUDGED_WITHIN_S = 0.4
"""Longest time between two freshness checks without messages, and at most half a period. A seventh
of the time before a source with one message a second is stale."""
MOST_PERIODS = 9.0
"""Periods after which values are stale even while most messages are lost. They are not shown as
live for long."""


class Lateness:
    """Share of late messages over a period of the usual source."""

    def __init__(self) -> None:
        self._part_s = 0.0
        self._parts: deque[tuple[int, int, int]] = deque()
        """Number, messages and late messages of each part of the period."""

    @property
    def is_of_most(self) -> bool:
        """Whether most messages were late."""
        return 2 * sum(late for _, _, late in self._parts) > sum(
            messages for _, messages, _ in self._parts
        )

    def add(self, now_s: float, messages: int, *, is_late: bool, period_s: float) -> None:
        """Add the messages of a batch, and drop those older than a period.

        So each source counts with one message.
        """
        part_s = max(KNOWN_FOR_S, period_s) / PERIOD_PARTS
        parts = self._parts
        part = math.floor(now_s / part_s)
        late = messages if is_late else 0
        if part_s != self._part_s or (parts and parts[-1][0] > part):
            self._part_s = part_s
            parts.clear()
        while parts and parts[0][0] <= part - PERIOD_PARTS:
            parts.popleft()
        if parts and parts[-1][0] == part:
            _, before, late_before = parts.pop()
            messages = messages + before
            late = late + late_before
        parts.append((part, messages, late))


class LinkHealth:
    """Reachability of one monitor for messages of the sources."""

    def __init__(self, proof_s: float = 0.0) -> None:
        """Start without any message heard.

        Args:
            proof_s: Seconds without any message of the fleet before a working connection is proven
                whole: the broker has then sent the last wills of lost publishers, so silence is the
                sources' own. 0 if a connection cannot fail unnoticed.
        """
        self.since_s = -math.inf
        """Monotonic seconds since the last break."""
        self.is_cut_off = False
        """Whether nothing can be heard: not connected, or the connection is in doubt."""
        self._proof_s = proof_s
        self._cut_off_since_s = 0.0
        self._is_in_doubt = False
        self._proven_s = -math.inf
        """Last message before a silence found to be the sources' own."""
        self._connects: int | None = None
        self._more_s = 0.0
        self._is_settled = True
        self._applied = (0.0, -math.inf)
        """Age of the last applied message, and when."""
        self._lag = (0.0, -math.inf)
        """Median lag of the last batch, and when. Late batches are left out while most messages are
        in time."""
        self._lateness = Lateness()
        self._loss_mark = (-math.inf, 0, 0)
        self._lossy = 0.0
        self._lossy_from = LOSSY_FROM
        self._alive_s: float | None = None
        self._overloaded = (math.inf, -math.inf)
        """Since when the monitor has been overloaded, and when it was last."""
        self._late_here_s = -math.inf
        """Last time this monitor shed telemetry or applied it long after arrival. Telemetry late
        only by its sources' clocks may be late because of them."""
        self._shed = self._lost = self._lost_before = 0
        self._laid_out = (-1, -math.inf)
        """The layout's generation, and since when it is known."""
        self._thinned = (0, -math.inf)
        """Messages of a topic left out between two by a recording, and when last seen."""
        self.heard_s = -math.inf
        """Monotonic seconds of the last message of a source. A watch's messages, such as the alert
        about this very outage, do not count."""
        self._breaks = PublisherBreaks(proof_s)
        self._outages = LinkOutages()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickles, without the connections: a past monitor has another."""
        return self.__dict__ | {"_connects": None, "_outages": LinkOutages()}

    def update(self, now_s: float, link: LinkStatus, store: Store, counts: PipelineCounts) -> None:
        """Update the health, before freshness is judged.

        Args:
            now_s: Monotonic seconds.
            link: The connection.
            store: For the periods of live rows.
            counts: For the share of lost messages.
        """
        self._measure_loss(now_s, counts)
        self.tell_own_loss(now_s, link, store, counts)
        if link.parts:
            self._outages.update(now_s, link.parts, store)
        first = self._connects is None
        again = link.connects != self._connects
        self._connects = link.connects
        if not link.connected:
            if not self.is_cut_off:
                self._begin(link.changed_s if not first else now_s)
            self._is_in_doubt = False
            return
        if self.is_cut_off and not self._is_in_doubt:
            self.resume(now_s, now_s - self._cut_off_since_s)
        elif again and not first:
            # It was lost and made between two passes.
            self.resume(now_s, KNOWN_FOR_S)
        else:
            self._doubt(now_s, store, waiting=link.waiting)
        if self.is_behind(now_s):
            self.resume(now_s, 0.0)

    def follow(self, now_s: float, store: Store) -> None:
        """Follow the breaks of publishers, once freshness has been judged."""
        self._breaks.update(now_s, self.since_s, store)

    def resume(self, now_s: float, missed_s: float) -> None:
        """Begin to hear again after a break of some length."""
        self.is_cut_off = self._is_in_doubt = False
        was_until_s = self.since_s + self._more_s
        self.since_s = now_s
        # A short break within the time to connect again does not cut that time short.
        self._more_s = max(min(RECONNECT_S, missed_s), was_until_s - now_s)
        self._is_settled = False

    def wake(self, now_s: float, slept_s: float = 0.0) -> None:
        """Record a turn of the loop.

        A delay beyond the intended sleep was a pause of the process.
        """
        before = self._alive_s
        self._alive_s = now_s
        if before is None:
            return
        late_s = now_s - before - max(0.0, slept_s)
        if late_s > PAUSE_FROM_S and not self.is_cut_off:
            self.resume(now_s, late_s)

    def take(self, received_s: float, now_s: float) -> None:
        """Record the application of a message from `received_s`; 0 if unknown."""
        if received_s:
            self._applied = now_s - received_s, now_s

    def note_lag(self, lag_s: float, messages: int, now_s: float, period_s: float) -> None:
        """Record the typical lateness of a batch by its sources' clocks.

        A batch of a small fleet may be of one host with a slow clock or a stall: that says nothing
        about this monitor.

        Args:
            lag_s: Median of the lags.
            messages: Number of messages.
            now_s: Monotonic seconds.
            period_s: Publishing period of the usual source. Most messages within it must be late.
        """
        is_late = lag_s >= BEHIND_FROM_S
        self._lateness.add(now_s, messages, is_late=is_late, period_s=period_s)
        if is_late and not self._lateness.is_of_most:
            return
        self._lag = lag_s, now_s
        if lag_s >= BEHIND_FROM_S and not self.is_cut_off:
            # At once: the next pass may come when this is not known any more.
            self.resume(now_s, 0.0)

    def note_thinned(self, left_out: int, now_s: float) -> None:
        """Record the most messages a recording left out between two of a topic.

        Only topics of the messages being applied count.
        """
        if left_out >= self._thinned[0] or now_s - self._thinned[1] > THINNED_FOR_S:
            self._thinned = left_out, now_s

    def tell_own_loss(
        self, now_s: float, link: LinkStatus, store: Store, counts: PipelineCounts
    ) -> None:
        """Count losses as unheard while the monitor joins a large fleet or is behind.

        Such losses are not the fleet's. Call this before each reading of the counts: otherwise they
        briefly show as losses of the fleet. Telemetry late only by its sources' clocks may be late
        because of them: its losses are excluded only once the overload has its own alert, and then
        from its beginning.
        """
        self._note_load(now_s, counts.shed)
        if self._laid_out[0] != store.generation:
            self._laid_out = store.generation, now_s
        is_joining = (
            now_s - self._laid_out[1] < JOINS_FOR_S
            and now_s - link.changed_s < JOINS_WITHIN_S
            and link.protocol != RECORDING
            and len(store.layout.instances) >= JOINS_FROM
        )
        is_overloaded = now_s - self._overloaded[1] < OVERLOAD_GAP_S
        if now_s - self._late_here_s < OVERLOAD_GAP_S or self.overloaded_s(now_s) > TOLD_FROM_S:
            counts.unheard = max(0, counts.lost - self._lost_before)
        elif is_joining:
            counts.unheard = max(0, counts.lost - self._lost)
        self._lost = counts.lost - counts.unheard
        if not is_overloaded:
            self._lost_before = self._lost

    def behind_s(self, now_s: float) -> float:
        """Return the delay in seconds of applied messages since arrival here or sending."""
        return max(
            value_s if now_s - at_s < KNOWN_FOR_S else 0.0
            for value_s, at_s in (self._applied, self._lag)
        )

    def is_behind(self, now_s: float) -> bool:
        """Return whether too many messages wait or are lost to judge silence."""
        return self.behind_s(now_s) >= BEHIND_FROM_S or self._lossy >= self._lossy_from

    def unheard_s(self, now_s: float) -> float:
        """Return for how long nothing can be heard; 0 while something can."""
        return max(0.0, now_s - self._cut_off_since_s) if self.is_cut_off else 0.0

    def heard_since(self) -> tuple[float, tuple[float, ...]]:
        """Return the monotonic seconds of the last break, in all and per connection.

        Empty per connection if there is only one.
        """
        return self.since_s, self._outages.since_s

    def behind_outages(self, now_s: float, store: Store) -> NDArray[np.bool_] | None:
        """Return a mask of instances unheard because their connection alone is lost.

        None if there are none.
        """
        return self._outages.unsettled(now_s, store)

    def longest_outage_s(self, now_s: float) -> float:
        """Return the seconds of the present outage, in all or of one connection.

        0 while everything is heard.
        """
        return max(self.unheard_s(now_s), self._outages.longest_s(now_s))

    def heard_for_s(self, now_s: float) -> float:
        """Return the seconds since the last break, at most 1e9."""
        return 0.0 if self.is_cut_off else min(1e9, now_s - self.since_s)

    def overloaded_s(self, now_s: float) -> float:
        """Return the seconds the monitor has been behind or shedding; 0 if it is not."""
        since_s, last_s = self._overloaded
        return max(0.0, last_s - since_s) if now_s - last_s < OVERLOAD_GAP_S else 0.0

    def stale_periods(self) -> float:
        """Return the periods before values are stale.

        More while most messages are lost, so that the state does not flap.
        """
        as_kept = STALE_AFTER_PERIODS + self._thinned[0]
        if self._lossy < self._lossy_from:
            return as_kept
        return max(as_kept, min(MOST_PERIODS, STALE_AFTER_PERIODS / max(1e-3, 1.0 - self._lossy)))

    def unsettled(self, now_s: float, store: Store) -> NDArray[np.bool_] | None:
        """Return a mask of instances not heard for long enough to judge their silence.

        None if there are none.
        """
        if self.is_cut_off:
            return np.ones(len(store.period_s), np.bool_)
        broken = _either(
            self._breaks.unsettled(now_s, store), self._outages.unsettled(now_s, store)
        )
        if self._is_settled:
            return broken
        mask: NDArray[np.bool_] = (
            now_s < self.since_s + self._more_s + STALE_AFTER_PERIODS * store.period_s
        )
        if not mask.any():
            self._is_settled = True
            return broken
        return _either(mask, broken)

    def _begin(self, since_s: float) -> None:
        self.is_cut_off = True
        self._cut_off_since_s = since_s

    def _doubt(self, now_s: float, store: Store, *, waiting: int) -> None:
        """Doubt a connection without any messages until it is heard again or proven.

        Args:
            now_s: Monotonic seconds.
            store: For the periods of live rows.
            waiting: Received messages not yet applied. If there are any, the connection is not
                silent: this monitor is behind.
        """
        if not self._proof_s or (waiting and not self._is_in_doubt):
            return
        heard_s = self.heard_s
        # What came before a pause of ours says nothing of the time after it.
        quiet_s = now_s - max(heard_s, self.since_s)
        if self._is_in_doubt:
            if heard_s > self._cut_off_since_s:
                self.resume(now_s, now_s - self._cut_off_since_s)
            elif quiet_s >= self._proof_s:
                self.is_cut_off = False
                self._is_in_doubt = False
                self._proven_s = heard_s
        elif (
            quiet_s > QUIET_FROM_S
            and heard_s != self._proven_s
            and len(store.period_s)
            and quiet_s > QUIET_FROM_PERIODS * float(store.period_s.min())
        ):
            # Of what is live the shortest period may be longer.
            live = store.chip_state == Freshness.LIVE.value
            if not live.any():
                return
            period_s = float(store.period_s[store.layout.instance_of_chip[live]].min())
            if quiet_s > max(QUIET_FROM_S, QUIET_FROM_PERIODS * period_s):
                self._is_in_doubt = True
                self._begin(max(heard_s, self.since_s))

    def _note_load(self, now_s: float, shed: int) -> None:
        is_shedding = shed > self._shed
        self._shed = shed
        if is_shedding or self.behind_s(now_s) >= BEHIND_FROM_S:
            since_s, last_s = self._overloaded
            self._overloaded = (since_s if now_s - last_s < OVERLOAD_GAP_S else now_s), now_s
        age_s, applied_s = self._applied
        if is_shedding or (now_s - applied_s < KNOWN_FOR_S and age_s >= BEHIND_FROM_S):
            self._late_here_s = now_s
        is_overloaded = now_s - self._overloaded[1] < OVERLOAD_GAP_S
        self._lossy_from = LOSSY_OVERLOADED_FROM if is_overloaded else LOSSY_FROM

    def _measure_loss(self, now_s: float, counts: PipelineCounts) -> None:
        marked_s, messages, gaps = self._loss_mark
        if now_s - marked_s < LOSS_WINDOW_S:
            return
        self._loss_mark = now_s, counts.messages, counts.gaps
        came = counts.messages - messages
        is_known = came >= LEAST_MESSAGES and math.isfinite(marked_s)
        self._lossy = (counts.gaps - gaps) / came if is_known else 0.0


def _either(
    one: NDArray[np.bool_] | None, other: NDArray[np.bool_] | None
) -> NDArray[np.bool_] | None:
    return other if one is None else one if other is None else one | other


class Judgements:
    """Time and inputs of the last freshness check."""

    def __init__(self) -> None:
        self._of: tuple[int, bool, int] | None = None
        self._at_s = -math.inf

    def is_due(self, now_s: float, revision: int, link: LinkStatus, period_s: float) -> bool:
        """Return whether freshness is to be judged now, and note it.

        Args:
            now_s: Monotonic seconds.
            revision: Of the store.
            link: The connection.
            period_s: Publishing period of the usual source.
        """
        inputs = (revision, *link.changes)
        if inputs == self._of and now_s - self._at_s < min(JUDGED_WITHIN_S, period_s / 2):
            return False
        self._of = inputs
        self._at_s = now_s
        return True
