"""The Fleet view's filter.

Matching chips stand out on the map. Problems remain if they or their chips match.
"""

from __future__ import annotations

import operator
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len

from trnfleet.domain.alerts.alert import has_id
from trnfleet.domain.filters.columns import SEVERITY, severity_number
from trnfleet.domain.filters.language import EVERYTHING, Either, Filter, Not, Part, Term
from trnfleet.monitor.problems import texts
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.state.chip_table import ChipTable
from trnfleet.tui.widgets.bar import cut
from trnfleet.tui.widgets.cells import Parts, fit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trnfleet.domain.address import Names
    from trnfleet.monitor.problems.problem import Problem
    from trnfleet.tui.state.context import UiContext

_LEAST_PATTERN = 12
"""Cells reserved for the typed filter beside a long result."""


def filter_head(pattern: str, result: str, width: int) -> Parts:
    """Return a filter as one line: the pattern, its result and the clear key.

    The pattern and the result are cut to fit.

    Args:
        pattern: The filter as it was typed.
        result: What it leaves, in words.
        width: Cells.
    """
    typed = plain(pattern, 200)
    key = "Esc shows all" if cell_len(f" /{typed}  {result}  Esc shows all") <= width else "Esc"
    room = width - len(f" /    {key}")
    typed_cells = min(cell_len(typed), max(_LEAST_PATTERN, room - cell_len(result)))
    result_cells = max(0, min(cell_len(result), room - typed_cells))
    parts: Parts = [
        (f" /{fit(typed, typed_cells)}  {fit(result, result_cells)}", theme.LINK),
        (f"  {key}", theme.QUIET),
    ]
    return cut(parts, width)


class ProblemRow(NamedTuple):
    """A problem as a filter sees it."""

    problem: Problem

    def value(self, column: str) -> str | float | None:
        """Return its severity, or its address for any other column."""
        if column == SEVERITY.name:
            return severity_number(self.problem.severity)
        return self.problem.place.address

    def has(self, part: str) -> bool:
        problem = self.problem
        said = (
            problem.place.address,
            *problem.place[1:],
            problem.text,
            problem.owner,
            problem.subsystem,
        )
        jobs = (name for impact in problem.jobs for name in _names_of(impact.job, problem.names))
        words = "\n".join((*said, texts.place_text(problem.place, problem.names), *jobs)).lower()
        return part in words or any(has_id(held.alert.fingerprint, part) for held in problem.alerts)


def _names_of(job: str, names: Names) -> tuple[str, str]:
    """Return the names by which a filter finds a job."""
    return job, names.job(job)


class FleetFilter:
    """A filter and its matches in the fleet on screen."""

    def __init__(self, context: UiContext) -> None:
        self._context = context
        self._monitor = context.monitor
        self._table = ChipTable(context.monitor, context.alerts)
        self._masks: dict[Term, NDArray[np.bool_]] = {}
        self._of: object = None
        self.query = EVERYTHING
        self.revision = 0
        """Goes up whenever something else may be left."""

    def apply(self, query: Filter) -> None:
        """Take another filter."""
        self.query = query
        self._masks.clear()
        self._of = None
        self.revision += 1

    def follow(self) -> bool:
        """Evaluate the filter again if values, alerts or the layout changed.

        Return True if it was evaluated.
        """
        revision = self._monitor.revision
        key: tuple[int, ...] = (revision.source, self._monitor.store.generation)
        if ChipTable.is_living(self.query):
            key = (*key, self._context.frame.rollups.revision, self._context.alerts.revision)
        if not self.query or key == self._of:
            return False
        self._of = key
        self._masks.clear()
        self.revision += 1
        return True

    @property
    def mask(self) -> NDArray[np.bool_] | None:
        """Mask of matching chips, None for all.

        The chips of problems with matching words are included.
        """
        return self._all(self.query) if self.query else None

    def keeps(self, problem: Problem) -> bool:
        """Return whether a problem is left."""
        return self._holds_all(self.query, problem)

    def _holds_all(self, query: Filter, problem: Problem) -> bool:
        return all(self._holds(term, problem) for term in query.terms)

    def _all(self, query: Filter) -> NDArray[np.bool_]:
        return reduce(operator.and_, map(self._mask, query.terms))

    def _mask(self, term: Term) -> NDArray[np.bool_]:
        known = self._masks.get(term)
        if known is None:
            if isinstance(term, Not):
                known = ~self._mask(term.term)
            elif isinstance(term, Either):
                known = reduce(operator.or_, map(self._all, term.options))
            else:
                known = term.mask(self._table)
                if isinstance(term, Part):
                    for problem in self._context.alerts.problems.all:
                        if term.keeps(ProblemRow(problem)):
                            rows = self._chips(problem)
                            known[rows.start : rows.stop] = True
            self._masks[term] = known
        return known

    def _holds(self, term: Term, problem: Problem) -> bool:
        if isinstance(term, Not):
            return not self._holds(term.term, problem)
        if isinstance(term, Either):
            return any(self._holds_all(option, problem) for option in term.options)
        if isinstance(term, Part) or term.column.name in {SEVERITY.name, "at"}:
            return term.keeps(ProblemRow(problem))
        if term.column.name == "job" and any(
            term.fits(name)
            for impact in problem.jobs
            for name in _names_of(impact.job, problem.names)
        ):
            return True
        rows = self._chips(problem)
        return bool(self._mask(term)[rows.start : rows.stop].any())

    def _chips(self, problem: Problem) -> range:
        """Return the chips of a problem's place; empty without an address."""
        layout = self._monitor.store.layout
        address = problem.place.address
        node = layout.find(address) if address else None
        return range(0) if node is None else layout.chip_range(node)
