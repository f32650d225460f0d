"""The context of the views: made once by the app, given to each view, and by it to its widgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.tui.state.alerts import AlertSnapshot
from trnfleet.tui.state.chart_window import ChartWindow
from trnfleet.tui.state.frame import Frame
from trnfleet.tui.state.highlight import Highlight

if TYPE_CHECKING:
    from trnfleet.clock import Clock
    from trnfleet.monitor.alerting.operator import OperatorActions
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.replay.controls import Playback


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
    playback: Playback | None = None
    """What goes back in time; None where nothing is kept."""
    operator: OperatorActions | None = None
    """Where acknowledgements and silences are written; None for a screen that only reads."""

    @staticmethod
    def of(
        monitor: FleetState,
        clock: Clock,
        *,
        playback: Playback | None = None,
        operator: OperatorActions | None = None,
    ) -> UiContext:
        return UiContext(
            monitor,
            clock,
            AlertSnapshot(monitor),
            Highlight(monitor),
            Frame(monitor),
            ChartWindow(),
            playback,
            operator,
        )

    @property
    def shows_past(self) -> bool:
        """Whether the past, or a file, is shown."""
        return self.playback is not None and self.playback.shows_past
