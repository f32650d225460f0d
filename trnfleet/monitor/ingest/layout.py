"""The store's layout and its rows of instances, written from descriptors."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import numpy as np

from trnfleet import logs
from trnfleet.domain.layout import Layout
from trnfleet.domain.metrics import CHIP_METRICS, INSTANCE_METRICS, Scope
from trnfleet.monitor.slices import DONE, finish
from trnfleet.monitor.store.rolled import RolledBlock
from trnfleet.wire.frames import is_known
from trnfleet.wire.messages import STANDARD_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from trnfleet.monitor.ingest.topics import Topics
    from trnfleet.monitor.slices import Slices
    from trnfleet.monitor.sources.clocks import Timebase
    from trnfleet.monitor.sources.descriptors import CompactDescriptor, Descriptors
    from trnfleet.monitor.sources.publishers import Publishers
    from trnfleet.monitor.store.store import Store

log = logs.get_logger(__name__)

_SLASHES = operator.methodcaller("count", "/")


SLICE = 1_024
"""Descriptors that are looked through in one slice: 1 ms."""


class LayoutWork:
    """The rebuilding of a layout in slices, between two of which nothing may be applied: who has to finishes it."""

    def __init__(self) -> None:
        self._work: Slices[None] | None = None

    @property
    def is_going_on(self) -> bool:
        """Whether a layout is being rebuilt."""
        return self._work is not None

    def run(self, work: Slices[None]) -> Slices[None]:
        """Do some work, as far as nobody finishes it before."""
        self._work = work
        try:
            while self._work is work and next(work, DONE) is not DONE:
                yield
        finally:
            # Somebody may have finished it, and other work have begun.
            if self._work is work:
                self._work = None

    def finish(self) -> None:
        """Do the rest of the work in one go."""
        work, self._work = self._work, None
        if work is not None:
            finish(work)


def rebuild_layout(
    store: Store, descriptors: Descriptors, publishers: Publishers, timebase: Timebase, topics: Topics, now_s: float
) -> Slices[None]:  # fmt: skip  # one line of what is given
    """Give the store the layout of all descriptors, made from nothing, in slices in which nothing may be applied.

    What is seen meanwhile is of the former layout, and at the end, in one piece, of the new one.

    Args:
        store: The store.
        descriptors: All of the fleet.
        publishers: Those that the descriptors name; what none names any more goes.
        timebase: The clocks, of which the same is true.
        topics: The topics.
        now_s: Monotonic seconds, at which new instances count as described.
    """
    types: dict[str, str] = {}
    lanes: dict[str, tuple[str, ...]] = {}
    every = list(descriptors)
    blocks = [each for each in every if each.members]
    yield
    widest_first = _widest_first([each for each in every if not each.members])
    yield
    for number, descriptor in enumerate(widest_first):
        if number % SLICE == SLICE - 1:
            yield
        if len(descriptor.instances) == 1:
            # Of hosts, in a third of the time.
            types[descriptor.instances[0]] = descriptor.types[0]
        else:
            types.update(zip(descriptor.instances, descriptor.types, strict=True))
        if descriptor.lanes:
            lanes.update(descriptor.lanes)
    rolled = _add_rolled(types, blocks)
    yield
    layout = Layout.of(types.items(), lanes, rolled)
    yield
    index = layout.instance_index
    kept = yield from publishers.keeping({(each.publisher, each.boot) for each in every})
    next_store = yield from store.moved(layout)
    next_store.described_s[np.isinf(next_store.described_s)] = now_s
    # Rows get their publisher from the descriptors, and then from the messages that are written.
    next_store.publisher_of[:] = -1
    yield from _write_descriptors(
        next_store, index, [*blocks, *widest_first], publishers, kept.numbers
    )
    publishers.settle(kept)
    store.take_over(next_store)
    store.rolled.follow(
        layout,
        {
            each.path: RolledBlock(
                each.instances,
                (*each.rollup.totals, *each.rollup.counters),
                each.cell,
                each.period_s,
            )
            for each in blocks
            if each.rollup is not None
        },
        {
            each.path: relay.number
            for each in blocks
            if (relay := publishers.find(each.publisher, each.boot)) is not None
        },
    )
    log.info(
        "layout_rebuilt",
        chips=layout.chips,
        instances=len(layout.instances),
        generation=store.generation,
    )
    yield
    publishers.traffic.count_paths(descriptors.paths_of)
    yield
    timebase.keep(set(descriptors.instances_of))
    yield from topics.follow(layout)
    descriptors.changed.begin()


def _widest_first(descriptors: list[CompactDescriptor]) -> list[CompactDescriptor]:
    """Return descriptors in an order in which of two of the same instance the one with the narrower path comes later, for it knows better."""
    widths = [2 * each.path.count("/") + ("/block-" not in each.path) for each in descriptors]
    if len(set(widths)) <= 1:
        return descriptors
    return [descriptors[number] for number in sorted(range(len(widths)), key=widths.__getitem__)]


def _add_rolled(types: dict[str, str], blocks: Sequence[CompactDescriptor]) -> dict[str, int]:
    """Add to the types of instances the rows of roll-ups, and return how many instances each stands for.

    A row is not added where all its chips are described, and has the place of its instances where only some are: what is known of a
    part must not be taken for the whole.
    """
    if not blocks:
        return {}
    below: dict[str, list[str]] = {}
    for path in types:
        below.setdefault(path.rpartition("/")[0], []).append(path)
    rolled: dict[str, int] = {}
    rest: list[CompactDescriptor] = []
    for block in blocks:
        # The usual block, in one piece: UltraServers that nothing else describes.
        rows = block.instances
        is_of_ultraservers = sum(map(_SLASHES, rows)) == len(rows)
        if is_of_ultraservers and below.keys().isdisjoint(rows) and rolled.keys().isdisjoint(rows):
            types.update(zip(rows, block.types, strict=True))
            rolled.update(zip(rows, block.members, strict=True))
            continue
        rest.append(block)
        for row, kind, members in zip(block.instances, block.types, block.members, strict=True):
            if row.count("/") != 1:
                continue
            described = below.get(row, ())
            if len(described) < members and row not in rolled:
                for path in described:
                    types.pop(path, None)
                types[row], rolled[row] = kind, members
    for block in rest:
        for row, kind, members in zip(block.instances, block.types, block.members, strict=True):
            # Another block may have the UltraServer that it is in: that has it already.
            if row.count("/") == 2 and row not in types and row.rpartition("/")[0] not in rolled:
                types[row], rolled[row] = kind, members
    return rolled


def write_descriptor(store: Store, descriptor: CompactDescriptor, publishers: Publishers) -> None:
    """Write a descriptor into the rows of its instances, all of which the layout has."""
    rows = np.array([store.layout.instance_index[path] for path in descriptor.instances])
    store.period_s[rows] = descriptor.period_s
    store.links_of[rows] = descriptor.links
    store.is_forwarded[rows] = bool(descriptor.relay_boot)
    publisher = publishers.find(descriptor.publisher, descriptor.boot)
    if publisher is not None:
        # Two may describe the same instance, one of them long gone: the one that lives has it.
        is_online = publishers.is_online(publisher)
        store.publisher_of[rows if is_online else rows[store.publisher_of[rows] < 0]] = (
            publisher.number
        )
        if descriptor.rollup is not None:
            store.rolled.name_publisher(descriptor.path, publisher.number)
    if descriptor.columns is not STANDARD_COLUMNS:
        _blank_columns(store, descriptor, rows)


def _write_descriptors(
    store: Store, index: Mapping[str, int], descriptors: Sequence[CompactDescriptor], publishers: Publishers,
    numbers: Mapping[tuple[str, str], int],
) -> Slices[None]:  # fmt: skip  # one line of what is given
    """Write descriptors, one after the other, as `write_descriptor` does: many at once take a tenth of the time.

    Args:
        store: The store.
        index: Rows of instances.
        descriptors: The descriptors.
        publishers: All publishers.
        numbers: The numbers that their boots will have.
    """
    rows: list[int] = []
    counts: list[int] = []
    of_boots: list[int] = []
    online: list[bool] = []
    for number, each in enumerate(descriptors):
        if number % SLICE == SLICE - 1:
            yield
        # Of roll-ups, and of what is below them, the layout may leave something out.
        own = [row for row in map(index.get, each.instances) if row is not None]
        rows += own
        counts.append(len(own))
        boot = publishers.find(each.publisher, each.boot)
        of_boots.append(-1 if boot is None else numbers[each.publisher, each.boot])
        online.append(boot is not None and publishers.is_online(boot))
    yield
    places = np.array(rows, np.int64)
    store.period_s[places] = np.repeat(
        np.array([each.period_s for each in descriptors], np.float64), counts
    )
    if any(each.links for each in descriptors):
        store.links_of[places] = np.repeat(
            np.array([each.links for each in descriptors], np.int32), counts
        )
    store.is_forwarded[:] = False
    if any(each.relay_boot for each in descriptors):
        flags = np.array([bool(each.relay_boot) for each in descriptors], np.bool_)
        store.is_forwarded[places] = np.repeat(flags, counts)
    yield
    boots = np.repeat(np.array(of_boots, np.int32), counts)
    is_online = np.repeat(np.array(online, np.bool_), counts)
    is_offline = (boots >= 0) & ~is_online
    # The last one that is there has an instance, else the first of those that are gone.
    store.publisher_of[places[is_offline][::-1]] = boots[is_offline][::-1]
    store.publisher_of[places[is_online]] = boots[is_online]
    ends = np.cumsum(np.array(counts, np.int64))
    for descriptor, count, end in zip(descriptors, counts, ends.tolist(), strict=True):
        if descriptor.columns is not STANDARD_COLUMNS:
            _blank_columns(store, descriptor, places[end - count : end])
            yield


def _blank_columns(store: Store, descriptor: CompactDescriptor, rows: NDArray[np.int64]) -> None:
    """Make what a descriptor does not announce not available, so that no former value is drawn as live."""
    names = {column.name for column in descriptor.columns if is_known(column)}
    chips = store.layout.chip_rows(rows)
    for metric in (*CHIP_METRICS, *INSTANCE_METRICS):
        if metric.name not in names:
            store.columns[metric.name][chips if metric.scope is Scope.CHIP else rows] = metric.top
