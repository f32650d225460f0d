"""Searches for offerings, in the terms of DescribeCapacityBlockOfferings.

A request is checked by the rules that need no ledger. Then free capacity is searched; a refusal
names the nearest choice.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.clock import NS_PER_S
from trnfleet.domain.durations import MINUTE_NS
from trnfleet.domain.hardware.catalogue import (
    INSTANCE_TYPES,
    ULTRASERVER_TYPES,
    UltraServerType,
    ultraserver_type_of,
)
from trnfleet.domain.quantities import counted
from trnfleet.domain.reservations import rules
from trnfleet.domain.reservations.pool import OfferingKind, Pool
from trnfleet.domain.reservations.rules import Rule, RuleViolation, utc, whole_minute_ns
from trnfleet.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trnfleet.domain.reservations.blocks import Offering
    from trnfleet.domain.reservations.occupancy import Occupancy


class SearchRequest(NamedTuple):
    """Criteria of a search for offerings."""

    days: int
    instance_type: str | None = None
    instances: int | None = None
    ultraservers: int | None = None
    zone: str | None = None
    starts_from_ns: int | None = None
    """Earliest start; None for as soon as can be."""
    ends_by_ns: int | None = None
    """Latest end."""


def offering_kind_of(request: SearchRequest, pool: Pool) -> OfferingKind:
    """Return the kind of offering of a request.

    Raises:
        RuleViolation: it is not sold.
    """
    if request.ultraservers is not None:
        if request.ultraservers != 1:
            raise RuleViolation(
                Rule.ONE_ULTRASERVER,
                f"a block holds one UltraServer, not {request.ultraservers}; buy them one by one",
            )
        ultraserver = _ultraserver_of(request, pool)
        member = ultraserver.instance.name
        if request.instances not in {None, ultraserver.instances}:
            raise RuleViolation(
                Rule.ULTRASERVER_ONLY,
                f"an UltraServer has {ultraserver.instances} instances, not {request.instances};"
                " leave their number out",
            )
        if request.instance_type not in {None, member}:
            raise RuleViolation(
                Rule.INSTANCE_TYPE,
                f"an UltraServer's instances are {member}, not {request.instance_type}",
            )
        _check_type(member, pool)
        return OfferingKind(member, ultraserver.instances, is_ultraserver=True)
    kind = request.instance_type
    if kind is None:
        raise RuleViolation(
            Rule.INSTANCE_TYPE,
            f"name an instance type or ask for an UltraServer; {nearest('', _sold_alone(pool))}",
        )
    if kind in pool.sold and ultraserver_type_of(kind) is not None:
        raise RuleViolation(
            Rule.ULTRASERVER_ONLY, f"{kind} is sold as an UltraServer only; ask for one of these"
        )
    _check_type(kind, pool)
    count = 1 if request.instances is None else request.instances
    most = rules.MOST_INSTANCES_A_BLOCK
    if not 1 <= count <= most:
        raise RuleViolation(
            Rule.BLOCK_SIZE,
            f"a block has 1 to {most} instances, not {count}; {min(max(count, 1), most)} would fit",
        )
    return OfferingKind(kind, count, is_ultraserver=False)


def zones_of(request: SearchRequest, kind: OfferingKind, pool: Pool) -> list[str]:
    """Return the zones to search.

    Raises:
        RuleViolation: the requested zone has no such instances, or does not exist.
    """
    known = pool.zones(kind.instance_type)
    if request.zone is None:
        return known
    if request.zone not in known:
        near = nearest(request.zone, known)
        if "," in request.zone or "*" in request.zone:
            raise RuleViolation(
                Rule.SINGLE_ZONE, f"a block lies in a single zone, not {request.zone!r}; {near}"
            )
        raise RuleViolation(
            Rule.SINGLE_ZONE, f"zone {request.zone!r} has no {kind.instance_type}; {near}"
        )
    return [request.zone]


def starts_of(request: SearchRequest, now_ns: int) -> tuple[int, int]:
    """Return the earliest and the latest start both requested and allowed.

    Raises:
        RuleViolation: no start is.
    """
    soonest_ns = now_ns + rules.EARLIEST_START_S * NS_PER_S
    latest_ns = now_ns + rules.LATEST_START_S * NS_PER_S
    wanted_ns = soonest_ns if request.starts_from_ns is None else request.starts_from_ns
    from_ns = whole_minute_ns(wanted_ns)
    if wanted_ns < soonest_ns:
        raise RuleViolation(
            Rule.STARTS_TOO_SOON,
            f"a block starts 30 minutes ahead at the earliest, not at {utc(wanted_ns)}; "
            f"{utc(whole_minute_ns(soonest_ns))} would fit",
        )
    if from_ns > latest_ns:
        raise RuleViolation(
            Rule.STARTS_TOO_LATE,
            f"a block starts within 8 weeks, not at {utc(from_ns)}; {utc(latest_ns)} is the latest",
        )
    if not spans_of(request, from_ns, latest_ns):
        raise _no_span(request, from_ns, latest_ns)
    return from_ns, latest_ns


def spans_of(request: SearchRequest, first_ns: int, last_ns: int) -> list[tuple[int, int]]:
    """Return start and end of every block for a request, starting in [first, last].

    Sorted by start. Blocks start at the first instant, and at each end of a day after it. A block
    with a start between two ends of days is a little shorter than requested, or a little longer.
    Partial days too short to be sold alone are left out, and so are blocks that would end too late
    or last too long.
    """
    spans = []
    start_ns = first_ns
    while start_ns <= last_ns:
        for end_ns in rules.nearest_ends_ns(start_ns, request.days):
            is_in_time = request.ends_by_ns is None or end_ns <= request.ends_by_ns
            if is_in_time and end_ns - start_ns >= rules.SHORTEST_S * NS_PER_S:
                spans.append((start_ns, end_ns))
        start_ns = rules.next_end_ns(start_ns)
    return spans


def _no_span(request: SearchRequest, from_ns: int, latest_ns: int) -> RuleViolation:
    """Return the reason why no block fits the requested time, with the longest that does."""
    fits = next(
        (
            length
            for length in reversed(rules.DURATIONS)
            if spans_of(request._replace(days=length), from_ns, latest_ns)
        ),
        None,
    )
    near = "nothing fits in between" if fits is None else f"{fits} would fit"
    end_ns = rules.end_ns(from_ns, request.days)
    lasts_ns = end_ns - from_ns
    if lasts_ns < rules.SHORTEST_S * NS_PER_S and end_ns <= (request.ends_by_ns or 0):
        return RuleViolation(
            Rule.DURATION,
            f"a partial day is sold from {rules.SHORTEST_S // 60} minutes on, not"
            f" {lasts_ns // MINUTE_NS}, and blocks end at 11:30 UTC; {near}",
        )
    by = "" if request.ends_by_ns is None else utc(request.ends_by_ns)
    return RuleViolation(
        Rule.DATES,
        f"{counted(request.days, 'day')} from {utc(from_ns)} on end at {utc(end_ns)}, after {by};"
        f" {near}",
    )


def _sold_alone(pool: Pool) -> list[str]:
    """Return the instance types of a pool sold by the instance."""
    return [
        kind for kind in pool.types() if kind in pool.sold and ultraserver_type_of(kind) is None
    ]


def _ultraserver_of(request: SearchRequest, pool: Pool) -> UltraServerType:
    """Return the UltraServer type of a request: by its instances' type, or else the pool's.

    Raises:
        RuleViolation: the pool has several.
    """
    named = None if request.instance_type is None else ultraserver_type_of(request.instance_type)
    if named is not None:
        return named
    there = [kind for kind in ULTRASERVER_TYPES.values() if kind.instance.name in pool.types()]
    here = [kind for kind in there if kind.instance.name in pool.sold] or there
    if len(here) > 1 and request.instance_type is None:
        names = " or ".join(kind.instance.name for kind in here)
        raise RuleViolation(
            Rule.INSTANCE_TYPE,
            f"there are UltraServers of several types; name their instances: {names}",
        )
    return (here or list(ULTRASERVER_TYPES.values()))[0]


def check_sold(kind: str, sold: Sequence[str]) -> None:
    """Raise if an instance type is not sold as Capacity Blocks.

    Args:
        kind: The type.
        sold: The types sold.

    Raises:
        RuleViolation: with the types that are sold, and the nearest.
    """
    if kind in sold:
        return
    ultraservers = [ultraserver_type_of(name) for name in sold]
    alone = [
        name for name, ultraserver in zip(sold, ultraservers, strict=True) if ultraserver is None
    ]
    names = [
        *alone,
        *(
            f"UltraServers ({ultraserver.name})"
            for ultraserver in ultraservers
            if ultraserver is not None
        ),
    ]
    raise RuleViolation(
        Rule.NOT_SOLD,
        f"{kind} is not sold as Capacity Blocks; sold: {', '.join(names) or 'nothing'};"
        f" {nearest(kind, alone)}",
    )


def _check_type(kind: str, pool: Pool) -> None:
    if kind in INSTANCE_TYPES:
        check_sold(kind, pool.sold)
    if kind not in pool.types():
        raise RuleViolation(
            Rule.INSTANCE_TYPE, f"no {kind} here; {nearest(kind, _sold_alone(pool))}"
        )


class Lot(NamedTuple):
    """Instances in a zone for a time, from which a block is bought."""

    kind: OfferingKind
    zone: str
    start_ns: int
    end_ns: int

    @staticmethod
    def from_offering(offering: Offering) -> Lot:
        """Return the lot of an offering."""
        kind = OfferingKind(
            offering.instance_type, offering.instances, offering.ultraserver_type is not None
        )
        return Lot(kind, offering.zone, offering.start_ns, offering.end_ns)


def find(request: SearchRequest, occupancy: Occupancy, now_ns: int) -> list[Lot]:
    """Return the free lots that match a request, the earliest first: at most six.

    Raises:
        RuleViolation: a rule forbids it, or nothing is free; the message names the rule and the
            nearest valid choice.
    """
    kind = offering_kind_of(request, occupancy.pool)
    rules.check_duration(request.days)
    search = _Search(kind, zones_of(request, kind, occupancy.pool), occupancy)
    first_ns, last_ns = starts_of(request, now_ns)
    lots = list(islice(search.free(spans_of(request, first_ns, last_ns)), rules.MOST_OFFERINGS))
    if not lots:
        raise search.nothing(request, first_ns, last_ns)
    return lots


def fewer(lot: Lot, occupancy: Occupancy) -> int | None:
    """Return the most free instances below a lot's, then and there.

    None if none are free.
    """
    choice = _Search(lot.kind, [lot.zone], occupancy).fewer([(lot.start_ns, lot.end_ns)])
    return None if choice is None else choice[0]


@dataclass(frozen=True, slots=True)
class _Search:
    """A search for one kind of offering in zones."""

    kind: OfferingKind
    zones: Sequence[str]
    occupancy: Occupancy

    def free(self, spans: Iterable[tuple[int, int]]) -> Iterator[Lot]:
        """Yield the free lots of some spans, by span and then by zone."""
        for start_ns, end_ns in spans:
            if self.occupancy.too_many(self.kind.instances, start_ns, end_ns):
                continue
            for zone in self.zones:
                if self.occupancy.choose(self.kind, zone, start_ns, end_ns) is not None:
                    yield Lot(self.kind, zone, start_ns, end_ns)

    def nothing(self, request: SearchRequest, first_ns: int, last_ns: int) -> RuleViolation:
        """Return the reason why nothing was found, with the nearest choice.

        Shorter blocks first, then fewer instances.
        """
        spans = spans_of(request, first_ns, last_ns)
        emptiest = min(spans, key=lambda span: self.occupancy.held(*span))
        excess = self.occupancy.too_many(self.kind.instances, *emptiest)
        rule = Rule.ACCOUNT_SIZE if excess else Rule.CAPACITY
        problem = excess or f"{self.kind} is not free for {counted(request.days, 'day')}"
        durations = [length for length in rules.DURATIONS if length < request.days]

        def shorter(days: int) -> int | None:
            return self.first_start(spans_of(request._replace(days=days), first_ns, last_ns))

        # A lot that is free for some days is free for fewer.
        at = bisect_left(durations, True, key=lambda days: shorter(days) is None)
        start_ns = shorter(durations[at - 1]) if at else None
        if start_ns is not None:
            return RuleViolation(
                rule,
                f"{problem}; {counted(durations[at - 1], 'day')} from {utc(start_ns)} on would fit",
            )
        choice = self.fewer(spans)
        if choice is not None:
            return RuleViolation(
                rule,
                f"{problem}; {counted(choice[0], 'instance')} from {utc(choice[1])} on would fit",
            )
        return RuleViolation(rule, f"{problem}, nor is less of it or a shorter time")

    def fewer(self, spans: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
        """Return the most sellable instances below the request, and the first start; else None."""
        if self.kind.is_ultraserver:
            return None

        def first(count: int) -> int | None:
            return replace(self, kind=self.kind._replace(instances=count)).first_start(spans)

        at = bisect_left(
            range(1, self.kind.instances), True, key=lambda count: first(count) is None
        )
        start_ns = first(at) if at else None
        return None if start_ns is None else (at, start_ns)

    def first_start(self, spans: Iterable[tuple[int, int]]) -> int | None:
        """Return the first start of these spans at which it can be sold.

        None if never.
        """
        return next((lot.start_ns for lot in self.free(spans)), None)
