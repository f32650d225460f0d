"""The context of the views of a fleet: made once by the app, given to each view, and by it to its widgets.

An app that watches several fleets has a context for each, and `Fleets` has what counts for all of them: their problems as one list, their
brokers. With one fleet that is what the fleet itself has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.clock import NS_PER_S
from trnfleet.monitor.problems.problem import ProblemCounts, Problems
from trnfleet.monitor.problems.search import urgency
from trnfleet.tui.state.alerts import AlertSnapshot
from trnfleet.tui.state.chart_window import ChartWindow
from trnfleet.tui.state.frame import Frame
from trnfleet.tui.state.highlight import Highlight

if TYPE_CHECKING:
    from collections.abc import Hashable

    from trnfleet.clock import Clock
    from trnfleet.monitor.alerting.operator import OperatorActions
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.minutes.folder import FleetHistory
    from trnfleet.monitor.problems.problem import Problem
    from trnfleet.monitor.replay.controls import Playback
    from trnfleet.monitor.sources.leases import Leases
    from trnfleet.wire.ports import LinkStatus


class UiContext(NamedTuple):
    """The fleet that is shown, and what all views share about it."""

    monitor: FleetState
    """What is shown; another monitor may be behind it at any time, which `View.renew` reports."""
    clock: Clock
    """The real one, by which painting is paced; ages go by the monitor's own."""
    alerts: AlertSnapshot
    """The alerts that are shown."""
    highlight: Highlight
    """The reservation that is picked out."""
    frame: Frame
    """The pass of which everything on the screen is."""
    window: ChartWindow
    """The span that charts show."""
    fleets: Fleets
    """All fleets that the app watches, this one among them."""
    playback: Playback | None = None
    """What goes back in time; None where nothing is kept."""
    operator: OperatorActions | None = None
    """Where acknowledgements and silences are written; None for a screen that only reads."""
    history: FleetHistory | None = None
    """The files of months; None for none."""
    leases: Leases | None = None
    """What asks relays for chips; None where nothing is live."""

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
        """Return the context of a fleet, and enter it among all of them.

        Args:
            monitor: What is shown of the fleet.
            clock: The real clock.
            playback: What goes back in time.
            operator: Where acknowledgements and silences are written.
            history: The files of months.
            leases: What asks relays for chips.
            beside: The context of another fleet of the same app; None for the first.
        """
        fleets = Fleets() if beside is None else beside.fleets
        made = UiContext(
            monitor,
            clock,
            AlertSnapshot(monitor),
            Highlight(monitor),
            Frame(monitor),
            ChartWindow() if beside is None else beside.window,
            fleets,
            playback,
            operator,
            history,
            leases,
        )
        fleets.contexts.append(made)
        if history is not None:
            made.window.kept_s.append(lambda: made.kept_s)
        return made

    @property
    def kept_s(self) -> int:
        """Wall seconds for which history reaches back; 0 where it has nothing."""
        reach, moment = None if self.history is None else self.history.reach, self.monitor.moment()
        if reach is None:
            return 0
        return max(0, int((moment.time_ns - reach.first_ns) / NS_PER_S / (moment.speed or 1.0)))

    @property
    def live(self) -> FleetState:
        """The fleet's present; what is shown where there is no other."""
        live = None if self.playback is None else self.playback.live
        return self.monitor if live is None else live

    @property
    def shows_past(self) -> bool:
        """Whether the past, or a file, is shown."""
        return self.playback is not None and self.playback.shows_past


_OF = "\n"
"""Between the fleet's name and the key of a problem; in neither of them."""


class WatchedFleet(NamedTuple):
    """A fleet for the app, whose coroutines the caller runs."""

    state: FleetState
    """What is shown of it; with a playback, what that shows."""
    playback: Playback | None = None
    """What goes back in time; None where nothing is kept."""
    operator: OperatorActions | None = None
    """Where acknowledgements and silences are written; None for a screen that only reads."""
    history: FleetHistory | None = None
    """The files of months; None for none."""
    leases: Leases | None = None
    """What asks relays for chips; None where nothing is live."""

    def context(self, clock: Clock, beside: UiContext | None = None) -> UiContext:
        """Return the context of the fleet, and enter it among those of the app."""
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
    """The contexts of all fleets, in the order in which they are shown."""

    def __init__(self) -> None:
        self.contexts: list[UiContext] = []
        self.not_shown = 0
        """Fleets that have come and are not among them, because they are as many as the app takes."""
        self._problems = Problems()
        self._problems_of: tuple[Problems, ...] = ()

    @property
    def are_several(self) -> bool:
        """Whether there is more than one."""
        return len(self.contexts) > 1

    @property
    def names(self) -> list[str]:
        """Their names."""
        return [each.monitor.fleet_name for each in self.contexts]

    def find(self, name: str) -> UiContext:
        """Return the context of a fleet that there is."""
        return self.contexts[self.names.index(name)]

    def beside(self, context: UiContext) -> dict[str, AlertSnapshot]:
        """Return the alerts of the fleets but one, by the fleets' names."""
        return {
            each.monitor.fleet_name: each.alerts for each in self.contexts if each is not context
        }

    @property
    def revision(self) -> int:
        """Goes up with every reading of alerts of any of them."""
        return sum([each.alerts.revision for each in self.contexts])

    @property
    def problems(self) -> Problems:
        """The problems of all, the most urgent first; with several fleets each has the fleet's name in its key."""
        if not self.are_several:
            return self.contexts[0].alerts.problems
        found = tuple([each.alerts.problems for each in self.contexts])
        if len(found) != len(self._problems_of) or any(
            one is not other for one, other in zip(found, self._problems_of, strict=True)
        ):
            self._problems_of = found
            keyed = [
                each._replace(key=f"{name}{_OF}{each.key}")
                for name, problems in zip(self.names, found, strict=True)
                for each in problems.all
            ]
            self._problems = Problems(
                tuple(sorted(keyed, key=urgency)),
                tuple(each for problems in found for each in problems.pending),
                sum(problems.left_out for problems in found),
            )
        return self._problems

    def of_problem(self, problem: Problem) -> UiContext:
        """Return the context of the fleet that one of `problems` is of."""
        return self.find(problem.key.partition(_OF)[0]) if self.are_several else self.contexts[0]

    @property
    def problem_counts(self) -> ProblemCounts:
        """Numbers of problems of all of them."""
        if not self.are_several:
            return self.contexts[0].alerts.problem_counts
        return ProblemCounts(
            *map(sum, zip(*(each.alerts.problem_counts for each in self.contexts), strict=True))
        )

    @property
    def links(self) -> list[LinkStatus]:
        """The live connections to brokers, one a broker: one that is away where a fleet has lost it."""
        found: dict[str, LinkStatus] = {}
        for each in self.contexts:
            link = each.live.link
            for part in link.parts or (link,):
                if part.broker not in found or not part.connected:
                    found[part.broker] = part
        return list(found.values())

    def news(self, shown: UiContext) -> Hashable:
        """Return what differs once anything has changed that is shown of the fleets but one."""
        return tuple(
            [each.monitor.revision._replace(store=0) for each in self.contexts if each is not shown]
        )
