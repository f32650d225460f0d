"""The links of the pass shown, and the rows of their list. It draws nothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.filters.columns import Column, Columns, Kind
from trnfleet.domain.layout import Node
from trnfleet.domain.metrics import BY_NAME, HEALTH_BITS
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.topology import NO_LINKS, FleetLinks, LinkCounts, LinkState, LinkTable
from trnfleet.text import plain
from trnfleet.tui.state.descriptors import Descriptions

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.problems.problem import Problem
    from trnfleet.tui.state.context import UiContext

LINK_COLUMNS = Columns(
    (
        Column("link"),
        Column("state", Kind.WORDS, words=tuple(state.word for state in LinkState)),
        Column("share", Kind.NUMBER, "%"),
        Column("out", Kind.NUMBER, "bytes/s", ("rate", "gb")),
        Column("back", Kind.NUMBER, "bytes/s"),
        Column("kind"),
        Column("alert"),
        Column("job"),
        Column("at", Kind.PLACE),
    )
)
_EFA = BY_NAME["efa_tx_bytes_per_s"]
_HEALTH = BY_NAME["health"]
_LINK_BITS = sum(
    1 << bit
    for bit, name in enumerate(HEALTH_BITS)
    if name in {"link_intraserver", "link_interserver", "link_switch"}
)


class LinkRow(NamedTuple):
    """A link as its list shows it."""

    number: int
    """Its row in the table."""
    state: LinkState
    text: str
    """Both ends: `0001-2 06:east <-> 07:west`."""
    address: str
    """The first end's chip."""
    kind: str
    """Kind of network, such as torus; Z between instances."""
    share: float
    """Percent of its peers' median; NaN if unknown."""
    out: float
    """Bytes/s sent by the first end, and by the second one."""
    back: float
    job: str
    problem: Problem | None

    @property
    def slower(self) -> float:
        """Bytes/s of the slower way; NaN if unknown."""
        return float(np.fmin(self.out, self.back))

    @property
    def alert(self) -> str:
        """Rule of its problem's first alert; empty without one."""
        if self.problem is None:
            return ""
        alerts = self.problem.alerts
        return alerts[0].alert.name if alerts else self.problem.findings[0].kind

    def value(self, column: str) -> str | float | None:
        numbers = {
            "share": self.share,
            "out": self.out,
            "back": self.back,
            "state": float(self.state),
        }
        if column in numbers:
            return None if math.isnan(numbers[column]) else numbers[column]
        texts = {"link": self.text, "at": self.address}
        return texts[column] if column in texts else str(getattr(self, column))

    def has(self, part: str) -> bool:
        words = (self.text, self.state.word, self.kind, self.alert, self.job)
        return part in " ".join(words).lower()


class NodeLinks(NamedTuple):
    """The links of one instance of an UltraServer."""

    inside: LinkCounts
    """Those between its own chips."""
    ends_up: int
    """Ends of links to other instances that are up."""
    ends: int
    sent: float
    """Bytes/s sent by all ends; NaN if unknown."""
    worst: LinkState


