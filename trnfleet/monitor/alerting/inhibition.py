"""Which alerts are not told because another says more: one about the same thing, or about what holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.alerts.figures import LEVEL_OF, Scope
from trnfleet.monitor.alerting.grouping import covered_chips, group_ids
from trnfleet.monitor.store import Freshness

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from trnfleet.monitor.alerting.followed import Followed
    from trnfleet.monitor.alerting.readings import Readings


def inhibit(rules: Sequence[Followed], inhibitors: Mapping[str, tuple[str, ...]], readings: Readings) -> None:
    """Work out for every active alert whether another one inhibits it; an alert all of whose members are covered is.

    Args:
        rules: All rules that are followed.
        inhibitors: For each rule the names of those that inhibit it.
        readings: The instant.
    """
    by_name = {followed.rule.name: followed for followed in rules}
    covered: dict[str, NDArray[np.bool_] | None] = {}
    for followed in rules:
        if not followed.alerts:
            continue
        sources = [by_name[name] for name in inhibitors[followed.rule.name]]
        # Where several would, the one that stands first in the pack does.
        by: dict[int, str] = {}
        for source in sources:
            if not any(alert.fired_ns is not None for alert in source.alerts.values()):
                continue
            if source.rule.scope is Scope.PUBLISHER and followed.row_watch is not None:
                by = _of_publishers(followed, source, readings) | by
                continue
            if followed.row_watch is None or source.row_watch is None:
                by = _same_name(followed, source) | by
                continue
            name = source.rule.name
            if name not in covered:
                covered[name] = covered_chips(source.rule, source.track, readings.layout)
            flags = covered[name]
            if flags is not None:
                by = _covered(followed, source, flags, readings) | by
        for number, alert in followed.alerts.items():
            inhibitor = by.get(number, "")
            if inhibitor != alert.inhibited_by:
                alert.inhibited_by = inhibitor
                alert.revision += 1


def _covered(
    followed: Followed, source: Followed, flags: NDArray[np.bool_], readings: Readings
) -> dict[int, str]:
    """Return the alerts of a rule all of whose members are covered by another's, with that one's fingerprint."""
    first_chips = _covered_groups(followed, flags, readings)
    found = {number: _alert_over(source, chip, readings) for number, chip in first_chips.items()}
    return {number: by for number, by in found.items() if by}


def _of_publishers(followed: Followed, source: Followed, readings: Readings) -> dict[int, str]:
    """Return the alerts all of whose members are silent because their publisher is offline, with that one's alert."""
    owner, store = readings.layout.instance_of_chip, readings.store
    by_client = {
        alert.target: alert.fingerprint for alert in source.alerts.values() if alert.fired_ns is not None
    }
    found: dict[int, str] = {}
    flags = store.chip_state == Freshness.OFFLINE
    for number, chip in _covered_groups(followed, flags, readings).items():
        client = readings.publishers.get(int(store.publisher_of[owner[chip]]), "")
        if client in by_client:
            found[number] = by_client[client]
    return found


def _covered_groups(followed: Followed, flags: NDArray[np.bool_], readings: Readings) -> dict[int, int]:
    """Return the groups of a rule all of whose members are flagged, each with its first chip."""
    layout, track = readings.layout, followed.track
    level = LEVEL_OF[followed.rule.scope]
    rows = track.rows
    if level is Level.CHIP:
        chips = readings.chips_of(followed.rule.scope, rows)
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
    ids = group_ids(followed.rule, rows, layout, readings.ultraserver_of)
    if not inside.any():
        return {}
    starts = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]])
    whole = np.logical_and.reduceat(inside, starts)
    return {int(ids[place]): int(first[place]) for place in starts[whole].tolist()}


def _alert_over(source: Followed, chip: int, readings: Readings) -> str:
    """Return the fingerprint of a rule's firing alert that covers a chip."""
    layout = readings.layout
    for alert in source.alerts.values():
        if alert.fired_ns is None:
            continue
        node = layout.find(alert.target.partition(":")[0])
        if node is not None and chip in layout.chip_range(node):
            return alert.fingerprint
    return ""


def _same_name(followed: Followed, source: Followed) -> dict[int, str]:
    """Return the alerts about the same job, reservation or publisher that another rule's firing alert is about."""
    if followed.rule.scope is not source.rule.scope:
        return {}
    names = {
        alert.target: alert.fingerprint for alert in source.alerts.values() if alert.fired_ns is not None
    }
    return {number: names[alert.target] for number, alert in followed.alerts.items() if alert.target in names}
