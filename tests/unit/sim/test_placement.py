from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.sim.job_run import fleet_of

from trnfleet.config import validate
from trnfleet.domain.fleet import FleetFile, expand
from trnfleet.domain.layout import Layout
from trnfleet.sim.placement import Cohorts, Placement

SERVING: dict[str, Any] = {"kind": "inference", "name": "s", "on": ["c/us-0001..us-0002"]}
TRAINING: dict[str, Any] = {"kind": "training", "name": "t", "on": ["c/standalone/trn2-0001"]}
ROWS = 0b001100
INSIDE = 0b001111
ALL = 0b111111


class Placed:
    """A training instance, an idle one, and two serving UltraServers.

    Their rows are 0, 2 and 3 onwards.
    """

    def __init__(self, chips_per_replica: int) -> None:
        fleet = fleet_of(
            TRAINING, SERVING | {"chips_per_replica": chips_per_replica}, ultraservers=2
        )
        self.layout = Layout.of(expand(fleet))
        self.placement = Placement.resolve(self.layout, fleet)
        self.cohorts = Cohorts.group(self.layout, self.placement)

    def rows(self) -> list[int]:
        rows: list[int] = self.cohorts.row[self.cohorts.of_chip].tolist()
        return rows


@pytest.mark.parametrize("size", [4, 16, 32, 64, 5])
def test_chips_take_the_rows_of_their_replicas(size: int) -> None:
    """Replicas are consecutive chips of their job.

    A training job has one row, and idle chips have the row after the jobs.
    """
    placed = Placed(size)
    alone = placed.rows()[:32], placed.rows()[32:]
    assert alone[0] == [0] * 16 + [2] * 16
    assert alone[1] == [3 + chip // size for chip in range(128)]
    assert placed.placement.replicas == -(-128 // size)


@pytest.mark.parametrize("size", [4, 16, 32, 64])
def test_the_mean_of_a_host_is_that_of_its_chips(size: int) -> None:
    """Each cohort counts by its chips on the instance."""
    placed = Placed(size)
    values = np.arange(len(placed.cohorts.row), dtype=np.float64)
    hosts = placed.cohorts.hosts
    of_chips = values[placed.cohorts.of_chip].reshape(-1, 16).mean(axis=1)
    assert hosts.mean(values)[hosts.of_instance] == pytest.approx(of_chips)


@pytest.mark.parametrize(
    ("size", "used"), [(4, {ROWS}), (16, {INSIDE}), (32, {0b011111, 0b101111}), (64, {ALL})]
)
def test_replicas_do_not_talk_to_each_other(size: int, used: set[int]) -> None:
    """Four chips use the links of their row, an instance its torus.

    Only larger replicas use the links between instances.
    """
    placed = Placed(size)
    serving = placed.cohorts.job == 1
    assert set(placed.cohorts.used_lanes[serving].tolist()) == used


@pytest.mark.parametrize(
    ("kind", "size", "used"),
    [
        ("inf2.24xlarge", 2, [0b10, 0b01]),
        ("inf2.48xlarge", 4, [0b10, 0b11, 0b11, 0b01]),
        ("trn2.48xlarge", 2, [0b1000, 0b0100]),
        ("trn2.48xlarge", 1, [0]),
    ],
)
def test_chips_of_a_small_replica_use_the_links_between_them(
    kind: str, size: int, used: list[int]
) -> None:
    """Without lanes common to all chips, each chip uses its own to its replica.

    An example is a line of pairs.
    """
    serving = SERVING | {
        "on": [f"c/standalone/{kind[:4]}-000{place}" for place in (1, 2)],
        "chips_per_replica": size,
    }
    cluster = {"name": "c", "instances": [{"type": kind, "count": 2}]}
    fleet = validate(
        {"name": "f", "clusters": [cluster], "jobs": [serving]}, FleetFile, "fleet.toml"
    )
    layout = Layout.of(expand(fleet))
    cohorts = Cohorts.group(layout, Placement.resolve(layout, fleet))
    of_chips: list[int] = cohorts.used_lanes[cohorts.of_chip].tolist()
    assert of_chips == used * (layout.chips // size)


@pytest.mark.parametrize(("size", "spans"), [(4, False), (16, False), (64, False), (128, True)])
def test_only_replicas_over_two_ultraservers_use_efa(size: int, spans: bool) -> None:
    """A job's replicas have no traffic between them, at any place."""
    assert Placed(size).placement.spans.tolist() == [False, spans]


def test_replicas_on_instances_are_found() -> None:
    """All replicas with chips on an instance are found, each with its instance."""
    placed = Placed(4)
    rows, places = placed.cohorts.replicas_on(np.array([3, 1 + 1]), 2)
    assert rows.tolist() == [4, 5, 6, 7, 0, 1, 2, 3]
    assert places.tolist() == [0] * 4 + [1] * 4
