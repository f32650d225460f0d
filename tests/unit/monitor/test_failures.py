"""Failures of the monitor's own work: one stage fails, and the others go on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from support.monitor.feed import START_NS, Feed, standalone, ultraservers
from support.monitor.rules import rules_of

from trnfleet.monitor import failures
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.alerting.rule_state import RuleState
from trnfleet.monitor.failures import LOGGED_EACH, fail, guard, guarded
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.ingest.ingest import Ingest
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.pipeline.counts import PipelineCounts
from trnfleet.monitor.reservations.table import Reservations
from trnfleet.monitor.slices import LayoutChanged, Slices
from trnfleet.monitor.store import findings
from trnfleet.monitor.store.history import History
from trnfleet.monitor.store.rollup import Rollups
from trnfleet.monitor.store.store import Store
from trnfleet.tasks import background
from trnfleet.tui.bars.status import status
from trnfleet.tui.widgets.cells import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.monitor.alerting.grouping import AlertGroups
    from trnfleet.monitor.alerting.inputs import Readings

HOT = {
    "name": "hot",
    "scope": "chip",
    "severity": "warning",
    "figure": "temperature_c",
    "above": 90,
    "summary": "x",
}
IDLE = {
    "name": "idle",
    "scope": "chip",
    "severity": "info",
    "figure": "temperature_c",
    "below": 60,
    "summary": "x",
}
"""Rules true in the fleet below."""
STAGES: list[tuple[str, object, str]] = [
    ("freshness", Store, "refresh_states"),
    ("roll-ups", Rollups, "passes"),
    ("findings", findings, "search"),
    ("reservations", Reservations, "compute"),
    ("alerts", Monitor, "readings"),
    ("history", History, "push"),
    ("layout", Ingest, "rebuilding"),
]
"""Stages, and the function without which each fails."""


class Log:
    """Keeps what is logged."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def error(self, _event: str, **fields: Any) -> None:
        """Take a line."""
        self.lines.append(fields)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """Return a substitute for the module's log."""
    kept = Log()
    monkeypatch.setattr(failures, "log", kept)
    return kept


def broken(*_args: Any, **_more: Any) -> Any:
    """Stand for a bug."""
    raise OverflowError("Python int too large to convert to C long")


def fed() -> Feed:
    """Return a fleet with one hot chip, two rules and two reservations."""
    feed = Feed(ultraservers(1) + standalone(1))
    feed.set("temperature_c", 95.0, [3])
    feed.monitor.ingest.alerts = Alerts("demo", rules_of(HOT, IDLE))
    feed.describe()
    feed.monitor.apply(
        [feed.reservation("cr-1", "uc1/us-0001"), feed.reservation("cr-2", "uc1/standalone")]
    )
    feed.tick()
    return feed


@pytest.mark.parametrize(("stage", "owner", "name"), STAGES)
async def test_a_stage_that_fails_stops_no_other(
    monkeypatch: pytest.MonkeyPatch, log: Log, stage: str, owner: object, name: str
) -> None:
    """A failed stage is counted, shown and logged once.

    Passes and other stages go on.
    """
    feed = fed()
    monitor = feed.monitor
    revision = monitor.rollups.revision
    evaluations = monitor.alerts.evaluations
    monkeypatch.setattr(owner, name, broken)
    async with background(passes=monitor._keep_passing()):
        for _ in range(5):
            monitor.apply(feed.telemetry())
            await feed.clock.advance(1.0)
    counts = monitor.counts
    assert counts.internal_errors >= 4
    assert counts.last_problem.startswith(f"internal error in {stage}: OverflowError at ")
    assert [line["stage"] for line in log.lines] == [stage]
    assert isinstance(log.lines[0]["exc_info"], OverflowError)
    if stage != "roll-ups":
        assert monitor.rollups.revision > revision
    if stage != "alerts":
        assert monitor.alerts.evaluations > evaluations
    if stage != "history":
        assert monitor.message_rate.per_s > 0
    assert monitor.pipeline(at_once=True).counts == counts
    summary = monitor.summary()
    assert summary.internal_errors == counts.internal_errors
    line = text_of(status(summary, monitor.link, "", (), 240))
    assert f"internal errors {counts.internal_errors}" in line
    assert monitor.store.count(Freshness.LIVE) == 80


