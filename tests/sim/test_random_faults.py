from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.sim.small_fleet import SmallFleet

import trnfleet.sim.faults.schedule as random_faults_module
from trnfleet.config import validate
from trnfleet.domain.faults.table import FAULTS
from trnfleet.domain.fleet import FleetFile, Rates, expand
from trnfleet.domain.layout import Layout
from trnfleet.domain.scenario import Scenario
from trnfleet.errors import ConfigError
from trnfleet.sim.faults.schedule import (
    HIGHEST_MEAN,
    LENGTH_SD,
    REPEAT,
    STRETCH_S,
    STRETCHES,
    FaultSchedule,
    RandomFault,
    RandomFaults,
)
from trnfleet.sim.placement import Placement
from trnfleet.sim.rng import Rng

DAY_S = 86_400.0
BY_THEMSELVES = {name for name, fault in FAULTS.items() if fault.rate_per_device_day is not None}


def process(
    acceleration: float = 1.0, chips: int = 16_384, seed: int = 3, **rates: tuple[str, ...]
) -> RandomFaults:
    return RandomFaults(Rng(seed), Rates(acceleration=acceleration, **rates), chips)


def drawn(wear: RandomFaults, end_s: float, window_s: float) -> list[RandomFault]:
    """Return the faults until `end_s`, requested window by window."""
    found = []
    windows = round(end_s / window_s)
    for number in range(1, windows + 1):
        found += wear.until(number * window_s)
    return found


def test_faults_come_as_often_as_their_rates_say() -> None:
    """Each kind's number is within four standard deviations of rate x device-days.

    As many as in 54 days of 16,384 chips, in a tenth of the time.
    """
    counted = Counter(wear.fault.name for wear in process(10.0).until(5.4 * DAY_S))
    for name in BY_THEMSELVES:
        mean = (FAULTS[name].rate_per_device_day or 0.0) * 16_384 * 54
        mean *= 1.0 - REPEAT if FAULTS[name].can_repeat else 1.0
        assert abs(counted[name] - mean) <= 4 * mean**0.5 + 1, name
    assert set(counted) <= BY_THEMSELVES


def test_jobs_are_interrupted_as_often_as_published() -> None:
    """Interruptions match the published rate within three Poisson standard deviations.

    Published: 419 unexpected interruptions in 54 days on 16,384 accelerators, one in 3.1 h. Checked
    over five times as many device-days, without repeats. They
    replace a fifth of the faults that can come again.
    """
    first = sum(
        part.number * (1.0 - REPEAT if fault.can_repeat else 1.0)
        for fault in FAULTS.values()
        for part in fault.interruptions
    )
    times = [each.time_s for each in process(50.0).until(5.4 * DAY_S) if each.fault.is_interruption]
    assert len(times) == pytest.approx(5 * first, abs=3 * (5 * first) ** 0.5)
    apart_h = 50.0 * np.diff(times).mean() / 3_600.0
    assert apart_h * first / 419 == pytest.approx(3.1, rel=3 / (5 * first) ** 0.5)


def test_an_acceleration_of_zero_turns_them_off() -> None:
    """An acceleration of 0 turns random faults off, so that a file can exclude them."""
    assert process(0.0, chips=1_000_000).until(1e9) == []


@pytest.mark.parametrize(
    ("ultraservers", "fleet", "scenario", "comes"),
    [
        (157, {}, None, True),
        (156, {}, None, False),
        (156, {"rates": {}}, None, True),
        (157, {"rates": {"acceleration": 0.0}}, None, False),
        (157, {}, {}, False),
        (157, {}, {"keeps_faults": True}, True),
        (157, {"rates": {"acceleration": 0.0}}, {"keeps_faults": True}, False),
        (156, {}, {"rates": {"acceleration": 1.0}}, True),
        (157, {}, {"rates": {"acceleration": 0.0}}, False),
    ],
)
def test_a_big_fleet_fails_unless_it_is_told_not_to(
    ultraservers: int, fleet: dict[str, Any], scenario: dict[str, Any] | None, comes: bool
) -> None:
    """From 10,000 chips on faults occur at the published rates by default.

    A fleet file can change this, and a scenario has its own rates.
    """
    clusters = [{"name": "c", "ultraservers": [{"count": ultraservers}]}]
    model = validate({"name": "f", "clusters": clusters, **fleet}, FleetFile, "fleet.toml")
    layout = Layout.of(expand(model))
    play = None if scenario is None else validate(scenario, Scenario, "scenario.toml")
    schedule = FaultSchedule(layout, model, Placement.resolve(layout, model), Rng(3), play)
    assert list(schedule.until(-1.0)) == list(schedule.until(0.0)) == [], "nothing before the start"
    found = list(schedule.until(5 * DAY_S))
    # About 8.6 a day of all kinds on 10,000 chips.
    assert (len(found) > 20) == comes == bool(found)


