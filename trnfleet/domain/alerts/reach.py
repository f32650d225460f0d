"""Reach of a silence beyond current alerts: chips it would mute, and unknown names.

Its matchers are compared with the labels of every alert of a known rule at a known place.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.address import Level, level_of
from trnfleet.domain.alerts.alert import Alert, address_of, is_below
from trnfleet.domain.alerts.matchers import Matcher, all_match
from trnfleet.domain.alerts.rules import RESERVED_LABELS, Group, Rule
from trnfleet.domain.alerts.signals import LEVEL_OF, PIPELINE_NAME, Scope
from trnfleet.domain.expressions import expression
from trnfleet.domain.layout import EMPTY_LAYOUT, Layout, Node
from trnfleet.domain.severity import Severity
from trnfleet.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]


MOST_COMPARED = 5_000
"""Most names searched for the nearest."""
MOST_TRIED = 100_000
"""Most addresses compared with an expression per key press: a tenth of a second."""
_LEVELS = {
    "cluster": Level.CLUSTER,
    "ultraserver": Level.ULTRASERVER,
    "rack": Level.ULTRASERVER,
    "instance": Level.INSTANCE,
    "chip": Level.CHIP,
}
"""Labels of places, and the highest level of alerts with them."""
_NOUNS = {"alertname": "rule", "ultraserver": "UltraServer"}


class Targets(NamedTuple):
    """The level of a rule's alerts.

    A rule grouped by UltraServer has the alerts of standalone instances separately.
    """

    level: Level
    is_standalone: bool | None = None
    """Whether they are standalone instances alone, or UltraServers alone; None for neither."""


class Reach(NamedTuple):
    """Possible matches of a silence."""

    doubts: tuple[str, ...]
    """Reasons why it matches less than intended, a line each."""
    chips: int | None
    """Chips that matched alerts can be about; None if unknown."""


@dataclass(frozen=True, eq=False)
class Known:
    """Everything that alerts of a fleet can be about."""

    fleet: str
    rules: Sequence[Rule]
    layout: Layout = EMPTY_LAYOUT
    """Empty while not everything is described: places are not judged then."""
    job_of: Sequence[int] | NDArray[np.int32] = ()
    """The number of the job on each instance, -1 for none."""
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Names by scope: jobs in the order of their numbers, reservations, publishers."""
    alerts: Sequence[Alert] = ()
    """The active alerts, also of rules missing in `rules`."""

    @cached_property
    def values(self) -> dict[str, set[str]]:
        """Values of labels other than places, and of active alerts."""
        values: dict[str, set[str]] = {name: set() for name in RESERVED_LABELS}
        values["severity"].update(severity.value for severity in Severity)
        values["scope"].update(scope.value for scope in Scope)
        values["fleet"].add(self.fleet)
        values["target"].update((self.fleet, PIPELINE_NAME))
        for scope, names in self.names.items():
            values[scope].update(names)
            values["target"].update(names)
        for rule in self.rules:
            values["alertname"].add(rule.name)
        for labels in (
            *(rule.labels for rule in self.rules),
            *(alert.labels for alert in self.alerts),
        ):
            for name, value in labels.items():
                values.setdefault(name, set()).add(value)
        return values

    def places(self, label: str) -> Iterator[str]:
        """Yield the possible values of a label as a place."""
        layout = self.layout
        if label in {"cluster", "target"}:
            yield from layout.clusters
        if label in {"ultraserver", "target"}:
            yield from layout.ultraservers
        if label == "rack":
            yield from dict.fromkeys(filter(None, layout.racks))
        if label in {"instance", "target"}:
            yield from layout.instances
        if label in {"chip", "target"}:
            yield from (layout.path(Node(Level.CHIP, chip)) for chip in range(layout.chips))


def reach(matchers: Sequence[Matcher], known: Known) -> Reach:
    """Return the reach of a silence, and its errors."""
    doubts = tuple(text for matcher in matchers if (text := _doubt(matcher, known)))
    if not known.layout.instances:
        return Reach(doubts, None)
    targets, can_match = _targets(matchers, known)
    masks = [_chips(matchers, target, known) for target in targets]
    chips = None if any(mask is None for mask in masks) else _count(masks, known.layout)
    if not doubts and not can_match and chips == 0:
        doubts = (_why_nothing(matchers, targets),)
    return Reach(doubts, chips)


def chips_with_alerts(alerts: Sequence[Alert]) -> int:
    """Return the number of chips with alerts; each place counts once."""
    at: dict[str, int] = {}
    for alert in sorted(alerts, key=lambda alert: len(address_of(alert))):
        place = address_of(alert)
        if place and alert.chips and alert.rule.scope in LEVEL_OF:
            around = next((path for path in at if is_below(place, path)), place)
            at[around] = max(at.get(around, 0), alert.chips)
    return sum(at.values())


