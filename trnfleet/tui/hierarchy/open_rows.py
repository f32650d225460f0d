"""The rows of the tree that are open, as a table with all figures of each."""

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
    """Return the rows of an index over the present layout; those of other fleets are not among them.

    What is made of chips' values in each pass is not known until there was one of that layout.
    """
    reader, layout = TreeRows(context, descriptions), index.layout
    rows = [row for row in index.window(0, min(index.rows, MOST_ROWS)) if row.fleet < 0]
    table: list[list[Value]] = [[] for _ in rows]
    for level, (places, numbers) in by_level(rows).items():
        counts = reader.counts(level, numbers)
        figures = [reader.values(shown.field.key, level, numbers).tolist() for shown in TREE]
        has_counts = level is not Level.CORE and reader.has_counts(level)
        chips, live = counts.sum(axis=1).tolist(), counts[:, Freshness.LIVE].tolist()
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
