"""The open rows of the tree as a table with all figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.domain.address import Level
from trnfleet.monitor.store.store import Freshness
from trnfleet.tui.hierarchy.index import node_path
from trnfleet.tui.hierarchy.rows import TreeRows, by_level
from trnfleet.tui.metric_display import TREE
from trnfleet.tui.snapshots.table import MOST_ROWS, Table, titled

if TYPE_CHECKING:
    from trnfleet.tui.hierarchy.index import TreeIndex
    from trnfleet.tui.snapshots.table import Value
    from trnfleet.tui.state.context import UiContext
    from trnfleet.tui.state.descriptors import Descriptions

_FIRST = ("address", "level", "chips", "live")


def open_rows(context: UiContext, descriptions: Descriptions, index: TreeIndex) -> Table:
    """Return the rows of an index over the present layout, without rows of other fleets.

    Figures computed from the chips in each pass are unknown until the first pass of that layout.
    """
    reader = TreeRows(context, descriptions)
    layout = index.layout
    rows = [row for row in index.window(0, min(index.rows, MOST_ROWS)) if row.fleet < 0]
    table: list[list[Value]] = [[] for _ in rows]
    for level, (places, numbers) in by_level(rows).items():
        counts = reader.counts(level, numbers)
        figures = [reader.values(shown.field.key, level, numbers).tolist() for shown in TREE]
        has_counts = level is not Level.CORE and reader.has_counts(level)
        chips = counts.sum(axis=1).tolist()
        live = counts[:, Freshness.LIVE].tolist()
        for number, place in enumerate(places):
            node = rows[place].node
            table[place] = [
                node_path(layout, node),
                level.name.lower(),
                *((chips[number], live[number]) if has_counts else (None, None)),
                *(column[number] for column in figures),
                reader.job(node),
            ]
    titles = (*_FIRST, *(titled(shown.field.key, shown.field.unit) for shown in TREE), "job")
    return Table(titles, table, index.rows if index.rows > MOST_ROWS else 0)
