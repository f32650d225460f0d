"""Reserved capacity: publishers' messages, and derived use, time left and cost.

Stores the reservations' messages and the results derived from them and the store at an instant.
Times are monitor time. `usage.py` has their use by hour, and `means.py` their use over the last
seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.clock import NS_PER_S, parse_rfc3339
from trnfleet.domain.address import Level
from trnfleet.domain.layout import EMPTY_LAYOUT
from trnfleet.domain.reservations.extension import why_not_extendable
from trnfleet.domain.reservations.states import ENDED, BlockState, ExtensionState
from trnfleet.errors import WireError
from trnfleet.monitor.failures import fail
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.reservations.usage import Look, Usage, UsageHour
from trnfleet.monitor.slices import SLICE, Slices, checkpoint, require
from trnfleet.monitor.store import fields

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.monitor.sources.clocks import Moment
    from trnfleet.monitor.sources.descriptors import Descriptors
    from trnfleet.monitor.store.rollup import Rollups
    from trnfleet.monitor.store.store import Store
    from trnfleet.wire.reservations import ReservationMessage

IDLE_BELOW_PCT = 1.0
"""Core utilisation below which an instance is idle."""
NEAR_END_S = 6 * 3_600.0
"""Seconds before the first termination: one work shift. Time to move, or to extend, possible at EC2
until an hour before the end."""

_ENDED = frozenset(state.value for state in ENDED)
HOLDS_NOW = frozenset({BlockState.ACTIVE.value, BlockState.UNAVAILABLE.value})
"""States of reservations whose instances exist."""
_ORDER = {
    state: rank
    for rank, state in enumerate(
        (
            "active",
            "unavailable",
            "scheduled",
            "payment-pending",
            "delayed",
            "assessing",
            "pending",
            "cancelling",
        )
    )
}


@dataclass(frozen=True, slots=True)
class Reservation:
    """One reservation at an instant; None where it is not known."""

    message: ReservationMessage
    rows: tuple[range, ...]
    """Its instance rows in the present layout, ascending and disjoint. Empty if unknown."""
    on: tuple[str, ...]
    """Its part of the fleet: the message's addresses and ranges, or the addresses of the instances
    with its EC2 ids."""
    starts_ns: int
    ends_ns: int | None
    terminates_ns: int | None
    to_start_s: float
    """Simulated seconds to its start; negative once it has begun."""
    to_end_s: float | None
    """Seconds to its end; negative after it."""
    to_termination_s: float | None
    """Seconds until its instances begin to be terminated; negative after it."""
    used: int | None
    """Instances of it that do something: their cores' mean utilisation is above `IDLE_BELOW_PCT`
    now. None while it is not active, and where no instance of it is live or free."""
    unknown: int
    """Its instances without any live data."""
    not_launched: int
    """Capacity in which EC2 runs no instance: paid and idle, whatever telemetry says. 0 for
    messages with addresses, which name all that is reserved."""
    util_pct: float | None
    """Mean NeuronCore utilisation of its live instances now; over the last seconds in `means.py`.
    """
    mean_util_pct: float | None
    """The same since it began or since the monitor has watched it, whichever is later."""
    fee_per_h: Decimal | None
    """Cost of an hour of all of it: the fee over its whole time."""
    idle_per_h: Decimal | None
    """Part of `fee_per_h` for idle instances. None unless active with known use."""
    can_extend: bool
    why_not: str
    """Reason why it cannot be extended now, in a few words; empty where it can."""
    is_near_end: bool
    """It is active and less than `NEAR_END_S` from the first termination."""
    is_idle: bool
    """It is active and all of it is known to be idle."""
    is_current: bool = True
    """Whether its publisher is online; else it is as last known."""
    pays_ns: int | None = None
    """Time at which a pending payment fails."""


class _Kept(NamedTuple):
    """A message with its times parsed."""

    message: ReservationMessage
    starts_ns: int
    ends_ns: int | None
    terminates_ns: int | None
    pays_ns: int | None
    ts_ns: int
    fee_per_h: Decimal | None

    @property
    def state(self) -> str:
        return self.message.state.value

    @property
    def sort_key(self) -> tuple[int, int, str]:
        """Sort key of the table.

        Current ones by end, scheduled ones by start, ended ones newest first.
        """
        if self.state in _ENDED:
            return len(_ORDER) + 1, -(self.ends_ns or self.ts_ns), self.message.id
        by_ns = self.starts_ns if self.state == BlockState.SCHEDULED.value else self.ends_ns
        return (
            _ORDER.get(self.state, len(_ORDER)),
            2**63 if by_ns is None else by_ns,
            self.message.id,
        )


class _Sums(NamedTuple):
    """Cumulative sums before each row: known instances, busy instances, and total utilisation."""

    known: list[int]
    used: list[int]
    util_pct: list[float]

    @staticmethod
    def of(util_pct: NDArray[np.float64], members: NDArray[np.int64]) -> _Sums:
        """Add up rows of several instances each.

        NaN is unknown.
        """
        known = ~np.isnan(util_pct)
        columns = (known, util_pct > IDLE_BELOW_PCT, np.where(known, util_pct, 0.0))
        known_before, used_before, util_before = (
            [0, *np.cumsum(column * members).tolist()] for column in columns
        )
        return _Sums(known_before, used_before, util_before)


class ReservationMembers:
    """The instance rows of every reservation, by the addresses or EC2 ids of its instances.

    Only changes are mapped again, in slices: a large fleet has tens of thousands of places.
    """

    def __init__(self) -> None:
        self.generation = -1
        """Layout generation that `rows` belongs to."""
        self.rows: dict[str, tuple[range, ...]] = {}
        """By reservation: ascending and apart; none where nothing is known."""
        self.on: dict[str, tuple[str, ...]] = {}
        """Addresses and ranges, by reservation."""
        self.by_id: dict[str, dict[str, str]] = {}
        """Address by EC2 id, by reservation that names such."""
        self._places: dict[str, tuple[str, ...]] = {}
        """Addresses and ranges of reservations that name such."""
        self._ec2_ids: dict[str, tuple[str, ...]] = {}
        """EC2 ids of reservations that name no addresses."""
        self._due: set[str] = set()
        """Reservations whose rows must be found again."""
        self._moved: set[str] = set()
        """Reservations with an instance that has several addresses: it has moved, and its former
        descriptor is still there."""
        self._described = -1
        """Change count of the descriptors whose EC2 ids were looked up."""

    def put(self, message: ReservationMessage) -> None:
        """Add or replace a reservation."""
        name = message.id
        places = message.on
        ec2_ids = () if message.on else message.ec2_ids
        if (self._places.get(name), self._ec2_ids.get(name)) != (places, ec2_ids):
            self._places[name] = places
            self._ec2_ids[name] = ec2_ids
            self._due.add(name)

    def remove(self, name: str) -> None:
        """Forget a reservation."""
        for table in (self.rows, self.on, self.by_id, self._places, self._ec2_ids):
            table.pop(name, None)
        self._due.discard(name)
        self._moved.discard(name)

    def find(
        self, layout: Layout, generation: int, descriptors: Descriptors, live: NDArray[np.bool_]
    ) -> Slices[None]:
        """Bring `rows` up to date in slices; left half-way, the next call goes on.

        Args:
            layout: The present layout.
            generation: Its generation.
            descriptors: They have the EC2 ids of instances.
            live: Mask of live instances.
        """
        if generation != self.generation:
            self.generation = generation
            self._due = set(self._places)
        if descriptors.changes != self._described:
            self._described = descriptors.changes
            self._due |= {name for name, ec2_ids in self._ec2_ids.items() if ec2_ids}
        self._due |= self._moved
        count = 0
        while self._due and self.generation == generation:
            name = next(iter(self._due))
            by_id = self.by_id[name] = self._choose_addresses(name, layout, descriptors, live)
            on = self.on[name] = self._places[name] or tuple(by_id.values())
            covered = [layout.find_instances(target) for target in on]
            self.rows[name] = _joined([run for run in covered if run])
            self._due.discard(name)
            count += len(on)
            if count >= SLICE:
                count = 0
                yield

    def _choose_addresses(
        self, name: str, layout: Layout, descriptors: Descriptors, live: NDArray[np.bool_]
    ) -> dict[str, str]:
        """Return the address of each instance with a known EC2 id: the live one of several."""

        def is_silent(path: str) -> bool:
            run = layout.find_instances(path)
            return not run or not live[run.start]

        chosen: dict[str, str] = {}
        self._moved.discard(name)
        for ec2_id in self._ec2_ids[name]:
            if paths := descriptors.addresses(ec2_id):
                chosen[ec2_id] = min(paths, key=is_silent)
                if len(paths) > 1:
                    self._moved.add(name)
        return chosen


class Reservations:
    """The reservations of one fleet."""

    def __init__(self) -> None:
        self.revision = 0
        """Increases with every stored message and every change of computed values."""
        self.history = Usage()
        self.places = 0
        """Addresses, EC2 ids and extensions in all messages."""
        self._kept: dict[str, _Kept] = {}
        self._members = ReservationMembers()
        self._table: list[Reservation] = []
        self._layout = EMPTY_LAYOUT
        """Layout of the last pass."""
        self._live = np.zeros(0, np.bool_)
        """Mask of its instances with live data."""
        self.generation = -1
        """Layout generation of the table's rows."""

    def __len__(self) -> int:
        """Return how many reservations are known."""
        return len(self._kept)

    def __contains__(self, reservation_id: object) -> bool:
        return reservation_id in self._kept

    def places_with(self, message: ReservationMessage) -> int:
        """Return the value of `places` after storing a message."""
        known = self._kept.get(message.id)
        return self.places + _places(message) - (0 if known is None else _places(known.message))

    def put(self, message: ReservationMessage) -> bool:
        """Add or replace a message.

        Return whether it was new.

        A repeated message is not new, nor a late one of the same boot after a later change. A
        message of another boot is always new, whatever its time: a simulator restarts at its former
        beginning.

        Raises:
            WireError: it ends before it starts.
        """
        known = self._kept.get(message.id)
        before = None if known is None else known.message
        if before is not None and before.boot == message.boot and before.change > message.change:
            return False
        if before == message:
            return False
        stored = _keep(message)
        self.places = self.places_with(message)
        self._kept[message.id] = stored
        self._members.put(message)
        self.revision += 1
        return True

    def remove(self, reservation_id: str) -> None:
        """Remove a reservation after its message was cleared."""
        gone = self._kept.pop(reservation_id, None)
        if gone is not None:
            self.places -= _places(gone.message)
            self._members.remove(reservation_id)
            self.history.forget(reservation_id)
            self.revision += 1

    def table(self) -> list[Reservation]:
        """Return all reservations as of the last pass.

        Active ones by end, then future ones, ended ones last.
        """
        return self._table

    def find(self, reservation_id: str) -> Reservation | None:
        """Return a reservation as of the last pass."""
        return next(
            (
                reservation
                for reservation in self._table
                if reservation.message.id == reservation_id
            ),
            None,
        )

    def without_telemetry(self, reservation: Reservation) -> list[str]:
        """Return the EC2 ids of instances without live data, or the addresses if these are known.

        As of the last pass, for a reservation of it.
        """
        message = reservation.message
        if not reservation.unknown:
            return []
        if message.on:
            rows = (row for run in reservation.rows for row in run)
            return [self._layout.instances[row] for row in rows if not self._live[row]]
        by_id = self._members.by_id.get(message.id, {})
        runs = {ec2_id: self._layout.find_instances(path) for ec2_id, path in by_id.items()}
        return [
            ec2_id
            for ec2_id in message.ec2_ids
            if not (run := runs.get(ec2_id)) or not self._live[run.start]
        ]

    def usage(self, reservation_id: str) -> Sequence[UsageHour]:
        """Return a reservation's use by hour, ascending.

        Unwatched hours are missing.
        """
        return self.history.hours(reservation_id)

    def compute(
        self,
        store: Store,
        rollups: Rollups,
        moment: Moment,
        boots_online: Collection[str],
        descriptors: Descriptors,
        counts: PipelineCounts | None = None,
    ) -> Slices[None]:
        """Update the table in slices.

        All changes become visible at the end.

        Args:
            store: The newest values.
            rollups: Those of the last pass.
            moment: The fleet's time.
            boots_online: Online boots of publishers.
            descriptors: Descriptors with the EC2 ids of instances.
            counts: Counters, including one of reservations left out because their figures failed.
                Without them the pass fails.

        Raises:
            LayoutChanged: the store has another layout now; the table is as before.
        """
        layout = store.layout
        generation = store.generation
        count = len(layout.instances)
        live = np.zeros(count, np.bool_)
        util = np.full(count, np.nan)
        if rollups.ready and rollups.generation == generation and count:
            live = rollups.states(Level.INSTANCE)[:, Freshness.LIVE] == layout.sizes
            values = fields.BY_KEY["nc_util_pct"].values(store, rollups, Level.INSTANCE, None)
            util = np.where(live, values, np.nan)
        yield from self._members.find(layout, generation, descriptors, live)
        require(store, generation)
        sums = _Sums.of(util, layout.members)
        yield from checkpoint(store, generation)
        table: list[Reservation] = []
        for number, stored in enumerate(
            sorted(self._kept.values(), key=lambda candidate: candidate.sort_key)
        ):
            try:
                table.append(self._look(stored, sums, moment, boots_online))
            except Exception as error:
                if counts is None:
                    raise
                fail(counts, "reservations", error, stored.message.id)
                continue
            if number % SLICE == SLICE - 1:
                yield from checkpoint(store, generation)
        self._table = table
        self._layout = layout
        self._live = ~np.isnan(util)
        self.generation = generation
        self.revision += 1

    def watch(self, moment: Moment) -> None:
        """Add a sample of the use of all active reservations, about once a second."""
        looks = {}
        for reservation in self._table:
            if reservation.message.id not in self._kept:
                # Its message was cleared after the last pass.
                continue
            known = reservation.message.instances - reservation.unknown - reservation.not_launched
            if reservation.util_pct is not None and reservation.used is not None and known > 0:
                share = min(1.0, reservation.used / known)
                looks[reservation.message.id] = Look(
                    reservation.util_pct, share, reservation.starts_ns, reservation.ends_ns
                )
        self.history.watch(moment, looks)

    def _look(
        self,
        stored: _Kept,
        sums: _Sums,
        moment: Moment,
        boots_online: Collection[str],
    ) -> Reservation:
        message = stored.message
        now_ns = moment.time_ns
        rows = self._members.rows.get(message.id, ())
        known = sum(sums.known[run.stop] - sums.known[run.start] for run in rows)
        is_active = stored.state in HOLDS_NOW
        is_current = message.boot is None or message.boot in boots_online
        not_launched = 0
        if is_active and is_current and message.launched is not None and not message.on:
            # What was launched since EC2 was read is known by its telemetry.
            running = max(message.launched, len(message.ec2_ids), known)
            not_launched = max(message.instances - running, 0)
        used = None
        util_pct = None
        idle_per_h = None
        if is_active and (known or not_launched):
            used = sum(sums.used[run.stop] - sums.used[run.start] for run in rows)
        if is_active and known:
            util_pct = (
                sum(sums.util_pct[run.stop] - sums.util_pct[run.start] for run in rows) / known
            )
        if stored.fee_per_h is not None and used is not None and message.instances:
            idle = min(known + not_launched, message.instances) - used
            idle_per_h = stored.fee_per_h * max(idle, 0) / message.instances
        is_pending = any(
            extension.state is ExtensionState.PAYMENT_PENDING for extension in message.extensions
        )
        why_not = "no end"
        if message.type != "capacity-block":
            why_not = "no block"
        elif stored.ends_ns is not None:
            why_not = why_not_extendable(
                message.state, stored.starts_ns, stored.ends_ns, now_ns, is_pending=is_pending
            )
        to_termination_s = _until(stored.terminates_ns, now_ns)
        return Reservation(
            message=message,
            rows=rows,
            on=self._members.on.get(message.id, message.on),
            starts_ns=stored.starts_ns,
            ends_ns=stored.ends_ns,
            terminates_ns=stored.terminates_ns,
            to_start_s=(stored.starts_ns - now_ns) / NS_PER_S,
            to_end_s=_until(stored.ends_ns, now_ns),
            to_termination_s=to_termination_s,
            used=used,
            unknown=max(message.instances - known - not_launched, 0) if is_active else 0,
            not_launched=not_launched,
            util_pct=util_pct,
            mean_util_pct=self.history.mean_util_pct(message.id),
            fee_per_h=stored.fee_per_h,
            idle_per_h=idle_per_h,
            can_extend=not why_not,
            why_not=why_not,
            is_near_end=is_active
            and to_termination_s is not None
            and to_termination_s < NEAR_END_S,
            # What is not known may be in use.
            is_idle=used == 0 and known + not_launched >= message.instances,
            is_current=is_current,
            pays_ns=stored.pays_ns,
        )


