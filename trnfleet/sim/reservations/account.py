"""The simulated account's Capacity Blocks: ledger, effects of faults, and their jobs.

Owns the start and stop of a block's jobs. Rules and states are the domain's. Hardware exists with
or without a block: an instance without one continues publishing, without jobs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.clock import NS_PER_S, NS_PER_US
from trnfleet.domain.address import STANDALONE, Level
from trnfleet.domain.durations import DAY_NS
from trnfleet.domain.fleet import FleetFile, instances_of
from trnfleet.domain.layout import Layout, Node, spans_of
from trnfleet.domain.reservations import rules
from trnfleet.domain.reservations.blocks import Block, Change, ChangeKind
from trnfleet.domain.reservations.ledger import Ledger
from trnfleet.domain.reservations.pool import Pool
from trnfleet.domain.reservations.rules import RuleViolation
from trnfleet.domain.reservations.search import check_sold
from trnfleet.domain.reservations.states import BEGUN, ExtensionState
from trnfleet.errors import ConfigError
from trnfleet.sim.ids import ec2_id
from trnfleet.sim.placement import IDLE, Placement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trnfleet.domain.reservations.market import BlockEntry
    from trnfleet.sim.faults.incident import Incident
    from trnfleet.sim.jobs.workloads import Workloads
    from trnfleet.sim.rng import Rng

BOUGHT_BEFORE_NS = 7 * DAY_NS
"""Time from the purchase of a fleet file's block to its start; assumed."""


class BlockAllocation(NamedTuple):
    """A Capacity Block as a change left it, and its use."""

    change: Change
    block: Block
    launched: int
    """Instances of it on which a job runs."""
    warned: tuple[int, ...] = ()
    """With the interruption warning: numbers of the instances with a job then."""


class CapacityAccount:
    """Capacity Blocks of a fleet, and their jobs."""

    def __init__(self, layout: Layout, fleet: FleetFile, placement: Placement, rng: Rng) -> None:
        """Read the fleet file's blocks; `begin` makes them.

        Raises:
            ConfigError: a block names what cannot be one; the message names the key.
        """
        self._layout = layout
        self._fleet = fleet
        self._rng = rng
        self._job_of = placement.job_of_instance
        self._entries = [
            _members(layout, number, entry, fleet.market.sells)
            for number, entry in enumerate(fleet.blocks)
        ]
        self.governed = np.zeros(len(layout.instances), np.bool_)
        """Instances that belong to blocks of the fleet file. Jobs on others run on demand, and
        these are not for sale."""
        for members in self._entries:
            self.governed[list(members)] = True
        self._ledger: Ledger | None = None
        self._open = np.ones(len(fleet.jobs), np.bool_)
        """Mask of the jobs with all the instances they need."""
        self._start_ns = 0
        self._on_demand = np.zeros(len(layout.instances), np.bool_)
        self._changes: list[BlockAllocation] = []
        self._impaired: frozenset[int] = frozenset()

    @property
    def owner(self) -> str:
        """Id of the AWS account."""
        return self._fleet.market.account

    def instance(self, place: int, generation: int) -> tuple[str, str]:
        """Return the address and the EC2 id of an instance that was replaced `generation` times."""
        path = self._layout.instances[place]
        return path, ec2_id(self._rng.token, path, generation)

    @property
    def ledger(self) -> Ledger:
        """The blocks and their present time.

        Raises:
            RuntimeError: time has not begun.
        """
        if self._ledger is None:
            raise RuntimeError("reservations begin with the first tick")
        return self._ledger

    @property
    def blocks(self) -> list[Block]:
        """All blocks in order of creation."""
        return [] if self._ledger is None else list(self._ledger.blocks.values())

    def begin(self, start_ns: int, workloads: Workloads) -> None:
        """Open the ledger at the fleet's first instant, with the fleet file's blocks.

        Raises:
            ConfigError: two of them hold an instance at the same time; the message names the key.
        """
        if self._ledger is not None:
            return
        self._start_ns = start_ns
        zones = {cluster.name: cluster.zone for cluster in self._fleet.clusters}
        self._on_demand = (self._job_of != IDLE) & ~self.governed
        pool = Pool.of(self._layout, zones, self._on_demand, self._fleet.market.sells)
        ledger = self._ledger = Ledger(
            pool, self._fleet.market, token=self._rng.token, now_ns=start_ns
        )
        for number, (entry, members) in enumerate(
            zip(self._fleet.blocks, self._entries, strict=True)
        ):
            end_ns = _end_ns(start_ns, entry.ends_after_days)
            begin_ns = end_ns - entry.days * DAY_NS
            payment = ExtensionState(f"payment-{entry.payment}")
            kind = self._layout.type_of(members[0]).name
            created_ns = begin_ns - BOUGHT_BEFORE_NS
            if payment is ExtensionState.PAYMENT_PENDING or created_ns > start_ns:
                created_ns = start_ns
            try:
                ledger.set_up([ledger.make(kind, members, begin_ns, end_ns, payment, created_ns)])
            except RuleViolation as refusal:
                raise ConfigError(
                    f"blocks.{number}: on = {', '.join(entry.on)!r}: {refusal}"
                ) from refusal
        self._open_jobs(0.0, workloads, is_start=True)

    def next_s(self) -> float:
        """Return the time of the next block change, seconds since the start; infinite if none."""
        due_ns = None if self._ledger is None else self._ledger.next_change_ns()
        return math.inf if due_ns is None else self.moment_s(due_ns)

    def move_to(self, now_s: float, incidents: Iterable[Incident], workloads: Workloads) -> None:
        """Advance to `now_s`: carry out due changes, and the effects of faults on blocks."""
        ledger = self.ledger
        now_ns = self._start_ns + round(now_s * NS_PER_S)
        due_ns = ledger.next_change_ns()
        # Over ten years float seconds are exact to a microsecond.
        if due_ns is not None and now_ns < due_ns <= now_ns + NS_PER_US:
            now_ns = due_ns
        changes = ledger.advance(max(now_ns, ledger.now_ns))
        if changes:
            # What is terminated at the same instant runs until then.
            warned = [
                (
                    tuple(self._running(block))
                    if change.kind is ChangeKind.INTERRUPTION_WARNING
                    else ()
                )
                for change, block in changes
            ]
            self._open_jobs(now_s, workloads)
            for (change, block), places in zip(changes, warned, strict=True):
                self._changes.append(BlockAllocation(change, block, self.launched(block), places))
        self._report_health(incidents)

    def add_change(self, change: Change, block: Block) -> None:
        """Add a change from a request to the changes returned by `drain`."""
        self._record([(change, block)])

    def use(self, places: Iterable[int]) -> None:
        """Take instances off the market: a job runs on them on demand."""
        self._on_demand[list(places)] = True

    def drain(self) -> list[BlockAllocation]:
        """Return the changes since the last call, in order."""
        changes = self._changes
        self._changes = []
        return changes

    def launched(self, block: Block) -> int:
        """Return the number of a block's instances on which a job may run at present."""
        return len(self._running(block))

    def on(self, block: Block) -> tuple[str, ...]:
        """Return a block's part of the fleet: addresses, and ranges of siblings."""
        return tuple(_spans(self._layout, block))

    def moment_s(self, instant_ns: int) -> float:
        """Return an instant as seconds since the start."""
        return (instant_ns - self._start_ns) / NS_PER_S

    def _running(self, block: Block) -> list[int]:
        """Return the instances of a block currently available to jobs."""
        if not block.is_usable:
            return []
        places = np.array(block.places)
        jobs = self._job_of[places]
        running: list[int] = places[(jobs != IDLE) & np.append(self._open, False)[jobs]].tolist()
        return running

    def _record(self, changes: Iterable[tuple[Change, Block]]) -> None:
        self._changes += [
            BlockAllocation(change, block, self.launched(block)) for change, block in changes
        ]

    def _open_jobs(self, at_s: float, workloads: Workloads, *, is_start: bool = False) -> None:
        """Start the jobs of begun blocks, and end jobs without their instances."""
        usable = ~self.governed
        for block in self.ledger.blocks.values():
            if block.is_usable:
                usable[list(block.places)] = True
        is_open = np.ones(len(self._open), np.bool_)
        is_open[self._job_of[(self._job_of != IDLE) & ~usable]] = False
        for number in np.flatnonzero(is_open != self._open).tolist():
            if is_open[number]:
                workloads.lifecycle.open(number, at_s)
            elif is_start:
                workloads.lifecycle.withhold(number)
            else:
                workloads.lifecycle.close(number, at_s)
        self._open = is_open

    def _report_health(self, incidents: Iterable[Incident]) -> None:
        """Report blocks with missing instances or links to the ledger."""
        impaired = [incident for incident in incidents if incident.is_down or incident.cuts_links]
        marks = frozenset(map(id, impaired))
        if not impaired and not self._impaired:
            return
        self._impaired = marks
        down = {
            instance for incident in impaired if incident.is_down for instance in incident.instances
        }
        for block in list(self.ledger.blocks.values()):
            if block.state not in BEGUN:
                continue
            members = frozenset(block.places)
            is_cut = any(
                incident.cuts_links and members.issuperset(incident.instances)
                for incident in impaired
            )
            self._record(self.ledger.report_health(block.id, len(members & down), impaired=is_cut))