def test_acceleration_multiplies_the_rates() -> None:
    """Twenty times as often in a twentieth of the time is as many."""
    slow = len(process(5.0).until(4 * DAY_S))
    fast = len(process(100.0).until(0.2 * DAY_S))
    assert fast == pytest.approx(slow, abs=5 * slow**0.5)


def test_gaps_are_those_of_a_poisson_process() -> None:
    """The gaps' mean equals their standard deviation, and places inside a stretch are even."""
    times = np.array(
        [wear.time_s for wear in process(300.0, only=("hbm_uncorrectable",)).until(DAY_S)]
    )
    gaps = np.diff(times)
    assert len(gaps) > 200
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.15)
    inside = times % STRETCH_S / STRETCH_S
    assert inside.mean() == pytest.approx(0.5, abs=0.06)
    assert (gaps > 0).all()


@pytest.mark.parametrize("window_s", [0.5, 1.0, 7.0, 60.0, 3_600.0])
def test_the_same_faults_come_for_any_tick(window_s: float) -> None:
    """However time is divided, times, kinds and places are the same."""
    whole = process(500.0).until(7_200.0)
    assert len(whole) > 20
    # A stretch is drawn when it begins, so that the last one may bring what lies behind the end.
    cut = [wear for wear in drawn(process(500.0), 7_200.0, window_s) if wear.time_s < 7_200.0]
    assert sorted(cut) == sorted(wear for wear in whole if wear.time_s < 7_200.0)


def test_nothing_is_drawn_late() -> None:
    """New faults lie after the end of the earlier call, at any instant."""
    wear = process(500.0)
    before = 0.0
    for end_s in (
        3.0,
        10.0,
        10.000000000000002,
        29.999999999999996,
        30.0,
        639.9,
        640.0,
        640.1,
        9_000.0,
    ):
        assert all(each.time_s >= before for each in wear.until(end_s))
        before = end_s
    assert wear.until(before) == []


def test_a_stretch_does_not_depend_on_blocks_drawn_before() -> None:
    """A process skipping many blocks draws the same faults as one without skips."""
    steps = process(200.0)
    jump = process(200.0)
    end_s = 20 * STRETCHES * STRETCH_S
    assert sorted(drawn(steps, end_s, STRETCH_S)) == sorted(jump.until(end_s))