def _keep(message: ReservationMessage) -> _Kept:
    starts_ns = parse_rfc3339(message.start)
    ends_ns = _instant_or_none(message.end)
    if ends_ns is not None and ends_ns <= starts_ns:
        raise WireError("the reservation ends before it starts")
    fee_per_h = None
    if message.fee is not None and ends_ns is not None:
        fee_per_h = Decimal(message.fee) * (3_600 * NS_PER_S) / (ends_ns - starts_ns)
    return _Kept(
        message,
        starts_ns,
        ends_ns,
        _instant_or_none(message.terminates),
        _instant_or_none(message.pay_by),
        parse_rfc3339(message.ts),
        fee_per_h,
    )


def _places(message: ReservationMessage) -> int:
    return len(message.on) + len(message.ec2_ids) + len(message.extensions)


def _instant_or_none(text: str | None) -> int | None:
    return None if text is None else parse_rfc3339(text)


def _until(instant_ns: int | None, now_ns: int) -> float | None:
    return None if instant_ns is None else (instant_ns - now_ns) / NS_PER_S


def _joined(runs: list[range]) -> tuple[range, ...]:
    """Return ranges ascending, with adjacent and overlapping ones merged."""
    joined: list[range] = []
    for run in sorted(runs, key=lambda span: span.start):
        if joined and run.start <= joined[-1].stop:
            joined[-1] = range(joined[-1].start, max(joined[-1].stop, run.stop))
        else:
            joined.append(run)
    return tuple(joined)
