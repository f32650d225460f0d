"""The tables of views and of tabs: the key and the hints of each; the app makes a view of every row of `VIEWS`.

CONTRIBUTING.md lists what else belongs to a new view.
"""

from __future__ import annotations

from typing import NamedTuple

from trnfleet.tui.alerts.view import AlertsView
from trnfleet.tui.bars.tabs import Tab
from trnfleet.tui.chip.view import ChipView
from trnfleet.tui.events.view import EventsView
from trnfleet.tui.fleet.view import FleetView
from trnfleet.tui.hierarchy.view import HierarchyView
from trnfleet.tui.reservations.view import ReservationsView
from trnfleet.tui.view import ALERTS, CHIP, EVENTS, FLEET, HIERARCHY, RESERVATIONS, View


class ViewEntry(NamedTuple):
    """A view."""

    key: str
    """The key that opens it, from every other view."""
    title: str
    """What the tabs call it, and what `View.Open` may ask for."""
    kind: type[View]
    hints: tuple[tuple[str, str], ...] = ()
    """Keys with what they do, the most important first, for the status line while it is on the screen."""


VIEWS = (
    ViewEntry("1", FLEET, FleetView, (("m", "metric"), ("+ _", "zoom"), ("w", "problems"))),
    ViewEntry("2", HIERARCHY, HierarchyView, (("/", "filter"), ("s", "sort"), ("x", "open all"))),
    ViewEntry("4", CHIP, ChipView, (("← →", "chips"), ("p", "provenance"))),
    ViewEntry("7", RESERVATIONS, ReservationsView, (("/", "filter"), ("s", "sort"), ("+ _", "zoom"))),
    ViewEntry(
        "8", ALERTS, AlertsView, (("t", "tabs"), ("a", "acknowledge"), ("z", "silence"), ("/", "filter"))
    ),
    ViewEntry("9", EVENTS, EventsView, (("t", "pipeline"), ("/", "filter"), ("o", "moment"))),
)
"""In the order of their keys; the app begins with the first."""

TOPOLOGY, JOBS, POWER = "Topology", "Jobs", "Power"
_BUILT = {view.title for view in VIEWS}
TABS = tuple(
    tab._replace(is_built=tab.title in _BUILT)
    for tab in (
        Tab("1", FLEET, "Fleet"),
        Tab("2", HIERARCHY, "Tree"),
        Tab("3", TOPOLOGY, "Topo"),
        Tab("4", CHIP, "Chip"),
        Tab("5", JOBS, "Jobs", has_count=True),
        Tab("6", POWER, "Power"),
        Tab("7", RESERVATIONS, "Resv", has_count=True),
        Tab("8", ALERTS, "Alert", has_count=True),
        Tab("9", EVENTS, "Event"),
    )
)
"""The tabs of all views, also of those that are not built yet, whose keys say so."""
