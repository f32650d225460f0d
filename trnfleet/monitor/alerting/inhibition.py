"""Inhibition: an alert does not notify while a wider one fires there."""

from __future__ import annotations

import bisect
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.alerts.signals import LEVEL_OF, Scope
from trnfleet.monitor.alerting.grouping import covered_chips, group_ids
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.slices import SLICE, Slices
from trnfleet.monitor.store.instance_rollup import count_flags

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.alerting.inputs import Readings
    from trnfleet.monitor.alerting.rule_state import RuleState


def inhibit(
    rules: Sequence[RuleState],
    inhibitors: Mapping[str, tuple[str, ...]],
    readings: Readings,
    published: Mapping[str, str],
    held: Mapping[str, Sequence[Alert]],
) -> Slices[None]:
    """Set the inhibitor of every active alert: a firing alert with all its members.

    Args:
        rules: The states of all rules.
        inhibitors: For each rule the names of those that inhibit it.
        readings: The instant.
        published: Inhibitors that a former watch published and that count where none is found here,
            by the inhibited alert.
        held: Alerts that fire only because a former watch published them, by the name of their
            rule.

    Raises:
        LayoutChanged: the layout is another one now.
    """
    by_name = {state.rule.name: state for state in rules}
    covers: dict[str, _Cover | None] = {}
    firing = {name: _firing(state, held.get(name, ())) for name, state in by_name.items()}
    for state in rules:
        unseen = _unseen(state, held.get(state.rule.name, ()))
        if not state.alerts and not unseen:
            state.held.clear()
            continue
        sources = [by_name[name] for name in inhibitors[state.rule.name]]
        # Where several would, the one that stands first in the pack does.
        by: dict[str, str] = {}
        for source in sources:
            name = source.rule.name
            if not firing[name]:
                continue
            if not state.has_rows or not (source.has_rows or source.rule.scope in _NAMED_COVERS):
                by = _same_name(state, unseen, source, firing[name]) | by
                continue
            if name not in covers:
                covers[name] = yield from _cover(source, firing[name], held.get(name, ()), readings)
            cover = covers[name]
            if cover is not None:
                yield from readings.checkpoint()
                by = _covered(state, unseen, cover, readings) | by
                yield from readings.checkpoint()
        yield from _set(state, unseen, {**published, **by}, readings)


def _firing(state: RuleState, held: Sequence[Alert]) -> list[Alert]:
    """Return a rule's firing alerts, each once."""
    seen = [alert for alert in state.alerts.values() if alert.fired_ns is not None]
    known = {alert.fingerprint for alert in seen}
    return seen + [alert for alert in held if alert.fingerprint not in known]


def _unseen(state: RuleState, held: Sequence[Alert]) -> list[Alert]:
    """Return the held alerts of a rule without an active target here."""
    known = {alert.fingerprint for alert in state.alerts.values()} if held else set()
    return [alert for alert in held if alert.fingerprint not in known]


def _cover(
    source: RuleState, firing: Sequence[Alert], held: Sequence[Alert], readings: Readings
) -> Slices[_Cover | None]:
    """Return the targets inhibited by a rule's firing alerts.

    None if there are none.
    """
    if source.rule.scope in _NAMED_COVERS:
        return _NAMED_COVERS[source.rule.scope](firing, readings)
    flags = covered_chips(source.rule, source.track, readings.layout)
    for alert in held:
        if flags is None:
            flags = np.zeros(readings.layout.chips, np.bool_)
        chips = _chips_of_held(alert, readings.layout)
        flags[chips.start : chips.stop] = True
    if flags is None:
        return None
    spans: list[tuple[int, int, str]] = []
    for place, alert in enumerate(firing):
        if place % SLICE == SLICE - 1:
            yield from readings.checkpoint()
        chips = _chips_of(alert.target, readings.layout)
        if chips:
            spans.append((chips.start, chips.stop, alert.fingerprint))
    return _CoveredChips(flags, spans)


def _chips_of_held(alert: Alert, layout: Layout) -> range:
    """Return the chips of a held alert: its only chip, or its whole target.

    Its members are not known here.
    """
    return _chips_of(alert.worst if alert.chips == 1 and alert.worst else alert.target, layout)


def _chips_of(target: str, layout: Layout) -> range:
    """Return the chips of an alert's target.

    Empty if it is not described.

    The target may also be a link or a core of a chip.
    """
    return layout.chips_at(target.partition(":")[0])


def _set(
    state: RuleState, unseen: Sequence[Alert], by: Mapping[str, str], readings: Readings
) -> Slices[None]:
    """Set the inhibitors of a rule's alerts."""
    unheard = {
        alert.fingerprint
        for number in _unheard_groups(state, readings)
        if (alert := state.alerts.get(number))
    }
    held = set()
    for place, alert in enumerate([*state.alerts.values(), *unseen]):
        if place % SLICE == SLICE - 1:
            yield from readings.checkpoint()
        fingerprint = alert.fingerprint
        inhibitor = by.get(fingerprint, "")
        if not inhibitor and fingerprint in unheard:
            # Its inhibitor has ended, and it could not be heard yet whether it has, too.
            continue
        if not inhibitor and alert.inhibited_by and fingerprint not in state.held:
            # Its inhibitor has ended by the first of several simultaneous messages. The others may
            # end it, too.
            held.add(fingerprint)
        elif inhibitor != alert.inhibited_by:
            alert.inhibited_by = inhibitor
            alert.revision += 1
    state.held = held


