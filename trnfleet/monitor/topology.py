"""NeuronLinks of a fleet: each link once with both ends, and counts of their states.

The states follow the rules. A link is down where `link_up` is 0 at either end. It is slow where the
loaded rule about a link's share of its peers matches at either end. It is up only if both ends are
live and say so; else its state is unknown. Columns only: no link is an object.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.alerts.signals import Scope
from trnfleet.domain.hardware.topology import MOST_LANES
from trnfleet.domain.links import far_ends
from trnfleet.domain.metrics import BY_NAME
from trnfleet.monitor.alerting.conditions.row_condition import NO_ROWS
from trnfleet.monitor.alerting.conditions.rows import RowSearch, evaluation_of
from trnfleet.monitor.alerting.conditions.windows import Counters
from trnfleet.monitor.alerting.inputs import Instant, Readings
from trnfleet.monitor.slices import finish, require
from trnfleet.monitor.store.per_instance import INSTANCES_A_SLICE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.domain.hardware.catalogue import InstanceType
    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.store.rollup import Rollups
    from trnfleet.monitor.store.store import Store

    Rows = NDArray[np.int64]

_UP = BY_NAME["links_up"]
_SENT = BY_NAME["link_tx_bytes_per_s"]


class LinkState(enum.IntEnum):
    """State of a link, the worst first; of two ends the worse one counts."""

    DOWN = 0
    SLOW = 1
    UNKNOWN = 2
    UP = 3

    @property
    def word(self) -> str:
        """Its word on the screen."""
        return "not known" if self is LinkState.UNKNOWN else self.name.lower()


class LinkCounts(NamedTuple):
    """Numbers of links by state; the states add up to `all`."""

    all: int = 0
    up: int = 0
    slow: int = 0
    down: int = 0
    unknown: int = 0

    @staticmethod
    def from_states(by_state: NDArray[np.int64]) -> LinkCounts:
        """Return the counts of an array by state."""
        down, slow, unknown, up = by_state.tolist()
        return LinkCounts(down + slow + unknown + up, up, slow, down, unknown)

    @property
    def text(self) -> str:
        """The counts in words, without zeros of bad states."""
        bad = [
            f"{number:,} {word}"
            for number, word in (
                (self.down, "down"),
                (self.slow, "slow"),
                (self.unknown, "not known"),
            )
            if number
        ]
        return ", ".join([f"{self.up:,} of {self.all:,} up", *bad])


class LinkTable(NamedTuple):
    """Links of some instances in columns, one row a link."""

    chips: Rows
    """Links x 2: the chip rows of both ends; the second is -1 at a switch or if unknown."""
    lanes: Rows
    """Links x 2: their lanes."""
    states: NDArray[np.int8]
    """`LinkState` of each."""
    shares: NDArray[np.float64]
    """The lower share of peers of both ends, as in the rule about slow links; NaN if unknown."""
    rates: NDArray[np.float64]
    """Links x 2: bytes/s sent by each end; NaN if unknown."""

    @property
    def total(self) -> int:
        """Number of links."""
        return len(self.states)

    @property
    def counts(self) -> LinkCounts:
        """Numbers of links by state."""
        return LinkCounts.from_states(np.bincount(self.states, minlength=len(LinkState)))


NO_LINKS = LinkTable(
    np.zeros((0, 2), np.int64),
    np.zeros((0, 2), np.int64),
    np.zeros(0, np.int8),
    np.zeros(0),
    np.zeros((0, 2)),
)


def slow_rule(rules: Sequence[Rule]) -> Rule | None:
    """Return the rule for slow links; None without one."""
    return next(
        (
            rule
            for rule in rules
            if rule.scope is Scope.LINK
            and rule.share_of_median_of == "instance"
            and rule.below is not None
        ),
        None,
    )


class FleetLinks:
    """The links of a fleet as of one pass.

    A domain is an UltraServer, or an instance outside of UltraServers: no link leads out of it.
    """

    def __init__(
        self,
        store: Store,
        rollups: Rollups,
        rules: Sequence[Rule],
        before: FleetLinks | None = None,
    ) -> None:
        """Read the states of all links.

        Args:
            store: The values.
            rollups: Those of the store's layout.
            rules: The loaded rules.
            before: Those of an earlier pass. The numbers of links are its own if the layout is.

        Raises:
            LayoutChanged: the roll-ups belong to another layout.
        """
        require(rollups, store.generation)
        self.store = store
        self.layout = store.layout
        self.rule = slow_rule(rules)
        """The rule about slow links. Without one no link is slow."""
        self._readings = Readings(store, rollups, Instant(0, 0), {})
        self._slow = NO_ROWS
        layout = self.layout
        number = layout.domain_of_instance
        self.starts: Rows = np.flatnonzero(np.diff(number, prepend=number[:1] + 1))
        """First instance of each domain."""
        self.by_state = np.zeros((len(self.starts), len(LinkState)), np.int64)
        """Domains x states: numbers of links."""
        if not len(layout.instances):
            return
        if self.rule is not None:
            self._slow = finish(RowSearch(self.rule, Counters()).search(self._readings)).rows
        is_known = before is not None and before.layout is layout
        self.totals: Rows = before.totals if before and is_known else self._count_all()
        """Number of links of each domain."""
        self._count()

    @property
    def counts(self) -> LinkCounts:
        """The fleet's numbers of links by state."""
        return LinkCounts.from_states(self.by_state.sum(axis=0))

    def counts_of(self, domain: int) -> LinkCounts:
        """Return a domain's numbers of links by state."""
        return LinkCounts.from_states(self.by_state[domain])

    def domain_at(self, instance: int) -> int:
        """Return the domain of an instance row."""
        return int(np.searchsorted(self.starts, instance, side="right")) - 1

    def instances_of(self, domain: int) -> range:
        """Return the instance rows of a domain."""
        ends = [*self.starts[domain : domain + 2].tolist(), len(self.layout.instances)]
        return range(ends[0], ends[1])

    def table(self, domain: int) -> LinkTable:
        """Return the links of a domain, in the order of their first ends."""
        covered = self.instances_of(domain)
        instances = np.arange(covered.start, covered.stop)
        return self._table(instances[~self.layout.is_rolled[instances]], with_values=True)

    def worst(self, most: int) -> Rows:
        """Return the domains with links that are not up, the worst first, at most `most`."""
        bad = self.by_state[:, : LinkState.UP]
        some = np.flatnonzero(bad.any(axis=1))
        order = np.lexsort((some, *(-bad[some].T[::-1])))
        return some[order[:most]]

    def _count(self) -> None:
        """Count the links of all domains; only domains with trouble are read link by link."""
        store = self.store
        layout = self.layout
        codes = store.columns[_UP.name]
        unknown = ~self._readings.live | (codes == _UP.top)
        expected = self._readings.expected_links
        bad = unknown | ((codes & expected) != expected)
        bad[self._slow // MOST_LANES] = True
        totals = self.totals
        self.by_state[:, LinkState.UP] = totals
        if not bad.any():
            return
        firsts = layout.chip_start[self.starts].astype(np.intp)
        silent = np.logical_and.reduceat(unknown, firsts)
        self.by_state[silent] = 0
        self.by_state[silent, LinkState.UNKNOWN] = totals[silent]
        some = np.flatnonzero(np.logical_or.reduceat(bad, firsts) & ~silent)
        ends = np.append(self.starts, len(layout.instances))
        for first in range(0, len(some), INSTANCES_A_SLICE):
            few = some[first : first + INSTANCES_A_SLICE]
            sizes = ends[few + 1] - ends[few]
            offsets = np.cumsum(sizes) - sizes
            instances = np.arange(int(sizes.sum())) + np.repeat(ends[few] - offsets, sizes)
            rolled = layout.is_rolled[instances]
            table = self._table(instances[~rolled], with_values=False)
            owner = np.searchsorted(
                self.starts, layout.instance_of_chip[table.chips[:, 0]], side="right"
            )
            width = len(LinkState)
            counted = np.bincount(
                (owner - 1) * width + table.states, minlength=self.by_state.size
            ).reshape(self.by_state.shape)
            # What the links seen leave of the total is known from roll-ups only.
            counted[:, LinkState.UNKNOWN][few] += totals[few] - counted[few].sum(axis=1)
            self.by_state[few] = counted[few]

    def _count_all(self) -> Rows:
        """Return the number of links of each domain: alike domains are counted once."""
        layout = self.layout
        ends = np.append(self.starts, len(layout.instances))
        starts = self.starts.astype(np.intp)
        kinds = layout.instance_type.astype(np.int64)
        rolled = np.array([_links_per_instance(kind) for kind in layout.types], np.int64)
        hidden = np.where(layout.is_rolled, layout.members * rolled[kinds], 0)
        totals: Rows = np.add.reduceat(hidden, starts)
        alike = np.stack(
            [
                np.minimum.reduceat(kinds, starts),
                np.maximum.reduceat(kinds, starts),
                np.diff(ends),
                np.add.reduceat(layout.is_rolled.astype(np.int64), starts),
                layout.is_standalone[layout.ultraserver_of_instance[self.starts]],
            ],
            axis=1,
        )
        unlike = (alike[:, 0] != alike[:, 1]) | ((alike[:, 3] > 0) & (alike[:, 3] < alike[:, 2]))
        own = np.where(unlike, np.arange(len(unlike)), -1)
        _, examples, number = np.unique(
            np.column_stack((alike, own)), axis=0, return_index=True, return_inverse=True
        )
        visible = np.zeros(len(examples), np.int64)
        for place, domain in enumerate(examples.tolist()):
            instances = np.arange(ends[domain], ends[domain + 1])
            visible[place] = _once(layout, instances[~layout.is_rolled[instances]]).total
        return totals + visible[number.reshape(-1)]

    def _table(self, instances: Rows, *, with_values: bool) -> LinkTable:
        links = _once(self.layout, instances)
        has_far = links.chips[:, 1] >= 0
        states = self._end_states(links.chips[:, 0], links.lanes[:, 0])
        others = self._end_states(links.chips[:, 1], links.lanes[:, 1])
        states = np.where(has_far, np.minimum(states, others), states)
        links = links._replace(states=states.astype(np.int8))
        if not with_values or not links.total:
            return links
        missing = ~has_far
        rows = np.where(links.chips >= 0, links.chips * MOST_LANES + links.lanes, 0)
        sent = self._readings.values(Scope.LINK, _SENT.name, rows.reshape(-1)).reshape(rows.shape)
        live = self._readings.live[rows // MOST_LANES]
        sent[~live] = np.nan
        sent[missing, 1] = np.nan
        shares = np.full(rows.shape, np.nan)
        if self.rule is not None:
            evaluation = evaluation_of(Scope.LINK, self.rule, Counters())
            shares = evaluation.values(self._readings, rows.reshape(-1)).reshape(rows.shape)
            shares[~live] = np.nan
            shares[missing, 1] = np.nan
        share = np.fmin(shares[:, 0], shares[:, 1])
        # What a link that is down still carries says nothing about it.
        return links._replace(
            shares=np.where(links.states == LinkState.DOWN, np.nan, share), rates=sent
        )

    def _end_states(self, chips: Rows, lanes: Rows) -> NDArray[np.int64]:
        codes = self.store.columns[_UP.name][chips]
        known = self._readings.live[chips] & (codes != _UP.top)
        is_up = codes >> lanes.astype(np.uint8) & 1 > 0
        is_slow = np.isin(chips * MOST_LANES + lanes, self._slow)
        return np.where(
            known,
            np.where(is_up, np.where(is_slow, LinkState.SLOW, LinkState.UP), LinkState.DOWN),
            LinkState.UNKNOWN,
        )


def _once(layout: Layout, instances: Rows) -> LinkTable:
    """Return the links of some instances, each at its first end; all states unknown."""
    ends = far_ends(layout, instances)
    lanes = np.arange(MOST_LANES)
    exists = layout.chip_links_mask[ends.chips][:, None] >> lanes.astype(np.uint8) & 1 > 0
    own = ends.chips[:, None] * MOST_LANES + lanes
    is_first = (ends.far < 0) | (own < ends.far * MOST_LANES + ends.far_lanes)
    rows, ways = np.nonzero(exists & is_first)
    return LinkTable(
        np.stack((ends.chips[rows], ends.far[rows, ways]), axis=1),
        np.stack((ways, ends.far_lanes[rows, ways]), axis=1),
        np.full(len(rows), LinkState.UNKNOWN, np.int8),
        np.full(len(rows), np.nan),
        np.full((len(rows), 2), np.nan),
    )


def _links_per_instance(kind: InstanceType) -> int:
    """Return the links of an instance, with its share of the UltraServer's."""
    between = kind.between
    beyond = 0 if between is None else kind.chips * between.links // between.members
    return kind.topology.links + beyond
