"""Power by group: sums, peaks, caps, modelled watts and distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.monitor.feed import Feed, standalone, ultraservers

from trnfleet.domain.address import Level
from trnfleet.domain.alerts.signals import Scope
from trnfleet.domain.power import FLEET
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.power import PowerReader, PowerTable, distribution, energy_of, percentile
from trnfleet.monitor.power_groups import (
    GROUPS,
    JOBS,
    RACKS,
    RESERVATIONS,
    ULTRASERVERS,
    CappedPlaces,
)
from trnfleet.services.files.rules import load_rules
from trnfleet.wire.messages import STANDARD_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping

US = "uc1/us-0001"
RACK = f"{US}/rack-a"


def fed() -> Feed:
    feed = Feed(ultraservers(2) + standalone(2))
    feed.scatter()
    feed.jobs = {"train": (US,), "serve": ("uc1/us-0002", "uc1/standalone/trn2-0001")}
    feed.describe()
    feed.tick()
    return feed


def read(feed: Feed, kind: str = RACKS, caps: Mapping[str, float] | None = None) -> PowerTable:
    monitor = feed.monitor
    monitor.caps.update(caps or {})
    table = PowerReader(monitor).read(kind, monitor.averages, monitor.summary().announced)
    assert table is not None
    return table


def by_place(table: PowerTable, values: np.ndarray) -> dict[str, float]:
    return {table.place(row): float(value) for row, value in enumerate(values)}


@pytest.mark.parametrize("kind", GROUPS)
async def test_groups_add_up_to_the_header_while_an_instance_falls_silent(kind: str) -> None:
    feed = fed()
    feed.monitor.apply([feed.reservation("cb-1", US, instances=4)])
    paths = [*feed.layout.instances]
    for second in range(14):
        feed.set("power_w", 100.0 + 10 * second)
        await feed.clock.advance(1.0)
        feed.tick(paths if second < 4 else paths[1:])
        table = read(feed, kind)
        mean = feed.monitor.summary().mean
        assert table.watts[-1] == pytest.approx(mean.power_w, rel=1e-6)
        assert np.nansum(table.watts[:-1]) == pytest.approx(mean.power_w, rel=1e-6)
        assert table.cap[-1] == mean.power_cap_w
        assert np.nansum(table.cap[:-1]) == table.cap[-1]
        assert table.chips[:-1].sum() == table.chips[-1] == 160


def test_the_groups_of_each_kind() -> None:
    feed = fed()
    feed.monitor.apply([feed.reservation("cb-1", US, instances=4)])
    feed.tick()
    chips = {kind: by_place(table := read(feed, kind), table.chips) for kind in GROUPS}
    assert chips[RACKS][RACK] == 32
    assert chips[RACKS]["uc1/standalone/trn2-0001"] == 16
    assert chips[ULTRASERVERS] == {US: 64, "uc1/us-0002": 64, "uc1/standalone": 32, FLEET: 160}
    assert chips[JOBS] == {"train": 64, "serve": 80, "no job": 16, FLEET: 160}
    assert chips[RESERVATIONS] == {"cb-1": 64, "no reservation": 96, FLEET: 160}


async def test_peaks_are_those_of_sums_over_ten_seconds() -> None:
    feed = fed()
    feed.set("power_w", 100.0)
    for second in range(120):
        if second == 60:
            feed.set("power_w", 400.0)
        if second == 90:
            feed.set("power_w", 100.0)
        await feed.clock.advance(1.0)
        feed.tick()
    table = read(feed, caps={RACK: 8_000.0})
    peak = by_place(table, table.peak)
    assert table.window_s == 120.0
    # Two or three of twelve means are high: more than 5 %.
    assert peak[RACK] == pytest.approx(32 * 400.0, rel=0.01)
    assert peak[FLEET] == pytest.approx(160 * 400.0, rel=0.01)
    headroom = by_place(table, table.headroom)
    assert headroom[RACK] == pytest.approx(8_000.0 - peak[RACK])
    assert by_place(table, table.above_s)[RACK] == pytest.approx(30.0, abs=10.0)
    assert by_place(table, table.is_own_cap) == {
        place: place == RACK for place in (*table.groups.places, FLEET)
    }
    energy = energy_of(feed.monitor, 120)
    assert energy is not None
    assert energy.kwh == pytest.approx(160 * (90 * 100 + 30 * 400) / 3.6e6, rel=0.03)
    assert energy.coverage_pct == 100.0
    assert energy.swing_w == pytest.approx(160 * 300.0, rel=0.01)


def test_a_percentile_ignores_gaps() -> None:
    course = np.full((20, 3), np.nan, np.float32)
    course[:10, 0] = np.arange(10)
    course[:, 1] = np.arange(20)
    values = percentile(course, 95)
    assert values[:2].tolist() == [9.0, 18.0]
    assert np.isnan(values[2])


async def test_means_of_samples_and_of_roll_ups_are_the_same() -> None:
    """Levels without roll-ups average their samples."""
    feed = fed()
    for second in range(47):
        feed.set("power_w", 100.0 + second)
        await feed.clock.advance(1.0)
        feed.tick()
    history = feed.monitor.history
    layout = feed.monitor.store.layout
    stored = history.means(layout, Level.INSTANCE, "power_w", 3)
    history._levels[Level.INSTANCE].tiers.clear()
    averaged = history.means(layout, Level.INSTANCE, "power_w", 3)
    assert stored.shape == averaged.shape == (4, 10)
    np.testing.assert_allclose(stored, averaged, rtol=1e-6)


def test_watts_of_a_real_host_are_modelled_from_its_share() -> None:
    feed = Feed(standalone(1))
    feed.columns_described = tuple(
        column for column in STANDARD_COLUMNS if column.name not in {"power_w", "host_power_w"}
    )
    feed.set("power_util_pct", 50.0)
    feed.describe()
    feed.tick()
    table = read(feed)
    assert table.is_modelled
    # Trn2: 90 W background, 500 W at most.
    assert table.watts[-1] == pytest.approx(16 * 295.0, rel=1e-3)
    assert feed.monitor.summary().mean.power_w is None
    assert not table.window_s


def test_a_fleet_without_power_has_no_table() -> None:
    feed = Feed(standalone(1))
    absent = {"power_w", "power_util_pct"}
    feed.columns_described = tuple(
        column for column in STANDARD_COLUMNS if column.name not in absent
    )
    feed.describe()
    feed.tick()
    monitor = feed.monitor
    announced = monitor.summary().announced
    assert PowerReader(monitor).read(RACKS, monitor.averages, announced) is None


def test_a_distribution_counts_live_chips_by_their_values() -> None:
    feed = Feed(standalone(1))
    feed.set("temperature_c", 39.0)
    feed.set("temperature_c", 40.0, slice(0, 3))
    feed.set("temperature_c", 90.0, slice(3, 4))
    feed.describe()
    feed.tick()
    shown = distribution(feed.monitor.store, "temperature_c")
    assert shown is not None
    assert shown.chips.tolist() == [12, 3, 0, 0, 0, 0, 1]
    feed.columns_described = STANDARD_COLUMNS[:1]
    feed.revision += 1
    feed.describe()
    feed.tick()
    assert distribution(feed.monitor.store, "temperature_c") is None


async def test_the_used_share_of_caps_of_all_kinds() -> None:
    """A place that is not there, and one without power, are unknown."""
    feed = fed()
    feed.monitor.apply([feed.reservation("cb-1", US, instances=4)])
    feed.set("power_w", 300.0)
    feed.set("power_w", np.nan, slice(16))
    for _ in range(12):
        await feed.clock.advance(1.0)
        feed.tick()
    places = {RACK: 32, US: 64, "train": 64, "cb-1": 64, FLEET: 144}
    unknown = ("gone", "uc1/standalone/trn2-0001")
    feed.monitor.caps.update(dict.fromkeys((*places, *unknown), 10_000.0))
    capped = CappedPlaces()

    def used() -> dict[str, float | None]:
        monitor = feed.monitor
        return capped.used(
            monitor.caps,
            monitor.averages,
            monitor.store,
            monitor.ingest.job_table,
            monitor.reservations.table(),
        )

    assert used() == {
        **{place: pytest.approx(3.0 * chips) for place, chips in places.items()},
        **dict.fromkeys(unknown),
    }
    feed.jobs = {"serve": (US,)}
    feed.describe()
    feed.tick()
    feed.monitor.caps["serve"] = 10_000.0
    assert used()["serve"] == pytest.approx(3.0 * 64)


async def test_a_place_above_its_cap_alerts() -> None:
    """Both shipped rules see it, and the one above the cap inhibits the other."""
    feed = fed()
    feed.monitor.ingest.alerts = Alerts(feed.fleet, load_rules(("hardware",)))
    feed.monitor.caps.update({RACK: 9_000.0, FLEET: 90_000.0})
    feed.set("power_w", 300.0)
    for _ in range(75):
        await feed.clock.advance(1.0)
        feed.tick()
    active = {
        alert.name: (alert.target, alert.state.name, bool(alert.inhibited_by))
        for alert in feed.monitor.alerts.active()
        if alert.rule.scope is Scope.CAP
    }
    assert active == {
        "power-cap": (RACK, "FIRING", False),
        "power-near-cap": (RACK, "FIRING", True),
    }
