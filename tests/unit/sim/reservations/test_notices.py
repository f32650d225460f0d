"""EC2's events of simulated blocks, as EventBridge delivers them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.sim.block_fleets import TRAINING, ULTRASERVER, demo, engine_of, small
from support.sim.tick_lines import stdout_lines

from trnfleet.sim.ids import ec2_id
from trnfleet.sim.publish.telemetry import Include

if TYPE_CHECKING:
    from trnfleet.sim.engine import Engine


def notices(engine: Engine, ticks: int) -> list[dict[str, Any]]:
    """Return EC2's events in a number of ticks, as EventBridge delivers them."""
    return [
        json.loads(line)
        for line in stdout_lines(engine, ticks=ticks, include=(Include.EVENTBRIDGE,))
    ]


def test_each_running_instance_is_warned_of_its_termination() -> None:
    """Each instance with a job is warned two minutes before its termination.

    The warning has the id of its descriptor.
    """
    warning, *interruptions = notices(engine_of(demo()), 160)
    assert warning["detail-type"] == "Capacity Block Expiration Warning"
    assert [each["detail-type"] for each in interruptions] == [
        "EC2 Capacity Reservation Instance Interruption Warning"
    ] * 4
    engine = engine_of(demo())
    paths = [f"uc1/us-0001/trn2u-0001-{place}" for place in range(4)]
    ids = [ec2_id(engine.rng.token, path) for path in paths]
    assert [each["detail"]["instance-id"] for each in interruptions] == ids
    for each in interruptions:
        assert each["time"] == "2026-01-05T10:58:00Z"
        assert each["detail"]["instance-termination-time"] == "2026-01-05T11:00:00Z"
        assert each["resources"] == [
            f"arn:aws:ec2:us-east-2:123456789012:instance/{each['detail']['instance-id']}"
        ]
    events = [event for _ in range(160) for event in engine.step().events if event.detail]
    assert [event.path for event in events] == ["uc1/us-0001", *paths]


@pytest.mark.parametrize("lead_s", [0.0, 86_400.0])
def test_instances_are_warned_however_long_before(lead_s: float) -> None:
    """Instances are warned with any lead time, even 0; none before the start."""
    market = {"interruption_before_termination_s": lead_s, "account": "111122223333"}
    block = {**ULTRASERVER, "days": 1, "ends_after_days": 1}
    found = notices(engine_of(small(block, jobs=(TRAINING,), market=market), 600.0), 160)
    warned = [each for each in found if "instance-id" in each["detail"]]
    # The longer one is due before the block begins, when nothing runs yet.
    assert [each["time"] for each in warned] == (
        ["2026-01-06T11:00:00Z"] * 4 if lead_s == 0.0 else []
    )
    assert {each["account"] for each in found} == {"111122223333"}
    assert found[0]["detail-type"] == "Capacity Block Delivered"


def test_an_instance_that_was_replaced_is_warned_by_its_new_id() -> None:
    """After a replacement the warning names the present instance."""
    block = {"on": ["uc1/standalone/trn2-0001"], "days": 7, "ends_after_days": 0}
    job = {
        "kind": "training",
        "name": "train",
        "on": ["uc1/standalone/trn2-0001"],
        "startup_s": 60.0,
    }
    engine = engine_of(small(block, jobs=(job,)))
    engine.step()
    engine.inject("instance_retirement", "uc1/standalone/trn2-0001")
    details = [
        dict(event.detail) for _ in range(130) for event in engine.step().events if event.detail
    ]
    path = "uc1/standalone/trn2-0001"
    (row,) = (number for number, each in enumerate(engine.layout.instances) if each == path)
    generation = int(engine.incidents.generation[row])
    assert generation == 1
    warned = [each["instance-id"] for each in details if "instance-id" in each]
    assert warned == [ec2_id(engine.rng.token, path, generation)]


def test_an_idle_block_s_instances_are_not_warned() -> None:
    """Without a job EC2 would terminate no instance, so none is warned."""
    found = notices(engine_of(small(ULTRASERVER), 600.0), 20)
    assert [each["detail-type"] for each in found] == ["Capacity Block Expiration Warning"]
