"""The store's layout and its rows of instances, written from descriptors."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from trnfleet import logs
from trnfleet.domain.layout import Layout
from trnfleet.domain.metrics import CHIP_METRICS, INSTANCE_METRICS, Scope
from trnfleet.monitor.store.rolled import RolledBlock
from trnfleet.wire.frames import is_known
from trnfleet.wire.messages import STANDARD_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from trnfleet.monitor.sources.descriptors import CompactDescriptor
    from trnfleet.monitor.sources.publishers import Publishers
    from trnfleet.monitor.store.store import Store

log = logs.get_logger(__name__)


def rebuild_layout(
    store: Store, descriptors: Iterable[CompactDescriptor], publishers: Publishers, now_s: float
) -> None:
    """Give the store the layout of all descriptors, and write them into its rows.

    Args:
        store: The store.
        descriptors: All of the fleet.
        publishers: Those that the descriptors name, as they are numbered now.
        now_s: Monotonic seconds, at which new instances count as described.
    """
    types: dict[str, str] = {}
    lanes: dict[str, tuple[str, ...]] = {}
    every = list(descriptors)
    blocks = [each for each in every if each.members]
    # Where two describe the same instance, the one with the narrower path knows better.
    widest_first = sorted(
        (each for each in every if not each.members),
        key=lambda descriptor: (descriptor.path.count("/"), "/block-" not in descriptor.path),
    )
    for descriptor in widest_first:
        types.update(zip(descriptor.instances, descriptor.types, strict=True))
        lanes.update(descriptor.lanes)
    # Rows get their publisher from the descriptors, and then from the messages that are written.
    store.publisher_of[:] = -1
    rolled = _add_rolled(types, blocks)
    layout = Layout.of(types.items(), lanes, rolled)
    store.replace_layout(layout)
    store.described_s[np.isinf(store.described_s)] = now_s
    _write_descriptors(store, [*blocks, *widest_first], publishers)
    store.rolled.follow(
        layout,
        {
            each.path: RolledBlock(
                each.instances, (*each.rollup.totals, *each.rollup.counters), each.cell, each.period_s
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
        "layout_rebuilt", chips=layout.chips, instances=len(layout.instances), generation=store.generation
    )


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
    for block in blocks:
        for row, kind, members in zip(block.instances, block.types, block.members, strict=True):
            if row.count("/") != 1:
                continue
            described = below.get(row, ())
            if len(described) < members and row not in rolled:
                for path in described:
                    types.pop(path, None)
                types[row], rolled[row] = kind, members
    for block in blocks:
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
        store.publisher_of[rows if is_online else rows[store.publisher_of[rows] < 0]] = publisher.number
    if descriptor.columns is not STANDARD_COLUMNS:
        _blank_columns(store, descriptor, rows)


def _write_descriptors(
    store: Store, descriptors: Sequence[CompactDescriptor], publishers: Publishers
) -> None:
    """Write descriptors, one after the other, as `write_descriptor` does: many at once take a tenth of the time."""
    index = store.layout.instance_index
    # Of roll-ups, and of what is below them, the layout may leave something out.
    shown = [[path for path in each.instances if path in index] for each in descriptors]
    counts = [len(each) for each in shown]
    paths = itertools.chain.from_iterable(shown)
    rows = np.fromiter((index[path] for path in paths), np.int64, sum(counts))
    store.period_s[rows] = np.repeat(np.array([each.period_s for each in descriptors], np.float64), counts)
    if any(each.links for each in descriptors):
        store.links_of[rows] = np.repeat(np.array([each.links for each in descriptors], np.int32), counts)
    store.is_forwarded[:] = False
    if any(each.relay_boot for each in descriptors):
        flags = np.array([bool(each.relay_boot) for each in descriptors], np.bool_)
        store.is_forwarded[rows] = np.repeat(flags, counts)
    found = [publishers.find(each.publisher, each.boot) for each in descriptors]
    numbers = np.repeat(np.array([-1 if each is None else each.number for each in found], np.int32), counts)
    is_online = np.repeat(
        np.array([each is not None and publishers.is_online(each) for each in found], np.bool_), counts
    )
    is_offline = (numbers >= 0) & ~is_online
    # The last one that is there has an instance, else the first of those that are gone.
    store.publisher_of[rows[is_offline][::-1]] = numbers[is_offline][::-1]
    store.publisher_of[rows[is_online]] = numbers[is_online]
    for descriptor, own in zip(descriptors, shown, strict=True):
        if descriptor.columns is not STANDARD_COLUMNS:
            _blank_columns(store, descriptor, np.array([index[path] for path in own], np.int64))


def _blank_columns(store: Store, descriptor: CompactDescriptor, rows: NDArray[np.int64]) -> None:
    """Make what a descriptor does not announce not available, so that no former value is drawn as live."""
    names = {column.name for column in descriptor.columns if is_known(column)}
    chips = store.layout.chip_rows(rows)
    for metric in (*CHIP_METRICS, *INSTANCE_METRICS):
        if metric.name not in names:
            store.columns[metric.name][chips if metric.scope is Scope.CHIP else rows] = metric.top
