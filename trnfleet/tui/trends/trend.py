"""A chart with its heading: name, present figures and span."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.tui import theme
from trnfleet.tui.widgets.charts import legend

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.tui.widgets.cells import Parts
    from trnfleet.tui.widgets.charts import Chart


class Trend(NamedTuple):
    """One chart with its title."""

    name: str
    key: str
    """Field of the present mean in the title; empty for none."""
    of: str
    """Text of a value for comparison, such as a cap."""
    chart: Chart
    figures: tuple[str, ...]
    """Of the series in the legend; keys of fields where `has_keys`."""
    note: str
    has_keys: bool = False
    jobs: tuple[str, ...] = ()
    """Names of all jobs if the series are a selection. Shortened names must be unique among them.
    """

    def title(self, figure: Callable[[str], str], width: int) -> Parts:
        """Return the title: its name, the fleet's present value, and the legend.

        Args:
            figure: Returns the fleet's present mean of a field, written.
            width: Cells of the chart.
        """
        value = f" {figure(self.key)}" if self.key else ""
        parts: Parts = [(self.name, theme.STRONG), (value + self.of, theme.BASE)]
        series = [line for line in self.chart.series if line.name]
        if not series:
            return parts
        written = tuple(map(figure, self.figures)) if self.has_keys else self.figures
        bare: Parts = [parts[0], (value, theme.BASE)]
        room = width - sum(len(text) for text, _ in parts)
        whole = sum(
            len(line.name) + len(text) + 3 for line, text in zip(series, written, strict=True)
        )
        # What the line is a mean over goes before figures; with these the span stays.
        span = len(self.note.partition(", ")[0]) + 3
        if whole <= room - span:
            return [*parts, *legend(series, written, room - span, self.jobs)]
        # The note goes before names are cut, then what the value is compared with.
        for title, note in ((parts, len(self.note) + 3), (parts, 2), (bare, 2)):
            head = [
                *title,
                *legend(
                    series, written, width - note - sum(len(text) for text, _ in title), self.jobs
                ),
            ]
            if len(head) == len(title) + len(series) and not head[-1][0].startswith(" +"):
                break
        return head
