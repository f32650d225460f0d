from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.monitor.feed import standalone, ultraservers
from support.monitor.rules import rule_of

from trnfleet.domain.address import Level
from trnfleet.domain.alerts.rules import Group
from trnfleet.domain.alerts.signals import LANES, LEVEL_OF, Scope
from trnfleet.domain.alerts.status import NEVER, AlertState, Track
from trnfleet.domain.layout import Layout
from trnfleet.monitor.alerting.conditions.row_condition import count_of
from trnfleet.monitor.alerting.grouping import (
    AlertGroups,
    changed,
    covered_chips,
    find_group,
    find_row,
    group,
    group_ids,
    row_name,
    target_of,
)

LAYOUT = Layout.of(
    [
        *ultraservers(2),
        *standalone(3),
        ("uc1/standalone/small-1", "trn2.3xlarge"),
        *ultraservers(1, "uc2"),
    ]
)
FIGURES = {
    Scope.CHIP: {"figure": "temperature_c"},
    Scope.CORE: {"figure": "nc_util_pct"},
    Scope.LINK: {"figure": "link_up"},
    Scope.INSTANCE: {"figure": "vcpu_util_pct"},
    Scope.ULTRASERVER: {"figure": "power_w"},
}
KINDS = [
    (scope, kind)
    for scope in FIGURES
    for kind in Group
    if kind not in {Group.CHIP, Group.INSTANCE}
    or LEVEL_OF[scope] >= {Group.CHIP: Level.CHIP, Group.INSTANCE: Level.INSTANCE}[kind]
]


def rule(scope: Scope, kind: Group, **changed: Any) -> Any:
    return rule_of(scope=scope.value, group=kind.value, **FIGURES[scope], **changed)


def plain_target(scope: Scope, kind: Group, name: str) -> str:
    """Return the target of a target's alert, from its address alone."""
    if kind is Group.NONE:
        return name
    segments = name.partition(":")[0].split("/")
    if (
        kind is Group.ULTRASERVER
        and segments[1] == "standalone"
        and LEVEL_OF[scope] > Level.ULTRASERVER
    ):
        return "/".join(segments[:3])
    depth = {
        Group.CHIP: 4,
        Group.INSTANCE: 3,
        Group.ULTRASERVER: 2,
        Group.CLUSTER: 1,
        Group.FLEET: 0,
    }[kind]
    return "/".join(segments[:depth])


@pytest.mark.parametrize(("scope", "kind"), KINDS, ids=str)
def test_every_target_has_its_group(scope: Scope, kind: Group) -> None:
    """Names and rows, groups and targets are inverse; groups ascend with rows."""
    rows = np.arange(count_of(LAYOUT, scope))
    made = rule(scope, kind)
    ids = group_ids(made, rows, LAYOUT)

    assert (np.diff(ids) >= 0).all()
    for row, number in zip(rows.tolist(), ids.tolist(), strict=True):
        name = row_name(scope, row, LAYOUT)
        assert find_row(scope, name, LAYOUT) == row
        target = target_of(made, number, LAYOUT)
        if not (scope is Scope.ULTRASERVER and kind is Group.ULTRASERVER):
            assert target == plain_target(scope, kind, name)
        assert find_group(made, target, LAYOUT) == number


@pytest.mark.parametrize(
    "name",
    [
        "",
        "uc1",
        "uc9/us-0001",
        "uc1/us-0001/trn2u-0001-0/chip16",
        "uc1/us-0001/trn2u-0001-0/chip00:up",
        "a:b",
    ],
)
def test_what_is_not_there_has_no_row(name: str) -> None:
    """Addresses of another level, unknown ones and bad links have no row."""
    assert find_row(Scope.LINK, name, LAYOUT) is None
    assert find_row(Scope.CORE, name.replace(":", "/"), LAYOUT) is None


@pytest.mark.parametrize("kind", [Group.ULTRASERVER, Group.INSTANCE, Group.CLUSTER])
def test_what_is_not_there_has_no_group(kind: Group) -> None:
    """A target of another level or a removed one has no group."""
    for target in ("", "uc9", "uc9/us-0001", "uc1/standalone", "uc1/us-0001/trn2u-0001-0/chip00"):
        assert find_group(rule(Scope.CHIP, kind), target, LAYOUT) is None


members = st.lists(
    st.tuples(
        st.integers(0, 10**6),
        st.booleans(),
        st.integers(0, 50),
        st.one_of(st.just(math.nan), st.floats(-9, 9)),
        st.booleans(),
    ),
    max_size=40,
    unique_by=lambda member: member[0],
)


