"""A layout with a few changes, made from the one before.

This is the cost of a host joining or leaving a large fleet. Only changed descriptors, publishers,
clocks and topics are processed. All other columns move as a whole, and their numbers are replaced
at once, both at memory speed. The result equals `rebuild_layout` of all descriptors. That is used
if many have changed, if two describe the same instance, and if roll-ups stand for instances.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet import logs
from trnfleet.monitor.ingest.frame_rows import Shift
from trnfleet.monitor.ingest.layout import write_descriptor
from trnfleet.monitor.store.layout_changes import changed

if TYPE_CHECKING:
    from trnfleet.monitor.ingest.topics import Topics
    from trnfleet.monitor.slices import Slices
    from trnfleet.monitor.sources.clocks import Timebase
    from trnfleet.monitor.sources.descriptor_parts import DescriptorChanges
    from trnfleet.monitor.sources.descriptors import CompactDescriptor, Descriptors
    from trnfleet.monitor.sources.publishers import Publishers
    from trnfleet.monitor.store.layout_changes import ChangedLayout
    from trnfleet.monitor.store.store import Store

log = logs.get_logger(__name__)


class LayoutPatch(NamedTuple):
    """The changes of a layout."""

    changes: DescriptorChanges[CompactDescriptor]
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
