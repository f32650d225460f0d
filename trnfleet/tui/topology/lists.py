"""The list of the links of a domain, and the list of UltraServers and instances."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.filters.columns import Column, Columns, Kind
from trnfleet.domain.filters.language import EVERYTHING, Filter
from trnfleet.domain.layout import Node
from trnfleet.domain.quantities import with_unit
from trnfleet.monitor.problems import texts
from trnfleet.monitor.store.findings import LIMIT
from trnfleet.monitor.topology import LinkCounts, LinkState
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.format.addresses import in_room
from trnfleet.tui.keys import bind
from trnfleet.tui.state.chip_table import ChipTable
from trnfleet.tui.topology.reading import LinkRow, TopologyReading
from trnfleet.tui.topology.torus import link_glyph, link_style, rate_text
from trnfleet.tui.widgets.cells import Parts, fit, right, width_of
from trnfleet.tui.widgets.cursor_list import RowList

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style
    from textual.binding import BindingType

    from trnfleet.monitor.topology import FleetLinks

STATE = "state"
BY_SHARE = "share"
BY_RATE = "GB/s"
PLACE = "place"
SORTS = (STATE, BY_SHARE, BY_RATE, PLACE)
"""Orders of links; the worst first, or by place."""
_WIDE_FROM = 100
"""Least cells for the job of a link, and for both ways."""
DOMAIN_COLUMNS = Columns(
    (
        Column("at", Kind.PLACE),
        Column("links", Kind.NUMBER),
        Column("down", Kind.NUMBER),
        Column("slow", Kind.NUMBER),
        Column("unknown", Kind.NUMBER),
        Column("efa", Kind.NUMBER, "bytes/s"),
        Column("job"),
    )
)


class LinkList(RowList[int, LinkRow]):
    """The links of an UltraServer or instance, one a line."""

    HELP_TITLE = "Links"
    BINDINGS: ClassVar[list[BindingType]] = [bind("enter", "enter", "open the link's first chip")]

    def __init__(self, reading: TopologyReading) -> None:
        super().__init__()
        self._reading = reading
        self.wanted = EVERYTHING
        """The filter."""
        self.order = STATE
        """One of `SORTS`."""
        self.all_rows: list[LinkRow] = []
        """Links before the filter, by their rows in the table."""

    def key_of(self, row: LinkRow) -> int:
        return row.number

    def choose(self, number: int) -> None:
        """Put the cursor on a link without reporting it."""
        self._key = number
        self.sync()
        self.reveal()

    def read(self) -> None:
        """Read the rows of the domain again."""
        rows = self.all_rows = self._reading.rows()
        if self.wanted:
            rows = [row for row in rows if self.wanted.keeps(row)]
        self.put(sorted(rows, key=self._rank))

    @property
    def bad(self) -> int:
        """Number of rows with links that are not up, or with a problem."""
        return sum(row.state is not LinkState.UP or row.problem is not None for row in self.rows)

    def _rank(self, row: LinkRow) -> tuple[float, ...]:
        share = math.inf if math.isnan(row.share) else row.share
        ranks: dict[str, tuple[float, ...]] = {
            STATE: (row.state == LinkState.UP and row.problem is None, row.state),
            BY_SHARE: (share,),
            BY_RATE: (math.inf if math.isnan(row.slower) else -row.slower,),
            PLACE: (),
        }
        return (*ranks[self.order], row.number)

    def empty_lines(self) -> Sequence[tuple[str, Style]]:
        words = " No link matches; Esc shows all" if self.wanted else ""
        return [(words, theme.QUIET)]

    def head(self, width: int) -> Parts:
        """Return the titles of the columns."""
        mark = theme.sort_mark(is_descending=False)
        sorted_by = {STATE: ("state",), BY_SHARE: ("% of peers",), BY_RATE: ("GB/s", "GB/s ->")}
        titles = sorted_by.get(self.order, ("link",))
        parts = []
        for title, cells, is_number in (("link", self._room(width), False), *_columns(width)):
            text = f"{mark}{title}" if title in titles else title
            parts.append(right(text, cells) if is_number else fit(text, cells))
        return [(f"   {''.join(parts)}{'  job' * (width >= _WIDE_FROM)}", theme.HEAD)]

    def _room(self, width: int) -> int:
        """Return the cells of both ends."""
        longest = max((len(row.text) for row in self.rows), default=24) + 2
        job = 18 if width >= _WIDE_FROM else 0
        others = sum(room for _, room, _ in _columns(width)) + 3 + job
        return max(8, min(longest, width - others))

    def parts_of(self, row: LinkRow, width: int, *, selected: bool) -> Parts:
        base = theme.SELECTED_QUIET if selected else theme.BASE
        bad = base if selected else link_style(row.state)
        glyph = link_glyph(row.state, math.nan, "  ?")
        since = ""
        if row.problem is not None:
            since = texts.age_text(row.problem, self._reading.context.alerts.now_ns)
            if row.state is LinkState.UP:
                glyph = theme.SEVERITY_GLYPH[row.problem.severity]
                bad = base if selected else theme.SEVERITY_STYLE[row.problem.severity]
        values = {
            "state": row.state.word,
            "% of peers": "-" if math.isnan(row.share) else f"{row.share:.0f} %",
            "GB/s": rate_text(row.slower).strip() or "-",
            "GB/s ->": rate_text(row.out).strip() or "-",
            "<-": rate_text(row.back).strip() or "-",
            "since": since,
            "  alert": f"  {plain(row.alert, 20)}",
        }
        room = self._room(width)
        parts: Parts = [
            (">" if selected else " ", base),
            (f"{glyph} ", bad),
            (fit(in_room(row.text, room), room), base),
        ]
        for title, cells, is_number in _columns(width):
            is_judged = title == "state" or (title == "% of peers" and row.state is LinkState.SLOW)
            text = right(values[title], cells) if is_number else fit(values[title], cells)
            parts.append((text, bad if is_judged else base))
        if width >= _WIDE_FROM:
            parts.append((fit(f"  {row.job or '-'}", width - width_of(parts)), base))
        return parts


def _columns(width: int) -> tuple[tuple[str, int, bool], ...]:
    """Return the columns after both ends: title, cells, and whether it is a number."""
    is_wide = width >= _WIDE_FROM
    rates = (("GB/s ->", 9, True), ("<-", 7, True)) if is_wide else (("GB/s", 7, True),)
    alert = (("  alert", 17, False),) if is_wide else ()
    return (("state", 10, False), ("% of peers", 11, True), *rates, ("since", 6, True), *alert)


class DomainRow(NamedTuple):
    """An UltraServer, or an instance outside of UltraServers, as its list shows it."""

    domain: int
    address: str
    counts: LinkCounts
    efa: float
    """Bytes/s that its instances send over EFA; NaN if unknown."""
    job: str

    def value(self, column: str) -> str | float | None:
        if column in {"at", "job"}:
            return self.address if column == "at" else self.job
        if column == "efa":
            return None if math.isnan(self.efa) else self.efa
        return float(self.counts.all if column == "links" else getattr(self.counts, column))

    def has(self, part: str) -> bool:
        return part in f"{self.address} {self.job} {self.counts.text}".lower()


class DomainList(RowList[str, DomainRow]):
    """UltraServers and standalone instances, the worst first."""

    HELP_TITLE = "UltraServers and instances"
    BINDINGS: ClassVar[list[BindingType]] = [bind("enter", "enter", "open its links")]

    def __init__(self, reading: TopologyReading) -> None:
        super().__init__()
        self._reading = reading
        self.wanted = EVERYTHING
        """The filter."""
        self.left_out = 0
        """Those beyond the most listed."""

    def key_of(self, row: DomainRow) -> str:
        return row.address

    def read(self) -> None:
        """Read the rows of the fleet again: at most `LIMIT`, the worst first."""
        links = self._reading.links
        if links is None:
            self.put(())
            return
        jobs, others = self._split()
        total = len(links.starts)
        chosen = [*dict.fromkeys((*links.worst(total).tolist(), *range(total)))]
        mask = jobs.mask(ChipTable(self._reading.context.monitor, self._reading.context.alerts))
        if mask is not None:
            instances = np.unique(links.layout.instance_of_chip[mask])
            having = {*map(links.domain_at, instances.tolist())}
            chosen = [domain for domain in chosen if domain in having]
        rows = [self._domain_row(links, domain) for domain in chosen[:LIMIT]]
        self.left_out = len(chosen) - len(rows)
        self.put([row for row in rows if others.keeps(row)])

    def _split(self) -> tuple[Filter, Filter]:
        """Return the filter's terms about jobs, of which a row may have several, and the others."""
        are_of_jobs = {term: Filter((term,)).columns == {"job"} for term in self.wanted.terms}
        return (
            Filter(tuple(term for term, is_of_jobs in are_of_jobs.items() if is_of_jobs)),
            Filter(tuple(term for term, is_of_jobs in are_of_jobs.items() if not is_of_jobs)),
        )

    @property
    def counts(self) -> LinkCounts:
        """Numbers of links of the rows."""
        return LinkCounts(*map(sum, zip(*(row.counts for row in self.rows), strict=True)))

    def _domain_row(self, links: FleetLinks, domain: int) -> DomainRow:
        reading = self._reading
        covered = links.instances_of(domain)
        jobs = dict.fromkeys(name for instance in covered if (name := reading.job_of(instance)))
        first = next(iter(jobs), "")
        more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
        return DomainRow(
            domain,
            domain_address(links, domain),
            links.counts_of(domain),
            reading.efa_of(covered),
            f"{first}{more}",
        )

    def head(self, width: int) -> Parts:
        """Return the titles of the columns."""
        room = self._room(width)
        title = "UltraServer or instance"
        name = fit(title if len(title) <= room else PLACE, room)
        text = f"   {name} links    up  down  slow not known   EFA out  job"
        return [(text, theme.HEAD)]

    def _room(self, width: int) -> int:
        return max(16, min(40, width - 63))

    def parts_of(self, row: DomainRow, width: int, *, selected: bool) -> Parts:
        base = theme.SELECTED_QUIET if selected else theme.BASE
        counts = row.counts
        worst = (
            LinkState.DOWN
            if counts.down
            else LinkState.SLOW
            if counts.slow
            else LinkState.UNKNOWN
            if counts.unknown
            else LinkState.UP
        )

        def ink(number: int, state: LinkState) -> Style:
            return base if selected or not number else link_style(state)

        names = self._reading.context.monitor.ingest.names
        room = self._room(width)
        return [
            (">" if selected else " ", base),
            (f"{link_glyph(worst, math.nan, '  ?')} ", base if selected else link_style(worst)),
            (fit(in_room(plain(names.address(row.address), 120), room), room), base),
            (right(f"{counts.all:,}" if counts.all else "none", 6), base),
            (right(f"{counts.up:,}", 6), base),
            (right(f"{counts.down:,}", 6), ink(counts.down, LinkState.DOWN)),
            (right(f"{counts.slow:,}", 6), ink(counts.slow, LinkState.SLOW)),
            (right(f"{counts.unknown:,}", 10), ink(counts.unknown, LinkState.UNKNOWN)),
            (right("-" if math.isnan(row.efa) else with_unit(row.efa, "bytes/s"), 10), base),
            (fit(f"  {row.job or '-'}", width - room - 47), base),
        ]


def domain_address(links: FleetLinks, domain: int) -> str:
    """Return the address of an UltraServer, or of a standalone instance."""
    layout = links.layout
    node = Node(Level.INSTANCE, int(links.starts[domain]))
    above = layout.parent(node)
    return layout.path(node if layout.is_standalone[above.number] else above)
