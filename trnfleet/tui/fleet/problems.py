"""The list of problems for the operator, with a cursor that the heat map follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from trnfleet.clock import format_rfc3339
from trnfleet.domain.alerts.signals import Scope
from trnfleet.domain.alerts.subsystems import LINK
from trnfleet.domain.quantities import count
from trnfleet.monitor.problems import texts
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.fleet.filtering import FleetFilter
from trnfleet.tui.fleet.jobs import FleetList
from trnfleet.tui.format.problems import place_in
from trnfleet.tui.keys import key_label
from trnfleet.tui.snapshots.table import ExportTable
from trnfleet.tui.view import ALERTS, TOPOLOGY, View
from trnfleet.tui.widgets.cells import Parts, fit, width_of, wrapped
from trnfleet.tui.widgets.line_view import Line, text_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.style import Style

    from trnfleet.monitor.problems.problem import Problem, Problems
    from trnfleet.tui.state.context import UiContext

_PLACE_SHARE = 0.5
"""Largest share of the width for places; the problem's text needs the rest."""
AGE = 4
_AROUND = 6 + AGE
"""Cells of a first line beside place and words: cursor, sign, gaps and age."""
_ALIGNED_FROM = 64
"""Least width for problem texts in one column; narrower lines need all room."""
_MOST_LINES = 8
"""Most lines per problem. Used if no text is cut then and all problems fit."""
_MOST_NAME = 16
"""Cells of a fleet's name."""
_TALL_FROM = 8
"""Rows from which each problem always has two lines. With fewer, one line if that shows more
problems."""


def title(problems: Problems, room: int, *, shows_silenced: bool, incomplete: str) -> Parts:
    """Return the list's head: the number of problems, and those not listed."""
    shown = len(problems.all) if shows_silenced else len(problems.listed)
    parts: Parts = [(" Problems ", theme.STRONG)]
    if not shown and not problems.all:
        return [*parts, (incomplete, theme.QUIET)]
    amount = f"{count(shown)}+" if problems.left_out else count(shown)
    words = [f"{amount}, {incomplete}" if incomplete else amount]
    silenced = len(problems.silenced)
    pending = len(problems.pending)
    if silenced:
        key = f"({key_label('silenced')})"
        words.append(f"{count(silenced)} silenced {'shown' if shows_silenced else key}")
    if pending:
        words.append(f"{count(pending)} pending")
    while len(words) > 1 and len("  ".join(words)) > room:
        words.pop()
    parts.append(("  ".join(words)[: max(0, room)], theme.QUIET))
    return parts


