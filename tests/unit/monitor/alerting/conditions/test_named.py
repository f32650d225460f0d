from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.monitor.alert_bench import AlertBench
from support.monitor.feed import ultraservers
from support.monitor.rules import rule_of

from trnfleet.domain.alerts.conditions import REFERENCES, WINDOWS
from trnfleet.domain.alerts.signals import LEVEL_OF, Form, Scope
from trnfleet.monitor.alerting.conditions.named import NamedCondition
from trnfleet.monitor.alerting.named_targets import NamedColumns, Texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def _column(value: float | str | None, _figure: str) -> list[float | str | None]:
    return [value]


def series(rule: Any, looks: Sequence[float | str | None], every_s: float = 1.0) -> list[bool]:
    """Return for each look whether a rule's condition was fulfilled by one target."""
    watch = NamedCondition(rule)
    bench = AlertBench(ultraservers(1), ())
    held: list[bool] = []
    for value in looks:
        bench.now_s += every_s
        bench.flow_s += every_s
        table = NamedColumns(["train"], partial(_column, value))
        held.append(
            "train"
            in watch.search(bench.readings(), table, {"train"} if held and held[-1] else set())
        )
    return held


def test_a_share_of_its_own_past() -> None:
    """The usual value is learnt from normal times only."""
    rule = rule_of(
        scope="job", figure="step_time_s", share_of_median_of="past", past="10m", above=1.2
    )

    held = series(rule, [2.0] * 40 + [3.0] * 600 + [2.1] * 3, every_s=5.0)

    assert held == [False] * 40 + [True] * 600 + [False] * 3


def test_changes_of_a_text() -> None:
    """How often a job's state changed within the window."""
    rule = rule_of(scope="job", figure="state", changes_over="5s", above=1)
    looks: list[float | str | None] = ["a", "b", "b", "c", "c", "c", "c", "c"]
    assert series(rule, looks) == [False, False, False, True, True, False, False, False]


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([1_000, 1_001, 1_000, 1_001, 1_000, 1_000], [False] * 6),
        ([1_000, 1_004, 1_008, 1_001, 1_001, 1_001], [False, False, True, False, False, False]),
        ([0, -90, -90, -84, -84, -84], [False, False, False, True, True, True]),
    ],
    ids=["late ones", "mended", "mended before"],
)
def test_ticks_that_were_only_late_are_no_loss_and_hide_none(
    looks: list[float], expected: list[bool]
) -> None:
    """A falling counter of lost ticks is no restart, and later losses count in full."""
    rule = rule_of(scope="pipeline", figure="lost", increase_over="30s", above=5)
    assert series(rule, looks) == expected


@pytest.mark.parametrize("past", [False, True], ids=["moment", "past"])
@pytest.mark.parametrize("key", ["", *WINDOWS])
def test_every_window_and_reference_is_evaluated(key: str, past: bool) -> None:
    """Every row of the domain's tables for named targets has an evaluation here."""
    taken = {
        of
        for (_, of), row in REFERENCES.items()
        if not row.scopes.isdisjoint(set(Scope) - LEVEL_OF.keys())
    }
    assert taken == {"past"}
    is_counter = bool(key) and Form.COUNTER in WINDOWS[key].forms
    figure = "dropped" if is_counter else "lag_s"
    window = {key: "1m"} if key else {}
    share = {"share_of_median_of": "past", "past": "1m"} if past else {}
    rule = rule_of(scope="pipeline", figure=figure, above=-1.0, **window, **share)
    looks = [float(number) for number in range(1, 30)]

    assert series(rule, looks)[-1]


@pytest.mark.parametrize(
    ("figure", "conditions", "expected"),
    [
        ("state", {"equals": "offline"}, {"b": "offline"}),
        ("state", {"equals": ["offline", "online"]}, {"a": "online", "b": "offline"}),
        ("contested", {"above": 0.0}, {"c": 3.0}),
        ("lag_s", {"below": 5.0}, {"a": 1.0}),
        ("lag_s", {"above": 0.5, "also": [{"figure": "state", "equals": "offline"}]}, {"b": 7.0}),
    ],
)
def test_targets_in_arrays_are_found_as_one_by_one(
    figure: str, conditions: dict[str, Any], expected: dict[str, float | str]
) -> None:
    """Whole columns match like single values: texts, numbers, unknown, further conditions."""
    values: dict[str, list[float | str | None]] = {
        "state": ["online", "offline", None],
        "contested": [0.0, 0.0, 3.0],
        "lag_s": [1.0, 7.0, None],
    }
    arrays: dict[str, NDArray[np.float64] | Texts] = {
        "state": Texts(("online", "offline"), np.array([0, 1, -1], np.int8)),
        "contested": np.array([0.0, 0.0, 3.0]),
        "lag_s": np.array([1.0, 7.0, np.nan]),
    }
    names = ["a", "b", "c"]
    condition = NamedCondition(
        rule_of(**{"scope": "publisher", "figure": figure, "above": None, **conditions})
    )
    readings = AlertBench(ultraservers(1), ()).readings()

    in_arrays, one_by_one = (
        condition.search(readings, table, set())
        for table in (
            NamedColumns(names, make_array=arrays.__getitem__),
            NamedColumns(names, values.__getitem__),
        )
    )

    assert str(in_arrays) == str(one_by_one)
    assert {name: text or value for name, (value, text) in in_arrays.items()} == expected
    column = NamedColumns(names, make_array=arrays.__getitem__).column(figure)
    assert list(column) == values[figure]
    assert column[1:] == values[figure][1:]
