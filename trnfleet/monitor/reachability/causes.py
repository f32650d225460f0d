"""Causes of silence besides the sources themselves: when each begins and ends, what it explains.

Lost and doubtful connections, pauses of this process and backlogs are ours. Breaks of publishers
are theirs, but not their hosts'. Joining a large fleet explains losses, and a thinned recording a
longer period.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.monitor.freshness import STALE_AFTER_PERIODS, Freshness
from trnfleet.monitor.reachability.times import (
    BEHIND_FROM_S,
    JOINS_FROM,
    JOINS_WITHIN_S,
    KNOWN_FOR_S,
    LEAST_MESSAGES,
    LOSS_WINDOW_S,
    LOSSY_FROM,
    LOSSY_OVERLOADED_FROM,
    OVERLOAD_GAP_S,
    PAUSE_FROM_S,
    QUIET_FROM_PERIODS,
    QUIET_FROM_S,
    RECONNECT_S,
    TOLD_FROM_S,
)
from trnfleet.wire.ports import RECORDING, LinkStatus

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.monitor.store.store import Store


class Cause:
    """A time in which no source can be heard.

    After its end every source has as long to reconnect, and three periods to be heard.
    """

    loses_publishers = False
    """Whether publishers may lose their connection by it, too."""

    def __init__(self) -> None:
        self.since_s: float | None = None
        """Monotonic seconds of its beginning; None while it does not last."""
        self.ended_s = -math.inf
        self.back_s = -math.inf
        """When sources have reconnected after its last end."""
        self._wills_since_s = math.inf
        """Its beginning, if publishers may have lost their connection; else infinite."""

    def begins(self, since_s: float) -> None:
        """Begin, unless it lasts."""
        if self.since_s is None:
            self.since_s = since_s
            self._forget_wills(since_s)

    def ends(self, now_s: float, missed_s: float | None = None) -> None:
        """End, after `missed_s` seconds or since its beginning.

        A short break within the time to reconnect does not shorten that time.
        """
        missed_s = self.lasts_s(now_s) if missed_s is None else missed_s
        self.since_s = None
        self.ended_s = now_s
        self._forget_wills(now_s - missed_s)
        self.back_s = max(self.back_s, now_s + min(RECONNECT_S, missed_s))
        if missed_s >= RECONNECT_S and self.loses_publishers:
            self._wills_since_s = min(self._wills_since_s, now_s - missed_s)

    def _forget_wills(self, since_s: float) -> None:
        """Forget the wills of the former break, unless this one began before sources were back."""
        if since_s >= self.back_s:
            self._wills_since_s = math.inf

    def wills_since_s(self, now_s: float) -> float:
        """Return since when last wills may be due to it, until publishers are back.

        Infinite if none may.
        """
        is_over = self.since_s is None and now_s >= self.back_s
        return math.inf if is_over else self._wills_since_s

    def lasts_s(self, now_s: float) -> float:
        """Return for how long it has lasted; 0 while it does not."""
        return 0.0 if self.since_s is None else max(0.0, now_s - self.since_s)

    def explains(self, now_s: float, store: Store) -> NDArray[np.bool_] | None:
        """Return a mask of instances whose silence it explains; None for none."""
        if self.since_s is not None:
            return np.ones(len(store.period_s), np.bool_)
        mask: NDArray[np.bool_] = now_s < self.back_s + STALE_AFTER_PERIODS * store.period_s
        return mask if mask.any() else None


class LostConnection(Cause):
    """The loss of one connection: its broker, or the way there, is down."""

    loses_publishers = True

    def __init__(self) -> None:
        super().__init__()
        self.connects: int | None = None
        """Connects at the last look; None before it."""

    def update(self, now_s: float, link: LinkStatus) -> None:
        """Look at the connection."""
        is_first = self.connects is None
        if not link.connected:
            # Before the first connection no publisher was known.
            self.loses_publishers &= not is_first
            self.begins(now_s if is_first else link.changed_s)
        elif self.since_s is not None:
            self.ends(now_s)
            self.loses_publishers = True
        elif not is_first and link.connects != self.connects:
            # It was lost and made between two looks.
            self.ends(now_s, KNOWN_FOR_S)
        self.connects = link.connects


class LostConnections:
    """All connections of a fleet, one or several.

    The loss of one explains the silence of instances that are heard over no other.
    """

    def __init__(self) -> None:
        self.lost: list[LostConnection] = []

    def update(self, now_s: float, link: LinkStatus) -> None:
        """Look at the connections."""
        links = link.parts or (link,)
        if len(self.lost) != len(links):
            self.lost = [LostConnection() for _ in links]
        for lost, part in zip(self.lost, links, strict=True):
            lost.update(now_s, part)

    def forget_links(self) -> None:
        """Forget which connections these were, for others in their place."""
        for lost in self.lost:
            lost.connects = None

    @property
    def ended_s(self) -> float:
        """Monotonic seconds when the only connection was made again; -inf with several."""
        return self.lost[0].ended_s if len(self.lost) == 1 else -math.inf

    @property
    def ends_s(self) -> tuple[float, ...]:
        """The same for each of several connections."""
        return tuple(lost.ended_s for lost in self.lost) if len(self.lost) > 1 else ()

    def wills_since_s(self, now_s: float) -> float:
        """Return since when last wills may be due to an outage; infinite if none may."""
        return min((lost.wills_since_s(now_s) for lost in self.lost), default=math.inf)

    def lasts_s(self, now_s: float) -> float:
        """Return for how long no connection has stood; 0 while any does."""
        return min((lost.lasts_s(now_s) for lost in self.lost), default=0.0)

    @property
    def is_lost(self) -> bool:
        """Whether no connection stands."""
        return bool(self.lost) and all(lost.since_s is not None for lost in self.lost)

    def longest_s(self, now_s: float, store: Store) -> float:
        """Return the longest present loss of a connection with earlier messages."""
        if len(self.lost) == 1:
            return self.lost[0].lasts_s(now_s)
        heard = store.links_heard
        return max(
            (lost.lasts_s(now_s) for number, lost in enumerate(self.lost) if heard >> number & 1),
            default=0.0,
        )

    def explains(self, now_s: float, store: Store) -> NDArray[np.bool_] | None:
        """Return a mask of instances without a connection over which they could be heard."""
        masks = [lost.explains(now_s, store) for lost in self.lost]
        if len(masks) == 1 or all(mask is None for mask in masks):
            return masks[0] if masks else None
        heard = np.zeros(len(store.links_of), np.bool_)
        for number, mask in enumerate(masks):
            is_of_link = (store.links_of >> number) & 1 == 1
            heard |= is_of_link if mask is None else is_of_link & ~mask
        unheard: NDArray[np.bool_] = (store.links_of != 0) & ~heard
        return unheard


class HalfOpenConnection(Cause):
    """A connection without any message, which may be half open.

    It is in doubt until something is heard. Without anything for long enough it is proven whole:
    the broker has then sent the last wills of lost publishers.
    """

    def __init__(self, proof_s: float) -> None:
        """Start without a doubt.

        Args:
            proof_s: Seconds without any message until the proof; 0 if a connection cannot fail
                unnoticed.
        """
        super().__init__()
        self._proof_s = proof_s
        self._proven_s = -math.inf
        """Last message before a silence found to be the sources' own."""
        self._connects = 0
        self._received = 0
        self._spoke_s = math.inf
        """When others than sources were heard first in this doubt: the broker goes on."""

    def update(
        self, now_s: float, heard_s: float, listening_s: float, link: LinkStatus, store: Store
    ) -> None:
        """Doubt a connection that stands, or believe in it again.

        Args:
            now_s: Monotonic seconds.
            heard_s: When a source was heard last.
            listening_s: Since when one could be heard.
            link: The connection.
            store: For the periods of live rows.
        """
        if not self._proof_s:
            return
        # Messages before a pause of ours say nothing of the time after it.
        quiet_s = now_s - max(heard_s, listening_s)
        received = link.received - link.waiting
        if self.since_s is not None:
            if heard_s > self.since_s or link.connects != self._connects:
                self.loses_publishers = self._spoke_s - self.since_s >= RECONNECT_S
                self.ends(now_s)
            elif quiet_s >= self._proof_s:
                self.since_s = None
                self._proven_s = heard_s
            elif received != self._received:
                self._spoke_s = min(self._spoke_s, now_s)
        elif (
            not link.waiting
            and heard_s != self._proven_s
            and quiet_s > _quiet_from_s(quiet_s, store)
        ):
            self.begins(max(heard_s, listening_s))
            self._connects = link.connects
            self._received = received
            self._spoke_s = math.inf