# Names


def _doubt(matcher: Matcher, known: Known) -> str:
    """Return the reason why a matcher names nothing known; empty if it does."""
    label = matcher.label
    if label not in known.values:
        return f"no alert has the label {label}: {nearest(label, known.values)}"
    named = matcher if matcher.is_positive else matcher.opposite
    if not matcher.value or named.accepts("") or any(map(named.accepts, known.values[label])):
        return ""
    has_places = label in _LEVELS or label == "target"
    if has_places and (not known.layout.instances or _is_place(named, known)):
        return ""
    noun = _NOUNS.get(label, label)
    verb = "is called" if _is_exact(named) else "matches as a whole"
    hint = _hint(named, known)
    effect = "" if matcher.is_positive else f"{matcher} excludes nothing: "
    return f"{effect}no {noun} here {verb} {matcher.value!r}{f': {hint}' if hint else ''}"


def _is_place(matcher: Matcher, known: Known) -> bool:
    """Return whether a matcher names a known place.

    True if there are too many places to check.
    """
    if _is_exact(matcher) and matcher.label != "rack":
        node = known.layout.find(matcher.value.partition(":")[0])
        return node is not None and node.level is _LEVELS.get(matcher.label, node.level)
    for tried, place in enumerate(known.places(matcher.label)):
        if tried == MOST_TRIED or matcher.accepts(place):
            return True
    return False


def _hint(matcher: Matcher, known: Known) -> str:
    """Return the probable intention."""
    label = matcher.label
    node = known.layout.find(matcher.value) if label in _LEVELS and _is_exact(matcher) else None
    if node is not None and node.level > Level.FLEET:
        right = next(name for name, level in _LEVELS.items() if level is node.level)
        return f'write {right}="{matcher.value}"'
    names = [*sorted(known.values[label]), *itertools.islice(known.places(label), MOST_TRIED)]
    if not _is_exact(matcher):
        try:
            loose = expression(matcher.value, ignores_case=True)
        except ConfigError:
            return ""
        part = next(filter(loose.is_in, names), None)
        return (
            ""
            if part is None
            else f'for a part of names such as {part} write ".*{matcher.value}.*"'
        )
    part = next((name for name in names if matcher.value.lower() in name.lower()), None)
    return (
        nearest(matcher.value, names[:MOST_COMPARED]) if part is None else f"did you mean {part!r}?"
    )


def _is_exact(matcher: Matcher) -> bool:
    return "~" not in matcher.operator


# Places


def _targets(matchers: Sequence[Matcher], known: Known) -> tuple[set[Targets], bool]:
    """Return the targets of matching rules, and whether an alert without an address can match."""
    can_match = any(all_match(matchers, alert.labels) for alert in known.alerts)
    names = {rule.name for rule in known.rules}
    # Of a rule that only the watch knows its alerts show where it has them.
    targets = {
        Targets(level_of(alert.target.partition(":")[0]))
        for alert in known.alerts
        if alert.name not in names
        and alert.rule.scope in LEVEL_OF
        and all_match(_unplaced(matchers), alert.labels)
    }
    for rule in known.rules:
        labels = {
            **rule.labels,
            "alertname": rule.name,
            "severity": rule.severity.value,
            "fleet": known.fleet,
            "scope": rule.scope.value,
        }
        if rule.scope in LEVEL_OF:
            if all_match(_unplaced(matchers), labels):
                targets.update(_targets_of(rule))
            continue
        # The others have names.
        own = "" if rule.scope is Scope.PIPELINE else rule.scope.value
        for name in known.names.get(own, ()) if own else (PIPELINE_NAME,):
            named = {**labels, "target": name, **({own: name} if own else {})}
            can_match = can_match or all_match(matchers, named)
    return targets, can_match


def _unplaced(matchers: Sequence[Matcher]) -> list[Matcher]:
    return [matcher for matcher in matchers if matcher.label not in {*_LEVELS, "target", "job"}]


def _targets_of(rule: Rule) -> tuple[Targets, ...]:
    if rule.grouping is Group.ULTRASERVER:
        return Targets(Level.ULTRASERVER, is_standalone=False), Targets(
            Level.INSTANCE, is_standalone=True
        )
    level = LEVEL_OF[rule.scope] if rule.group_level is None else rule.group_level
    return (Targets(level),)


