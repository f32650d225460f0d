"""What stands behind the name of an UltraServer on the map where there is room: its job, its power and its highest temperature."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.quantities import with_unit
from trnfleet.monitor.store.fields import BY_KEY
from trnfleet.tui.state.descriptors import Descriptions

if TYPE_CHECKING:
    from trnfleet.tui.fleet.heatmap_grid import Grid
    from trnfleet.tui.state.context import UiContext

FIELDS = (BY_KEY["power_w"], BY_KEY["temperature_c"])
_LEAST = 8
"""Cells below which nothing of it fits."""


class GroupDetails:
    """Details of the groups of one map, of the pass that is on the screen: those of the tree's rows."""

    def __init__(self, context: UiContext) -> None:
        self._monitor = context.monitor
        self._frame = context.frame
        self._descriptions = Descriptions(context.monitor)

    def of(self, group: int, grid: Grid, room: int) -> list[tuple[int, str]]:
        """Return texts with where they begin, as many of them as there is room for.

        Args:
            group: Number of the group.
            grid: Its grid.
            room: Cells behind its name.
        """
        layout, number = self._monitor.store.layout, int(grid.group_ultraserver[group])
        if room < _LEAST or layout.is_standalone[number]:
            # Standalone instances share a group and nothing else.
            return []
        found: list[tuple[int, str]] = []
        used = 0
        for text in self._texts(number):
            if text and used + 1 + len(text) <= room:
                found.append((used, f" {text}"))
                used += 1 + len(text)
        return found

    def _texts(self, number: int) -> list[str]:
        store, averages = self._monitor.store, self._frame.averages
        start, stop = store.layout.ultraserver_start[number : number + 2]
        jobs = np.unique(store.job_of[start:stop])
        job = self._descriptions.job_name(int(jobs[0])) if len(jobs) == 1 else f"{(jobs >= 0).sum()} jobs"
        if not averages.rollups.ready or averages.generation != store.generation:
            return [job]
        node = np.array([number])
        values = [float(field.values(store, averages, Level.ULTRASERVER, node)[0]) for field in FIELDS]
        return [
            job,
            *(
                with_unit(value, field.unit)
                for value, field in zip(values, FIELDS, strict=True)
                if not np.isnan(value)
            ),
        ]
