from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.sim.job_run import JobRun, figure, fleet_of, mean

from trnfleet.config import validate
from trnfleet.domain.fleet import FleetFile
from trnfleet.sim.jobs.activity import EFA_CEILING
from trnfleet.sim.jobs.fabric import FABRIC_BITS_PER_S, FABRIC_INSTANCES

pytestmark = pytest.mark.usefixtures("even_steps")

EFA_BYTES_PER_S = 400e9
"""Of a trn2.48xlarge, each way."""


def train(name: str, on: str, **rest: Any) -> dict[str, Any]:
    plain = {
        "kind": "training",
        "name": name,
        "on": [on],
        "step_time_s": 4.0,
        "checkpoint_every_steps": 0,
    }
    return plain | rest


def test_the_default_fabric_carries_every_instance() -> None:
    """The default of 10 Pb/s is the full EFA rate of 3,125 instances.

    So only a fabric configured in a file can be too small.
    """
    assert FABRIC_BITS_PER_S / FABRIC_INSTANCES == 8 * EFA_BYTES_PER_S


def test_a_small_fabric_slows_all_collectives_of_its_cluster_alike() -> None:
    """On a small fabric two jobs' EFA phases stretch by one factor.

    Their efa_tx falls with them.
    """
    jobs = [
        train("a", "c/standalone/trn2-0001..trn2-0004"),
        train("b", "c/standalone/trn2-0005..trn2-0006"),
    ]
    wide = JobRun(fleet_of(*jobs, instances=6)).advance(4_000.0)
    demand = (4 * 0.68 + 2 * (0.72 * 0.01 + 0.20 * 0.68 + 0.08 * 0.01)) * EFA_BYTES_PER_S
    narrow = JobRun(fleet_of(*jobs, instances=6, fabric_bits_per_s=8 * demand / 4)).advance(4_000.0)
    for job in (0, 1):
        assert figure(wide, "step_time_s", job) == pytest.approx(4.0, rel=0.02)
        assert figure(narrow, "step_time_s", job) == pytest.approx(
            4.0 * (0.8 + 0.2 / 0.25), rel=0.04
        )
        # The same bytes a step, in longer steps.
        longer = figure(narrow, "step_time_s", job) / 4.0
        assert mean(narrow, "efa", job) == pytest.approx(mean(wide, "efa", job) / longer, rel=0.03)


def test_jobs_within_an_ultraserver_do_not_ask_the_fabric() -> None:
    """NeuronLink carries their collectives, whatever the fabric is."""
    jobs = [train("in", "c/us-0001"), train("out", "c/us-0002..us-0003")]
    tick = JobRun(fleet_of(*jobs, instances=0, ultraservers=3, fabric_bits_per_s=1e12)).advance(
        4_000.0
    )
    assert figure(tick, "step_time_s", 0) == pytest.approx(4.0, rel=0.02)
    assert figure(tick, "step_time_s", 1) > 8.0


def test_a_job_that_goes_makes_room() -> None:
    """When one of two jobs ends, the other's collectives are quick again."""
    jobs = [
        train("stays", "c/standalone/trn2-0001..trn2-0002"),
        train("ends", "c/standalone/trn2-0003..trn2-0006", ends_at_s=100.0),
    ]
    run = JobRun(fleet_of(*jobs, instances=6, fabric_bits_per_s=8 * 1.5 * EFA_BYTES_PER_S))
    assert figure(run.advance(100.0), "step_time_s") > 4.3
    assert figure(run.advance(100.0), "step_time_s") == pytest.approx(4.0, rel=0.02)


def test_a_job_over_two_clusters_goes_by_the_slower_fabric() -> None:
    """Each cluster counts its own part of the job."""
    part = {"instances": [{"type": "trn2.48xlarge", "count": 2}]}
    clusters = [
        {"name": "a"} | part,
        {"name": "b", "fabric_bits_per_s": 8 * 0.5 * EFA_BYTES_PER_S} | part,
    ]
    job = train("j", "a/standalone/trn2-0001") | {
        "on": ["a/standalone/trn2-0001", "b/standalone/trn2-0001..trn2-0002"]
    }
    fleet = validate({"name": "f", "clusters": clusters, "jobs": [job]}, FleetFile, "f.toml")
    tick = JobRun(fleet).advance(4_000.0)
    assert figure(tick, "step_time_s") == pytest.approx(
        4.0 * (0.8 + 0.2 * 2 * 0.68 / 0.5), rel=0.02
    )


def test_an_instance_without_its_share_of_efa_slows_only_jobs_that_span() -> None:
    """The 11x cliff of a lost affinity stretches collectives between UltraServers.

    A job on one is not affected.
    """
    jobs = [train("in", "c/us-0001"), train("out", "c/us-0002..us-0003")]
    run = JobRun(fleet_of(*jobs, instances=0, ultraservers=3))
    run.slowdowns.efa[:] = 1 / 11
    tick = run.advance(4_000.0)
    assert figure(tick, "step_time_s", 0) == pytest.approx(4.0, rel=0.02)
    assert figure(tick, "step_time_s", 1) == pytest.approx(
        4.0 * (0.8 + 0.2 * 11 * 0.68 / EFA_CEILING), rel=0.02
    )
    assert np.isclose(
        mean(tick, "tensor", 1),
        mean(tick, "tensor", 0) * 4.0 / figure(tick, "step_time_s", 1),
        rtol=0.05,
    )
