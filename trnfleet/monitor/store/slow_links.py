"""Candidate slow links: instances and lanes with a chip far below its peers.

Findings check the candidates. The roll-ups' spreads rule out most instances. Chips less busy than
others are left out, too.
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
"""A link below this share of its peers in the instance is slow."""
SLOW_LINK_MIN_BYTES_PER_S = 2e9
"""Below this mean traffic, peers say nothing about a link."""
_UNEVEN_A_SLICE = 4_096
_SLACK = 1e-5
"""Tolerance for a single-precision value after a few operations, with a margin."""


def uneven_links(store: Store, rollups: Rollups) -> Slices[NDArray[np.int64]]:
    """Return the instances and directions of possible slow links.

    Shape (pairs, 2), ascending.
    """
    layout = store.layout
    metric = BY_NAME["link_tx_bytes_per_s"]
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
    """Return a mask, instances x lanes, without possible slow links.

    No chip can be below its share of the busiest lane of the same axis there.

    Args:
        layout: Where the instances are.
        instances: Their numbers.
        highest: The largest codes of their chips, lane by lane.
        alike: How alike the lanes of their chips are, as `Uneven` has it.
        top: The code that means not available.
    """
    mask = np.zeros(highest.shape, np.bool_)
    types = layout.instance_type[instances]
    known = np.where(highest == top, 0, highest)
    for number, axes in enumerate(lane_axes(layout).tolist()):
        of_type = types == number
        for axis in set(axes) - {-1}:
            lanes = [lane for lane, lane_axis in enumerate(axes) if lane_axis == axis]
            busiest = functools.reduce(np.maximum, (known[:, lane] for lane in lanes))
            limit = np.float32(SLOW_LINK_SHARE * (1 + _SLACK)) * busiest
            for lane in lanes if len(lanes) > 1 else ():
                mask[:, lane] |= of_type & (alike * known[:, lane] >= limit)
    return mask


def _apart(
    layout: Layout, codes: NDArray[Any], top: int, instances: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return a mask, instances x lanes, of lanes below the others of the same axis.

    Also set if the axis has no other lanes.
    """
    apart = np.ones((len(instances), MOST_LANES), np.bool_)
    types = layout.instance_type[instances]
    for number, axes in enumerate(lane_axes(layout).tolist()):
        places = np.flatnonzero(types == number)
        if not len(places):
            continue
        own = codes[layout.chip_rows(instances[places])]
        own[own == top] = 0
        for axis in set(axes) - {-1}:
            lanes = [lane for lane, lane_axis in enumerate(axes) if lane_axis == axis]
            busiest = functools.reduce(np.maximum, (own[:, lane] for lane in lanes))
            limit = busiest * np.float32(SLOW_LINK_SHARE)
            for lane in lanes if len(lanes) > 1 else ():
                slow = (own[:, lane] < limit).view(np.uint8)
                apart[places, lane] = sums(slow, len(slow) // len(places), 1) > 0
    return apart


def lane_axes(layout: Layout) -> NDArray[np.int64]:
    """Return a number for the axis of each lane of each instance type.

    Shape (types, lanes).
    """
    names: dict[str, int] = {}
    axes = np.full((len(layout.types), MOST_LANES), -1, np.int64)
    for number, kind in enumerate(layout.types):
        for lane, spec in enumerate(kind.lanes):
            axes[number, lane] = names.setdefault(spec.axis, len(names))
    return axes
