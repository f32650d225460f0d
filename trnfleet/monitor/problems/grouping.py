"""Grouping of alerts by cause.

Alerts belong together by inhibition, by a named cause, by one subsystem at one place, or as both
ends of a link. The cost is about that of sorting: alerts are compared only within an UltraServer or
standalone instance.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.address import STANDALONE, Level, level_of
from trnfleet.domain.alerts.alert import Alert, address_of, cause_address, is_below
from trnfleet.domain.alerts.signals import LEVEL_OF, Scope
from trnfleet.domain.alerts.subsystems import (
    JOB,
    LINK,
    POWER_COOLING,
    PROGRESS,
    SILENCE,
    SLOWING,
    can_stop,
)
from trnfleet.domain.layout import Layout, Node
from trnfleet.monitor.problems import places
from trnfleet.monitor.problems.problem import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from trnfleet.monitor.alerting.store import AlertWithStatus

AT_ONCE_NS = 5_000_000_000
"""Longest time between failures of parallel links to count as one. Reports arrive seconds apart."""
MOST_COMPARED = 64
"""Most alerts of one UltraServer for pairwise comparison."""


class Named(NamedTuple):
    """Places of jobs and reservations, as addresses and ranges."""

    jobs: Mapping[str, Sequence[str]]
    reservations: Mapping[str, Sequence[str]]


def group(
    alerts: Sequence[AlertWithStatus], layout: Layout, named: Named
) -> list[list[AlertWithStatus]]:
    """Return the active firing alerts in groups of one cause.

    Each group is in the order of the alerts.
    """
    return _Grouping(alerts, layout, named).groups()


class _Grouping:
    """Union-find over alerts by their numbers."""

    def __init__(self, alerts: Sequence[AlertWithStatus], layout: Layout, named: Named) -> None:
        self._held = alerts
        self._alerts = [held.alert for held in alerts]
        self._layout = layout
        self._named = named
        self._above = list(range(len(alerts)))
        self._hardware = [
            number
            for number, alert in enumerate(self._alerts)
            if alert.subsystem and _is_placed(alert)
        ]

    def groups(self) -> list[list[AlertWithStatus]]:
        self._join_inhibited()
        self._join_places()
        self._join_names()
        groups: dict[int, list[AlertWithStatus]] = {}
        for number, held in enumerate(self._held):
            groups.setdefault(self._root(number), []).append(held)
        return list(groups.values())

    def _root(self, number: int) -> int:
        above = self._above
        while above[number] != number:
            above[number] = above[above[number]]
            number = above[number]
        return number

    def _join(self, one: int, other: int) -> None:
        first, last = sorted((self._root(one), self._root(other)))
        self._above[last] = first

    def _join_inhibited(self) -> None:
        numbers = {alert.fingerprint: number for number, alert in enumerate(self._alerts)}
        for number, alert in enumerate(self._alerts):
            if alert.inhibited_by in numbers:
                self._join(number, numbers[alert.inhibited_by])

    def _join_places(self) -> None:
        """Join adjacent alerts of one subsystem.

        Links are joined by their ends, and with a silent instance.
        """
        near: dict[str, list[int]] = defaultdict(list)
        alike: dict[tuple[str, str], int] = {}
        for number in self._hardware:
            alert = self._alerts[number]
            near[_neighbourhood(address_of(alert))].append(number)
            if alert.subsystem != LINK:
                # Of a rule without groups, chips of one instance, or of one rack that is hot, are
                # one.
                self._join(
                    number, alike.setdefault((alert.name, self._common_scope(alert)), number)
                )
        for there in near.values():
            for place, one in enumerate(there[:MOST_COMPARED]):
                for other in there[place + 1 : MOST_COMPARED]:
                    if self._belong_together(self._alerts[one], self._alerts[other]):
                        self._join(one, other)

    def _common_scope(self, alert: Alert) -> str:
        """Return the common scope of one rule's alerts.

        The rack for heat and power, else the instance.
        """
        address = address_of(alert)
        segments = address.split("/")
        if alert.subsystem == POWER_COOLING:
            rack = places.rack_of(places.place_of(alert), self._layout)
            if rack:
                return "/".join([*segments[:2], rack])
        return "/".join(segments[:3])

    def _belong_together(self, one: Alert, other: Alert) -> bool:
        if {one.subsystem, other.subsystem} == {LINK, SILENCE}:
            link, silent = (one, other) if one.subsystem == LINK else (other, one)
            ends = places.link_of(link, self._layout) or ()
            return any(is_below(end, address_of(silent)) for end in ends)
        if one.subsystem != other.subsystem:
            return False
        links = places.link_of(one, self._layout), places.link_of(other, self._layout)
        if one.subsystem == LINK and one.rule.scope is other.rule.scope is Scope.LINK:
            return links[0] == links[1] if all(links) else self._fell_together(one, other)
        return places.has(places.place_of(one), places.place_of(other), self._layout)

    def _fell_together(self, one: Alert, other: Alert) -> bool:
        """Return whether two alerts about links between instances tell of the same failure."""
        at_once = abs((one.fired_ns or 0) - (other.fired_ns or 0)) <= AT_ONCE_NS
        is_other_end = one.name == other.name and one.target != other.target
        return (
            at_once
            and is_other_end
            and all(places.is_between(alert.worst, self._layout) for alert in (one, other))
        )

    def _join_names(self) -> None:
        """Join alerts about jobs and reservations with their hardware alerts.

        The hardware is named in the alert or the likely cause there.
        """
        by_job: dict[str, int] = {}
        starts = self._starts()
        for number, alert in enumerate(self._alerts):
            if alert.rule.scope is Scope.JOB:
                if alert.target in by_job:
                    self._join(number, by_job[alert.target])
                else:
                    by_job[alert.target] = number
                    culprit = self._culprit(alert, starts)
                    if culprit is not None:
                        self._join(number, culprit)
            elif alert.rule.scope is Scope.RESERVATION and alert.subsystem in {LINK, SILENCE}:
                on = self._named.reservations.get(alert.target, ())
                culprits = [
                    other
                    for other in self._at(on, starts)
                    if self._alerts[other].subsystem == alert.subsystem
                    and _can_stop(self._alerts[other])
                ]
                if culprits:
                    self._join(number, min(culprits, key=self._blame_for(alert)))
        for number in self._hardware:
            alert = self._alerts[number]
            if alert.subsystem == PROGRESS and alert.job in by_job:
                self._join(number, by_job[alert.job])

    def _culprit(self, alert: Alert, starts: list[tuple[int, int]]) -> int | None:
        """Return the hardware alert behind a job's alert; None if unknown."""
        cause = cause_address(alert) if alert.cause else ""
        there = list(self._at(self._named.jobs.get(alert.target, ()), starts))
        at_cause = [
            number
            for number in there
            if cause
            and places.has(
                places.place_of(self._alerts[number]), Place(cause.partition(":")[0]), self._layout
            )
        ]
        if at_cause:
            return min(at_cause, key=self._blame_for(alert))
        # Its cause is over or not known: what slows down or stops every job there is to blame.
        likely = [number for number in there if _is_likely(self._alerts[number], alert)]
        return min(likely, key=self._blame_for(alert), default=None)

    def _blame_for(self, hurt: Alert) -> Callable[[int], tuple[bool, bool, int, int, int]]:
        """Return the sort key of possible causes of a job's or reservation's alert."""

        def blame(number: int) -> tuple[bool, bool, int, int, int]:
            alert = self._alerts[number]
            return (
                bool(alert.inhibited_by),
                not _is_likely(alert, hurt),
                alert.severity.rank,
                -int(level_of(address_of(alert))),
                alert.fired_ns or 0,
            )

        return blame

    def _starts(self) -> list[tuple[int, int]]:
        """Return the alerts about hardware by their first instance, as (instance, number)."""
        starts = []
        for number in self._hardware:
            address = address_of(self._alerts[number])
            node = self._layout.find(address) if level_of(address) >= Level.ULTRASERVER else None
            if node is not None:
                starts.append((self._layout.instance_range(node).start, number))
        return sorted(starts)

    def _at(self, on: Iterable[str], starts: list[tuple[int, int]]) -> Iterable[int]:
        """Yield hardware alerts at addresses and ranges, or about an enclosing UltraServer."""
        for target in on:
            covered = self._layout.find_instances(target)
            if not covered:
                continue
            above = self._layout.parent(
                self._layout.parent(_first_chip(covered.start, self._layout))
            )
            first = self._layout.instance_range(above).start
            for instance, number in starts[bisect.bisect_left(starts, (first, -1)) :]:
                if instance >= covered.stop:
                    break
                node = self._layout.find(address_of(self._alerts[number]))
                if node is not None and self._layout.instance_range(node).stop > covered.start:
                    yield number


def _first_chip(instance: int, layout: Layout) -> Node:
    return Node(Level.CHIP, int(layout.chip_start[instance]))


def _can_stop(alert: Alert) -> bool:
    return can_stop(alert.subsystem, alert.figure)


def _is_likely(alert: Alert, hurt: Alert) -> bool:
    """Return whether a hardware alert can be the cause of a job's or reservation's alert.

    It slows jobs down, or stops them if one is down.
    """
    return _can_stop(alert) if hurt.subsystem == JOB else alert.subsystem in SLOWING


def _is_placed(alert: Alert) -> bool:
    return alert.rule.scope in LEVEL_OF and bool(address_of(alert))


def _neighbourhood(address: str) -> str:
    """Return the address of the UltraServer, or of the standalone instance, around an address."""
    segments = address.split("/")
    return "/".join(segments[: 3 if STANDALONE in segments[1:2] else 2])
