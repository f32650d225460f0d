from __future__ import annotations

import pytest

from trnfleet.domain.alerts.flapping import FLAPS_FROM, MOST, WINDOW_NS, Flaps, is_flapping


@pytest.mark.parametrize(("late", "expected"), [(-1, 2), (0, 1), (1, 1)])
def test_what_is_older_than_the_window_does_not_count(late: int, expected: int) -> None:
    """A beginning counts until just before it is as old as the window."""
    flaps = Flaps()
    flaps.begin("a", 1_000)

    assert flaps.begin("a", 1_000 + WINDOW_NS + late) == expected


def test_each_alert_has_its_own_beginnings() -> None:
    """Beginnings of one alert say nothing of another; asking changes nothing."""
    flaps = Flaps()
    assert [flaps.begin("a", now) for now in (1, 2, 3)] == [1, 2, 3]
    assert flaps.begin("b", 4) == 1
    assert (flaps.count("a", 4), flaps.count("a", 4), flaps.count("c", 4)) == (3, 3, 0)


def test_time_that_goes_back_forgets_what_is_to_come() -> None:
    """After a simulator's time has gone back, beginnings in its future are not counted."""
    flaps = Flaps()
    for now in (100, 200, 300):
        flaps.begin("a", now)

    assert flaps.begin("a", 50) == 1


def test_it_flaps_from_the_threshold_on_until_it_is_quiet() -> None:
    """A flapping alert keeps flapping until its owner ends it."""
    assert not is_flapping(FLAPS_FROM - 1, was=False)
    assert is_flapping(FLAPS_FROM, was=False)
    assert is_flapping(1, was=True)


def test_the_oldest_is_forgotten() -> None:
    """Memory is bounded: the oldest alert is forgotten."""
    flaps = Flaps()
    flaps.begin("first", 0)
    flaps.begin("second", 1)
    flaps.begin("first", 2)
    for number in range(MOST - 1):
        flaps.begin(f"alert-{number}", 3)

    assert (flaps.count("first", 4), flaps.count("second", 4)) == (2, 0)


def test_what_is_over_is_forgotten() -> None:
    """Beginnings are kept for the window alone, however many alerts have begun."""
    flaps = Flaps()
    for number in range(100):
        assert flaps.begin(f"{number}", number * WINDOW_NS // 10) == 1
    assert len(flaps._begun) == 10
    flaps.retract("99")
    assert flaps.begin("x", 100 * WINDOW_NS) == 1
    assert list(flaps._begun) == ["x"]
