"""The fleet's past: charts for the space that a small fleet's heat map leaves.

It shows the whole fleet, whatever the cursor is on; a chip's own past is the Chip view's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.domain.address import Level
from trnfleet.domain.quantities import with_unit
from trnfleet.monitor.store.fields import BY_KEY
from trnfleet.tui.fleet.trend_charts import trend_makers
from trnfleet.tui.trends.grid import ChartGrid

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.tui.trends.trend import Trend


class Trends(ChartGrid):
    """Charts of the fleet beside and below each other."""

    def makers(self) -> list[Callable[[], Trend]]:
        return trend_makers(self._ui)

    def figure(self, key: str) -> str:
        """Return the header's mean of a field."""
        store, averages = self._ui.monitor.store, self._ui.frame.averages
        is_ready = averages.rollups.ready and averages.generation == store.generation
        field = BY_KEY[key]
        value = float(field.values(store, averages, Level.FLEET, None)[0]) if is_ready else None
        return with_unit(value, field.unit)
