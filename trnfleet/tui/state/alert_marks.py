"""Where alerts are: the worst severity at or below each node of the hierarchy, in columns by its number.

Pure: it knows a layout and addresses, and neither a monitor nor a widget. Chips are sparse, because few have an alert.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.layout import EMPTY_LAYOUT
from trnfleet.domain.severity import BY_RANK, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout, Node

NONE = len(Severity)
"""Above the rank of every severity: of a node without an alert."""


class Marks(NamedTuple):
    """The rank of the worst severity of the alerts at or below every node of one layout; `NONE` where there is none."""

    fleet: int
    clusters: NDArray[np.int8]
    """Shape (clusters,)."""
    ultraservers: NDArray[np.int8]
    """Shape (ultraservers,), standalone segments included."""
    instances: NDArray[np.int8]
    """Shape (instances,)."""
    chips: Mapping[int, int]
    """By chip row; what is not there has none."""

    def at(self, node: Node) -> Severity | None:
        """Return the worst severity at or below a node of the layout; None for no alert, or a node of another layout."""
        level, number = node
        if level is Level.FLEET:
            found = self.fleet
        elif level >= Level.CHIP:
            found = self.chips.get(number, NONE) if level is Level.CHIP else NONE
        else:
            column = {
                Level.CLUSTER: self.clusters,
                Level.ULTRASERVER: self.ultraservers,
                Level.INSTANCE: self.instances,
            }[level]
            found = int(column[number]) if number < len(column) else NONE
        return None if found == NONE else BY_RANK[found]


def mark(layout: Layout, places: Iterable[tuple[Node | None, Severity]]) -> Marks:
    """Return the marks of alerts.

    Args:
        layout: What nodes are numbers of.
        places: The node of each alert, with its severity; None for what is nowhere in the fleet, which marks nothing.
    """
    found = [(node.level, node.number, severity.rank) for node, severity in places if node is not None]
    rows = np.array(found, np.int64).reshape(-1, 3)
    columns = {
        level: np.full(layout.count(level), NONE, np.int8)
        for level in (Level.FLEET, Level.CLUSTER, Level.ULTRASERVER, Level.INSTANCE)
    }
    for level, column in columns.items():
        here = rows[rows[:, 0] == level]
        np.minimum.at(column, here[:, 1], here[:, 2].astype(np.int8))
    on_chips = rows[rows[:, 0] == Level.CHIP]
    chips: dict[int, int] = {}
    for number, severity in on_chips[:, 1:].tolist():
        chips[number] = min(chips.get(number, NONE), severity)
    instances, ultraservers = columns[Level.INSTANCE], columns[Level.ULTRASERVER]
    if len(on_chips):
        owners = layout.instance_of_chip[on_chips[:, 1]]
        np.minimum.at(instances, owners, on_chips[:, 2].astype(np.int8))
    _lift(instances, layout.ultraserver_start, ultraservers)
    _lift(ultraservers, layout.cluster_start, columns[Level.CLUSTER])
    fleet = min(int(columns[Level.FLEET][0]), int(columns[Level.CLUSTER].min(initial=NONE)))
    return Marks(fleet, columns[Level.CLUSTER], ultraservers, instances, chips)


def _lift(below: NDArray[np.int8], starts: NDArray[np.int64], above: NDArray[np.int8]) -> None:
    """Mark what is above marked nodes; a node's children are `starts[node]` to `starts[node + 1]`."""
    marked = np.flatnonzero(below < NONE)
    if len(marked):
        np.minimum.at(above, np.searchsorted(starts, marked, side="right") - 1, below[marked])


NO_MARKS = mark(EMPTY_LAYOUT, ())
"""Of a fleet without alerts."""
