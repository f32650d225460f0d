from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnfleet.config import load_model, shipped_folder, shipped_names, validate
from trnfleet.domain.scenario import Scenario
from trnfleet.errors import ConfigError

CHIP = "uc1/us-0001/trn2u-0001-2/chip05"


def scenario(*faults: dict[str, Any], **rest: Any) -> Scenario:
    return validate({"faults": list(faults), **rest}, Scenario, "s.toml")


def fault(**rest: Any) -> dict[str, Any]:
    return {"fault": "straggler", "target": CHIP, **rest}


@pytest.mark.parametrize("name", shipped_names("scenarios"))
def test_shipped_scenarios_are_valid(name: str) -> None:
    """Every shipped file loads, has a title, and names its fleet."""
    loaded = load_model(shipped_folder("scenarios") / f"{name}.toml", Scenario)
    assert loaded.title
    assert loaded.fleet in shipped_names("fleets")


def test_durations_are_written_as_people_write_them() -> None:
    """Every time is text with a unit, or a number of seconds."""
    (entry,) = scenario(fault(at="90s", every="5m", times=3, **{"for": 45})).faults
    assert (entry.at, entry.every, entry.lasts_s) == (90.0, 300.0, 45.0)
    whole = scenario(period="500ms", speed=60.0)
    assert (whole.period_s, whole.speed) == (0.5, 60.0)


def test_everything_is_optional() -> None:
    """An empty scenario is a healthy fleet and leaves all options to the command line."""
    empty = scenario()
    assert not empty.faults
    assert not empty.loads
    undecided = (empty.rates, empty.fleet, empty.seed, empty.start, empty.speed, empty.period_s)
    assert undecided == (None,) * 6


def test_entries_follow_each_other() -> None:
    """`after` counts from the other entry's start.

    Over any number of entries and in any order of the file.
    """
    play = scenario(
        fault(id="c", after="b", delay="10s"),
        fault(id="a", at=5),
        fault(id="b", after="a", delay=60),
        fault(after="a"),
        fault(after="c", delay=1),
    )
    assert play.begins() == [75.0, 5.0, 65.0, 5.0, 76.0]


def test_a_long_chain_is_no_trouble() -> None:
    """Thousands of entries may follow each other."""
    chain = [
        fault(id="e0", at=0),
        *(fault(id=f"e{n}", after=f"e{n - 1}", delay=1) for n in range(1, 3_000)),
    ]
    assert scenario(*reversed(chain)).begins()[0] == 2_999.0


@given(
    st.permutations(range(8)), st.lists(st.integers(0, 100), min_size=8, max_size=8), st.randoms()
)
def test_begins_add_up_in_any_order(order: list[int], delays: list[int], random: Any) -> None:
    """An entry begins as much later than the one before it as its delay says."""
    before = [None if number == 0 else random.randrange(number) for number in range(8)]
    entries = [
        (
            fault(id=f"e{number}", at=delays[number])
            if before[number] is None
            else fault(id=f"e{number}", after=f"e{before[number]}", delay=delays[number])
        )
        for number in range(8)
    ]
    begins = dict(
        zip(order, scenario(*(entries[number] for number in order)).begins(), strict=True)
    )
    for number, other in enumerate(before):
        assert begins[number] == delays[number] + (0 if other is None else begins[other])


def test_a_start_without_zone_is_utc() -> None:
    """A date as TOML has it without offset means UTC."""
    assert scenario(start=datetime(2026, 7, 14, 6, 0)).start == datetime(2026, 7, 14, 6, tzinfo=UTC)  # noqa: DTZ001  the case


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            fault(at=1, fault="stragler"),
            r"s\.toml: faults\.0\.fault = 'stragler': .*did you mean 'straggler'",
        ),
        (fault(), "give either at or after"),
        (fault(id="x", at=1, after="x"), "give either at or after"),
        (fault(at=1, delay=5), "delay goes with after"),
        (fault(at=1, times=5), "times goes with every"),
        (fault(at=1, every=0), r"faults\.0\.every = 0"),
        (fault(at=1, every="900ms"), r"faults\.0\.every = '900ms'.*greater than or equal to 1"),
        (fault(at=1, every=5, times=0), r"faults\.0\.times = 0"),
        (fault(at=-1), r"faults\.0\.at = -1"),
        (fault(at="soon"), r"faults\.0\.at = 'soon'.*is not a duration"),
        (fault(at=1, magnitude=99.0), "magnitude 99 of straggler: must be 1 to 95"),
        (fault(at=1, fault="runtime_crash", magnitude=1.0), "runtime_crash has no magnitude"),
        (fault(at=1, **{"for": 0}), r"faults\.0\.for = 0"),
        (fault(at=1, **{"for": float("inf")}), r"faults\.0\.for"),
        (fault(at=1, magnitud=3.0), r"magnitud\b.*did you mean 'magnitude'"),
        (fault(at=1, id="a/b"), r"faults\.0\.id"),
        (fault(after="a"), "no entry has the id 'a'"),
        (fault(id="a", after="a"), "'a' comes after itself"),
    ],
)
def test_an_entry_that_makes_no_sense_is_refused(entry: dict[str, Any], message: str) -> None:
    """The message names the key, the value and a valid one."""
    with pytest.raises(ConfigError, match=message):
        scenario(entry)


def test_circles_and_doubles_are_refused() -> None:
    """Entries with a circular wait or a duplicate id are refused, with the nearest id."""
    with pytest.raises(ConfigError, match="comes after itself"):
        scenario(fault(id="a", after="b"), fault(id="b", after="a"))
    with pytest.raises(ConfigError, match="duplicate id 'a'"):
        scenario(fault(id="a", at=1), fault(id="a", at=2))
    with pytest.raises(ConfigError, match="did you mean 'storm'"):
        scenario(fault(id="storm", at=1), fault(after="strom"))


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ({"rates": {"acceleration": -1.0}}, r"rates\.acceleration = -1"),
        ({"rates": {"acceleration": 1.0, "only": ["stragler"]}}, "did you mean 'straggler'"),
        ({"rates": {"acceleration": 1.0, "without": ["link_dwon"]}}, "did you mean 'link_down'"),
        ({"loads": [{"job": "serve", "at": 1, "for": 5, "factor": 0.0}]}, r"loads\.0\.factor = 0"),
        ({"loads": [{"job": "serve", "at": 1, "factor": 2.0}]}, r"loads\.0\.for"),
        ({"speed": 0.0}, "speed = 0"),
        ({"period": "0s"}, "period"),
        ({"seed": -1}, "seed = -1"),
        ({"fault": []}, "did you mean 'faults'"),
    ],
)
def test_the_rest_of_a_file_is_held_to_its_limits(rest: dict[str, Any], message: str) -> None:
    """Rates, loads and a scenario's options are checked against their limits."""
    with pytest.raises(ConfigError, match=message):
        scenario(**rest)