@pytest.mark.parametrize("comparison", ["above", "below"])
@pytest.mark.parametrize(("scope", "kind"), KINDS, ids=str)
@settings(max_examples=25)
@given(drawn=members)
def test_groups_are_as_a_loop_makes_them(
    scope: Scope, kind: Group, comparison: str, drawn: list[tuple[int, bool, int, float, bool]]
) -> None:
    """Groups equal a plain loop's: members, chips, start, worst value, ends, silence."""
    made = rule(scope, kind, **{"above": None, comparison: 1.0})
    total = count_of(LAYOUT, scope)
    chosen = {row % total: member for row, *member in drawn}
    track = Track()
    track.rows = np.array(sorted(chosen), np.int64)
    ordered = [chosen[row] for row in sorted(chosen)]
    track.states = np.array(
        [AlertState.FIRING if each[0] else AlertState.PENDING for each in ordered], np.uint8
    )
    track.since_ns = np.array([each[1] for each in ordered], np.int64)
    track.fired_ns = np.array([each[1] + 5 if each[0] else NEVER for each in ordered], np.int64)
    track.values = np.array([each[2] for each in ordered], np.float64)
    track.silent = np.array([each[3] for each in ordered], np.bool_)
    track.clear_ns = np.full(len(ordered), NEVER)

    made_groups = group(made, track, LAYOUT)

    by_group: dict[int, list[int]] = {}
    ids = group_ids(made, track.rows, LAYOUT)
    for place, number in enumerate(ids.tolist()):
        by_group.setdefault(number, []).append(place)
    assert made_groups.ids.tolist() == sorted(by_group)
    for spot, number in enumerate(sorted(by_group)):
        inside = by_group[number]
        firing = [place for place in inside if ordered[place][0]]
        counted = firing or inside
        rows = [int(track.rows[place]) for place in counted]
        assert bool(made_groups.firing[spot]) == bool(firing)
        assert made_groups.members[spot] == len(counted)
        assert made_groups.chips[spot] == len(
            {chip for row in rows for chip in chips_of(scope, row)}
        )
        assert made_groups.since_ns[spot] == min(ordered[place][1] for place in counted)
        if firing:
            assert made_groups.fired_ns[spot] == min(ordered[place][1] + 5 for place in firing)
        known = [ordered[place][2] for place in counted if not math.isnan(ordered[place][2])]
        farthest = (min if comparison == "below" else max)(known) if known else math.nan
        assert made_groups.values[spot] == farthest or (
            math.isnan(farthest) and np.isnan(made_groups.values[spot])
        )
        assert made_groups.worst[spot] in rows
        if known:
            assert track.values[np.searchsorted(track.rows, made_groups.worst[spot])] == farthest
        assert (made_groups.first[spot], made_groups.last[spot]) == (rows[0], rows[-1])
        assert bool(made_groups.silent[spot]) == all(ordered[place][3] for place in counted)


def test_a_group_fires_when_it_has_enough_members() -> None:
    made = rule(Scope.CHIP, Group.ULTRASERVER, least_members=3)
    track = Track()
    track.rows = np.array([0, 1, 2, 3, 64, 65], np.int64)
    track.states = np.full(6, AlertState.FIRING, np.uint8)
    track.since_ns = np.arange(6, dtype=np.int64)
    track.fired_ns = np.array([40, 10, 30, 20, 10, 20], np.int64)
    track.values = np.ones(6)
    track.silent = np.zeros(6, np.bool_)
    track.clear_ns = np.full(6, NEVER)
    assert group(made, track, LAYOUT).fired_ns.tolist() == [30]


def chips_of(scope: Scope, row: int) -> range:
    """Return the chips of a target."""
    if scope in LANES:
        return range(row // len(LANES[scope]), row // len(LANES[scope]) + 1)
    if scope is Scope.CHIP:
        return range(row, row + 1)
    first = row
    last = row + 1
    if scope is Scope.ULTRASERVER:
        first = int(LAYOUT.ultraserver_start[row])
        last = int(LAYOUT.ultraserver_start[row + 1])
    return range(int(LAYOUT.chip_start[first]), int(LAYOUT.chip_start[last]))


@pytest.mark.parametrize("scope", FIGURES)
def test_the_chips_that_an_alert_covers(scope: Scope) -> None:
    """Firing targets cover their chips, pending ones none; None without any."""
    made = rule(scope, Group.NONE)
    track = Track()
    assert covered_chips(made, track, LAYOUT) is None
    rows = [0, count_of(LAYOUT, scope) - 1]
    for row in rows:
        track.restore(row, 0, 0, 1.0)
    track.restore(1, 0, 0, 1.0)
    track.states[1] = AlertState.PENDING

    covered = covered_chips(made, track, LAYOUT)

    assert covered is not None
    expected = sorted({chip for row in rows for chip in chips_of(scope, row)})
    assert np.flatnonzero(covered).tolist() == expected


def test_groups_that_are_not_as_they_were() -> None:
    """All groups count as changed if the set changed, otherwise the ones with new figures.

    Two missing values are equal.
    """
    rows = np.array([3, 5, 9])
    track = Track()
    track.step(
        0, rows, np.array([1.0, math.nan, 2.0]), lambda _: pytest.fail("nothing fires"), for_ns=9
    )
    before = group(rule(Scope.CHIP, Group.NONE), track, LAYOUT)

    def but(**changes: Any) -> AlertGroups:
        return AlertGroups(**{**before._asdict(), **changes})

    assert changed(None, before) == [0, 1, 2]
    assert changed(before, before) == []
    assert changed(before, but(values=np.array([1.0, math.nan, 3.0]))) == [2]
    assert changed(before, but(silent=np.array([True, False, False]))) == [0]
    assert changed(before, but(ids=rows + 1)) == [0, 1, 2]
    assert changed(before, but(ids=rows[:0])) == []
