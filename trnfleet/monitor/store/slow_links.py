"""Where links can be slow: the instances and lanes in which a chip carries far less than its peers, which findings look at.

Of most instances the roll-ups' spreads say that none is; chips that are less busy than others are left out, too.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.domain.hardware.topology import MOST_LANES
from trnfleet.domain.metrics import BY_NAME
from trnfleet.monitor.slices import checkpoint
from trnfleet.monitor.store.per_instance import any_lane, sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.slices import Slices
    from trnfleet.monitor.store.rollup import Rollups
    from trnfleet.monitor.store.store import Store

SLOW_LINK_SHARE = 0.75
"""A link that carries less than this share of what its peers in the instance carry."""
SLOW_LINK_MIN_BYTES_PER_S = 2e9
"""Below this mean traffic, peers say nothing about a link."""
_UNEVEN_A_SLICE = 4_096
_SLACK = 1e-5
"""Share by which a value in single precision may be wrong after a few operations, and more."""


def uneven_links(store: Store, rollups: Rollups) -> Slices[NDArray[np.int64]]:
    """Return the instances and directions in which a link can be slow; shape (pairs, 2), ascending."""
    layout, metric = store.layout, BY_NAME["link_tx_bytes_per_s"]
    differing = rollups.uneven(metric.name)
    spread = None if differing is None else rollups.spread(metric.name, differing.instances)
    if spread is None or differing is None:
        return np.zeros((0, 2), np.int64)
    some = differing.instances
    lowest, highest = spread
    # Only where the spread is that wide can a link be below its share of the mean.
    uneven: NDArray[np.bool_] = lowest < np.float32(SLOW_LINK_SHARE) * highest
    uneven &= highest >= metric.code_of(SLOW_LINK_MIN_BYTES_PER_S)
    if not layout.has_uneven_links.any():
        uneven &= highest != metric.top
    else:
        # The chips at a line's ends lack a link, so that the largest code tells nothing.
        uneven |= (highest == metric.top) & (lowest != metric.top)
    uneven &= ~_alike(layout, some, highest, differing.alike, metric.top)
    yield from checkpoint(store, rollups.generation)
    # Chips that carry as little on the other lanes of the same axis have less to do.
    left = np.flatnonzero(any_lane(uneven))
    for first in range(0, len(left), _UNEVEN_A_SLICE):
        few = left[first : first + _UNEVEN_A_SLICE]
        uneven[few] &= _apart(layout, store.columns[metric.name], metric.top, some[few])
        yield from checkpoint(store, rollups.generation)
    places, lanes = np.nonzero(uneven)
    return np.stack((some[places], lanes), axis=1)


def _alike(
    layout: Layout,
    instances: NDArray[np.int64],
    highest: NDArray[Any],
    alike: NDArray[np.float32],
    top: int,
) -> NDArray[np.bool_]:
    """Return instances x lanes, whether no chip can carry less there than its share of the busiest lane of the same axis.

    Args:
        layout: Where the instances are.
        instances: Their numbers.
        highest: The largest codes of their chips, lane by lane.
        alike: How alike the lanes of their chips are, as `Uneven` has it.
        top: The code that means not available.
    """
    found = np.zeros(highest.shape, np.bool_)
    types, known = layout.instance_type[instances], np.where(highest == top, 0, highest)
    for number, axes in enumerate(lane_axes(layout).tolist()):
        of_type = types == number
        for axis in set(axes) - {-1}:
            lanes = [lane for lane, each in enumerate(axes) if each == axis]
            busiest = functools.reduce(np.maximum, (known[:, lane] for lane in lanes))
            limit = np.float32(SLOW_LINK_SHARE * (1 + _SLACK)) * busiest
            for lane in lanes if len(lanes) > 1 else ():
                found[:, lane] |= of_type & (alike * known[:, lane] >= limit)
    return found


def _apart(
    layout: Layout, codes: NDArray[Any], top: int, instances: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return instances x lanes, whether a chip carries less there than on the other lanes of the same axis, or there are none."""
    apart = np.ones((len(instances), MOST_LANES), np.bool_)
    types = layout.instance_type[instances]
    for number, axes in enumerate(lane_axes(layout).tolist()):
        places = np.flatnonzero(types == number)
        if not len(places):
            continue
        own = codes[layout.chip_rows(instances[places])]
        own[own == top] = 0
        for axis in set(axes) - {-1}:
            lanes = [lane for lane, each in enumerate(axes) if each == axis]
            busiest = functools.reduce(np.maximum, (own[:, lane] for lane in lanes))
            limit = busiest * np.float32(SLOW_LINK_SHARE)
            for lane in lanes if len(lanes) > 1 else ():
                slow = (own[:, lane] < limit).view(np.uint8)
                apart[places, lane] = sums(slow, len(slow) // len(places), 1) > 0
    return apart


def lane_axes(layout: Layout) -> NDArray[np.int64]:
    """Return a number for the axis of each lane of each instance type; shape (types, lanes)."""
    names: dict[str, int] = {}
    axes = np.full((len(layout.types), MOST_LANES), -1, np.int64)
    for number, kind in enumerate(layout.types):
        for lane, each in enumerate(kind.lanes):
            axes[number, lane] = names.setdefault(each.axis, len(names))
    return axes
