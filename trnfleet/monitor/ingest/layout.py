"""The store's layout and its rows of instances, written from descriptors."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet import logs
from trnfleet.domain.layout import Layout
from trnfleet.domain.metrics import BY_NAME, CHIP_METRICS, INSTANCE_METRICS, Scope
from trnfleet.monitor.ingest.frame_rows import Shift
from trnfleet.monitor.slices import DONE, SLICE, Slices, finish
from trnfleet.monitor.store.announced import bits_of
from trnfleet.monitor.store.layout_changes import ChangedLayout, changed
from trnfleet.monitor.store.rolled import RolledBlock
from trnfleet.wire.frames import is_known
from trnfleet.wire.messages import STANDARD_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from trnfleet.monitor.ingest.topics import Topics
    from trnfleet.monitor.sources.cells import Cells
    from trnfleet.monitor.sources.clocks import Timebase
    from trnfleet.monitor.sources.descriptors import (
        CompactDescriptor,
        DescriptorChanges,
        Descriptors,
    )
    from trnfleet.monitor.sources.publishers import Publishers
    from trnfleet.monitor.store.store import Store
    from trnfleet.wire.messages import ColumnSpec


log = logs.get_logger(__name__)

_STANDARD_BITS = bits_of(column.name for column in STANDARD_COLUMNS)
_ALL_BITS = bits_of(BY_NAME)
_SLASHES = operator.methodcaller("count", "/")


class LayoutWork:
    """A layout rebuild in slices.

    Nothing may be applied between two slices.

    A caller that must apply something finishes the rebuild first.
    """

    def __init__(self) -> None:
        self._work: Slices[None] | None = None

    @property
    def is_going_on(self) -> bool:
        """Whether a layout is being rebuilt."""
        return self._work is not None

    def run(self, work: Slices[None]) -> Slices[None]:
        """Do some work, unless another caller finishes it first."""
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
        work = self._work
        self._work = None
        if work is not None:
            finish(work)


def rebuild_layout(
    store: Store,
    descriptors: Descriptors,
    publishers: Publishers,
    timebase: Timebase,
    topics: Topics,
    cells: Cells,
    now_s: float,
) -> Slices[None]:
    """Rebuild the store's layout from all descriptors, in slices.

    Nothing may be applied between them. Readers see the former layout until the end, then the new
    one at once.

    Args:
        store: The store.
        descriptors: All descriptors of the fleet.
        publishers: The publishers named by descriptors. Others are removed.
        timebase: The clocks, likewise.
        topics: The topics.
        cells: The relays. A block whose relay has no presence message is left out.
        now_s: Monotonic seconds, at which new instances count as described.
    """
    types: dict[str, str] = {}
    lanes: dict[str, tuple[str, ...]] = {}
    every = list(descriptors)
    blocks = [
        descriptor
        for descriptor in every
        if descriptor.members and cells.has_relay(descriptor.cell, descriptor.publisher)
    ]
    yield
    widest_first = _widest_first([descriptor for descriptor in every if not descriptor.members])
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
    forwarded = {
        path
        for descriptor in widest_first
        if descriptor.relay_boot
        for path in descriptor.instances
    }
    for descriptor in widest_first if forwarded else ():
        if not descriptor.relay_boot:
            forwarded.difference_update(descriptor.instances)
    rolled = _add_rolled(types, blocks, forwarded)
    yield
    layout = Layout.of(types.items(), lanes, rolled)
    yield
    index = layout.instance_index
    retained = yield from publishers.keeping(
        {(descriptor.publisher, descriptor.boot) for descriptor in every}
    )
    next_store = yield from store.moved(layout)
    next_store.described_s[np.isinf(next_store.described_s)] = now_s
    # Rows get their publisher from the descriptors, and then from the messages that are written.
    next_store.publisher_of[:] = -1
    yield from _write_descriptors(
        next_store, index, [*blocks, *widest_first], publishers, retained.numbers
    )
    publishers.settle(retained)
    store.take_over(next_store)
    store.rolled.follow(
        layout,
        {
            block.path: RolledBlock(
                block.instances,
                (*block.rollup.totals, *block.rollup.counters),
                block.members,
                block.cell,
                block.period_s,
            )
            for block in blocks
            if block.rollup is not None
        },
        {
            block.path: relay.number
            for block in blocks
            if (relay := publishers.find(block.publisher, block.boot)) is not None
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
    """Return descriptors sorted so that narrower paths come later.

    Of two descriptors of the same instance, the narrower one knows better.
    """
    widths = [
        2 * descriptor.path.count("/") + ("/block-" not in descriptor.path)
        for descriptor in descriptors
    ]
    if len(set(widths)) <= 1:
        return descriptors
    return [descriptors[number] for number in sorted(range(len(widths)), key=widths.__getitem__)]


def _add_rolled(
    types: dict[str, str], blocks: Sequence[CompactDescriptor], forwarded: set[str]
) -> dict[str, int]:
    """Add the rows of roll-ups.

    Return the number of instances of each.

    A row is left out if all its instances are described. If a relay has forwarded only some of
    them, the row replaces them. If publishers here describe some of them, those stay, and the row
    stands for the rest.

    Args:
        types: Types of the described instances by path; it is changed.
        blocks: The blocks of roll-ups.
        forwarded: Paths of instances described only through a relay.
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
                hidden = forwarded.intersection(described)
                for path in hidden:
                    del types[path]
                types[row] = kind
                rolled[row] = members - len(described) + len(hidden)
    for block in rest:
        for row, kind, members in zip(block.instances, block.types, block.members, strict=True):
            # Another block may have its whole UltraServer: then the row is already there.
            if row.count("/") == 2 and row not in types and row.rpartition("/")[0] not in rolled:
                types[row], rolled[row] = kind, members
    return rolled