def _spans(layout: Layout, block: Block) -> Iterator[str]:
    if block.offering.ultraserver_type is None:
        return spans_of(layout, block.places)
    return iter([layout.instances[block.places[0]].rpartition("/")[0]])


def _members(
    layout: Layout, number: int, entry: BlockEntry, sold: Sequence[str]
) -> tuple[int, ...]:
    """Return the instances of a block of the fleet file.

    Raises:
        ConfigError: they do not make a block.
    """
    key = f"blocks.{number}.on"
    try:
        covered = instances_of(layout, entry.on, key)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    members = sorted({instance for span in covered for instance in span})
    kinds = {layout.type_of(instance).name for instance in members}
    clusters = {layout.instances[instance].partition("/")[0] for instance in members}
    if len(kinds) > 1 or len(clusters) > 1:
        raise ConfigError(
            f"{key}: a block has instances of one type and one cluster, not of"
            f" {', '.join(sorted(kinds | clusters))}"
        )
    try:
        check_sold(next(iter(kinds)), sold)
    except RuleViolation as refusal:
        raise ConfigError(f"{key} = {', '.join(entry.on)!r}: {refusal}") from refusal
    owner = layout.parent(Node(Level.INSTANCE, members[0]))
    is_alone = layout.path(owner).rpartition("/")[2] == STANDALONE
    if not is_alone and members != list(layout.instance_range(owner)):
        raise ConfigError(
            f"{key}: a block holds one whole UltraServer; name one, such as {layout.path(owner)}"
        )
    if len(members) > rules.MOST_INSTANCES_A_BLOCK:
        raise ConfigError(
            f"{key}: a block has at most {rules.MOST_INSTANCES_A_BLOCK} instances, not"
            f" {len(members)}"
        )
    return tuple(members)


def _end_ns(start_ns: int, after_days: int) -> int:
    """Return a block's end, configured in days from the start in a fleet file."""
    first_ns = rules.next_end_ns(start_ns + 3_600 * NS_PER_S - 1)
    return first_ns + after_days * DAY_NS