def _quiet_from_s(quiet_s: float, store: Store) -> float:
    """Return the silence from which a connection is in doubt; infinite without live rows."""
    if quiet_s <= QUIET_FROM_S or not len(store.period_s):
        return math.inf
    if quiet_s <= QUIET_FROM_PERIODS * float(store.period_s.min()):
        return math.inf
    # The shortest period of live rows may be longer.
    live = store.chip_state == Freshness.LIVE.value
    periods_s = store.period_s[store.layout.instance_of_chip[live]]
    shortest_s = float(periods_s.min(initial=math.inf))
    return max(QUIET_FROM_S, QUIET_FROM_PERIODS * shortest_s)


class Pause(Cause):
    """A pause of this process, such as SIGSTOP."""

    def __init__(self) -> None:
        super().__init__()
        self._alive_s: float | None = None

    def wake(self, now_s: float, slept_s: float, *, is_cut_off: bool) -> None:
        """Record a turn of the loop; a delay beyond the intended sleep was a pause.

        Nothing is missed while nothing can be heard.
        """
        late_s = 0.0 if self._alive_s is None else now_s - self._alive_s - max(0.0, slept_s)
        self._alive_s = now_s
        if late_s > PAUSE_FROM_S and not is_cut_off:
            self.ends(now_s, late_s)


