"""A chart with what stands over it: its name, the present figures, and the span."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.tui import theme
from trnfleet.tui.widgets.charts import legend

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.tui.widgets.cells import Parts
    from trnfleet.tui.widgets.charts import Chart


class Trend(NamedTuple):
    """One chart with what stands over it."""

    name: str
    key: str
    """The field whose present mean stands beside the name; empty for none."""
    of: str
    """What that is to be compared with, such as a cap."""
    chart: Chart
    figures: tuple[str, ...]
    """Of the series in the legend; keys of fields where `has_keys`."""
    note: str
    has_keys: bool = False
    jobs: tuple[str, ...] = ()
    """Names of all jobs, where the series are of some: a part of a name must be that of no other."""

    def title(self, figure: Callable[[str], str], width: int) -> Parts:
        """Return the title: its name, the fleet's present value, and the legend.

        Args:
            figure: Returns the fleet's present mean of a field, written.
            width: Cells of the chart.
        """
        value = f" {figure(self.key)}" if self.key else ""
        parts: Parts = [(self.name, theme.STRONG), (value + self.of, theme.BASE)]
        series = [each for each in self.chart.series if each.name]
        if not series:
            return parts
        written = tuple(map(figure, self.figures)) if self.has_keys else self.figures
        bare: Parts = [parts[0], (value, theme.BASE)]
        room = width - sum(len(text) for text, _ in parts)
        whole = sum(
            len(each.name) + len(text) + 3 for each, text in zip(series, written, strict=True)
        )
        # What the line is a mean over goes before figures; with these the span stays.
        span = len(self.note.partition(", ")[0]) + 3
        if whole <= room - span:
            return [*parts, *legend(series, written, room - span, self.jobs)]
        # The note goes before names are cut, then what the value is compared with.
        for title, note in ((parts, len(self.note) + 3), (parts, 2), (bare, 2)):
            found = [
                *title,
                *legend(
                    series, written, width - note - sum(len(text) for text, _ in title), self.jobs
                ),
            ]
            if len(found) == len(title) + len(series) and not found[-1][0].startswith(" +"):
                break
        return found