class TopologyReading:
    """The links of the pass shown, and the domain that is looked at."""

    def __init__(self, context: UiContext) -> None:
        self.context = context
        self.descriptions = Descriptions(context.monitor)
        self.links: FleetLinks | None = None
        """None until there is a pass of the present layout."""
        self.domain = -1
        """The domain shown; -1 for none."""
        self._table: LinkTable | None = None
        self.by_end: dict[tuple[int, int], int] = {}
        """Row of the table by chip row and lane, for both ends of each link."""
        self._read_of: Hashable = None

    @property
    def table(self) -> LinkTable | None:
        """The links of the domain; None while they are of another layout than the store's."""
        is_current = self.links is not None and self.links.layout is self.layout
        return self._table if is_current else None

    @property
    def revision(self) -> Hashable:
        """Differs for every pass read."""
        return self._read_of

    @property
    def layout(self) -> Layout:
        return self.context.monitor.store.layout

    def refresh(self) -> bool:
        """Read the links of a new pass; return whether there are any to show."""
        monitor = self.context.monitor
        rollups = self.context.frame.rollups
        store = monitor.store
        if rollups.generation != store.generation:
            return False
        rules = monitor.alerts.rules
        key = monitor.revision.source, store.generation, rollups.revision, id(rules)
        if key != self._read_of:
            self._read_of = key
            self.links = FleetLinks(store, rollups, rules, self.links)
            self._look()
        return self.links is not None

    def renew(self) -> None:
        """Drop what was read: another monitor is shown."""
        self._read_of = None
        self.links = None
        self._table = None

    def choose(self, domain: int) -> None:
        """Look at a domain."""
        if domain != self.domain:
            self.domain = domain
            self._look()

    def _look(self) -> None:
        self._table = None
        self.by_end = {}
        if self.links is None or not 0 <= self.domain < len(self.links.starts):
            return
        self._table = table = self.links.table(self.domain)
        ends = np.concatenate((table.chips, table.lanes), axis=1).tolist()
        for number, (chip, far, lane, far_lane) in enumerate(ends):
            self.by_end[chip, lane] = number
            if far >= 0:
                self.by_end[far, far_lane] = number

    def state_of(self, chip: int, lane: int) -> LinkState | None:
        """Return the state of a link by one of its ends; None without one."""
        number = self.by_end.get((chip, lane))
        if number is None or self.table is None:
            return None
        return LinkState(int(self.table.states[number]))

    def share_of(self, chip: int, lane: int) -> float:
        """Return the share of peers of a link by one of its ends; NaN if unknown."""
        number = self.by_end.get((chip, lane))
        return (
            math.nan if number is None or self.table is None else float(self.table.shares[number])
        )

    def rate_of(self, chip: int, lane: int) -> float:
        """Return what a link carries the slower way, bytes/s; NaN if unknown."""
        number = self.by_end.get((chip, lane))
        if number is None or self.table is None:
            return math.nan
        return float(np.fmin(*self.table.rates[number]))

    def is_live(self, chip: int) -> bool:
        """Return whether a chip's values are live."""
        return int(self.context.monitor.store.chip_state[chip]) == Freshness.LIVE

    def has_fault(self, chip: int) -> bool:
        """Return whether the driver reports a failed NeuronLink of a live chip."""
        bits = int(self.context.monitor.store.columns[_HEALTH.name][chip])
        return bits != _HEALTH.top and bool(bits & _LINK_BITS) and self.is_live(chip)

    def knows_traffic(self, instance: int) -> bool:
        """Return whether an instance's source announces link traffic."""
        store = self.context.monitor.store
        return store.announces(("link_tx_bytes_per_s",), slice(instance, instance + 1))

    def efa_of(self, instances: range) -> float:
        """Return what live instances send over EFA, bytes/s; NaN if unknown of all."""
        store = self.context.monitor.store
        rows = slice(instances.start, instances.stop)
        rates = store.values(_EFA, rows)[store.instance_fresh[rows]]
        known = rates[~np.isnan(rates)]
        return float(known.sum()) if len(known) else math.nan

    def node(self, instance: int) -> NodeLinks:
        """Return the links of an instance of the domain."""
        table = NO_LINKS if self.table is None else self.table
        layout = self.layout
        owners = np.where(table.chips >= 0, layout.instance_of_chip[table.chips], -1)
        mine = owners == instance
        beyond = table.lanes >= len(layout.type_of(instance).topology.lanes)
        inside = mine.any(axis=1) & ~beyond[:, 0]
        ends = (mine & beyond) * (table.states + 1)[:, None]
        sent = table.rates[mine]
        states = table.states[mine.any(axis=1)]
        return NodeLinks(
            LinkCounts.from_states(np.bincount(table.states[inside], minlength=len(LinkState))),
            int((ends == LinkState.UP + 1).sum()),
            int((ends > 0).sum()),
            math.nan if np.isnan(sent).all() else float(np.nansum(sent)),
            LinkState(int(states.min(initial=LinkState.UP))),
        )

    def job_of(self, instance: int) -> str:
        """Return the name of an instance's job, for the screen; empty without one."""
        return self.descriptions.job_name(int(self.context.monitor.store.job_of[instance]))

    def name_of(self, chip: int, lane: int, beside: int = -1) -> str:
        """Return an end in short, with its instance unless that is the one of `beside`."""
        layout = self.layout
        instance = int(layout.instance_of_chip[chip])
        short = (
            f"{chip - int(layout.chip_start[instance]):02d}:{layout.lane_names_of(instance)[lane]}"
        )
        if instance == beside:
            return short
        # The type's family stands before every instance's name.
        family = layout.type_of(instance).family
        return f"{self.instance_name(instance).removeprefix(f'{family}-')} {short}"

    def instance_name(self, instance: int) -> str:
        """Return an instance's name, without its UltraServer's."""
        names = self.context.monitor.ingest.names
        return plain(names.segment(self.layout.instances[instance]), 40)

    def problems(self) -> Mapping[str, Problem]:
        """Return the problems of single links, by their ends `address:lane`."""
        by_end: dict[str, Problem] = {}
        for problem in self.context.alerts.problems.all:
            place = problem.place
            if place.lane:
                for end in (f"{place.address}:{place.lane}", place.other_end):
                    by_end.setdefault(end, problem)
        return by_end

    def rows(self) -> list[LinkRow]:
        """Return the links of the domain as rows."""
        table = self.table
        if table is None:
            return []
        layout = self.layout
        problems = self.problems()
        jobs: dict[int, str] = {}
        rows: list[LinkRow] = []
        ends = np.concatenate((table.chips, table.lanes), axis=1).tolist()
        values = np.column_stack((table.shares, table.rates)).tolist()
        for number, ((chip, far, lane, far_lane), (share, out, back)) in enumerate(
            zip(ends, values, strict=True)
        ):
            instance = int(layout.instance_of_chip[chip])
            kind = layout.type_of(instance)
            address = layout.path(Node(Level.CHIP, chip))
            other = (
                "switch"
                if kind.is_port(lane)
                else "not known"
                if far < 0
                else self.name_of(far, far_lane, instance)
            )
            if instance not in jobs:
                jobs[instance] = self.job_of(instance)
            rows.append(
                LinkRow(
                    number,
                    LinkState(int(table.states[number])),
                    f"{self.name_of(chip, lane)} <-> {other}",
                    address,
                    "Z" if kind.is_between(lane) else kind.topology.kind.value,
                    100 * share,
                    out,
                    back,
                    jobs[instance],
                    problems.get(f"{address}:{layout.lane_names_of(instance)[lane]}"),
                )
            )
        return rows
