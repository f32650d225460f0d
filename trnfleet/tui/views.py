"""The tables of views and of tabs, with the key and the hints of each.

The app makes a view of a row of `VIEWS` when it is opened. Until then its modules are not loaded:
with their widgets all of them need 2.6 MiB (measured, the demo's app with Python 3.11 on Linux).
CONTRIBUTING.md lists the other parts of a new view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.tui.bars.tabs import Tab
from trnfleet.tui.fleet.view import FleetView
from trnfleet.tui.view import (
    ALERTS,
    CHIP,
    EVENTS,
    FLEET,
    HIERARCHY,
    JOBS,
    POWER,
    RESERVATIONS,
    TOPOLOGY,
    View,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.tui.alerts.view import AlertsView
    from trnfleet.tui.chip.view import ChipView
    from trnfleet.tui.events.view import EventsView
    from trnfleet.tui.hierarchy.view import HierarchyView
    from trnfleet.tui.jobs.view import JobsView
    from trnfleet.tui.power.view import PowerView
    from trnfleet.tui.reservations.view import ReservationsView
    from trnfleet.tui.topology.view import TopologyView


def fleet_view() -> type[FleetView]:
    """Return the class of Fleet, the app's first view."""
    return FleetView


def hierarchy_view() -> type[HierarchyView]:
    """Return the class of Hierarchy."""
    from trnfleet.tui.hierarchy.view import HierarchyView  # noqa: PLC0415

    return HierarchyView


def topology_view() -> type[TopologyView]:
    """Return the class of Topology."""
    from trnfleet.tui.topology.view import TopologyView  # noqa: PLC0415

    return TopologyView


def chip_view() -> type[ChipView]:
    """Return the class of Chip."""
    from trnfleet.tui.chip.view import ChipView  # noqa: PLC0415

    return ChipView


def jobs_view() -> type[JobsView]:
    """Return the class of Jobs."""
    from trnfleet.tui.jobs.view import JobsView  # noqa: PLC0415

    return JobsView


def power_view() -> type[PowerView]:
    """Return the class of Power."""
    from trnfleet.tui.power.view import PowerView  # noqa: PLC0415

    return PowerView


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

    tab: Tab
    """Its key in every other view, and its titles."""
    kind: Callable[[], type[View]]
    """Loads its class."""
    hints: tuple[tuple[str, str], ...] = ()
    """Names of keys with their actions for the status line, the most important first."""
    names: tuple[str, ...] = ()
    """Further names of it as a command."""

    @property
    def key(self) -> str:
        return self.tab.key

    @property
    def title(self) -> str:
        """Title in the tabs and for `View.Open`."""
        return self.tab.title


VIEWS = (
    ViewEntry(
        Tab("1", FLEET, "Fleet"),
        fleet_view,
        (("next-metric", "metric"), ("zoom-in zoom-out", "zoom"), ("next-pane", "problems")),
        ("problems",),
    ),
    ViewEntry(
        Tab("2", HIERARCHY, "Tree"),
        hierarchy_view,
        (("filter", "filter"), ("sort", "sort"), ("open-all", "open all")),
        ("tree",),
    ),
    ViewEntry(
        Tab("3", TOPOLOGY, "Topo"),
        topology_view,
        (("next-instance", "instance"), ("colour", "colour"), ("fleet-links", "fleet")),
        ("links",),
    ),
    ViewEntry(
        Tab("4", CHIP, "Chip"),
        chip_view,
        (("previous-chip next-chip", "chips"), ("sources", "sources")),
    ),
    ViewEntry(
        Tab("5", JOBS, "Jobs", has_count=True),
        jobs_view,
        (("money", "hours"), ("job-details", "details"), ("filter", "filter"), ("sort", "sort")),
        ("goodput",),
    ),
    ViewEntry(
        Tab("6", POWER, "Power"),
        power_view,
        (("group", "group"), ("sort", "sort"), ("filter", "filter"), (":cap", "set a cap")),
    ),
    ViewEntry(
        Tab("7", RESERVATIONS, "Resv", has_count=True),
        reservations_view,
        (("filter", "filter"), ("sort", "sort"), ("zoom-in zoom-out", "zoom")),
        ("capacity",),
    ),
    ViewEntry(
        Tab("8", ALERTS, "Alert", has_count=True),
        alerts_view,
        (
            ("next-tab", "tabs"),
            ("acknowledge", "acknowledge"),
            ("silence", "silence"),
            ("filter", "filter"),
        ),
    ),
    ViewEntry(
        Tab("9", EVENTS, "Event"),
        events_view,
        (("next-tab", "pipeline"), ("filter", "filter"), ("moment", "moment")),
    ),
)
"""In the order of their keys; the app begins with the first."""
TABS = tuple(view.tab for view in VIEWS)
