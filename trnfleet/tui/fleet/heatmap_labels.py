"""The label above each group of the map.

It has the group's name and the sign of its worst alert; with enough room also job, power and
temperature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.quantities import counted, with_unit
from trnfleet.domain.severity import BY_RANK
from trnfleet.monitor.store.fields import BY_KEY
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.fleet.heatmap_grid import MARGIN
from trnfleet.tui.format.addresses import without_start
from trnfleet.tui.state.alerts import NONE
from trnfleet.tui.state.descriptors import Descriptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from textual.geometry import Region

    from trnfleet.tui.fleet.heatmap_grid import Grid
    from trnfleet.tui.fleet.heatmap_style import Span
    from trnfleet.tui.fleet.heatmap_zoom import Zoom
    from trnfleet.tui.state.context import UiContext

FIELDS = (BY_KEY["power_w"], BY_KEY["temperature_c"])
_LEAST = 8
"""Cells below which nothing of it fits."""


class GroupDetails:
    """Details of the groups of one map, from the tree's rows on screen."""

    def __init__(self, context: UiContext) -> None:
        self._monitor = context.monitor
        self._frame = context.frame
        self._descriptions = Descriptions(context.monitor)

    def of(self, group: int, grid: Grid, room: int) -> list[tuple[int, str]]:
        """Return the texts for the available room, with their offsets.

        Args:
            group: Number of the group.
            grid: Its grid.
            room: Cells behind its name.
        """
        number = int(grid.group_ultraserver[group])
        if room < _LEAST or self._monitor.store.layout.is_standalone[number]:
            # Standalone instances share a group and a type, and nothing else.
            return []
        texts: list[tuple[int, str]] = []
        used = 0
        for text in self._texts(group, grid):
            if text and used + 1 + len(text) <= room:
                texts.append((used, f" {text}"))
                used += 1 + len(text)
        return texts

    def _texts(self, group: int, grid: Grid) -> Iterator[str]:
        store = self._monitor.store
        averages = self._frame.averages
        instances = grid.instances_of(group)
        jobs = set(store.job_of[instances].tolist())
        if len(jobs) == 1:
            yield self._descriptions.job_name(jobs.pop())
        else:
            yield counted(len(jobs - {-1}), "job")
        if not averages.rollups.ready or averages.generation != store.generation:
            return
        level = Level.ULTRASERVER
        nodes = grid.group_ultraserver[group : group + 1]
        if grid.is_part[group]:
            level = Level.INSTANCE
            nodes = instances
        for field in FIELDS:
            values = field.values(store, averages, level, nodes)
            known = values[~np.isnan(values)]
            if len(known):
                yield with_unit(float(known.max() if field.is_max else known.sum()), field.unit)


class GroupLabels:
    """The lines above the groups of one map."""

    def __init__(self, context: UiContext) -> None:
        self._monitor = context.monitor
        self._alerts = context.alerts
        self._details = GroupDetails(context)
        self._alerted: tuple[int, Grid | None, NDArray[np.int8]] = (-1, None, np.zeros(0, np.int8))
        """Alert revision, grid, and the worst alert severity of each group."""

    def spans(
        self, grid: Grid, zoom: Zoom, selected_at: tuple[int, int], window: Region
    ) -> dict[int, list[Span]]:
        """Return the labels of the groups in a window of the map, by row.

        Args:
            grid: The groups and their places.
            zoom: The size of everything.
            selected_at: The pixel that the cursor is on, whose group is marked.
            window: The part of the map that is on the screen, in cells.
        """
        left, top, width, height = window
        labels: dict[int, list[Span]] = {}
        if not zoom.label:
            return labels
        pitch = len(zoom.across)
        high = len(zoom.down) // 2
        beside, below = zoom.blocks(grid)
        marks = self._marks(grid)
        x, y = selected_at
        selected = y // zoom.block * beside + x // zoom.block
        for block_row in range(max(0, top // high), min(below, (top + height) // high + 1)):
            row = block_row * high - top
            if not 0 <= row < height:
                continue
            for column in range(
                max(0, (left - MARGIN) // pitch), min(beside, (left + width) // pitch + 1)
            ):
                group = int(grid.group_at[block_row, column])
                if group >= 0:
                    style = theme.LINK if block_row * beside + column == selected else theme.QUIET
                    at = column * pitch + MARGIN - left
                    room = pitch - zoom.gap
                    worst = int(marks[group]) if group < len(marks) else NONE
                    name = self._name(grid, group, room if worst == NONE else room - 2)
                    spans = labels.setdefault(row, [])
                    spans.append((at, name, style))
                    if worst != NONE:
                        severity = BY_RANK[worst]
                        sign = f" {theme.SEVERITY_GLYPH[severity]}"
                        spans.append((at + len(name), sign, theme.SEVERITY_STYLE[severity]))
                    used = len(name) + (0 if worst == NONE else 2)
                    spans.extend(
                        (at + used + before, text, theme.QUIET)
                        for before, text in self._details.of(group, grid, room - used)
                    )
        return labels

    def _marks(self, grid: Grid) -> NDArray[np.int8]:
        """Return the worst alert severity of each group; `NONE` without an alert."""
        alerts = self._alerts
        layout = self._monitor.store.layout
        if not alerts.has_rules or len(alerts.marks.instances) != len(layout.instances):
            return np.zeros(0, np.int8)
        revision, marked_grid = self._alerted[:2]
        if revision != alerts.revision or marked_grid is not grid:
            marks = np.full(grid.groups, NONE, np.int8)
            np.minimum.at(
                marks, grid.tile_group[grid.piece_tile], alerts.marks.instances[grid.piece_instance]
            )
            # A segment of standalone instances is no group of its own.
            is_server = ~layout.is_standalone[grid.group_ultraserver]
            servers = alerts.marks.ultraservers
            # A mark that the whole has from an instance is not that of its other parts.
            below = np.minimum.reduceat(alerts.marks.instances, layout.ultraserver_start[:-1])
            own = np.where(servers < below, servers, NONE)
            servers = np.where(
                grid.is_part, own[grid.group_ultraserver], servers[grid.group_ultraserver]
            )
            marks[is_server] = np.minimum(marks, servers)[is_server]
            self._alerted = alerts.revision, grid, marks
        return self._alerted[2]

    def _name(self, grid: Grid, group: int, width: int) -> str:
        """Return a group's name.

        For an UltraServer it is its name, plus the ends of its instances' names if it has other
        groups. For standalone instances it is the first name, plus the end of the last.
        """
        layout = self._monitor.store.layout
        number = int(grid.group_ultraserver[group])
        first, last = (
            layout.instances[index] for index in grid.instances_of(group)[[0, -1]].tolist()
        )
        path = first if layout.is_standalone[number] else layout.ultraservers[number]
        name = path.rpartition("/")[2]
        if len(layout.clusters) > 1 and width >= 16:
            name = f"{path.partition('/')[0]}/{name}"
        name = plain(name)
        first, last = (plain(end.rpartition("/")[2].rpartition("-")[2]) for end in (first, last))
        if grid.is_part[group] and not layout.is_standalone[number]:
            part = f"{first}..{last}"
            name = next((form for form in (f"{name} {part}", part) if len(form) <= width), first)
        elif layout.is_standalone[number] and first != last:
            name = next(
                (form for form in (f"{name}..{last}", f"{name}..") if len(form) <= width), name
            )
        return without_start(name, width)
