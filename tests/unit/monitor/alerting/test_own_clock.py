"""Steps of the wall clock of the monitor's own host, with all shipped rules."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from support.monitor.feed import START_NS, Feed, ultraservers

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.services.files.rules import load_rules

HOUR_S = 3_600.0


class Stepped:
    """A fleet with two Capacity Blocks, and a monitor with a stepped clock.

    The fleet's clock is right.
    """

    def __init__(self, origin: Literal["simulated", "neuron"]) -> None:
        self.feed = Feed(ultraservers(1), grouped=True)
        self.feed.origin, self.feed.epoch = origin, format_rfc3339(START_NS)
        self.alerts = Alerts("demo", load_rules())
        monitor = self.feed.monitor
        monitor.ingest.alerts = self.alerts
        monitor.link.connected = True
        self._begun_s = self.feed.clock.monotonic_s()
        self.feed.describe()
        for name, ends_h in (("cb-far", 12.0), ("cb-near", 4.0)):
            times = {
                "ts": -9.0,
                "created": -20.0,
                "start": -10.0,
                "terminates": ends_h,
                "end": ends_h + 0.5,
            }
            fields: dict[str, Any] = {key: self._time(hours) for key, hours in times.items()}
            monitor.apply([self.feed.reservation(name, "uc1/us-0001", **fields)])

    @staticmethod
    def _time(hours: float) -> str:
        return format_rfc3339(START_NS + round(hours * HOUR_S * NS_PER_S))

    async def play(self, seconds: int) -> None:
        """Let telemetry come every second, with the right time."""
        for _ in range(seconds):
            await self.feed.clock.advance(1.0)
            passed_s = self.feed.clock.monotonic_s() - self._begun_s
            self.feed.receive(self.feed.telemetry(ts_ns=START_NS + round(passed_s * NS_PER_S)))

    @property
    def happened(self) -> list[tuple[str, str]]:
        return [
            (each.kind, f"{each.alert.name} {each.alert.target}") for each in self.alerts.history
        ]


@pytest.mark.parametrize("step_h", [-8.0, -1.0, 1.0, 8.0])
async def test_a_step_of_hours_fires_nothing_but_the_skew(step_h: float) -> None:
    """A step of our clock by hours fires only the skew alert.

    No reservation's end moves, and no telemetry is late.
    """
    fleet = Stepped("neuron")
    await fleet.play(5)
    before = [("firing", "block-near-end cb-near")]
    assert fleet.happened == before
    fleet.feed.clock.step_wall(step_h * HOUR_S)
    await fleet.play(15)
    assert fleet.happened == [*before, ("firing", "clock-skew pipeline")]
    summary = fleet.feed.monitor.summary()
    assert summary.clock_skew_s == pytest.approx(-step_h * HOUR_S, abs=1.0)
    assert summary.late_s == 0
    # Set right again.
    fleet.feed.clock.step_wall(-step_h * HOUR_S)
    await fleet.play(5)
    assert fleet.happened[2:] == [("resolved", "clock-skew pipeline")]
    assert fleet.feed.monitor.summary().clock_skew_s == 0


async def test_late_telemetry_is_late_beside_a_step() -> None:
    """Telemetry behind by more than our clock's step is late by the rest."""
    fleet = Stepped("neuron")
    await fleet.play(5)
    fleet.feed.clock.step_wall(HOUR_S)
    await fleet.play(2)
    monitor = fleet.feed.monitor
    clock = fleet.feed.clock
    late_ns = START_NS + round((clock.monotonic_s() - 1_000.0 - 600.0) * NS_PER_S)
    fleet.feed.receive(fleet.feed.telemetry(ts_ns=late_ns))
    assert monitor.summary().late_s == pytest.approx(600.0, abs=1.0)


async def test_a_simulator_goes_on_by_its_own_time() -> None:
    """A simulator hours ahead of our clock counts as dated: nothing fires.

    Its reservations end as before.
    """
    fleet = Stepped("simulated")
    await fleet.play(5)
    fleet.feed.clock.step_wall(-8.0 * HOUR_S)
    await fleet.play(15)
    assert fleet.happened == [("firing", "block-near-end cb-near")]
