"""A fake host with simulated values: what its agent publishes is what was simulated."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
from support.monitor.feed import Feed, standalone
from support.processes.programs import run

from lab.hosts.fake import FakeHost
from lab.hosts.truth import HostTold, differences
from trnfleet.bridge.neuron.documents import Host, InstanceTick
from trnfleet.bridge.neuron.host_reader import HostReader
from trnfleet.bridge.neuron.scrapes import Scrapes
from trnfleet.clock import ManualClock
from trnfleet.domain.metrics import HEALTH_BITS, METRICS, Origin, Scope
from trnfleet.services.agent.host import AgentHost, HostRequest
from trnfleet.wire.frames import Unit
from trnfleet.wire.messages import Descriptor, decode_message
from trnfleet.wire.ndjson import LeftOut

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Columns = dict[str, NDArray[Any]]

HOST = "uc1/standalone/trn2-0001"
PERIOD_S = 5.0
EFA_RATES = ("efa_tx_bytes_per_s", "efa_rx_bytes_per_s")
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


def next_tick(feed: Feed, fake: FakeHost, period_s: float = 1.0) -> Columns:
    """Let the host work for a period, and return its values."""
    feed.columns["exec_completed"] += np.uint64(3)
    feed.columns["exec_errors"][7] += 1
    columns = {name: codes.copy() for name, codes in feed.columns.items()}
    fake.take(InstanceTick(0, period_s, columns))
    return columns


def test_every_value_that_a_host_can_tell_is_the_simulators(tmp_path: Path) -> None:
    """Every metric of sysfs and neuron-monitor, within the precision of their formats."""
    feed = simulated()
    kind = feed.layout.type_of(0)
    fake = FakeHost(tmp_path, Host(HOST, kind, 2, "i-0123456789abcdef0"))
    # The agent's tick follows the second document: nothing changes after it.
    first, _, last = (next_tick(feed, fake) for _ in range(3))
    arguments = ("--host-root", str(fake.root), "--imds", "none", "--period", "1s")
    ended = run(
        *("agent", "--name", "lab", *arguments, "--path", HOST, "--once", "--stdout"),
        PATH=f"{fake.programs}{os.pathsep}{os.environ['PATH']}",
    )
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
    # The driver counts since it was loaded, neuron-monitor since its first document.
    begin = blank | {name: first[name] for name in ("exec_completed", "exec_errors")}
    told = HostTold(blank, columns, begin, last)
    found = differences([told])
    assert {name: wrong for name, (_, wrong) in found.items() if wrong} == {}
    unknown = {name for name, (known, _) in found.items() if not known}
    assert unknown == {
        *(m.name for m in METRICS if m.is_simulated and m.real_host is not Origin.MEASURED),
        # Rates need a second reading.
        *EFA_RATES,
    }


async def test_rates_of_efa_are_the_simulators(tmp_path: Path) -> None:
    """Over two readings, by the agent's own clock."""
    feed = simulated()
    feed.set("efa_tx_bytes_per_s", 11.2e9)
    feed.set("efa_rx_bytes_per_s", 10.7e9)
    fake = FakeHost(tmp_path, Host(HOST, feed.layout.type_of(0), 2, "i-0123456789abcdef0"))
    clock = ManualClock()
    next_tick(feed, fake, PERIOD_S)
    request = HostRequest("lab", "trnfleet", PERIOD_S, path=HOST, host_root=fake.root)
    host = await AgentHost.find(request, clock, tmp_path)
    await host.tick()
    await clock.advance(PERIOD_S)
    columns = next_tick(feed, fake, PERIOD_S)
    made = await host.tick()
    described = [decode_message(e.payload, Descriptor) for e in made if "/node/" in e.topic][-1]
    unit = Unit.of(described)
    (frame,) = [e.payload for e in made if "/telemetry/" in e.topic]
    codes = unit.codes(unit.decode(frame))
    told = {name: codes[name] for name in EFA_RATES}
    found = differences([HostTold(told, told, columns, columns)], efa_share=0.0)
    assert found == dict.fromkeys(EFA_RATES, (1, 0))


def test_a_page_lacks_the_drivers_memory(tmp_path: Path) -> None:
    """An idle scraped chip has 0 bytes, while the driver holds some: not compared, and said."""
    feed = Feed(standalone(1))
    feed.set("nc_util_pct", 0.0)
    feed.set("hbm_used_bytes", 3e8)
    fake = FakeHost(tmp_path, Host(HOST, feed.layout.type_of(0), 2, "i-0123456789abcdef0"))
    truth = {name: codes.copy() for name, codes in feed.columns.items()}
    fake.take(InstanceTick(0, PERIOD_S, truth))
    (scrape,) = Scrapes(LeftOut()).read_text(fake.page)
    columns = HostReader(metrics=scrape.metrics).read_parsed(scrape.document)
    told = {"hbm_used_bytes": columns["hbm_used_bytes"]}

    of_page = HostTold(told, told, truth, truth, has_tree=False)
    assert of_page.untold_memory.sum() == CHIPS
    assert differences([of_page]) == {"hbm_used_bytes": (0, 0)}
    assert differences([of_page._replace(has_tree=True)]) == {"hbm_used_bytes": (CHIPS, CHIPS)}
