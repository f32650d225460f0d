from __future__ import annotations

from typing import Any, Literal

import pytest

from trnfleet.config import validate
from trnfleet.domain.fleet import FleetFile, Publishing
from trnfleet.domain.scenario import Scenario
from trnfleet.sim.engine import Engine, to_ns
from trnfleet.sim.publish.partition import partition
from trnfleet.sim.publish.state import Boots
from trnfleet.sim.rng import boot_after
from trnfleet.sim.sharding import WHOLE, Shard

BOOT = "00112233aabbccdd"
MEMBER = "c/us-0001/trn2u-0001-2"
ALONE = "c/standalone/trn2-0002"
OUTAGE_S = 27.0
"""Duration of the reboots here. The last 3 s are checks, with the agent publishing already."""


class Run:
    """An engine and the starts of its units, tick by tick."""

    def __init__(
        self,
        *faults: dict[str, Any],
        granularity: Literal["instance", "ultraserver"] = "instance",
        shard: Shard = WHOLE,
        period_s: float = 1.0,
    ) -> None:
        fleet = validate(
            {
                "name": "f",
                "clusters": [
                    {
                        "name": "c",
                        "ultraservers": [{"count": 2}],
                        "instances": [{"type": "trn2.48xlarge", "count": 2}],
                    }
                ],
            },
            FleetFile,
            "fleet.toml",
        )
        scenario = validate({"faults": list(faults)}, Scenario, "scenario.toml")
        self.engine = Engine(fleet, 7, period_s, to_ns(fleet.start), scenario=scenario, shard=shard)
        options = Publishing(format="cbor", granularity=granularity)
        self.units = partition(self.engine.layout, options, self.engine.own, shard)
        self.starts = Boots(self.engine, BOOT, self.units)
        self.renewed: list[tuple[int, str]] = []
        """Ticks, with the paths of the units described again."""
        self.seq = -1

    def go(self, ticks: int) -> None:
        for _ in range(ticks):
            self.seq += 1
            self.engine.step()
            self.renewed += [
                (self.seq, self.units[number].path) for number in self.starts.renew(self.seq)
            ]

    def unit(self, path: str) -> int:
        return next(number for number, unit in enumerate(self.units) if unit.path == path)

    def head(self, path: str) -> tuple[str, int]:
        head = self.starts.head(self.unit(path), self.seq, 0)
        return head.boot, head.seq


def fault(name: str, target: str, **rest: Any) -> dict[str, Any]:
    return {"fault": name, "target": target, "at": 5, "for": OUTAGE_S, **rest}


def test_units_begin_with_the_run() -> None:
    """Every unit has the run's boot id, counts with the ticks, and is described once."""
    run = Run()
    run.go(10)
    assert {run.head(unit.path) for unit in run.units} == {(BOOT, 9)}
    assert run.starts.revision == [0] * len(run.units)
    assert run.renewed == []


@pytest.mark.parametrize("place", [MEMBER, ALONE])
def test_an_agent_that_boots_counts_from_zero(place: str) -> None:
    """A rebooted instance restarts at number 0 of another boot id; no other unit changes."""
    run = Run(fault("instance_reboot", place))
    run.go(60)
    ((back, path),) = run.renewed
    assert path == place
    assert 5 < back <= 5 + OUTAGE_S + 1
    assert run.head(place) == (boot_after(BOOT, place, 1), 59 - back)
    assert run.starts.head(run.unit(place), back, 0).seq == 0
    assert run.starts.revision[run.unit(place)] == 1
    others = {run.head(unit.path) for unit in run.units if unit.path != place}
    assert others == {(BOOT, 59)}
    assert sum(run.starts.revision) == 1


def test_a_replaced_instance_is_another_one() -> None:
    """A replaced instance boots like any other, with a higher generation for its EC2 id."""
    run = Run(fault("hbm_uncorrectable", f"{ALONE}/chip03"))
    run.go(60)
    number = run.unit(ALONE)
    assert run.head(ALONE)[0] == boot_after(BOOT, ALONE, 1)
    assert run.starts.revision[number] == 1
    assert run.engine.incidents.generation[run.units[number].instances.start] == 1


def test_each_boot_is_another_one() -> None:
    """Two reboots give two boot ids and two revisions."""
    run = Run(fault("instance_reboot", ALONE, every=50, times=2))
    run.go(40)
    first = run.head(ALONE)[0]
    run.go(60)
    assert [path for _, path in run.renewed] == [ALONE, ALONE]
    assert len({BOOT, first, run.head(ALONE)[0]}) == 3
    assert run.starts.revision[run.unit(ALONE)] == 2


def test_an_ultraservers_publisher_goes_on() -> None:
    """When one of four instances boots, the unit keeps its boot id and count.

    Its descriptor has a new revision.
    """
    run = Run(fault("instance_reboot", MEMBER), granularity="ultraserver")
    run.go(60)
    assert [path for _, path in run.renewed] == ["c/us-0001"]
    assert run.head("c/us-0001") == (BOOT, 59)
    assert run.starts.revision[run.unit("c/us-0001")] == 1
    assert sum(run.starts.revision) == 1


def test_a_silent_agent_has_not_booted() -> None:
    """A silent agent continues with its boot id and next number: nothing was lost."""
    run = Run(fault("agent_silent", ALONE))
    run.go(5)
    before = run.head(ALONE)
    run.go(55)
    silent = round(OUTAGE_S)
    assert run.head(ALONE) == (BOOT, before[1] + 55 - silent)
    assert run.renewed == []
    assert not any(run.starts.revision)


def test_a_silent_agent_that_boots_has_not_begun() -> None:
    """Its first tick is the first with a message, and its descriptor comes with that."""
    run = Run(
        fault("instance_reboot", ALONE), fault("agent_silent", ALONE, at=29.5) | {"for": 20.0}
    )
    run.go(49)
    assert run.renewed == []
    run.go(11)
    ((back, _),) = run.renewed
    assert back == 50
    assert run.head(ALONE) == (boot_after(BOOT, ALONE, 1), 59 - back)


def test_an_outage_within_one_tick_is_a_boot_all_the_same() -> None:
    """An outage shorter than a tick is a boot, though no tick shows it silent."""
    run = Run(fault("instance_reboot", ALONE), period_s=60.0)
    run.go(3)
    assert [path for _, path in run.renewed] == [ALONE]
    assert run.head(ALONE)[0] == boot_after(BOOT, ALONE, 1)


def test_another_shards_reboots_are_none_of_ours() -> None:
    """Each unit is renewed by its own shard, at the whole run's tick."""
    faults = (fault("instance_reboot", MEMBER), fault("instance_reboot", ALONE, at=9))
    whole = Run(*faults)
    whole.go(60)
    parts = [Run(*faults, shard=Shard(number, 4)) for number in range(1, 5)]
    for part in parts:
        part.go(60)
    assert len(whole.renewed) == 2
    assert sorted(each for part in parts for each in part.renewed) == sorted(whole.renewed)


def test_a_change_of_the_clock_concerns_all() -> None:
    """Every descriptor gets a new revision and no unit another boot id."""
    run = Run()
    run.go(2)
    run.starts.revise()
    assert run.starts.revision == [1] * len(run.units)
    assert {run.head(unit.path) for unit in run.units} == {(BOOT, 1)}
