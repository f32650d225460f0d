"""Inhibition: alerts that do not notify because a wider one fires on the same target, or on what contains it."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.alerts.signals import LEVEL_OF, Scope
from trnfleet.monitor.alerting.grouping import covered_chips, group_ids
from trnfleet.monitor.store.store import Freshness

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.alerting.inputs import Readings
    from trnfleet.monitor.alerting.rule_state import RuleState
    from trnfleet.monitor.slices import Slices

ALERTS_A_SLICE = 5_000
"""Alerts that are looked at in one slice."""


def inhibit(
    rules: Sequence[RuleState],
    inhibitors: Mapping[str, tuple[str, ...]],
    readings: Readings,
    published: Mapping[str, str],
    held: Mapping[str, Sequence[Alert]],
) -> Slices[None]:
    """Set for every active alert which other one inhibits it: a firing one that covers all its members.

    Args:
        rules: The states of all rules.
        inhibitors: For each rule the names of those that inhibit it.
        readings: The instant.
        published: Inhibitors that a former watch published and that count where none is found here, by the inhibited alert.
        held: Alerts that fire only because a former watch published them, by the name of their rule.

    Raises:
        LayoutChanged: the layout is another one now.
    """
    by_name = {state.rule.name: state for state in rules}
    covered: dict[str, NDArray[np.bool_] | None] = {}
    over: dict[str, _Over] = {}
    firing = {name: _firing(state, held.get(name, ())) for name, state in by_name.items()}
    for state in rules:
        if not state.alerts:
            continue
        sources = [by_name[name] for name in inhibitors[state.rule.name]]
        # Where several would, the one that stands first in the pack does.
        by: dict[int, str] = {}
        for source in sources:
            name = source.rule.name
            if not firing[name]:
                continue
            if source.rule.scope is Scope.PUBLISHER and state.has_rows:
                by = _of_publishers(state, firing[name], readings) | by
                continue
            if not (state.has_rows and source.has_rows):
                by = _same_name(state, source, firing[name]) | by
                continue
            if name not in covered:
                covered[name] = _chips_covered(source, held.get(name, ()), readings.layout)
            flags = covered[name]
            if flags is not None:
                if name not in over:
                    over[name] = _Over(firing[name], readings.layout)
                yield from readings.checkpoint()
                by = _covered(state, over[name], flags, readings) | by
                yield from readings.checkpoint()
        yield from _set(state, by, published, readings)


def _firing(state: RuleState, held: Sequence[Alert]) -> list[Alert]:
    """Return a rule's firing alerts, each once."""
    seen = [alert for alert in state.alerts.values() if alert.fired_ns is not None]
    known = {alert.fingerprint for alert in seen}
    return seen + [alert for alert in held if alert.fingerprint not in known]


def _chips_covered(state: RuleState, held: Sequence[Alert], layout: Layout) -> NDArray[np.bool_] | None:
    """Return which chips a rule's firing alerts are about; None where none is.

    Of one that is held no members are known: it is about its only chip, or about all of its target.
    """
    flags = covered_chips(state.rule, state.track, layout)
    for alert in held:
        chips = _chips_of(alert.worst if alert.chips == 1 and alert.worst else alert.target, layout)
        if flags is None:
            flags = np.zeros(layout.chips, np.bool_)
        flags[chips.start : chips.stop] = True
    return flags


def _chips_of(target: str, layout: Layout) -> range:
    """Return the chips of an alert's target, which may be a link or a core of one; none where it is not described."""
    node = layout.find(target.partition(":")[0])
    return range(0) if node is None else layout.chip_range(node)


def _set(
    state: RuleState, by: Mapping[int, str], published: Mapping[str, str], readings: Readings
) -> Slices[None]:
    """Set the inhibitors of a rule's alerts, by group."""
    held = _unheard_groups(state, readings)
    for place, (number, alert) in enumerate(list(state.alerts.items())):
        if place % ALERTS_A_SLICE == ALERTS_A_SLICE - 1:
            yield from readings.checkpoint()
        inhibitor = by.get(number) or published.get(alert.fingerprint, "")
        if not inhibitor and number in held:
            # Its inhibitor has ended, and it could not be heard yet whether it has, too.
            continue
        if not inhibitor and alert.inhibited_by and readings.is_overtaken and number not in state.held:
            # Its inhibitor has perhaps ended by messages that came after this one was looked at.
            state.held.add(number)
            continue
        state.held.discard(number)
        if inhibitor != alert.inhibited_by:
            alert.inhibited_by = inhibitor
            alert.revision += 1


