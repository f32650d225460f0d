"""The pipeline of a monitor as a value, built once a second from its parts."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.pipeline.brokers import BrokerHealth
from trnfleet.monitor.pipeline.health import (
    COUNTED,
    RECENT_S,
    PipelineHealth,
    Recent,
    judge,
)
from trnfleet.monitor.pipeline.publishers import TrafficMoment, publisher_table
from trnfleet.monitor.reachability.causes import either
from trnfleet.monitor.reachability.reachability import Reachability, whole_publishers
from trnfleet.wire.ports import STOPPED, LinkStatus

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.ingest.ingest import Ingest
    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.monitor.pipeline.traffic import MessageRate
    from trnfleet.monitor.slices import Slices
    from trnfleet.monitor.store.store import Store

EVERY_S = 1.0
"""Seconds a value is valid."""


class _PublishedChips(NamedTuple):
    """Chips published per row of the traffic, with the inputs of the count."""

    layout: Layout
    rows: NDArray[np.int64]
    """Row of each numbered boot."""
    publisher_of: NDArray[np.int32]
    """Number of each instance's publisher."""
    chips: NDArray[np.int64]


class _Inputs(NamedTuple):
    """The inputs of a value."""

    ingest: Ingest
    link_changes: tuple[bool, int]
    revision: int


class _Mark(NamedTuple):
    """Counts at a moment."""

    at_s: float
    recent: Recent


class Recorder(Protocol):
    """Recorder of messages."""

    @property
    def problem(self) -> str:
        """The reason why nothing more is kept; empty while all is well."""


