"""Search for free capacity, with the nearest choice if there is none."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.quantities import counted
from trnfleet.domain.reservations import rules
from trnfleet.domain.reservations.rules import Rule, RuleViolation, utc
from trnfleet.domain.reservations.search_request import (
    OfferingKind,
    offering_kind_of,
    spans_of,
    starts_of,
    zones_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trnfleet.domain.reservations.blocks import Offering
    from trnfleet.domain.reservations.occupancy import Occupancy
    from trnfleet.domain.reservations.search_request import SearchRequest


class Lot(NamedTuple):
    """Instances in a zone for a time, from which a block is bought."""

    kind: OfferingKind
    zone: str
    start_ns: int
    end_ns: int

    @staticmethod
    def of(offering: Offering) -> Lot:
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