def test_one_reservation_that_fails_is_left_out(monkeypatch: pytest.MonkeyPatch, log: Log) -> None:
    """The others are there as ever, and the one is named."""
    feed = fed()
    reservations = feed.monitor.reservations
    look = reservations._look

    def look_at(kept: Any, *rest: Any) -> Any:
        return broken() if kept.message.id == "cr-1" else look(kept, *rest)

    monkeypatch.setattr(reservations, "_look", look_at)
    feed.tick()
    assert [each.message.id for each in reservations.table()] == ["cr-2"]
    assert log.lines[0]["subject"] == "cr-1"
    assert feed.monitor.counts.last_problem.endswith(", cr-1")


async def test_one_rule_that_fails_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    """A failed rule's alerts stay as they were.

    Others begin and end in any order.
    """
    feed = fed()
    alerts = feed.monitor.alerts
    await feed.clock.advance(1.0)
    feed.tick()
    assert {alert.name for alert in alerts.active()} == {"hot", "idle"}
    step = RuleState.step

    def failing_step(state: RuleState, readings: Readings) -> Slices[AlertGroups]:
        if state.rule.name == "hot":
            broken()
        return (yield from step(state, readings))

    monkeypatch.setattr(RuleState, "step", failing_step)
    feed.set("temperature_c", 70.0)
    for _ in range(3):
        await feed.clock.advance(1.0)
        feed.tick()
    assert {alert.name for alert in alerts.active()} == {"hot"}
    assert [line["stage"] for line in log.lines] == ["rule hot"]
    assert feed.monitor.counts.internal_errors == 3
    monkeypatch.undo()
    await feed.clock.advance(1.0)
    feed.tick()
    assert alerts.active() == []


async def test_a_clock_that_fails_costs_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message with an unusable time is counted, and the reader goes on."""
    feed = Feed(ultraservers(1))
    feed.describe()
    monkeypatch.setattr("trnfleet.monitor.sources.clocks.ClockColumns.take", broken)
    feed.monitor.apply(feed.telemetry())
    assert feed.monitor.counts.undecodable == 4
    monkeypatch.undo()
    feed.tick()
    assert feed.monitor.store.count(Freshness.LIVE) == 64
    assert feed.monitor.moment().time_ns == START_NS


def test_each_kind_is_logged_once_and_then_seldom(log: Log) -> None:
    """The first failure of a kind is logged with its traceback.

    A flood of them is not logged.
    """
    counts = PipelineCounts()
    for _ in range(3 * LOGGED_EACH):
        with guard(counts, "findings"):
            broken()
    fail(counts, "findings", ValueError("another"), "x" * 1_000)
    assert [line.get("count") for line in log.lines] == [
        None,
        LOGGED_EACH,
        2 * LOGGED_EACH,
        3 * LOGGED_EACH,
        None,
    ]
    assert [line.get("exc_info") is not None for line in log.lines] == [
        True,
        False,
        False,
        False,
        True,
    ]
    assert counts.internal_errors == 3 * LOGGED_EACH + 1
    assert "unit.monitor.test_failures:" in log.lines[0]["kind"]
    assert len(log.lines[-1]["subject"]) == 200


def test_a_cancellation_is_no_failure() -> None:
    """A cancellation passes a guard, and so does a failure without counts."""
    counts = PipelineCounts()

    def raising(error: BaseException) -> Iterator[None]:
        yield
        raise error

    with pytest.raises(asyncio.CancelledError):
        list(guarded(counts, "findings", raising(asyncio.CancelledError())))
    with pytest.raises(ValueError, match="a trial"):
        list(guarded(None, "findings", raising(ValueError("a trial"))))
    assert counts.internal_errors == 0


def test_a_layout_that_changes_is_no_failure() -> None:
    """A new layout ends the interrupted stage.

    It restarts with the next pass.
    """
    counts = PipelineCounts()

    def interrupted() -> Iterator[None]:
        yield
        raise LayoutChanged

    with pytest.raises(LayoutChanged):
        list(guarded(counts, "findings", interrupted()))
    assert counts.internal_errors == 0