def _covered(state: RuleState, over: _Over, flags: NDArray[np.bool_], readings: Readings) -> dict[int, str]:
    """Return the alerts of a rule all of whose members are covered by another's, with that one's fingerprint."""
    first_chips = _covered_groups(state, flags, readings)
    found = {number: over.find(chip) for number, chip in first_chips.items()}
    return {number: by for number, by in found.items() if by}


def _of_publishers(state: RuleState, firing: Sequence[Alert], readings: Readings) -> dict[int, str]:
    """Return the alerts all of whose members are silent because their publisher is offline, with that one's alert."""
    owner, store = readings.layout.instance_of_chip, readings.store
    by_client = {alert.target: alert.fingerprint for alert in firing}
    found: dict[int, str] = {}
    flags = store.chip_state == Freshness.OFFLINE
    for number, chip in _covered_groups(state, flags, readings).items():
        client = readings.publishers.get(int(store.publisher_of[owner[chip]]), "")
        if client in by_client:
            found[number] = by_client[client]
    return found


def _unheard_groups(state: RuleState, readings: Readings) -> Collection[int]:
    """Return the groups of a rule none of whose members can have been heard yet."""
    is_known = readings.unsettled is None or not state.has_rows
    return () if is_known else _covered_groups(state, readings.unheard(Level.CHIP), readings)


def _covered_groups(state: RuleState, flags: NDArray[np.bool_], readings: Readings) -> dict[int, int]:
    """Return the groups of a rule all of whose members are flagged, each with its first chip."""
    layout, track = readings.layout, state.track
    level = LEVEL_OF[state.rule.scope]
    rows = track.rows
    if level is Level.CHIP:
        chips = readings.chips_of(state.rule.scope, rows)
        inside = flags[chips]
        first = chips
    else:
        sizes = np.add.reduceat(flags, layout.chip_start[:-1].astype(np.intp), dtype=np.int64) == np.diff(
            layout.chip_start
        )
        if level is Level.ULTRASERVER:
            sizes = np.logical_and.reduceat(sizes, layout.ultraserver_start[:-1].astype(np.intp))
        inside = sizes[rows]
        instances = layout.ultraserver_start[rows] if level is Level.ULTRASERVER else rows
        first = layout.chip_start[instances]
    ids = group_ids(state.rule, rows, layout, readings.ultraserver_of)
    if not inside.any():
        return {}
    starts = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]])
    whole = np.logical_and.reduceat(inside, starts)
    return {int(ids[place]): int(first[place]) for place in starts[whole].tolist()}


class _Over:
    """A rule's firing alerts by the chips that they are about."""

    def __init__(self, firing: Sequence[Alert], layout: Layout) -> None:
        spans: list[tuple[int, int, str]] = []
        for alert in firing:
            chips = _chips_of(alert.target, layout)
            if chips:
                spans.append((chips.start, chips.stop, alert.fingerprint))
        self._spans = sorted(spans)
        self._starts = [start for start, _, _ in self._spans]

    def find(self, chip: int) -> str:
        """Return the fingerprint of the alert that a chip belongs to; empty for none."""
        place = bisect.bisect_right(self._starts, chip) - 1
        if place < 0 or chip >= self._spans[place][1]:
            return ""
        return self._spans[place][2]


def _same_name(state: RuleState, source: RuleState, firing: Sequence[Alert]) -> dict[int, str]:
    """Return the alerts about the same job, reservation or publisher that another rule's firing alert is about."""
    if state.rule.scope is not source.rule.scope:
        return {}
    names = {alert.target: alert.fingerprint for alert in firing}
    return {number: names[alert.target] for number, alert in state.alerts.items() if alert.target in names}
