"""One metric in a monitor and on its screen, for tests with a changed table."""

from __future__ import annotations

from typing import NamedTuple

from support.monitor.feed import Feed, ultraservers
from trnfleet.domain.address import Level
from trnfleet.domain.metrics import BY_NAME, Scope
from trnfleet.tui.chip.reading import CounterRates, read_chip
from trnfleet.tui.chip.view import arrange
from trnfleet.tui.hierarchy.columns import plan
from trnfleet.tui.metric_display import HEAT_MAP
from trnfleet.tui.state.context import UiContext
from trnfleet.tui.state.descriptors import Descriptions

WIDE = 420
"""Cells in which the tree has every column."""


class Probe(NamedTuple):
    """Plain values, because their classes are the test's own copies."""

    decoded: list[float]
    fleet: float
    heat_map: tuple[str, ...]
    """Titles in the heat map's order."""
    tree: tuple[str, ...]
    """Heads of columns, left to right."""
    narrow_tree: tuple[str, ...]
    wide_chip: str
    """The chip view's text at 240 cells."""
    narrow_chip: str
    """The same at 80 cells."""


def probe(name: str, value: float, *, json: bool) -> Probe:
    """Return the result of 64 chips publishing one value of a metric.

    Instance metrics come from their 4 instances.
    """
    feed = Feed(ultraservers(1), json=json)
    feed.scatter()
    feed.set(name, value)
    feed.describe()
    feed.tick()
    monitor = feed.monitor
    metric = BY_NAME[name]
    context = UiContext.of(monitor, feed.clock)
    facts = read_chip(
        context,
        Descriptions(monitor),
        5,
        feed.clock.monotonic_s(),
        CounterRates(),
    )
    texts = (
        "\n".join(line.make().text for line in arrange(facts, width, 60, provenance=False))
        for width in (240, 80)
    )
    read = monitor.store.chip_values if metric.scope is Scope.CHIP else monitor.store.values
    return Probe(
        read(metric, slice(None)).tolist(),
        float(monitor.rollups.value(name, Level.FLEET)[0]),
        tuple(field.title for field in HEAT_MAP),
        tuple(column.title for column in plan(WIDE).columns),
        tuple(column.title for column in plan(120).columns),
        *texts,
    )
