"""Display of metrics: a row in the table of metrics is enough."""

from __future__ import annotations

import importlib
import math
import re
import sys
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from trnfleet.domain.metrics import METRICS
from trnfleet.domain.severity import Severity
from trnfleet.monitor.store.fields import FIELDS
from trnfleet.tui.metric_display import (
    CHIP_CHARTS,
    DISPLAY,
    FLEET_CHARTS,
    HEAT_MAP,
    LAST,
    PANELS,
    TREE,
    ChipPanel,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Probing = Callable[..., Any]

ROWS = """
    _gauge("fan_speed_rpm", Scope.CHIP, "u16", 1, "rpm", Aggregate.MEAN, lanes=("left", "right"), peak=9000.0,
           help="Fan speed", real_host=_UNAVAILABLE, real_source="nothing"),
    _gauge("supply_v", Scope.CHIP, "u16", 0.01, "V", Aggregate.MAX, title="supply",
           help="Supply voltage", real_host=_UNAVAILABLE, real_source="nothing"),
    _counter("resets", "resets", "u32", "Resets of the chip", "nothing"),
    _gauge("inlet_c", Scope.INSTANCE, "u16", 0.1, "degC", Aggregate.MAX, title="inlet",
           help="Inlet temperature", real_host=_UNAVAILABLE, real_source="nothing"),
)

BY_NAME = """  # noqa: E501
"""Made-up metrics, and the end of the table after them."""


@pytest.fixture(scope="module")
def probe() -> Iterator[Probing]:
    """Return the probe of a program with additional rows in its table of metrics only."""
    packages = re.compile(r"(trnfleet|support)(\.|$)")
    before = {name: module for name, module in sys.modules.items() if packages.match(name)}
    for name in before:
        del sys.modules[name]
    try:
        spec = find_spec("trnfleet.domain.metrics")
        assert spec is not None
        assert spec.origin is not None
        source = Path(spec.origin).read_text("utf-8")
        longer = source.replace("\n)\n\nBY_NAME = ", ROWS)
        assert longer != source
        module = sys.modules[spec.name] = module_from_spec(spec)
        exec(compile(longer, spec.origin, "exec"), module.__dict__)  # noqa: S102  the table, with more rows
        yield importlib.import_module("support.tui.metric_probe").probe
    finally:
        for name in [name for name in sys.modules if packages.match(name)]:
            del sys.modules[name]
        sys.modules.update(before)


@pytest.mark.parametrize("json", [False, True], ids=["cbor", "json"])
@pytest.mark.parametrize(
    ("name", "value", "head", "line", "fleet"),
    [
        ("fan_speed_rpm", 4_500.0, "fan speed", r"fan speed +4\.50 krpm", 4_500.0),
        ("supply_v", 0.85, "supply", r"supply +0\.85 V", 0.85),
        ("resets", 7.0, "resets", r"resets +7", 7.0 * 64),
    ],
)
def test_a_row_is_all_that_a_chip_metric_takes(
    probe: Probing, name: str, value: float, head: str, line: str, fleet: float, *, json: bool
) -> None:
    """A new metric is decoded, rolled up, offered by heat map and tree, and drawn.

    The chip view draws it at any width.
    """
    seen = probe(name, value, json=json)
    assert seen.decoded == pytest.approx([value] * 64)
    assert seen.fleet == pytest.approx(fleet)
    assert head in seen.heat_map[len(HEAT_MAP) // 2 :]
    assert head in seen.tree
    assert head not in seen.narrow_tree
    assert re.search(line, seen.wide_chip)
    assert re.search(line, seen.narrow_chip)


def test_a_row_is_all_that_an_instance_metric_takes(probe: Probing) -> None:
    """It is decoded, rolled up, and a line of the chip view's instance panel."""
    seen = probe("inlet_c", 31.5, json=False)
    assert seen.decoded == pytest.approx([31.5] * 4)
    assert seen.fleet == pytest.approx(31.5)
    assert re.search(r"inlet +31\.5 °C", seen.wide_chip)


def test_what_a_source_does_not_know_is_not_zero(probe: Probing) -> None:
    """A made-up metric without a value is n/a like any other."""
    seen = probe("supply_v", math.nan, json=False)
    assert re.search(r"supply +n/a", seen.wide_chip)


def test_every_row_is_of_something_that_exists() -> None:
    """Every metric and every field has a display, and none is of anything else."""
    assert set(DISPLAY) == {metric.name for metric in METRICS} | {field.key for field in FIELDS}
    assert set(HEAT_MAP) == set(FIELDS)
    panels = [shown.metric.name for shown in (each for panel in PANELS.values() for each in panel)]
    assert sorted(panels) == sorted(metric.name for metric in METRICS)


def test_a_mean_of_a_minute_is_named_as_one() -> None:
    """Beside the power of the present it would contradict it."""
    (label,) = (
        shown.label for shown in PANELS[ChipPanel.POWER] if shown.metric.name == "power_util_pct"
    )
    assert label == "util, 1 min"


def test_ranks_are_unique() -> None:
    """No two rows have the same place."""
    for attribute in ("tree", "heat_map", "selection", "fleet_chart", "chip_chart"):
        ranks = [getattr(row, attribute) for row in DISPLAY.values()]
        given = [rank for rank in ranks if rank is not None and rank < LAST]
        assert len(set(given)) == len(given), attribute


def test_charts_have_a_history() -> None:
    """Every charted field has a history; without one the chart would stay empty."""
    assert all(field.has_history for field in (*FLEET_CHARTS, *CHIP_CHARTS))


def test_thresholds_are_those_of_the_findings() -> None:
    """Hot and throttled warn, uncorrected errors are critical, the rest is good."""
    severities = {
        ("temperature_c", 90.0): Severity.WARNING,
        ("temperature_c", 89.9): None,
        ("temperature_c", math.nan): None,
        ("throttle_pct", 5.0): Severity.WARNING,
        ("mem_ecc_uncorrected", 1.0): Severity.CRITICAL,
        ("nc_util_pct", 100.0): None,
    }
    for (key, value), severity in severities.items():
        assert DISPLAY[key].severity(value) is severity
    assert {shown.field.key for shown in TREE} >= {key for key, _ in severities}