def _covered(
    state: RuleState, unseen: Sequence[Alert], cover: _Cover, readings: Readings
) -> dict[str, str]:
    """Return a rule's fully covered alerts, each with the fingerprint of the covering alert."""
    flags = cover.flags
    covering = {}
    for number, chip in _covered_groups(state, flags, readings).items():
        alert = state.alerts.get(number)
        if alert is not None:
            covering[alert.fingerprint] = cover.find(chip)
    for alert in unseen:
        chips = _chips_of_held(alert, readings.layout)
        if chips and flags[chips.start : chips.stop].all():
            covering[alert.fingerprint] = cover.find(chips.start)
    return {fingerprint: by for fingerprint, by in covering.items() if by}


def _unheard_groups(state: RuleState, readings: Readings) -> Collection[int]:
    """Return the groups of a rule without any member that can have been heard yet."""
    is_known = readings.unsettled is None or not state.has_rows
    return () if is_known else _covered_groups(state, readings.unheard(Level.CHIP), readings)


def _covered_groups(
    state: RuleState, flags: NDArray[np.bool_], readings: Readings
) -> dict[int, int]:
    """Return the groups of a rule with all members flagged, each with its first chip."""
    layout = readings.layout
    track = state.track
    level = LEVEL_OF[state.rule.scope]
    rows = track.rows
    if level is Level.CHIP:
        chips = readings.chips_of(state.rule.scope, rows)
        inside = flags[chips]
        first = chips
    else:
        counted = count_flags(flags, layout.chip_start, layout.chips_per_instance)
        sizes = counted == np.diff(layout.chip_start)
        if level is Level.ULTRASERVER:
            sizes = np.logical_and.reduceat(sizes, layout.ultraserver_start[:-1].astype(np.intp))
        inside = sizes[rows]
        instances = layout.ultraserver_start[rows] if level is Level.ULTRASERVER else rows
        first = layout.chip_start[instances]
    ids = group_ids(state.rule, rows, layout)
    if not inside.any():
        return {}
    starts = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]])
    whole = np.logical_and.reduceat(inside, starts)
    return {int(ids[place]): int(first[place]) for place in starts[whole].tolist()}


class _CoveredChips:
    """The chips covered by a rule's firing alerts, with the alert of each."""

    def __init__(self, flags: NDArray[np.bool_], spans: Sequence[tuple[int, int, str]]) -> None:
        """Store flags of the chips, and first chip, end and fingerprint of each alert."""
        self.flags = flags
        self._spans = sorted(spans)
        self._starts = [start for start, _, _ in self._spans]

    def find(self, chip: int) -> str:
        """Return the fingerprint of the alert covering a chip.

        Empty for none.
        """
        place = bisect.bisect_right(self._starts, chip) - 1
        if place < 0 or chip >= self._spans[place][1]:
            return ""
        return self._spans[place][2]


class _OfflineChips:
    """Chips silent because their publisher is offline, with the alert of each publisher."""

    def __init__(self, firing: Sequence[Alert], readings: Readings) -> None:
        self.flags: NDArray[np.bool_] = readings.store.chip_state == Freshness.OFFLINE.value
        self._by_client = {alert.target: alert.fingerprint for alert in firing}
        self._readings = readings

    def find(self, chip: int) -> str:
        """Return the fingerprint of the alert of a chip's publisher.

        Empty for none.
        """
        owner = self._readings.layout.instance_of_chip[chip]
        client = self._readings.publishers.get(int(self._readings.store.publisher_of[owner]), "")
        return self._by_client.get(client, "")


class _JobChips:
    """The chips of jobs with a firing alert, with the alert of each job."""

    def __init__(self, firing: Sequence[Alert], readings: Readings) -> None:
        places = readings.tables[Scope.JOB].places
        self._by_job = {
            places[alert.target]: alert.fingerprint for alert in firing if alert.target in places
        }
        self._owner = readings.layout.instance_of_chip
        self._job_of = readings.job_of
        self.flags: NDArray[np.bool_] = np.isin(self._job_of, list(self._by_job))[self._owner]

    def find(self, chip: int) -> str:
        """Return the fingerprint of the alert of a chip's job.

        Empty for none.
        """
        return self._by_job.get(int(self._job_of[self._owner[chip]]), "")


_Cover = _CoveredChips | _OfflineChips | _JobChips
_NAMED_COVERS: Mapping[Scope, type[_OfflineChips | _JobChips]] = MappingProxyType(
    {Scope.PUBLISHER: _OfflineChips, Scope.JOB: _JobChips}
)
"""The chips covered by alerts without an address, by scope."""


def _same_name(
    state: RuleState, unseen: Sequence[Alert], source: RuleState, firing: Sequence[Alert]
) -> dict[str, str]:
    """Return alerts with the same job, reservation or publisher as another rule's firing alert."""
    if state.rule.scope is not source.rule.scope:
        return {}
    names = {alert.target: alert.fingerprint for alert in firing}
    return {
        alert.fingerprint: names[alert.target]
        for alert in (*state.alerts.values(), *unseen)
        if alert.target in names
    }
