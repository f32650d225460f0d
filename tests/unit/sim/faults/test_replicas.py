from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from trnfleet.domain.fleet import expand
from trnfleet.domain.layout import Layout
from trnfleet.sim.faults.replicas import Replicas
from trnfleet.sim.jobs.slowdown import Halt
from trnfleet.sim.placement import Placement

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.domain.fleet import FleetFile

    Job = Callable[..., dict[str, Any]]

SERVING = 1


class Serving:
    """Replicas on the UltraServer `c/us-0001`, beside an idle and a training instance.

    Its chips are rows 16 to 79.
    """

    def __init__(
        self, make_fleet: Callable[..., FleetFile], training: Job, inference: Job, size: int
    ) -> None:
        fleet = make_fleet(
            training(on=["c/standalone/trn2-0001"]),
            inference(on=["c/us-0001"], chips_per_replica=size),
            instances=1,
            ultraservers=1,
        )
        layout = Layout.of(expand(fleet))
        self.replicas = Replicas(layout, Placement.of(layout, fleet))

    @property
    def paces(self) -> list[float]:
        paces: list[float] = self.replicas.pace.tolist()
        return paces

    @property
    def halted(self) -> list[int]:
        return np.flatnonzero(self.replicas.halt).tolist()


@pytest.fixture
def serve(
    make_fleet: Callable[..., FleetFile], training: Job, inference: Job
) -> Callable[[int], Serving]:
    return lambda size: Serving(make_fleet, training, inference, size)


def test_only_inference_jobs_have_replicas(serve: Callable[[int], Serving]) -> None:
    """A training job is one whole."""
    assert [serve(16).replicas.serves(job) for job in (0, 1)] == [False, True]


@pytest.mark.parametrize(("size", "slow"), [(4, 5), (16, 1), (32, 0), (64, 0)])
def test_a_slow_chip_slows_its_replica_and_no_other(
    serve: Callable[[int], Serving], size: int, slow: int
) -> None:
    """A slow chip slows one replica, of 4, 16, 32 or 64 chips each.

    The chip with row 37 is the job's 22nd.
    """
    serving = serve(size)
    serving.replicas.hit(SERVING, (2,), (32 + 5,), pace=0.5)
    assert serving.paces == [0.5 if number == slow else 1.0 for number in range(64 // size)]
    assert serving.halted == []


@pytest.mark.parametrize(("size", "stopped"), [(4, [4, 5, 6, 7]), (16, [1]), (32, [0]), (64, [0])])
def test_an_instance_stops_every_replica_on_it(
    serve: Callable[[int], Serving], size: int, stopped: list[int]
) -> None:
    """An instance stops all replicas on it.

    Four small ones, one filling it, or one that spans other instances.
    """
    serving = serve(size)
    serving.replicas.hit(SERVING, (2,), (), halt=Halt.DOWN)
    assert serving.halted == stopped


def test_the_worst_of_two_paces_counts(serve: Callable[[int], Serving]) -> None:
    """A replica slowed twice has the slower pace, in either order; down outranks a hang."""
    for paces in ((0.8, 0.5), (0.5, 0.8)):
        serving = serve(16)
        for chip, pace in zip((16, 17), paces, strict=True):
            serving.replicas.hit(SERVING, (1,), (chip,), pace=pace)
        assert serving.paces == [0.5, 1.0, 1.0, 1.0]
        for halt in (Halt.DOWN, Halt.HANG):
            serving.replicas.hit(SERVING, (1,), (16,), halt=halt)
        assert serving.replicas.halt[0] == Halt.DOWN


def test_a_link_slows_the_replica_on_both_its_ends(serve: Callable[[int], Serving]) -> None:
    """A link between two replicas is used by neither."""
    inside = serve(16)
    between = serve(16)
    inside.replicas.hit_between(SERVING, (16, 17), pace=0.5)
    between.replicas.hit_between(SERVING, (31, 32), pace=0.5)
    assert inside.paces == [0.5, 1.0, 1.0, 1.0]
    assert between.paces == [1.0] * 4
    outside = serve(64)
    outside.replicas.hit_between(SERVING, (0, 1), pace=0.5)
    assert outside.paces == [1.0], "the chips are another job's"


def test_a_split_stops_what_reaches_over_it(serve: Callable[[int], Serving]) -> None:
    """A split stops replicas in both halves; replicas within one half go on."""
    for size, stopped in ((16, []), (32, []), (64, [0])):
        serving = serve(size)
        serving.replicas.hit_across(SERVING, ((1, 2), (3, 4)), Halt.DOWN)
        assert serving.halted == stopped


def test_instances_of_others_are_none_of_a_jobs(serve: Callable[[int], Serving]) -> None:
    """Neither their chips nor they themselves slow a replica."""
    serving = serve(16)
    serving.replicas.hit(SERVING, (0,), (), pace=0.1)
    serving.replicas.hit(SERVING, (0,), (3,), pace=0.1)
    assert serving.paces == [1.0] * 4


def test_nothing_is_left_once_cleared(serve: Callable[[int], Serving]) -> None:
    """Every replica has its pace back, and what was handed out before keeps its values."""
    serving = serve(16)
    serving.replicas.hit(SERVING, (1, 2, 3, 4), (), pace=0.5, halt=Halt.DOWN)
    before = serving.replicas.pace
    serving.replicas.clear()
    assert serving.paces == [1.0] * 4
    assert serving.halted == []
    assert before.tolist() == [0.5] * 4