def write_descriptor(store: Store, descriptor: CompactDescriptor, publishers: Publishers) -> None:
    """Write a descriptor into the rows of its instances.

    The layout must have them all.
    """
    rows = np.array([store.layout.instance_index[path] for path in descriptor.instances])
    # Roll-ups say nothing of instances that the layout has as chips.
    rows = rows[store.layout.is_rolled[rows] == bool(descriptor.members)]
    store.period_s[rows] = descriptor.period_s
    store.links_of[rows] = descriptor.links
    store.is_forwarded[rows] = bool(descriptor.relay_boot)
    store.announced[rows] = _announced(descriptor)
    publisher = publishers.find(descriptor.publisher, descriptor.boot)
    if publisher is not None:
        # Two may describe the same instance, one of them long gone: the one that lives has it.
        is_online = publishers.is_online(publisher)
        store.publisher_of[rows if is_online else rows[store.publisher_of[rows] < 0]] = (
            publisher.number
        )
        if descriptor.rollup is not None:
            store.rolled.name_publisher(descriptor.path, publisher.number)
    _blank_columns(store, descriptor.columns, rows)


def _write_descriptors(
    store: Store,
    index: Mapping[str, int],
    descriptors: Sequence[CompactDescriptor],
    publishers: Publishers,
    numbers: Mapping[tuple[str, str], int],
) -> Slices[None]:
    """Write many descriptors like `write_descriptor`, in a tenth of the time.

    Args:
        store: The store.
        index: Rows of instances.
        descriptors: The descriptors.
        publishers: All publishers.
        numbers: The numbers that their boots will have.
    """
    layout = store.layout
    rows: list[int] = []
    counts: list[int] = []
    of_boots: list[int] = []
    online: list[bool] = []
    announced: list[int] = []
    for number, descriptor in enumerate(descriptors):
        if number % SLICE == SLICE - 1:
            yield
        # Of roll-ups, and of what is below them, the layout may leave something out.
        own = [row for row in map(index.get, descriptor.instances) if row is not None]
        if layout.has_rolled:
            own = [row for row in own if layout.is_rolled[row] == bool(descriptor.members)]
        rows += own
        counts.append(len(own))
        announced.append(_announced(descriptor))
        boot = publishers.find(descriptor.publisher, descriptor.boot)
        of_boots.append(-1 if boot is None else numbers[descriptor.publisher, descriptor.boot])
        online.append(boot is not None and publishers.is_online(boot))
    yield
    places = np.array(rows, np.int64)
    store.period_s[places] = np.repeat(
        np.array([descriptor.period_s for descriptor in descriptors], np.float64), counts
    )
    if any(descriptor.links for descriptor in descriptors):
        store.links_of[places] = np.repeat(
            np.array([descriptor.links for descriptor in descriptors], np.int32), counts
        )
    store.is_forwarded[:] = False
    if any(descriptor.relay_boot for descriptor in descriptors):
        flags = np.array([bool(descriptor.relay_boot) for descriptor in descriptors], np.bool_)
        forwarded = np.repeat(flags, counts)
        store.is_forwarded[places[forwarded]] = True
        store.is_forwarded[places[~forwarded]] = False
    store.announced[places] = np.repeat(np.array(announced, np.uint64), counts)
    yield
    boots = np.repeat(np.array(of_boots, np.int32), counts)
    is_online = np.repeat(np.array(online, np.bool_), counts)
    is_offline = (boots >= 0) & ~is_online
    # An instance belongs to its last online publisher, or else to the first offline one.
    store.publisher_of[places[is_offline][::-1]] = boots[is_offline][::-1]
    store.publisher_of[places[is_online]] = boots[is_online]
    ends = np.cumsum(np.array(counts, np.int64))
    is_usual = np.array(
        [descriptor.columns is STANDARD_COLUMNS for descriptor in descriptors], np.bool_
    )
    _blank_columns(store, STANDARD_COLUMNS, places[np.repeat(is_usual, counts)])
    for descriptor, count, end in zip(descriptors, counts, ends.tolist(), strict=True):
        if descriptor.columns is not STANDARD_COLUMNS:
            _blank_columns(store, descriptor.columns, places[end - count : end])
            yield


