"""The context of the views of a fleet.

The app makes it once and passes it to each view, and the view to its widgets. An app watching
several fleets has a context for each; `Fleets` has the common part: their problems as one list,
their brokers. With one fleet, that is the fleet's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.clock import NS_PER_S, Clock
from trnfleet.monitor.fleet_state import LOADING
from trnfleet.monitor.problems.problem import Problem, ProblemCounts, Problems
from trnfleet.monitor.problems.search import urgency
from trnfleet.tui.state.alerts import AlertSnapshot
from trnfleet.tui.state.chart_window import ChartWindow
from trnfleet.tui.state.highlight import Highlight
from trnfleet.tui.state.kept import KeptCaps, KeptColumns

if TYPE_CHECKING:
    from collections.abc import Hashable

    from trnfleet.monitor.alerting.operator import OperatorActions
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.minutes.minutes import FleetHistory
    from trnfleet.monitor.power import KwhPrice
    from trnfleet.monitor.replay.controls import Playback
    from trnfleet.monitor.sources.leases import Leases
    from trnfleet.monitor.store.averages import Averages
    from trnfleet.monitor.store.rollup import Rollups
    from trnfleet.monitor.summary import Summary
    from trnfleet.wire.ports import LinkStatus


class ShownPass:
    """One pass of the monitor that is shown."""

    def __init__(self, monitor: FleetState) -> None:
        self._monitor = monitor
        self._averages: Averages | None = None
        self._summary: Summary | None = None
        self._source = -1

    def refresh(self) -> None:
        """Take the newest pass."""
        self._averages, self._summary = self._monitor.averages, self._monitor.summary()
        self._source = self._monitor.revision.source

    @property
    def averages(self) -> Averages:
        """Means over the last seconds."""
        return (
            self._averages
            if self._averages is not None and self._is_of_shown
            else self._monitor.averages
        )

    @property
    def rollups(self) -> Rollups:
        """Roll-ups of the pass."""
        return self.averages.rollups

    @property
    def summary(self) -> Summary:
        """The fleet in a few figures."""
        return (
            self._summary
            if self._summary is not None and self._is_of_shown
            else self._monitor.summary()
        )

    @property
    def _is_of_shown(self) -> bool:
        """Whether the frame is of the monitor shown.

        Layouts of two monitors may have the same generation.
        """
        return self._source == self._monitor.revision.source


class UiContext(NamedTuple):
    """The fleet shown, and the state shared by all views of it."""

    monitor: FleetState
    """The monitor shown. It may be replaced at any time; `View.renew` reports it."""
    clock: Clock
    """The real clock for the pace of painting; ages use the monitor's own."""
    alerts: AlertSnapshot
    """The alerts that are shown."""
    highlight: Highlight
    """The reservation that is picked out."""
    frame: ShownPass
    """The pass shown on the whole screen."""
    window: ChartWindow
    """The span that charts show."""
    fleets: Fleets
    """All fleets of the app, including this one."""
    playback: Playback | None = None
    """Playback of the past; None without a recording."""
    operator: OperatorActions | None = None
    """Writer of acknowledgements and silences; None for a read-only screen."""
    history: FleetHistory | None = None
    """The files of months; None for none."""
    leases: Leases | None = None
    """Requests to relays for chips; None without a live source."""

    @property
    def is_loading(self) -> bool:
        """Whether the past is on its way, or described instances are, so that sums will grow."""
        joins = self.frame.summary.joining_instances
        return bool(joins) or self.monitor.incomplete == LOADING

    @staticmethod
    def of(
        monitor: FleetState,
        clock: Clock,
        *,
        playback: Playback | None = None,
        operator: OperatorActions | None = None,
        history: FleetHistory | None = None,
        leases: Leases | None = None,
        beside: UiContext | None = None,
    ) -> UiContext:
        """Return the context of a fleet, and register it with the app's fleets.

        Args:
            monitor: The monitor shown.
            clock: The real clock.
            playback: Playback of the past.
            operator: Writer of acknowledgements and silences.
            history: The files of months.
            leases: Requests to relays for chips.
            beside: The context of another fleet of the same app; None for the first.
        """
        fleets = Fleets() if beside is None else beside.fleets
        made = UiContext(
            monitor,
            clock,
            AlertSnapshot(monitor),
            Highlight(monitor),
            ShownPass(monitor),
            ChartWindow() if beside is None else beside.window,
            fleets,
            playback,
            operator,
            history,
            leases,
        )
        fleets.contexts.append(made)
        monitor.caps.update(fleets.caps.caps_of(monitor.fleet_name))
        if history is not None:
            made.window.kept_s.append(lambda: made.kept_s)
        return made

    @property
    def kept_s(self) -> int:
        """Wall seconds covered by history; 0 without history."""
        reach = None if self.history is None else self.history.reach
        moment = self.monitor.moment()
        if reach is None:
            return 0
        return max(0, int((moment.time_ns - reach.first_ns) / NS_PER_S / (moment.speed or 1.0)))

    @property
    def live(self) -> FleetState:
        """The fleet's present; the monitor shown if there is no other."""
        live = None if self.playback is None else self.playback.live
        return self.monitor if live is None else live

    @property
    def shows_past(self) -> bool:
        """Whether the past, or a file, is shown."""
        return self.playback is not None and self.playback.shows_past