class Delay(NamedTuple):
    """A measured delay of messages."""

    seconds: float = 0.0
    at_s: float = -math.inf
    """Monotonic seconds of the measurement."""

    def now(self, now_s: float) -> float:
        """Return the seconds while the measurement is valid, then 0."""
        return self.seconds if now_s - self.at_s < KNOWN_FOR_S else 0.0


class BatchLateness(NamedTuple):
    """The lateness of a batch."""

    at_s: float
    messages: int
    is_late: bool


class Lateness:
    """Late messages over a period of the usual source, so that each source counts once."""

    def __init__(self) -> None:
        self._batches: deque[BatchLateness] = deque()

    def add(self, batch: BatchLateness, period_s: float) -> None:
        """Add a batch, and drop those older than a period."""
        self._batches.append(batch)
        while batch.at_s - self._batches[0].at_s >= max(KNOWN_FOR_S, period_s):
            self._batches.popleft()

    @property
    def is_of_most(self) -> bool:
        """Whether most messages were late."""
        late = sum(batch.messages for batch in self._batches if batch.is_late)
        return 2 * late > sum(batch.messages for batch in self._batches)


class Behind(Cause):
    """A backlog: messages are applied late, shed, or mostly lost on the way to this monitor.

    It ends whenever it was seen last.
    """

    def __init__(self) -> None:
        super().__init__()
        self._waited = Delay()
        """Since the arrival here, of the last batch."""
        self._lag = Delay()
        """By the clocks of most sources."""
        self._lateness = Lateness()
        self._shed = 0
        self._messages = 0
        self._gaps = 0
        self._measured_s = -math.inf
        self._loss = 0.0
        """Share of messages after a gap."""
        self._overloaded_since_s = math.inf
        self._overloaded_s = -math.inf
        """Last time messages were late or shed."""
        self._late_here_s = -math.inf
        """The same without lateness that may be due to sources' clocks."""

    def note_applied(self, received_s: float, now_s: float) -> None:
        """Record the application of a message from `received_s`; 0 if unknown."""
        if received_s:
            self._waited = Delay(now_s - received_s, now_s)

    def note_lag(self, lag_s: float, messages: int, now_s: float, period_s: float) -> None:
        """Record the typical lateness of a batch by its sources' clocks.

        A batch of a small fleet may be of one host with a slow clock. So most messages of a period
        must be late.

        Args:
            lag_s: Median of the lags.
            messages: Number of messages.
            now_s: Monotonic seconds.
            period_s: Publishing period of the usual source.
        """
        is_late = lag_s >= BEHIND_FROM_S
        self._lateness.add(BatchLateness(now_s, messages, is_late), period_s)
        if is_late and not self._lateness.is_of_most:
            return
        self._lag = Delay(lag_s, now_s)
        if is_late:
            # At once: the next look may come when this is not known any more.
            self.ends(now_s)

    def update(self, now_s: float, counts: PipelineCounts) -> None:
        """Measure load and losses."""
        if now_s - self._measured_s >= LOSS_WINDOW_S:
            messages = counts.messages - self._messages
            is_known = messages >= LEAST_MESSAGES and math.isfinite(self._measured_s)
            self._loss = (counts.gaps - self._gaps) / messages if is_known else 0.0
            self._measured_s = now_s
            self._messages = counts.messages
            self._gaps = counts.gaps
        is_shedding = counts.shed > self._shed
        self._shed = counts.shed
        if is_shedding or self._waited.now(now_s) >= BEHIND_FROM_S:
            self._late_here_s = now_s
        if is_shedding or self.delay_s(now_s) >= BEHIND_FROM_S:
            if not self.is_overloaded(now_s):
                self._overloaded_since_s = now_s
            self._overloaded_s = now_s
        if self.is_behind(now_s):
            self.ends(now_s)

    def is_behind(self, now_s: float) -> bool:
        """Return whether too many messages wait or are lost to judge silence."""
        return self.delay_s(now_s) >= BEHIND_FROM_S or self.loss(now_s) > 0

    def delay_s(self, now_s: float) -> float:
        """Return the delay of applied messages since arrival here or sending."""
        return max(self._waited.now(now_s), self._lag.now(now_s))

    def loss(self, now_s: float) -> float:
        """Return the share of messages after a gap, if so large that silence means loss; else 0."""
        least = LOSSY_OVERLOADED_FROM if self.is_overloaded(now_s) else LOSSY_FROM
        return self._loss if self._loss >= least else 0.0

    def is_overloaded(self, now_s: float) -> bool:
        """Return whether messages are or were late or shed just now."""
        return now_s - self._overloaded_s < OVERLOAD_GAP_S

    def overloaded_s(self, now_s: float) -> float:
        """Return for how long messages have been late or shed; 0 if they are not."""
        is_overloaded = self.is_overloaded(now_s)
        return self._overloaded_s - self._overloaded_since_s if is_overloaded else 0.0

    def explains_losses(self, now_s: float) -> bool:
        """Return whether losses since the beginning of the overload are due to this monitor.

        Telemetry may be late because of its sources' clocks. Then the overload must have an alert.
        """
        is_late_here = now_s - self._late_here_s < OVERLOAD_GAP_S
        return is_late_here or self.overloaded_s(now_s) > TOLD_FROM_S