class ProblemList(FleetList["Problem"]):
    """Problems, two lines each with enough room.

    The cursor is visible while the list has the focus.
    """

    def __init__(self, context: UiContext, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(context, id=id)
        self._clock = context.clock
        self.shows_silenced = False
        self.filter = FleetFilter(context)
        self._here = context
        self._fleets = context.fleets
        self._read_of: tuple[Problems | None, bool, int] = (None, False, 0)

    @property
    def problems(self) -> Problems:
        """The problems of all fleets."""
        return self._fleets.problems

    @property
    def picked_here(self) -> Problem | None:
        """Problem under the cursor.

        None if it is of a fleet not on screen.
        """
        problem = self.picked
        return problem if problem is None or self.fleet_of(problem) is self._here else None

    def fleet_of(self, problem: Problem) -> UiContext:
        """Return the context of the fleet of a problem."""
        return self._fleets.of_problem(problem)

    def _names(self, problems: Iterable[Problem]) -> list[str]:
        """Return the fleet name of each problem, padded to one width with a gap.

        Empty strings with one fleet.
        """
        if not self._fleets.are_several:
            return ["" for _ in problems]
        room = min(_MOST_NAME, max(len(plain(name, 64)) for name in self._fleets.names))
        return [
            fit(plain(self.fleet_of(problem).monitor.fleet_name, 64), room) + "  "
            for problem in problems
        ]

    def key_of(self, row: Problem) -> str:
        """Return the problem's key, stable while words and figures change."""
        return row.key

    def tick(self) -> None:
        """Read the problems, then paint changes."""
        self._read()
        super().tick()

    def _read(self) -> None:
        key = self.problems, self.shows_silenced, self.filter.revision
        if key[0] is not self._read_of[0] or key[1:] != self._read_of[1:]:
            self._read_of = key
            shown = self.problems.all if self.shows_silenced else self.problems.listed
            if self.filter.query:
                # The filter is about what the map shows.
                shown = tuple(
                    problem
                    for problem in shown
                    if self.fleet_of(problem) is self._here and self.filter.keeps(problem)
                )
            self.put(shown)
        self._share_lines()

    def _share_lines(self) -> None:
        height = self.scrollable_content_region.height
        width = self.line_width
        lines = 2 if height >= min(2 * self.count, _TALL_FROM) else 1
        if self.count and width:
            # Nothing is cut while lines below are blank.
            needed_lines = min(self.lines_wanted(width), height // self.count)
            lines = max(lines, needed_lines)
        if lines != self.lines_per_row:
            self.lines_per_row = lines
            self.sync()

    def lines_wanted(self, width: int) -> int:
        """Return the lines per problem needed to cut none at a width, at most `_MOST_LINES`."""
        # More than a screen has are not looked through: they have one line each.
        shown = self.rows[: self.scrollable_content_region.height or None]
        return max(
            (
                min(
                    _MOST_LINES,
                    len(_whole(problem, self._now_ns(problem), width, name, selected=False)),
                )
                for problem, name in zip(shown, self._names(shown), strict=True)
            ),
            default=0,
        )

    def _now_ns(self, problem: Problem) -> int:
        return self.fleet_of(problem).alerts.now_ns

    def empty_lines(self) -> Sequence[tuple[str, Style]]:
        if not self.monitor.store.layout.instances and not self.problems.all:
            return [(" No telemetry yet", theme.QUIET)]
        if self.filter.query and self.problems.all:
            return [(" No problem matches; Esc shows all", theme.QUIET)]
        lines = [(f" {texts.none_text(self.monitor.incomplete)}", theme.QUIET)]
        silenced = len(self.problems.silenced)
        if silenced:
            key = key_label("silenced")
            lines.append((f" {count(silenced)} silenced: {key} shows them", theme.QUIET))
        return lines

    def row_lines(self, rows: range, width: int) -> list[Line]:
        """Return the lines of problems.

        Places share a column if there is room.
        """
        problems = [self.rows[number] for number in rows]
        names = self._names(problems)
        room = min(width, self.line_width)
        most = int(room * _PLACE_SHARE)
        places = [place_in(problem.place, most, problem.names) for problem in problems]
        longest = max(map(len, places), default=0) if room >= _ALIGNED_FROM else 0
        made: list[Line] = []
        for number, problem, place, name in zip(rows, problems, places, names, strict=True):
            now_ns = self._now_ns(problem)
            selected = self.has_focus and number == self.row
            fill = theme.SELECTED_QUIET if selected else theme.BASE
            shown = [_first(problem, name + place.ljust(longest), now_ns, room, selected=selected)]
            if self.lines_per_row > 1:
                shown.append(_second(problem, now_ns, room, selected=selected))
                is_cut = any("…" in text for line in shown for text, _ in line)
                if is_cut or self.lines_per_row > 2:
                    whole = _whole(problem, now_ns, room, name, selected=selected)
                    shown = whole if len(whole) <= self.lines_per_row else shown
            for number_of_line in range(self.lines_per_row):
                parts = shown[number_of_line] if number_of_line < len(shown) else []
                made.append(text_line(parts, width, fill))
        return made

    def action_enter(self) -> None:
        problem = self.picked
        if problem is None:
            return
        if problem is not self.picked_here:
            place = problem.place.address
            view = None if place else ALERTS
            self.post_message(
                View.OpenFleet(self.fleet_of(problem).monitor.fleet_name, place, view)
            )
            return
        if problem.place.lane and problem.subsystem == LINK:
            end = f"{problem.place.address}:{problem.place.lane}"
            self.post_message(View.Open(end, TOPOLOGY))
        elif problem.place.address:
            self.post_message(View.Open(problem.place.address))
        elif problem.alerts and problem.alerts[0].alert.rule.scope is Scope.RESERVATION:
            self.post_message(View.OpenReservation(problem.place.name))
        elif problem.alerts:
            # What has no place of its own has its alert.
            self.post_message(View.Open("", ALERTS))

    def toggle_silenced(self) -> None:
        """Show silenced problems, too, or hide them again."""
        self.shows_silenced = not self.shows_silenced
        self.tick()
        self.post_message(self.Changed())

    def on_mount(self) -> None:
        """Read the problems for the first picture."""
        self._alerts.refresh(self._clock.monotonic_s())
        self._read()


def _first(
    problem: Problem,
    place: str,
    now_ns: int,
    width: int,
    *,
    selected: bool,
    text: str | None = None,
) -> Parts:
    """Return a problem's first line: sign, place, text, and its age at the right."""
    is_loud = problem.is_loud
    body = theme.SELECTED if selected else theme.STRONG if is_loud else theme.QUIET
    quiet = theme.SELECTED_QUIET if selected else theme.BASE if is_loud else theme.QUIET
    severity = (
        theme.SELECTED
        if selected
        else theme.SEVERITY_STYLE[problem.severity]
        if is_loud
        else theme.QUIET
    )
    parts: Parts = [
        (">" if selected else " ", body),
        (f"{theme.SEVERITY_GLYPH[problem.severity]} ", severity),
        (f"{place}  ", body),
    ]
    room = max(1, width - width_of(parts) - AGE - 1)
    age = texts.age_text(problem, now_ns)
    return [
        *parts,
        (fit(texts.text_of(problem) if text is None else text, room), quiet),
        (f" {age:>{AGE}}", quiet),
    ]


def _second(problem: Problem, now_ns: int, width: int, *, selected: bool) -> Parts:
    """Return a problem's second line: its jobs, its share of the fleet, and its owner."""
    quiet = theme.SELECTED_QUIET if selected else theme.QUIET
    said = texts.second_line(problem, now_ns)
    return [(f"   {fit(f'└ {said}' if said else '', max(1, width - 3))}", quiet)]


def _whole(problem: Problem, now_ns: int, width: int, name: str, *, selected: bool) -> list[Parts]:
    """Return the lines of a problem without cuts.

    The text has lines of its own if it does not fit beside the place.

    Args:
        problem: The problem.
        now_ns: Monitor time of its fleet.
        width: Cells.
        name: The fleet's name with a gap behind it, where there are several.
        selected: Whether the cursor is on it.
    """
    body = theme.SELECTED if selected else theme.BASE if problem.is_loud else theme.QUIET
    quiet = theme.SELECTED_QUIET if selected else theme.QUIET
    text = texts.text_of(problem)
    room = max(1, width - 3)
    place = place_in(problem.place, int(width * _PLACE_SHARE), problem.names)
    made: list[Parts]
    if "…" not in place and len(name) + len(place) + len(text) + _AROUND <= width:
        made = [_first(problem, name + place, now_ns, width, selected=selected)]
    else:
        place = place_in(problem.place, max(1, width - _AROUND - len(name)), problem.names)
        made = [_first(problem, name + place, now_ns, width, text="", selected=selected)]
        made += [[(f"   {line}", body)] for line in _uncut(text, room)]
    below: list[str] = []
    for part in texts.second_parts(problem, now_ns):
        longer = f"{below[-1].rstrip()}  {part}" if below else f"└ {part}"
        if below and cell_len(longer) > room:
            # Rather a new line than `2` at the end of one and `alerts` on the next.
            below += _uncut(part, room)
        else:
            below[-1:] = _uncut(longer, room)
    return [*made, *([(f"   {line}", quiet)] for line in below)]


def _uncut(text: str, room: int) -> list[str]:
    """Return a text in as many lines as it needs, at most `_MOST_LINES`."""
    for lines in range(1, _MOST_LINES):
        made = wrapped(text, room, lines)
        if not made or not made[-1].rstrip().endswith("…"):
            return made
    return wrapped(text, room, _MOST_LINES)


PROBLEM_TITLES = ("severity", "status", "place", "problem", "since", "chips", "jobs", "owner")


def problem_table(problems: Sequence[Problem]) -> ExportTable:
    """Return problems as a table."""
    return ExportTable(
        PROBLEM_TITLES,
        [
            (
                problem.severity.value,
                problem.status.value,
                problem.place.address or texts.place_text(problem.place),
                texts.text_of(problem),
                "" if problem.since_ns is None else format_rfc3339(problem.since_ns),
                problem.chips or None,
                " ".join(impact.job for impact in problem.jobs),
                problem.owner,
            )
            for problem in problems
        ],
    )