_OF = "\n"
"""Between the fleet's name and the key of a problem; in neither of them."""


class WatchedFleet(NamedTuple):
    """A fleet for the app.

    The caller runs its coroutines.
    """

    state: FleetState
    """The state shown; with a playback, the playback's."""
    playback: Playback | None = None
    """Playback of the past; None without a recording."""
    operator: OperatorActions | None = None
    """Writer of acknowledgements and silences; None for a read-only screen."""
    history: FleetHistory | None = None
    """The files of months; None for none."""
    leases: Leases | None = None
    """Requests to relays for chips; None without a live source."""

    def context(self, clock: Clock, beside: UiContext | None = None) -> UiContext:
        """Return the context of the fleet, and register it with the app's fleets."""
        return UiContext.of(
            self.state,
            clock,
            playback=self.playback,
            operator=self.operator,
            history=self.history,
            leases=self.leases,
            beside=beside,
        )


class Fleets:
    """The contexts of all fleets, in display order."""

    def __init__(self) -> None:
        self.contexts: list[UiContext] = []
        self.not_shown = 0
        """Fleets not shown because the app has reached its limit of fleets."""
        self.kwh_price: KwhPrice | None = None
        """Price of energy; None for no money."""
        self.shows_local_time = False
        """Whether the header shows local time beside UTC."""
        self.caps = KeptCaps()
        """Power caps typed in the app."""
        self.columns = KeptColumns()
        """Columns of Hierarchy chosen in the app."""
        self._problems = Problems()
        self._problems_of: tuple[Problems, ...] = ()

    @property
    def are_several(self) -> bool:
        """Whether there is more than one."""
        return len(self.contexts) > 1

    @property
    def names(self) -> list[str]:
        """Their names."""
        return [context.monitor.fleet_name for context in self.contexts]

    def find(self, name: str) -> UiContext:
        """Return the context of an existing fleet."""
        return self.contexts[self.names.index(name)]

    def beside(self, context: UiContext) -> dict[str, AlertSnapshot]:
        """Return the alerts of the fleets but one, by the fleets' names."""
        return {
            other.monitor.fleet_name: other.alerts
            for other in self.contexts
            if other is not context
        }

    @property
    def revision(self) -> int:
        """Goes up with every reading of alerts of any of them."""
        return sum([context.alerts.revision for context in self.contexts])

    @property
    def problems(self) -> Problems:
        """The problems of all fleets, the most urgent first.

        With several fleets, keys have the fleet's name.
        """
        if not self.are_several:
            return self.contexts[0].alerts.problems
        fleet_problems = tuple([context.alerts.problems for context in self.contexts])
        if len(fleet_problems) != len(self._problems_of) or any(
            one is not other for one, other in zip(fleet_problems, self._problems_of, strict=True)
        ):
            self._problems_of = fleet_problems
            keyed = [
                problem._replace(key=f"{name}{_OF}{problem.key}")
                for name, problems in zip(self.names, fleet_problems, strict=True)
                for problem in problems.all
            ]
            self._problems = Problems(
                tuple(sorted(keyed, key=urgency)),
                tuple(problem for problems in fleet_problems for problem in problems.pending),
                sum(problems.left_out for problems in fleet_problems),
            )
        return self._problems

    def of_problem(self, problem: Problem) -> UiContext:
        """Return the context of the fleet of one of `problems`."""
        return self.find(problem.key.partition(_OF)[0]) if self.are_several else self.contexts[0]

    @property
    def problem_counts(self) -> ProblemCounts:
        """Numbers of problems of all of them."""
        if not self.are_several:
            return self.contexts[0].alerts.problem_counts
        return ProblemCounts(
            *map(
                sum, zip(*(context.alerts.problem_counts for context in self.contexts), strict=True)
            )
        )

    @property
    def links(self) -> list[LinkStatus]:
        """The live connections, one per broker.

        A broker is away if any fleet has lost it.
        """
        links: dict[str, LinkStatus] = {}
        for context in self.contexts:
            link = context.live.link
            for part in link.parts or (link,):
                if part.broker not in links or not part.connected:
                    links[part.broker] = part
        return list(links.values())

    def news(self, shown: UiContext) -> Hashable:
        """Return a value that differs after any change of the other fleets.

        Only their visible parts count.
        """
        return tuple(
            [
                context.monitor.revision._replace(store=0)
                for context in self.contexts
                if context is not shown
            ]
        )
