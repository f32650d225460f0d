"""Inputs of rules: figures of nodes and jobs where chips or jobs are not alike."""

from __future__ import annotations

import numpy as np
import pytest
from support.monitor.alert_bench import AlertBench

from trnfleet.domain.alerts.signals import JOB_SLOWDOWN, Scope
from trnfleet.monitor.alerting.named_targets import jobs_table


def test_a_share_of_power_goes_by_the_nodes_own_chips() -> None:
    """In a mixed fleet, half of each type's maximum power is half."""
    bench = AlertBench(
        [
            ("uc1/standalone/trn1-0001", "trn1.32xlarge"),
            ("uc1/standalone/trn2-0001", "trn2.48xlarge"),
        ],
        (),
    )
    for place, kind in enumerate(
        bench.layout.types[index] for index in bench.layout.instance_type.tolist()
    ):
        bench.set("power_w", kind.chip.power_max_w.value / 2, slice(16 * place, 16 * place + 16))
    shares = bench.readings().values(Scope.INSTANCE, "power_share_pct", np.arange(2))
    assert shares.tolist() == pytest.approx([50.0, 50.0], rel=0.02)


def test_efa_is_no_figure_of_a_job_within_one_ultraserver() -> None:
    """It sends checkpoints alone: bursts and pauses say nothing of its network."""
    places = [
        (f"uc1/us-000{us}/trn2u-000{us}-{place}", "trn2u.48xlarge")
        for us in (1, 2, 3)
        for place in range(4)
    ]
    bench = AlertBench(places, ())
    bench.set("efa_tx_bytes_per_s", 1e9)
    bench.job("inside", "uc1/us-0001")
    bench.job("across", "uc1/us-0002", "uc1/us-0003")
    bench.readings()
    table = jobs_table(bench.jobs, bench.store, bench.rollups)
    assert list(table.column("efa_tx_bytes_per_s")) == [None, pytest.approx(8e9)]


def test_jobs_placed_during_an_evaluation_count_from_the_next_on() -> None:
    """Numbers of jobs and their table are of one instant, so that no chip gets another's figure."""
    bench = AlertBench([("uc1/standalone/trn2-0001", "trn2.48xlarge")], ())
    bench.job("first", "uc1/standalone/trn2-0001")
    readings = bench.readings()
    bench.store.job_of[:] = len(readings.tables[Scope.JOB].names)
    chips = np.arange(16)
    assert readings.job_of_chips(chips).tolist() == [0] * 16
    assert np.isnan(readings.values(Scope.CHIP, JOB_SLOWDOWN, chips)).all()
