"""The metrics of a chip and of its instance, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.tui.snapshots.table import Table

if TYPE_CHECKING:
    from trnfleet.tui.chip.reading import ChipFacts
    from trnfleet.tui.snapshots.table import Value

TITLES = ("address", "metric", "lane", "value", "unit", "origin", "source", "freshness")


def metric_table(facts: ChipFacts) -> Table:
    """Return the metrics of a chip, a row a lane; a value that is not live says so."""
    rows: list[tuple[Value, ...]] = []
    instance, freshness = facts.address.rpartition("/")[0], facts.freshness.name.lower()
    for each in facts.provenance:
        name, unit = each.metric.name, each.metric.unit
        found = facts.values.get(name)
        values = [facts.host[name]] if found is None else found.tolist()
        address = instance if found is None else facts.address
        for lane, value in enumerate(values):
            number = lane if len(values) > 1 else None
            rows.append((address, name, number, value, unit, each.origin, each.source, freshness))
    return Table(TITLES, rows)