def _announced(descriptor: CompactDescriptor) -> int:
    """Return the metrics that a descriptor announces, as a bit mask; without columns, all."""
    if descriptor.rollup is not None:
        return bits_of(descriptor.rollup_columns)
    if descriptor.columns is STANDARD_COLUMNS:
        return _STANDARD_BITS
    if not descriptor.columns:
        # JSON names its values itself.
        return _ALL_BITS
    return bits_of(column.name for column in descriptor.columns)


def _blank_columns(store: Store, columns: Sequence[ColumnSpec], rows: NDArray[np.int64]) -> None:
    """Mark values not among a descriptor's columns as not available.

    Otherwise a former value would be drawn as live.
    """
    names = {column.name for column in columns if is_known(column)}
    chips = store.layout.chip_rows(rows)
    for metric in (*CHIP_METRICS, *INSTANCE_METRICS):
        if metric.name not in names:
            store.columns[metric.name][chips if metric.scope is Scope.CHIP else rows] = metric.top


class LayoutPatch(NamedTuple):
    """The changes of a layout."""

    changes: DescriptorChanges
    made: ChangedLayout


def find_patch(store: Store, descriptors: Descriptors) -> LayoutPatch | None:
    """Return the changes since the store's layout was made.

    None if the next one must be made from all descriptors.
    """
    changes = descriptors.changed.take()
    lanes = descriptors.lane_sets.names()
    layout = store.layout
    if changes is None or lanes is None or layout.has_rolled or store.rolled.blocks:
        return None
    if (store.publisher_of < 0).any():
        # Its publisher had no number, and may have one by now.
        return None
    gone: dict[str, str] = {}
    added: dict[str, str] = {}
    described = 0
    for path, was in changes.former.items():
        now = descriptors.get(path)
        if (was is not None and was.members) or (now is not None and now.members):
            return None
        if was is not None:
            gone.update(zip(was.instances, was.types, strict=True))
        if now is not None:
            added.update(zip(now.instances, now.types, strict=True))
            described += len(now.instances)
    same = gone.items() & added.items()
    if described != len(added) or not gone.keys() <= layout.instance_index.keys():
        return None
    gone = dict(gone.items() - same)
    added = dict(added.items() - same)
    if not (added.keys() - gone.keys()).isdisjoint(layout.instance_index):
        return None
    if len(layout.instances) - len(gone) + len(added) != descriptors.instances:
        # Some are described more than once, perhaps by an unchanged descriptor.
        return None
    return LayoutPatch(changes, changed(layout, gone, added, lanes))


def patch_layout(
    patch: LayoutPatch,
    store: Store,
    descriptors: Descriptors,
    publishers: Publishers,
    timebase: Timebase,
    topics: Topics,
    now_s: float,
) -> Slices[None]:
    """Apply a small layout change to store, publishers, clocks and topics, in slices.

    Args:
        patch: The changes.
        store: The store.
        descriptors: All descriptors of the fleet.
        publishers: The publishers named by descriptors. Others are removed.
        timebase: The clocks, likewise.
        topics: The topics.
        now_s: Monotonic seconds, at which new instances count as described.
    """
    changes, (layout, numbers) = patch
    former_layout = store.layout
    yield
    next_store = yield from store.moved(layout, numbers)
    next_store.described_s[np.isinf(next_store.described_s)] = now_s
    present = [known for path in changes.former if (known := descriptors.get(path)) is not None]
    for descriptor in present:
        rows = [layout.instance_index[path] for path in descriptor.instances]
        next_store.publisher_of[rows] = -1
        write_descriptor(next_store, descriptor, publishers)
    unnamed = [
        (client, boot)
        for client, boot in dict.fromkeys((client, boot) for client, boot, _ in changes.gone)
        if not _is_named(client, boot, present, descriptors)
    ]
    yield
    boots, traffic_rows = publishers.drop(unnamed)
    next_store.publisher_of = boots[next_store.publisher_of]
    store.take_over(next_store)
    store.rolled.follow(layout, {})
    log.info(
        "layout_changed",
        chips=layout.chips,
        instances=len(layout.instances),
        generation=store.generation,
    )
    yield
    publishers.traffic.count_paths(descriptors.paths_of)
    for _, _, clock in changes.gone:
        if clock not in descriptors.instances_of:
            timebase.drop(clock)
    yield
    remaining = np.flatnonzero(numbers >= 0)
    places = np.full(len(former_layout.instances), -1)
    places[numbers[remaining]] = remaining
    shift = Shift(places, former_layout.chip_start, layout.chip_start, boots, traffic_rows)
    yield from topics.shift(layout, changes.former, shift)
    # Last: where anything fails before, the next layout is made from all descriptors.
    descriptors.changed.begin()


def _is_named(
    client: str, boot: str, present: list[CompactDescriptor], descriptors: Descriptors
) -> bool:
    """Return whether any descriptor names a boot.

    The changed descriptors are checked first, the others only if the publisher has others.
    """
    own = [descriptor for descriptor in present if descriptor.publisher == client]
    if any(descriptor.boot == boot for descriptor in own):
        return True
    has_others = descriptors.paths_of.get(client, 0) > len(own)
    return has_others and any(
        descriptor.publisher == client and descriptor.boot == boot for descriptor in descriptors
    )