class PipelineReader:
    """Builder of the value, with the data it needs from earlier ones."""

    def __init__(self, recorder: Recorder | None = None) -> None:
        """Start without a value.

        Args:
            recorder: Records the messages; None if there is none.
        """
        self._recorder = recorder
        self._health: PipelineHealth | None = None
        self._inputs: _Inputs | None = None
        self._marks: deque[_Mark] = deque()
        """Counts of the last `RECENT_S`, the oldest first."""
        self._is_told = False
        """Whether brokers had said anything of themselves at the last look."""
        self._chips: _PublishedChips | None = None

    def reading(
        self,
        ingest: Ingest,
        counts: PipelineCounts,
        link: LinkStatus,
        reachability: Reachability,
        rate: MessageRate,
        now_s: float,
        *,
        at_once: bool = False,
    ) -> Slices[PipelineHealth]:
        """Return the pipeline, at most `EVERY_S` old, in slices.

        It is of the moment of the first slice.

        Args:
            ingest: The applied messages.
            counts: The counts, with those of the transport.
            link: The connection, or several as one.
            reachability: Whether publishers can be heard.
            rate: The rate of telemetry messages.
            now_s: Monotonic seconds.
            at_once: Whether to build a new value now, such as for rules: their other inputs are of
                now.
        """
        health = self._health
        before = self._inputs
        inputs = _Inputs(ingest, link.changes, ingest.store.revision)
        if health is not None and before is not None and before.ingest is ingest:
            if not link.connected and link.last_error == STOPPED:
                # An observation that is over stays what was seen.
                return health
            is_same_moment = now_s == health.at_s and inputs == before
            is_new = not at_once and 0.0 < now_s - health.at_s < EVERY_S
            if is_same_moment or (is_new and inputs.link_changes == before.link_changes):
                return health
        made = yield from self._make(ingest, counts.copy(), link, reachability, rate, now_s)
        yield
        made = dataclasses.replace(made, problems=judge(made))
        self._inputs = inputs
        self._health = made
        return made

    def _make(
        self,
        ingest: Ingest,
        counts: PipelineCounts,
        link: LinkStatus,
        reachability: Reachability,
        rate: MessageRate,
        now_s: float,
    ) -> Slices[PipelineHealth]:
        store = ingest.store
        brokers = tuple(BrokerHealth.of(part, now_s) for part in link.parts or (link,))
        undescribed_chips, undescribed_paths = ingest.topics.undescribed.counts(now_s)
        made = functools.partial(
            PipelineHealth,
            at_s=now_s,
            brokers=brokers,
            counts=counts,
            pending=ingest.pending,
            recent=self._recent(counts, brokers, now_s),
            messages_per_s=None if math.isnan(rate.per_s) else rate.per_s,
            quiet_s=rate.quiet_s if math.isfinite(rate.quiet_s) else None,
            lag_s=ingest.lag_s if store.has_live else None,
            clock_skew_s=ingest.timebase.worst_skew_s(now_s),
            late_s=ingest.timebase.late_s(now_s),
            unheard_s=reachability.unheard_s(now_s),
            outage_s=reachability.longest_outage_s(now_s, store),
            overloaded_s=reachability.behind.overloaded_s(now_s),
            contested=ingest.contests.pairs(now_s, ingest.publishers.client_of),
            contested_ids=ingest.descriptors.contested,
            undescribed_chips=undescribed_chips,
            undescribed_paths=undescribed_paths,
            doubts=ingest.doubts.newest_first(),
            recording_problem="" if self._recorder is None else self._recorder.problem,
        )
        table = functools.partial(
            publisher_table,
            TrafficMoment.of(ingest.publishers.traffic, now_s),
            self._chips_of(ingest),
            is_unheard=whole_publishers(
                either(reachability.explain(now_s, store).ours, _hidden(store)),
                store,
                ingest.publishers,
            ),
            is_will_doubted=reachability.doubted_wills(now_s, store, ingest.publishers),
            silent_after_periods=reachability.stale_periods(now_s),
        )
        # All that changes was read.
        yield
        publishers = yield from table()
        return made(publishers=publishers)

    def _chips_of(self, ingest: Ingest) -> NDArray[np.int64]:
        """Return the chips published per row of the traffic.

        Cached while all instances have the same publishers.
        """
        layout = ingest.store.layout
        publisher_of = ingest.store.publisher_of
        rows = ingest.publishers.rows()
        count = len(ingest.publishers.traffic)
        known = self._chips
        if (
            known is None
            or known.layout is not layout
            or known.rows is not rows
            or len(known.chips) != count
            or not np.array_equal(known.publisher_of, publisher_of)
        ):
            chips = np.bincount(rows[publisher_of], layout.sizes, minlength=count).astype(np.int64)
            known = self._chips = _PublishedChips(layout, rows, publisher_of.copy(), chips)
        return known.chips

    def _recent(
        self, counts: PipelineCounts, brokers: tuple[BrokerHealth, ...], now_s: float
    ) -> Recent:
        """Return the recent increase of counts.

        A restarted count counts from 0.
        """
        said = [broker.figures.dropped or 0 for broker in brokers if broker.figures is not None]
        now = Recent(
            **{name: getattr(counts, name) for name in COUNTED}, dropped_by_brokers=sum(said)
        )
        marks = self._marks
        while marks and (
            marks[-1].at_s > now_s or marks[-1].recent.dropped_by_brokers > now.dropped_by_brokers
        ):
            # A past that goes on from a snapshot, or a broker that has begun again.
            marks.clear()
        while len(marks) > 1 and now_s - marks[1].at_s >= RECENT_S:
            marks.popleft()
        if said and not self._is_told:
            # Of what brokers had dropped before they were first read, nobody knows when that was.
            dropped = now.dropped_by_brokers
            marks = deque(
                mark._replace(recent=mark.recent._replace(dropped_by_brokers=dropped))
                for mark in marks
            )
            self._marks = marks
        self._is_told = bool(said)
        first = marks[0].recent if marks else Recent(dropped_by_brokers=now.dropped_by_brokers)
        marks.append(_Mark(now_s, now))
        return Recent._make(
            max(0, after - before) for after, before in zip(now, first, strict=True)
        )


def _hidden(store: Store) -> NDArray[np.bool_] | None:
    """Return a mask of instances whose relay forwards nothing at present; None for none."""
    if not store.is_forwarded.any():
        return None
    states = store.chip_state[store.layout.chip_start[:-1]]
    mask: NDArray[np.bool_] = store.is_forwarded & (states == Freshness.UNOBSERVED)
    return mask