class Joining:
    """The first seconds with a large fleet: the broker drops telemetry beside retained messages.

    It explains losses, and no silence.
    """

    def __init__(self) -> None:
        self._generation = -1
        self._since_s = -math.inf
        """Since when the layout is known."""

    def explains_losses(self, now_s: float, link: LinkStatus, store: Store) -> bool:
        """Return whether new losses are due to joining."""
        if self._generation != store.generation:
            self._generation = store.generation
            self._since_s = now_s
        return (
            now_s - self._since_s < RECONNECT_S
            and now_s - link.changed_s < JOINS_WITHIN_S
            and link.protocol != RECORDING
            and len(store.layout.instances) >= JOINS_FROM
        )


class Thinned:
    """Messages of a topic that a recording leaves out between two: its period is longer."""

    def __init__(self) -> None:
        self._left_out = 0
        self._seen_s = -math.inf

    @property
    def left_out(self) -> int:
        """The most messages left out between two."""
        return self._left_out

    def note(self, left_out: int, now_s: float) -> None:
        """Record the most messages left out before those being applied."""
        if left_out >= self._left_out or now_s - self._seen_s > RECONNECT_S:
            self._left_out = left_out
            self._seen_s = now_s


class PublisherBreaks:
    """Breaks of all publishers of one monitor, by published instance.

    Silence of a publisher with several instances does not mean that its instances are silent: its
    own network, host or process is at fault. Its last will, sent by a broker after one and a half
    keepalives, confirms it. Until then its instances are in doubt, and not silent. After the break
    its instances return one after the other: each has three periods for that.
    """

    def __init__(self, doubt_s: float) -> None:
        """Start without a publisher.

        Args:
            doubt_s: Seconds without any message of a publisher within which its last will arrives;
                0 to follow none.
        """
        self._doubt_s = doubt_s
        self._generation = -1
        self._begins(0)

    def _begins(self, instances: int) -> None:
        self._was_quiet = np.zeros(instances, np.bool_)
        self._was_offline = np.zeros(instances, np.bool_)
        self._in_doubt = np.zeros(instances, np.bool_)
        self._back_s = np.full(instances, -np.inf)
        """Monotonic seconds when each instance's publisher was last heard or online again."""

    def update(self, now_s: float, listening_s: float, store: Store) -> None:
        """Check all publishers, once freshness has been judged.

        Args:
            now_s: Monotonic seconds.
            listening_s: Since when publishers could be heard.
            store: The publishers' instances.
        """
        instances = len(store.layout.instances)
        if not self._doubt_s or not instances:
            return
        if self._generation != store.generation:
            self._generation = store.generation
            self._begins(instances)
        quiet_from_s = now_s - np.maximum(QUIET_FROM_S, QUIET_FROM_PERIODS * store.period_s)
        was_off = self._was_quiet.any() or self._was_offline.any()
        if not was_off and (store.instance_seen_s >= quiet_from_s).all():
            return
        first_chips = store.layout.chip_start[:-1]
        heard_s = np.maximum(store.instance_seen_s, store.chip_seen_s[first_chips])
        is_offline = store.chip_state[first_chips] == Freshness.OFFLINE
        # The last place is for instances whose publisher is not known, -1.
        owner = store.publisher_of
        publishers = int(owner.max()) + 2
        newest_s = np.full(publishers, -np.inf)
        np.maximum.at(newest_s, owner, np.maximum(heard_s, store.described_s))
        has_several = np.bincount(owner % publishers, minlength=publishers) > 1
        has_several[-1] = False
        is_quiet = newest_s[owner] < quiet_from_s
        is_back = (self._was_quiet & ~is_quiet) | (self._was_offline & ~is_offline)
        self._back_s[is_back] = now_s
        self._was_quiet = is_quiet
        self._was_offline = is_offline
        doubted_s = now_s - np.maximum(newest_s, listening_s)
        self._in_doubt = is_quiet & (has_several & (doubted_s < self._doubt_s))[owner]

    def explains(self, now_s: float, store: Store) -> NDArray[np.bool_] | None:
        """Return a mask of instances whose publisher has a break; None for none."""
        if self._generation != store.generation:
            return None
        mask: NDArray[np.bool_] = self._in_doubt | (
            now_s < self._back_s + STALE_AFTER_PERIODS * store.period_s
        )
        return mask if mask.any() else None


def either(
    one: NDArray[np.bool_] | None, other: NDArray[np.bool_] | None
) -> NDArray[np.bool_] | None:
    """Return a mask of what is in either mask; None for none."""
    return other if one is None else one if other is None else one | other