def _chips(matchers: Sequence[Matcher], targets: Targets, known: Known) -> Mask | None:
    """Return the chips that alerts at a level can be about.

    None if too slow to compute.
    """
    layout = known.layout
    level = targets.level
    mask = np.ones(len(layout.instances), np.bool_)
    if targets.is_standalone is not None:
        mask &= layout.is_standalone[layout.ultraserver_of_instance] == targets.is_standalone
    late: list[Matcher] = []
    for matcher in matchers:
        label = matcher.label
        if level is Level.CHIP and label in {"chip", "target"}:
            late.append(matcher)
        elif label in _LEVELS or label in {"target", "job"}:
            mask &= _instances(matcher, level, known)
    chips = np.repeat(mask, np.diff(layout.chip_start))
    for matcher in late:
        if matcher.operator == "=":
            node = layout.find(matcher.value)
            named = np.zeros(len(chips), np.bool_)
            if node is not None and node.level is Level.CHIP:
                named[node.number] = True
            chips &= named
            continue
        rows = np.flatnonzero(chips)
        if len(rows) > MOST_TRIED:
            return None
        chips[rows] = [matcher.accepts(layout.path(Node(Level.CHIP, row))) for row in rows.tolist()]
    return chips


def _instances(matcher: Matcher, level: Level, known: Known) -> Mask:
    """Return the instances where alerts at a level can have a label's value."""
    layout = known.layout
    label = matcher.label
    every = len(layout.instances)
    if label == "job":
        names = known.names.get("job", ())
        numbers = np.asarray(known.job_of, np.int64)
        accepted = _accepted(matcher, [*names, ""])
        return accepted[np.where(numbers < len(names), numbers, -1)]
    at = level if label == "target" else _LEVELS[label]
    if at > level or at is Level.FLEET:
        return np.full(every, matcher.accepts("" if at else known.fleet))
    if label == "rack":
        accepted = _accepted(matcher, layout.racks)
        # An alert about an UltraServer may be about both of its racks.
        return accepted | matcher.accepts("") if level is Level.ULTRASERVER else accepted
    if at is Level.CLUSTER:
        clusters = _accepted(matcher, layout.clusters)
        return np.repeat(clusters, np.diff(layout.ultraserver_start[layout.cluster_start]))
    if at is Level.ULTRASERVER:
        return _accepted(matcher, layout.ultraservers)[layout.ultraserver_of_instance]
    return _accepted(matcher, layout.instances)


def _accepted(matcher: Matcher, names: Sequence[str]) -> Mask:
    return np.fromiter(map(matcher.accepts, names), np.bool_, len(names))


def _count(masks: Sequence[Mask | None], layout: Layout) -> int:
    """Return how many chips are in any of some masks, in hardware."""
    mask = np.zeros(layout.chips, np.bool_)
    for part in masks:
        if part is not None:
            mask |= part
    rows = np.diff(layout.chip_start)
    return int((np.add.reduceat(mask, layout.chip_start[:-1]) * layout.sizes // rows).sum())


def _why_nothing(matchers: Sequence[Matcher], targets: set[Targets]) -> str:
    """Return why no alert can match, though each matcher names something."""
    deepest = max((target.level for target in targets), default=Level.CHIP)
    for matcher in matchers:
        if matcher.is_positive and targets and _LEVELS.get(matcher.label, Level.FLEET) > deepest:
            right = [name for name, level in _LEVELS.items() if level <= deepest]
            return f"these alerts have no label {matcher.label}; choose from {', '.join(right)}"
    return f"no alert can match all of {' '.join(map(str, matchers))}"


class Preview(NamedTuple):
    """Alerts matched by a silence now, and everything else it can match."""

    firing: int
    pending: int
    critical: int
    """Of the firing ones."""
    examples: tuple[Alert, ...]
    """The first of them."""
    other_chips: int | None = None
    """Chips without such an alert now that it would match, too; None if unknown."""
    doubts: tuple[str, ...] = ()
    """Reasons why it matches less than intended, a line each."""


def preview(matchers: tuple[Matcher, ...], known: Known, *, most: int = 8) -> Preview:
    """Return the effect of a silence with these matchers."""
    hit = [alert for alert in known.alerts if alert.is_active and all_match(matchers, alert.labels)]
    firing = [alert for alert in hit if alert.fired_ns is not None]
    critical = sum(alert.severity is Severity.CRITICAL for alert in firing)
    reached = reach(matchers, known)
    others = None if reached.chips is None else max(0, reached.chips - chips_with_alerts(hit))
    return Preview(
        len(firing),
        len(hit) - len(firing),
        critical,
        tuple((firing or hit)[:most]),
        others,
        reached.doubts,
    )
