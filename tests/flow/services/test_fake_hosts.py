"""A fake host with simulated values: what its agent publishes is what was simulated."""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING

import numpy as np
from support.monitor.feed import Feed, standalone
from support.processes.programs import run

from lab.hosts.fake import FakeHost
from lab.hosts.truth import HostTold, differences
from trnfleet.bridge.neuron.documents import Host, InstanceTick
from trnfleet.domain.metrics import HEALTH_BITS, METRICS, Origin, Scope

if TYPE_CHECKING:
    from pathlib import Path

HOST = "uc1/standalone/trn2-0001"
CHIPS = 16


def simulated() -> Feed:
    """Return a busy host with ECC errors, failed executions and unhealthy components."""
    feed = Feed(standalone(1))
    feed.scatter()
    feed.set("tflops", 200.0)
    feed.set("mem_ecc_corrected", np.arange(CHIPS))
    feed.set("sram_ecc_uncorrected", 2, 3)
    feed.set("health", 1 << HEALTH_BITS.index("link_efa"), 5)
    feed.set("exec_latency_p50_s", 0.75)
    feed.set("exec_latency_p99_s", 0.9)
    feed.set("host_memory_used_bytes", 400e9)
    return feed


def test_every_value_that_a_host_can_tell_is_the_simulators(tmp_path: Path) -> None:
    """Every metric of sysfs and neuron-monitor, within the precision of their formats."""
    feed = simulated()
    kind = feed.layout.type_of(0)
    fake = FakeHost(tmp_path, Host(HOST, kind, 2, "i-0123456789abcdef0"))
    is_over = threading.Event()
    ticks = []

    def tell() -> None:
        while not is_over.is_set():
            feed.columns["exec_completed"] += np.uint64(3)
            feed.columns["exec_errors"][7] += 1
            ticks.append({name: codes.copy() for name, codes in feed.columns.items()})
            fake.take(InstanceTick(0, 1.0, ticks[-1]))
            is_over.wait(0.3)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        arguments = ("--host-root", str(fake.root), "--imds", "none", "--period", "1s")
        ended = run(
            *("agent", "--name", "lab", *arguments, "--path", HOST, "--once", "--stdout"),
            PATH=f"{fake.programs}{os.pathsep}{os.environ['PATH']}",
        )
    finally:
        is_over.set()
        teller.join()
    assert ended.returncode == 0, ended.stderr
    instance, *chips = [
        message for message in map(json.loads, ended.stdout.splitlines()) if "seq" in message
    ]
    columns = {}
    for metric in METRICS:
        rows = [instance] if metric.scope is Scope.INSTANCE else chips
        codes = columns[metric.name] = metric.blank(len(rows))
        for number, row in enumerate(rows):
            value = row.get(metric.name)
            if value is not None:
                lanes = np.array(
                    [np.nan if lane is None else lane for lane in np.atleast_1d(value)]
                )
                codes[number] = metric.encode(lanes if metric.is_vector else lanes[0])
    blank = {name: np.zeros_like(codes) for name, codes in columns.items()}
    told = HostTold(blank, columns, [blank, *ticks], ticks)
    found = differences([told])
    wrong = {name: count for name, (_, count) in found.items() if count}
    assert wrong == {}
    unknown = {name for name, (known, _) in found.items() if not known}
    assert unknown == {
        *(m.name for m in METRICS if m.is_simulated and m.real_host is not Origin.MEASURED),
        # Rates need a second reading.
        "efa_tx_bytes_per_s",
        "efa_rx_bytes_per_s",
    }