def test_each_fault_has_a_place_of_its_own() -> None:
    """Several faults in one stretch hit different chips at different times.

    Checked at the highest allowed rate.
    """
    rate = FAULTS["ecc_corrected_storm"].rate_per_device_day or 0.0
    highest = HIGHEST_MEAN * DAY_S / (STRETCH_S * rate * 16_384)
    found = process(0.99 * highest, only=("ecc_corrected_storm",)).until(DAY_S)
    stretches = Counter(int(wear.time_s // STRETCH_S) for wear in found)
    assert max(stretches.values()) > 2
    assert len({wear.word for wear in found}) == len({wear.time_s for wear in found}) == len(found)
    places = np.array([wear.word % 16_384 for wear in found])
    assert places.mean() == pytest.approx(16_384 / 2, rel=0.03)


def test_only_and_without_choose() -> None:
    """`only` and `without` select faults; the others occur at unchanged times."""
    every = process(2_000.0).until(3_600.0)
    only = process(2_000.0, only=("link_down", "straggler")).until(3_600.0)
    rest = process(2_000.0, without=("link_down", "straggler")).until(3_600.0)
    assert {wear.fault.name for wear in only} == {"link_down", "straggler"}
    assert sorted(only + rest) == sorted(every)


def test_another_seed_brings_other_faults() -> None:
    """The same seed brings the same."""
    assert process(500.0).until(3_600.0) == process(500.0).until(3_600.0)
    assert process(500.0).until(3_600.0) != process(500.0, seed=4).until(3_600.0)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_new_fault_leaves_the_others_alone(
    is_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new row anywhere in the table changes no other fault's times and places."""
    before = process(2_000.0).until(3_600.0)
    new = {"made_up": replace(FAULTS["straggler"], name="made_up", rate_per_device_day=1e-4)}
    monkeypatch.setattr(random_faults_module, "FAULTS", new | FAULTS if is_first else FAULTS | new)
    after = process(2_000.0).until(3_600.0)
    assert [wear for wear in after if wear.fault.name != "made_up"] == before
    assert len(after) > len(before) > 100


def test_what_a_seed_brings_stays() -> None:
    """A seed's first faults, times and places are pinned, so recorded runs stay valid."""
    first = process(2_000.0, seed=7).until(3_600.0)[:3]
    assert [(round(wear.time_s, 3), wear.fault.name, wear.word % 16_384) for wear in first] == [
        (2.489, "ecc_corrected_storm", 12_554),
        (2.593, "nic_down", 4_949),
        (3.118, "link_degraded", 3_790),
    ]


def test_without_rates_nothing_comes() -> None:
    """A scenario without `[rates]` is quiet for ever."""
    assert RandomFaults(Rng(1), None, 1_000_000).until(1e9) == []


def test_too_high_an_acceleration_is_refused() -> None:
    """The message names the fault and the highest possible value, an accepted one."""
    with pytest.raises(
        ConfigError, match=r"rates.acceleration = 1e\+06: .* on 16,384 chips; at most"
    ) as refused:
        process(1e6)
    rate = max(FAULTS[name].rate_per_device_day or 0.0 for name in BY_THEMSELVES)
    highest = HIGHEST_MEAN * DAY_S / (STRETCH_S * rate * 16_384)
    process(highest * 0.999)
    assert "ecc_corrected_storm" in str(refused.value)


def test_wear_hits_what_the_fleet_has_and_heals() -> None:
    """Random faults begin and end like others, at addresses of their scope.

    The same for any windows.
    """
    rates = {"acceleration": 20_000.0}
    fine = SmallFleet(rates=rates)
    coarse = SmallFleet(rates=rates)
    fine.go(3_000.0, 5.0)
    coarse.go(3_000.0, 500.0)
    assert fine.events == coarse.events
    assert len({event.name for event in fine.events}) > 5
    assert {each.address for each in fine.incidents.active()} == {
        each.address for each in coarse.incidents.active()
    }
    for event in fine.events:
        assert fine.layout.find(event.path) is not None, event.path


def test_wear_of_a_jobs_own_faults_spares_idle_chips() -> None:
    """A runtime on idle chips does not crash, and logs nothing."""
    fleet = SmallFleet(
        rates={"acceleration": 300_000.0, "only": ["runtime_crash", "hang_collectives"]}
    )
    fleet.go(10_000.0, 100.0)
    crashed = [
        event for event in fleet.events if event.name in {"runtime_crash", "hang_collectives"}
    ]
    assert len(crashed) > 20
    assert all(event.job for event in crashed)
    assert not any("standalone" in event.path for event in fleet.events)


def incidents(days: float, **rates: Any) -> list[Any]:
    """Return the incidents of a fleet of 4,096 chips, repeats included."""
    fleet = validate(
        {"name": "f", "clusters": [{"name": "c", "ultraservers": [{"count": 64}]}], "rates": rates},
        FleetFile,
        "fleet.toml",
    )
    layout = Layout.of(expand(fleet))
    schedule = FaultSchedule(layout, fleet, Placement.resolve(layout, fleet), Rng(5), None)
    return list(schedule.until(days * DAY_S))


def test_repeats_do_not_change_the_total() -> None:
    """A fault that came again counts, and first ones are rarer: the rates are the table's."""
    names = ("runtime_crash", "instance_reboot", "hbm_uncorrectable_repairable")
    found = incidents(40.0, acceleration=500.0, only=names)
    rate = sum(FAULTS[name].rate_per_device_day or 0.0 for name in names)
    expected = rate * 4_096 * 40.0 * 500.0
    # A repeat comes hours later, some of them after the end.
    assert len(found) == pytest.approx(expected, rel=0.04)
    again = Counter((each.fault.name, each.target) for each in found)
    assert max(again.values()) > 5


def test_some_instances_are_weaker_than_others() -> None:
    """Faults per instance vary more than chance would: a gamma of shape 1 mixes them."""
    found = incidents(20.0, acceleration=2_000.0, only=("dma_abort",))
    counts = Counter(each.instances[0] for each in found)
    numbers = np.array([counts[place] for place in range(256)])
    mean = numbers.mean()
    assert mean > 10
    assert numbers.var() == pytest.approx(mean + mean**2, rel=0.4)


def test_strength_and_length_are_drawn() -> None:
    """Stragglers last from a minute to hours, and are slower by a few to many percent."""
    found = incidents(20.0, acceleration=2_000.0, only=("straggler", "chip_lost"))
    slow = [each for each in found if each.fault.name == "straggler"]
    lengths = np.log([each.ends_s - each.begins_s for each in slow])
    assert np.exp(np.median(lengths)) == pytest.approx(FAULTS["straggler"].lasts_s, rel=0.2)
    assert lengths.std() == pytest.approx(LENGTH_SD, rel=0.2)
    strengths = [each.magnitude for each in slow]
    assert np.median(strengths) == pytest.approx(15.0, rel=0.2)
    assert min(strengths) < 5.0
    assert max(strengths) > 40.0
    lost = [each.stages for each in found if each.fault.name == "chip_lost"]
    assert {each.detect_s for each in lost} == {15.0}
    assert max(each.mend_s for each in lost) > 2.0 * min(each.mend_s for each in lost)
