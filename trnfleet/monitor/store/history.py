"""History of jobs and of charted figures, at every level that fits into memory.

Each level has one record of float32 numbers, or two bytes a value for chips: one sample a second,
and minimum, mean and maximum over longer steps for a longer past. Memory is allocated level by
level from the fleet down. A level whose ring would be shorter than `MIN_SAMPLES` is left out;
single nodes of it are stored from the moment they are viewed (`watch`), and one figure of nodes in
a list on the screen (`glance`). Every period without samples has a reason.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.store import fields
from trnfleet.monitor.store.gaps import Gap, Gaps, Reason
from trnfleet.monitor.store.job_history import JobHistory
from trnfleet.monitor.store.layout_changes import numbers_in
from trnfleet.monitor.store.rings.glances import Glances
from trnfleet.monitor.store.rings.record import CODED_NODES, TIERS, Record, TierSpec, Track

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout, Node
    from trnfleet.monitor.store.fields import Field
    from trnfleet.monitor.store.jobs import Jobs
    from trnfleet.monitor.store.rollup import Rollups
    from trnfleet.monitor.store.store import Store

KEPT: tuple[Field, ...] = tuple(field for field in fields.FIELDS if field.has_history)
"""The fields that history keeps."""
GLANCED = fields.BY_KEY["nc_util_pct"]
"""The field stored for nodes at a glance."""

MAX_SAMPLES = 900
"""Most seconds in a ring: 15 minutes."""
MIN_SAMPLES = 120
"""Fewest seconds in a ring, and fewest roll-ups of a step, for a level to have them."""
BUDGET_BYTES = 64 * 2**20
"""Memory for the samples of all levels together; at most half of it per level."""
TIER_BUDGET_BYTES = 8 * 2**20
"""The same for the roll-ups of each step."""
MAX_WATCHED = 64
"""Single nodes stored beside the levels. The least recently viewed is dropped first."""

_LEVELS = (Level.FLEET, Level.CLUSTER, Level.ULTRASERVER, Level.INSTANCE, Level.CHIP)


class History:
    """The records of one store."""

    def __init__(self, budget_bytes: int = BUDGET_BYTES, most_samples: int = MAX_SAMPLES) -> None:
        self._budget = budget_bytes
        self._most = most_samples
        self._layout: Layout | None = None
        self._levels: dict[Level, Record] = {}
        self._watched: OrderedDict[str, Record | None] = OrderedDict()
        """None until a first sample is taken."""
        self._glances = Glances()
        self._is_cut_off = False
        self.jobs = JobHistory(most_samples)
        """The jobs' own figures."""
        self._gaps = Gaps()
        self.samples = 0
        """Samples taken since the start."""

    def seconds(self, level: Level) -> int:
        """Return the seconds of samples a level has room for.

        0 if the level does not fit.
        """
        record = self._levels.get(level)
        return record.ring.length if record else 0

    @property
    def end(self) -> int:
        """Samples up to the moment shown.

        All samples unless that moment is in the past.
        """
        return self.samples

    @property
    def layout(self) -> Layout | None:
        """Layout of the node numbers.

        None before the first sample.
        """
        return self._layout

    @property
    def nbytes(self) -> int:
        """Bytes of all records when full."""
        return (
            sum(record.nbytes for record in self._records())
            + self._glances.nbytes
            + self.jobs.nbytes
        )

    def watch(self, path: str) -> None:
        """Record the node at `path` from now on if its level has no record."""
        if path in self._watched:
            self._watched.move_to_end(path)
            return
        while len(self._watched) >= MAX_WATCHED:
            self._watched.popitem(last=False)
        self._watched[path] = None

    def glance(self, path: str) -> None:
        """Record `GLANCED` of the node at `path` for the next minutes.

        Does nothing if the level has a record.
        """
        self._glances.look(path, self.samples)

    def attend(self, jobs: Jobs, *, is_cut_off: bool) -> None:
        """Note the state for the samples to come.

        Args:
            jobs: The fleet's jobs.
            is_cut_off: Whether nothing can be heard at present.
        """
        self.jobs.attend(jobs)
        self._is_cut_off = is_cut_off

    def push(self, store: Store, rollups: Rollups) -> None:
        """Record one sample of every stored figure; called once a second."""
        if not rollups.ready or rollups.generation != store.generation:
            return
        layout = store.layout
        if layout is not self._layout:
            self._take_layout(layout)
        for level, record in self._levels.items():
            silent = ~_live(store, rollups, level)
            record.push(
                [_with_gaps(field.values(store, rollups, level, None), silent) for field in KEPT]
            )
        for path, known in self._watched.items():
            node = layout.find(path)
            if node is None or node.level in self._levels:
                continue
            watched = known or Record(self._most, len(KEPT), 1, total=self.samples)
            self._watched[path] = watched
            numbers = np.array([node.number])
            silent = ~_live(store, rollups, node.level)[numbers]
            watched.push(
                [
                    _with_gaps(field.values(store, rollups, node.level, numbers), silent)
                    for field in KEPT
                ]
            )
        self._glances.push(
            layout,
            self._levels,
            lambda level, numbers: _glanced(store, rollups, level, numbers),
            self.samples,
        )
        self.jobs.push(store, rollups, self.samples)
        self.samples += 1
        if self._is_cut_off:
            self._gaps.add(self.samples - 1, self.samples, Reason.LINK_DOWN)

    def skip(self, seconds: int) -> None:
        """Leave a gap for seconds without a sample."""
        for record in (*self._levels.values(), *self._watched.values()):
            if record is not None:
                record.skip(seconds)
        self._glances.skip(self.samples, seconds)
        self.jobs.skip(seconds)
        self._gaps.add(self.samples, self.samples + seconds, Reason.NOT_OBSERVED)
        self.samples += seconds

    def backfill(self, before: History) -> None:
        """Prepend the samples of another history ending where this one begins.

        For the first minutes: samples stored only as roll-ups there are lost.

        Args:
            before: The other history, with the same budget. It must not be used any more.
        """
        if (before._budget, before._most) != (self._budget, self._most):
            raise ValueError("the two histories keep different spans")
        count = before.samples
        layout = self._layout
        if layout is None or before.layout is None:
            raise ValueError("a history has no samples yet")
        if not _has_same_rows(layout, before.layout):
            before._take_layout(layout)
        own = self._levels
        self._levels = before._levels
        for level, record in self._levels.items():
            record.follow_on(own[level])
        for path, watched in self._watched.items():
            if watched is not None:
                alone = self._watched[path] = Record(self._most, len(KEPT), 1, total=count)
                alone.follow_on(watched)
        self.jobs.backfill(before.jobs, count, self.samples)
        self._glances.renumber(count)
        self._gaps.backfill(before._gaps, count)
        self.samples += count

    def series(self, layout: Layout, node: Node, key: str) -> NDArray[np.float32]:
        """Return the samples of a field for a node, oldest first, one a second.

        Empty if none are stored.
        """
        place = self._find(layout, node, key)
        series = np.zeros(0, np.float32) if place is None else place[0].ring.series(*place[1:])
        if key != GLANCED.key or node.level in self._levels:
            return series
        glanced = self._glances.series(layout.path(node), self.samples)
        short, long = sorted((series, glanced), key=len)
        return np.where(
            np.isnan(long), np.pad(short, (len(long) - len(short), 0), constant_values=np.nan), long
        )

    def track(self, layout: Layout, node: Node, key: str, span_s: int, ago: int = 0) -> Track:
        """Return the past of a node's field over a span, at the finest stored step.

        Args:
            layout: Layout of the node number.
            node: The node.
            key: Key of the field.
            span_s: Wall seconds.
            ago: Samples to go back from the newest one.
        """
        place = self._find(layout, node, key)
        if place is None:
            return Track.of(np.zeros(0, np.float32), self.samples - ago)
        record, field, number = place
        return record.track(field, number, span_s, ago)

    def means(self, layout: Layout, level: Level, key: str, ago: int = 0) -> NDArray[np.float32]:
        """Return a field's means over steps of 10 s for all nodes of a level, oldest first.

        Steps x nodes; no steps if the level has no record.
        """
        record = self._levels.get(level)
        if record is None or layout is not self._layout:
            return np.zeros((0, layout.count(level)), np.float32)
        return record.means([figure.key for figure in KEPT].index(key), ago)

    def job_track(self, job: str, key: str, span_s: int, ago: int = 0) -> Track:
        """Return the past of a job's figure over a span, as `track` does."""
        return self.jobs.track(job, key, span_s, self.samples, ago)

    def job_names(self) -> list[str]:
        """Return the names of recorded jobs, sorted."""
        return self.jobs.names

    def gaps_since(self, first: int) -> list[Gap]:
        """Return the gaps not over before a sample, oldest first."""
        return self._gaps.since(first)

    def _find(self, layout: Layout, node: Node, key: str) -> tuple[Record, int, int] | None:
        """Return the record of a node's field, with the numbers of both in it."""
        field = next((number for number, figure in enumerate(KEPT) if figure.key == key), None)
        if field is None:
            return None
        record = self._levels.get(node.level)
        if record is not None and layout is self._layout:
            return record, field, node.number
        watched = self._watched.get(layout.path(node))
        return (watched, field, 0) if watched else None

    def _records(self) -> Iterator[Record]:
        yield from self._levels.values()
        yield from (record for record in self._watched.values() if record)

    def _take_layout(self, layout: Layout) -> None:
        """Create records for a new layout.

        Nodes present in both keep their past.
        """
        old_layout = self._layout
        old_levels = self._levels
        self._layout = layout
        self._levels = {}
        left = self._budget
        left_of_tiers = [TIER_BUDGET_BYTES] * len(TIERS)
        for level in _LEVELS:
            sample_bytes = layout.count(level) * len(KEPT) * 4
            samples = min(self._most, min(left, self._budget // 2) // max(1, sample_bytes))
            if not sample_bytes or samples < MIN_SAMPLES:
                break
            rollup_bytes = 3 * sample_bytes // (2 if layout.count(level) >= CODED_NODES else 1)
            tiers = [
                spec._replace(length=_rollups(spec, room, rollup_bytes))
                for spec, room in zip(TIERS, left_of_tiers, strict=True)
            ]
            record = self._levels[level] = Record(
                samples,
                len(KEPT),
                layout.count(level),
                tiers=tiers,
                total=self.samples,
                steps=(
                    np.array([field.chip_step(layout) for field in KEPT])
                    if level is Level.CHIP
                    else None
                ),
            )
            left -= samples * sample_bytes
            left_of_tiers = [
                room - tier.length * rollup_bytes
                for room, tier in zip(left_of_tiers, tiers, strict=True)
            ]
            before = old_levels.get(level)
            if before is not None and old_layout is not None:
                record.carry_over(before, numbers_in(layout, old_layout, level))


def _rollups(spec: TierSpec, room_bytes: int, rollup_bytes: int) -> int:
    """Return the number of roll-ups of a step for a level.

    0 if they would be too few.
    """
    number = min(spec.length, min(room_bytes, TIER_BUDGET_BYTES // 2) // rollup_bytes)
    return number if number >= MIN_SAMPLES else 0


def _has_same_rows(layout: Layout, other: Layout) -> bool:
    """Return whether two layouts have the same nodes under the same numbers."""
    return layout.instances == other.instances and np.array_equal(
        layout.chip_start, other.chip_start
    )


def _live(store: Store, rollups: Rollups, level: Level) -> NDArray[np.bool_]:
    """Return a mask of nodes with anything live.

    The last values of other nodes are old.
    """
    return store.chip_state == Freshness.LIVE.value if level is Level.CHIP else rollups.live(level)


def _glanced(
    store: Store, rollups: Rollups, level: Level, numbers: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return `GLANCED` of some nodes; NaN where nothing is live."""
    return _with_gaps(
        GLANCED.values(store, rollups, level, numbers), ~_live(store, rollups, level)[numbers]
    )


def _with_gaps(values: NDArray[np.float64], silent: NDArray[np.bool_]) -> NDArray[np.float64]:
    return np.where(silent, np.nan, values) if silent.any() else values
