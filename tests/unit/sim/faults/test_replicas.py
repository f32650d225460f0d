from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from trnfleet.domain.fleet import expand
from trnfleet.domain.layout import Layout
from trnfleet.sim.faults.replicas import Replicas
from trnfleet.sim.placement import Cohorts, Placement

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.domain.fleet import FleetFile

    Job = Callable[..., dict[str, Any]]

SERVING = 1


class Serving:
    """Replicas on the UltraServer `c/us-0001`, whose chips are rows 16 to 79, beside an idle and a training instance."""

    def __init__(
        self, make_fleet: Callable[..., FleetFile], training: Job, inference: Job, size: int
    ) -> None:
        fleet = make_fleet(
            training(on=["c/standalone/trn2-0001"]),
            inference(on=["c/us-0001"], chips_per_replica=size),
            instances=1,
            ultraservers=1,
        )
        self.layout = Layout.of(expand(fleet))
        placement = Placement.of(self.layout, fleet)
        self.replicas = Replicas(self.layout, placement, fleet)
        self._cohorts = Cohorts.of(self.layout, placement)

    @property
    def left(self) -> float:
        capacity = self.replicas.capacity()
        assert capacity[0] == 1.0
        return float(capacity[SERVING])

    def paces(self) -> list[float]:
        """Return the pace of each instance of the UltraServer, once those that are slow are set apart."""
        cohorts = self._cohorts.setting_apart(self.replicas.instances())
        pace = self.replicas.of_cohorts(cohorts)[cohorts.of_instance]
        assert pace[0] == 1.0
        paces: list[float] = pace[1:].tolist()
        return paces


@pytest.fixture
def serve(make_fleet: Callable[..., FleetFile], training: Job, inference: Job) -> Callable[[int], Serving]:
    return lambda size: Serving(make_fleet, training, inference, size)


def test_only_inference_jobs_have_replicas(serve: Callable[[int], Serving]) -> None:
    """A training job is one whole."""
    assert [serve(16).replicas.serves(job) for job in (0, 1)] == [False, True]


@pytest.mark.parametrize(
    ("size", "left", "paces"),
    [
        (4, 1 - 0.5 * 4 / 64, [1.0, 1 - 0.5 * 4 / 16, 1.0, 1.0]),
        (16, 1 - 0.5 * 16 / 64, [1.0, 0.5, 1.0, 1.0]),
        (32, 1 - 0.5 * 32 / 64, [0.5, 0.5, 1.0, 1.0]),
        (64, 0.5, [0.5] * 4),
    ],
)
def test_a_slow_chip_slows_its_replica_and_no_other(
    serve: Callable[[int], Serving], size: int, left: float, paces: list[float]
) -> None:
    """Capacity falls by the replica's share of the job's chips, and only its instances have another pace."""
    serving = serve(size)
    serving.replicas.slow(SERVING, (2,), (32 + 5,), 0.5)
    assert serving.left == pytest.approx(left)
    assert serving.paces() == pytest.approx(paces)
    assert serving.replicas.instances() == {1 + place for place, pace in enumerate(paces) if pace < 1.0}


@pytest.mark.parametrize(("size", "left"), [(4, 0.75), (16, 0.75), (32, 0.5), (64, 0.0)])
def test_an_instance_stops_every_replica_on_it(
    serve: Callable[[int], Serving], size: int, left: float
) -> None:
    """Four small ones as one that fills it, or one that reaches over others."""
    serving = serve(size)
    serving.replicas.slow(SERVING, (2,), (), 0.0)
    assert serving.left == pytest.approx(left)


def test_the_worst_of_two_paces_counts(serve: Callable[[int], Serving]) -> None:
    """A replica that is slow twice is as slow as its slowest part, in either order, and loses its share once."""
    for paces in ((0.8, 0.5), (0.5, 0.8)):
        serving = serve(16)
        for chip, pace in zip((16, 17), paces, strict=True):
            serving.replicas.slow(SERVING, (1,), (chip,), pace)
        assert serving.left == pytest.approx(1 - 0.5 / 4)


def test_a_link_slows_the_replica_on_both_its_ends(serve: Callable[[int], Serving]) -> None:
    """Replicas do not talk to each other: a link between two of them is used by none."""
    inside, between = serve(16), serve(16)
    inside.replicas.slow_between(SERVING, (16, 17), 0.5)
    between.replicas.slow_between(SERVING, (31, 32), 0.5)
    assert inside.left == pytest.approx(1 - 0.5 / 4)
    assert between.left == 1.0
    outside = serve(64)
    outside.replicas.slow_between(SERVING, (0, 1), 0.5)
    assert outside.left == 1.0, "the chips are another job's"


def test_a_split_slows_what_reaches_over_it(serve: Callable[[int], Serving]) -> None:
    """Replicas within one half have all that they need."""
    for size, left in ((16, 1.0), (32, 1.0), (64, 0.02)):
        serving = serve(size)
        serving.replicas.slow_across(SERVING, ((1, 2), (3, 4)), 0.02)
        assert serving.left == pytest.approx(left)


def test_instances_of_others_are_none_of_a_jobs(serve: Callable[[int], Serving]) -> None:
    """Neither their chips nor they themselves slow a replica."""
    serving = serve(16)
    serving.replicas.slow(SERVING, (0,), (), 0.1)
    serving.replicas.slow(SERVING, (0,), (3,), 0.1)
    assert serving.left == 1.0
    assert serving.replicas.instances() == set()


def test_nothing_is_left_once_cleared(serve: Callable[[int], Serving]) -> None:
    """Every replica has its pace back."""
    serving = serve(16)
    serving.replicas.slow(SERVING, (1, 2, 3, 4), (), 0.02)
    assert serving.left == pytest.approx(0.02)
    serving.replicas.clear()
    assert serving.left == 1.0
    assert serving.paces() == [1.0] * 4
    assert np.all(serving.replicas.capacity() == 1.0)
