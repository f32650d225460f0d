"""The fleet's chips as a table for filters, without a loop over chips.

Its columns are metrics, jobs, types, freshness, alerts and addresses. Names are compared once per
instance, job or reservation; values once per chip, by numpy.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.address import Level, format_chip, level_of
from trnfleet.domain.filters.columns import SEVERITY, Column, Columns, Kind, severity_number
from trnfleet.domain.layout import Layout, Node
from trnfleet.domain.severity import BY_RANK
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.store.fields import FIELDS, Field
from trnfleet.text import plain
from trnfleet.tui.state.alerts import NONE, AlertSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from trnfleet.domain.filters.language import Filter
    from trnfleet.monitor.fleet_state import FleetState

_SHORT = {
    "nc_util_pct": ("util", "nc"),
    "temperature_c": ("temperature",),
    "hbm_used_bytes": ("hbm",),
    "link_tx_bytes_per_s": ("link",),
    "hbm_bw_util_pct": ("bw",),
}
"""Spellings of fields besides their keys and titles."""


def column_of(field: Field) -> Column:
    """Return a field as a column, named as in the tree: `power` or `nc_util`."""
    name = field.title.lower().replace(" %", "_pct").replace(" ", "_").replace("/", "_per_")
    return Column(name, Kind.NUMBER, field.unit, (field.key, *_SHORT.get(field.key, ())))


FIELD_OF = {column_of(field).name: field for field in FIELDS}
_STATE = Column("state", words=tuple(state.name.lower() for state in Freshness))
CHIP_COLUMNS = Columns(
    (
        *(
            column_of(field)
            for field in FIELDS
            if field.key in {"power_w", "temperature_c", "nc_util_pct"}
        ),
        SEVERITY,
        Column("job"),
        _STATE,
        Column("type", aliases=("instance_type",)),
        Column("source"),
        Column("reservation", aliases=("block",)),
        Column("at", Kind.PLACE),
        *(
            column_of(field)
            for field in FIELDS
            if field.key not in {"power_w", "temperature_c", "nc_util_pct"}
        ),
    )
)
"""Columns for filters of chips, the most usual first."""
_CHIP = "chip"
_CORE = re.compile(r"/nc\d*$")
_NUMBERED = re.compile(r"(.*/)(\d{1,3})")


class ChipSelection(NamedTuple):
    """The chips that a filter leaves."""

    mask: NDArray[np.bool_]
    """Shape (chips,)."""
    depth: Level
    """CHIP where the filter looked at chips, else INSTANCE."""

    @property
    def chips(self) -> int:
        """How many chips are left."""
        return int(np.count_nonzero(self.mask))


class ChipTable:
    """The chips of the present layout, one row each."""

    def __init__(self, monitor: FleetState, alerts: AlertSnapshot) -> None:
        self._monitor = monitor
        self._alerts = alerts
        self._lower: tuple[Layout | None, list[str]] = (None, [])

    def select(self, query: Filter) -> ChipSelection | None:
        """Return the chips matching a filter; None for a filter matching everything."""
        mask = query.mask(self)
        if mask is None:
            return None
        return ChipSelection(mask, Level.CHIP if self._is_of_chips(query) else Level.INSTANCE)

    @staticmethod
    def is_living(query: Filter) -> bool:
        """Return whether a filter's result may change while the layout stays."""
        return bool(query.columns - {"type", "at"}) or bool(query.parts)

    def _is_of_chips(self, query: Filter) -> bool:
        of_instances = {"job", "type", "source", "reservation", "at"}
        if query.columns - of_instances:
            return True
        return any(_CHIP in _expanded(part) for part in query.parts) or any(
            level_of(place) >= Level.CHIP for place in query.places
        )

    # What a filter asks

    def having(self, part: str) -> NDArray[np.bool_]:
        """Return a mask of chips with a text in their address or job name."""
        store = self._monitor.store
        mask = self.addressed(part)
        names = self._monitor.ingest.names
        for number in self._display_named(part):
            rows = self._layout.chip_range(Node(Level.INSTANCE, number))
            mask[rows.start : rows.stop] = True
        jobs = np.array(
            [
                part in name.lower() or part in names.job(name).lower()
                for name in self._monitor.ingest.jobs
            ]
            + [False],
            np.bool_,
        )
        if jobs.any():
            whole = jobs[np.where(store.job_of < len(jobs) - 1, store.job_of, -1)]
            mask |= whole[self._layout.instance_of_chip]
        return mask

    def _display_named(self, part: str) -> list[int]:
        """Return the instances with a part of text in their display name."""
        index = self._layout.instance_index
        names = self._monitor.ingest.names.instances if part else {}
        return [
            index[path]
            for path, name in names.items()
            if part in plain(name).lower() and path in index
        ]

    def addressed(self, part: str) -> NDArray[np.bool_]:
        """Return a mask of chips with a part of text in their address."""
        layout = self._layout
        text = _CORE.sub("", _expanded(part))
        lower = self._lower_paths()
        whole = np.fromiter((text in path for path in lower), np.bool_, len(lower))
        mask: NDArray[np.bool_] = whole[layout.instance_of_chip]
        if _CHIP in text:
            self._add_chips(mask, text, lower)
        return mask

    def find(self, part: str, most: int) -> list[Node]:
        """Return the nodes with a part of text in their address.

        An exact match comes first, then the order of levels and names. A part found only in chips,
        such as `0001-2/07`, returns chips.

        Args:
            part: In any case; a slash at the end asks for the chips of nodes with this ending.
            most: Most nodes to return.
        """
        layout = self._layout
        exact = layout.find(part) if part else None
        matches = [] if exact is None else [exact]
        part = part.lower()
        text = _CORE.sub("", _expanded(part))
        levels = (
            (Level.CLUSTER, layout.clusters),
            (Level.ULTRASERVER, layout.ultraservers),
            (Level.INSTANCE, self._lower_paths()),
        )
        for level, paths in levels:
            having = (number for number, path in enumerate(paths) if text in path.lower())
            nodes = (Node(level, number) for number in having)
            matches += itertools.islice(
                (node for node in nodes if node != exact), most - len(matches)
            )
        for number in self._display_named(part):
            node = Node(Level.INSTANCE, number)
            if node not in matches and len(matches) < most:
                matches.append(node)
        if not matches and part.endswith("/"):
            text = part + _CHIP
        if len(matches) < most and _CHIP in text:
            chips = np.flatnonzero(self.addressed(text))[: most + 1].tolist()
            known = set(matches)
            matches += [node for chip in chips if (node := Node(Level.CHIP, chip)) not in known]
        return matches[:most]

    def _add_chips(self, mask: NDArray[np.bool_], text: str, lower: list[str]) -> None:
        """Add chips with the text in their own segment, or ending in it."""
        layout = self._layout
        starts = layout.chip_start[:-1]
        sizes = np.diff(layout.chip_start)
        ends: dict[str, NDArray[np.bool_]] = {}
        for number in range(int(sizes.max(initial=0))):
            tail = f"/{format_chip(number)}"
            there = sizes > number
            if text in tail:
                mask[starts[there] + number] = True
                continue
            for at, letter in enumerate(text):
                if letter == "/" and at and tail.startswith(text[at:]):
                    before = text[:at]
                    if before not in ends:
                        ends[before] = np.fromiter(
                            (path.endswith(before) for path in lower), np.bool_, len(lower)
                        )
                    mask[starts[there & ends[before]] + number] = True

    def numbers(self, column: str) -> NDArray[np.float64]:
        """Return a column of numbers.

        These are a field's values for chips as shown in the tree, or severities of their alerts.
        """
        if column == SEVERITY.name:
            return self._severities()
        store = self._monitor.store
        return FIELD_OF[column].values(store, self._monitor.averages, Level.CHIP, None)

    def named(self, column: str, fits: Callable[[str], bool]) -> NDArray[np.bool_]:
        """Return a mask of chips with a fitting text in a column."""
        store = self._monitor.store
        layout = self._layout
        if column == "state":
            known = np.array([fits(state.name.lower()) for state in Freshness], np.bool_)
            return known[store.chip_state]
        if column == "type":
            kinds = np.array([fits(kind.name) for kind in layout.types], np.bool_)
            mask = kinds[layout.instance_type] if len(kinds) else np.zeros(0, np.bool_)
        elif column == "source":
            sources = self._monitor.ingest.publishers.sources()
            boots = [number for number, source in sources.items() if fits(source)]
            mask = np.isin(store.publisher_of, boots)
        elif column == "job":
            names = self._monitor.ingest.names
            given = self._monitor.ingest.jobs
            jobs = np.array(
                [*(fits(name) or fits(names.job(name)) for name in given), fits("")], np.bool_
            )
            mask = jobs[np.where(store.job_of < len(jobs) - 1, store.job_of, -1)]
        else:
            mask = np.full(len(layout.instances), fits(""), np.bool_)
            for reservation in self._monitor.reservations.table():
                fit = fits(reservation.message.id)
                for run in reservation.rows:
                    mask[run.start : run.stop] = fit
        chips: NDArray[np.bool_] = mask[layout.instance_of_chip]
        return chips

    def at(self, address: str) -> NDArray[np.bool_]:
        """Return the chips at or below an address."""
        layout = self._layout
        mask = np.zeros(layout.chips, np.bool_)
        node = layout.find(address.strip("/"))
        if node is not None:
            rows = layout.chip_range(node)
            mask[rows.start : rows.stop] = True
        return mask

    @property
    def _layout(self) -> Layout:
        return self._monitor.store.layout

    def _lower_paths(self) -> list[str]:
        layout = self._layout
        if self._lower[0] is not layout:
            self._lower = layout, [path.lower() for path in layout.instances]
        return self._lower[1]

    def _severities(self) -> NDArray[np.float64]:
        """Return the worst severity of each chip's alerts.

        Alerts of its whole instance or UltraServer count.
        """
        layout = self._layout
        marks = self._alerts.marks
        if len(marks.instances) != len(layout.instances):
            return np.full(layout.chips, np.nan)
        rows = np.fromiter(marks.chips, np.int64, len(marks.chips))
        own = np.fromiter(marks.chips.values(), np.int8, len(marks.chips))
        # The marks of a level have those of what is below it: what is worse than these is about all
        # of it.
        below = np.full(len(layout.instances), NONE, np.int8)
        np.minimum.at(below, layout.instance_of_chip[rows], own)
        ranks = np.where(marks.instances < below, marks.instances, NONE)
        if len(marks.ultraservers):
            worst = np.minimum.reduceat(marks.instances, layout.ultraserver_start[:-1])
            servers = np.where(marks.ultraservers < worst, marks.ultraservers, NONE)
            ranks = np.minimum(ranks, np.repeat(servers, np.diff(layout.ultraserver_start)))
        of_chips = ranks[layout.instance_of_chip]
        of_chips[rows] = np.minimum(of_chips[rows], own)
        numbers = np.array([*map(severity_number, BY_RANK), np.nan])
        severities: NDArray[np.float64] = numbers[of_chips]
        return severities


def _expanded(part: str) -> str:
    """Return a text with the short form of a chip written out: `0001-2/07` is `0001-2/chip07`."""
    match = _NUMBERED.fullmatch(part)
    return f"{match[1]}{format_chip(int(match[2]))}" if match else part
