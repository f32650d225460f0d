"""The tables of views and of tabs: the key and the hints of each; the app makes a view of a row of `VIEWS` when it is opened.

Until then its modules are not loaded: with their widgets all of them take 2.6 MiB (measured, the demo's app with Python 3.11 on Linux).
CONTRIBUTING.md lists what else belongs to a new view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.tui.bars.tabs import Tab
from trnfleet.tui.fleet.view import FleetView
from trnfleet.tui.view import ALERTS, CHIP, EVENTS, FLEET, HIERARCHY, RESERVATIONS, View

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.tui.alerts.view import AlertsView
    from trnfleet.tui.chip.view import ChipView
    from trnfleet.tui.events.view import EventsView
    from trnfleet.tui.hierarchy.view import HierarchyView
    from trnfleet.tui.reservations.view import ReservationsView


def fleet_view() -> type[FleetView]:
    """Return the class of Fleet, with which the app begins."""
    return FleetView


def hierarchy_view() -> type[HierarchyView]:
    """Return the class of Hierarchy."""
    from trnfleet.tui.hierarchy.view import HierarchyView  # noqa: PLC0415

    return HierarchyView


def chip_view() -> type[ChipView]:
    """Return the class of Chip."""
    from trnfleet.tui.chip.view import ChipView  # noqa: PLC0415

    return ChipView


def reservations_view() -> type[ReservationsView]:
    """Return the class of Reservations."""
    from trnfleet.tui.reservations.view import ReservationsView  # noqa: PLC0415

    return ReservationsView


def alerts_view() -> type[AlertsView]:
    """Return the class of Alerts."""
    from trnfleet.tui.alerts.view import AlertsView  # noqa: PLC0415

    return AlertsView


def events_view() -> type[EventsView]:
    """Return the class of Events."""
    from trnfleet.tui.events.view import EventsView  # noqa: PLC0415

    return EventsView


class ViewEntry(NamedTuple):
    """A view."""

    key: str
    """The key that opens it, from every other view."""
    title: str
    """What the tabs call it, and what `View.Open` may ask for."""
    kind: Callable[[], type[View]]
    """Loads its class."""
    hints: tuple[tuple[str, str], ...] = ()
    """Keys with what they do, the most important first, for the status line while it is on the screen."""


VIEWS = (
    ViewEntry("1", FLEET, fleet_view, (("m", "metric"), ("+ _", "zoom"), ("w", "problems"))),
    ViewEntry("2", HIERARCHY, hierarchy_view, (("/", "filter"), ("s", "sort"), ("x", "open all"))),
    ViewEntry("4", CHIP, chip_view, (("← →", "chips"), ("p", "provenance"))),
    ViewEntry(
        "7", RESERVATIONS, reservations_view, (("/", "filter"), ("s", "sort"), ("+ _", "zoom"))
    ),
    ViewEntry(
        "8",
        ALERTS,
        alerts_view,
        (("t", "tabs"), ("a", "acknowledge"), ("z", "silence"), ("/", "filter")),
    ),
    ViewEntry("9", EVENTS, events_view, (("t", "pipeline"), ("/", "filter"), ("o", "moment"))),
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
