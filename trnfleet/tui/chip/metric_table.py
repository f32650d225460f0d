"""The metrics of a chip and of its instance, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.tui.snapshots.table import Table

if TYPE_CHECKING:
    from trnfleet.tui.chip.reading import ChipFacts
    from trnfleet.tui.snapshots.table import Value

TITLES = ("address", "metric", "lane", "value", "unit", "origin", "source", "freshness")


def metric_table(facts: ChipFacts) -> Table:
    """Return a chip's metrics as a table, a row per lane.

    Values that are not live are marked.
    """
    rows: list[tuple[Value, ...]] = []
    instance = facts.address.rpartition("/")[0]
    freshness = facts.freshness.name.lower()
    for record in facts.provenance:
        name = record.metric.name
        unit = record.metric.unit
        lane_values = facts.values.get(name)
        values = [facts.host[name]] if lane_values is None else lane_values.tolist()
        address = instance if lane_values is None else facts.address
        for lane, value in enumerate(values):
            number = lane if len(values) > 1 else None
            rows.append(
                (address, name, number, value, unit, record.origin, record.source, freshness)
            )
    return Table(TITLES, rows)
