"""Every consumer of the hardware catalogue with invented generations."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.generations import GENERATIONS, Generation, made_up, registered
from support.monitor.alert_bench import AlertBench
from support.monitor.feed import SilentSource
from support.monitor.rules import rules_of
from support.paths import FIXTURES
from support.sim.simulation import WALL_NS, SimulationRun

from trnfleet.bridge.ec2.client import Reading
from trnfleet.bridge.ec2.mapping import messages_of
from trnfleet.bridge.neuron.host_reader import HostReader
from trnfleet.clock import SystemClock
from trnfleet.config import validate
from trnfleet.domain.faults.fault import FaultScope, Links
from trnfleet.domain.faults.table import FAULTS
from trnfleet.domain.fleet import Publishing, find_lane
from trnfleet.domain.hardware.catalogue import (
    INSTANCE_TYPES,
    TRN2_48XLARGE,
    find_ultraserver_type,
    lane_names,
)
from trnfleet.domain.hardware.topology import DIRECTIONS, switched
from trnfleet.domain.links import link_end, neighbour
from trnfleet.domain.power import Racks
from trnfleet.domain.reservations.search import SearchRequest
from trnfleet.domain.scenario import Scenario
from trnfleet.errors import ConfigError
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.replay.past_monitor import PastMonitor, PastSource, RecordingClock
from trnfleet.record.format.metadata import About
from trnfleet.record.read.ndjson import NdjsonLines
from trnfleet.record.read.recording import Recording
from trnfleet.record.write.writer import RecordingWriter
from trnfleet.sim.engine import Engine
from trnfleet.wire.messages import Descriptor, decode_message
from trnfleet.wire.topics import TopicClass, parse_topic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DOCUMENTS = FIXTURES / "neuron-monitor"
ALL = pytest.mark.parametrize("name", GENERATIONS)
"""The name, not the generation: its layout needs the catalogue."""
WITH_ULTRASERVER = pytest.mark.parametrize("name", ["torus", "switched"])
ENCODINGS = [Publishing(), Publishing(format="cbor", granularity="ultraserver")]


@pytest.fixture(autouse=True)
def _catalogue() -> Iterator[None]:
    with made_up():
        yield


def engine_of(generation: Generation, *faults: dict[str, Any], **rest: Any) -> Engine:
    fleet = generation.fleet(jobs=generation.jobs(), **rest)
    scenario = validate({"faults": list(faults)}, Scenario, "scenario.toml")
    return Engine(fleet, 3, 1.0, WALL_NS, scenario=scenario)


@ALL
def test_totals_and_addresses(name: str) -> None:
    """Sums follow from the types, and an instance is named by its family and place."""
    generation = GENERATIONS[name]
    layout = generation.layout
    kind = generation.ultraserver
    joined = 0 if kind is None else 2 * kind.instances
    totals = layout.totals()
    assert totals.chips == (joined + 3) * generation.alone.chips == layout.chips
    assert totals.neuroncores == totals.chips * generation.alone.chip.neuroncores
    assert totals.torus_links == (joined + 3) * generation.links
    assert layout.instances[0] == f"uc1/standalone/{generation.alone.family}-0001"
    if kind is None:
        assert totals.z_links == 0
    else:
        assert totals.z_links == 2 * kind.instances * kind.instance.chips
        assert (
            layout.instances[-1] == f"uc1/us-0002/{kind.instance.family}-0002-{kind.instances - 1}"
        )
        assert find_ultraserver_type(kind.name) is kind
    last = f"{layout.instances[0]}/chip{generation.alone.chips - 1:02d}"
    assert layout.path(layout.find(last)) == last  # type: ignore[arg-type]
    assert layout.find(f"{layout.instances[0]}/chip{generation.alone.chips:02d}") is None


def test_the_catalogue_takes_no_type_that_does_not_fit() -> None:
    """A faulty type is reported when added, and added types are gone afterwards."""
    ports = [f"port{number}" for number in range(7)]
    wide = dataclasses.replace(TRN2_48XLARGE, name="trn9.4xlarge", topology=switched(4, ports))
    with pytest.raises(ConfigError, match="7 link lanes a chip; 6 are possible"), registered(wide):
        pass
    assert "trn9.4xlarge" not in INSTANCE_TYPES
    assert "uplink" in lane_names()


@ALL
def test_engines_fill_what_there_is(name: str) -> None:
    """Jobs use every chip, and both ends of a link agree.

    Missing features are not available.
    """
    generation = GENERATIONS[name]
    engine = engine_of(generation)
    for _ in range(40):
        engine.step()
    layout = engine.layout
    columns = engine.columns
    cores = columns["nc_util_pct"]
    assert (cores[:, generation.alone.chip.neuroncores :] == 255).all()
    assert (cores[:, : generation.alone.chip.neuroncores] < 255).all()
    sent = columns["link_tx_bytes_per_s"]
    received = columns["link_rx_bytes_per_s"]
    there = layout.chip_links_mask[:, None] >> np.arange(6) & 1 > 0
    assert ((sent == 65_535) == ~there).all()
    assert ((received == 65_535) == ~there).all()
    for chip in range(layout.chips):
        for lane in np.flatnonzero(there[chip]).tolist():
            assert received[chip, lane] == sent[link_end(layout, chip, lane)]
    trained = layout.find_instances(generation.groups[0])
    assert trained is not None
    rows = slice(int(layout.chip_start[trained.start]), int(layout.chip_start[trained.stop]))
    assert (columns["tflops"][rows] > 0).all()
    assert (sent[rows][there[rows]] > 0).any()
    assert len(set(columns["power_w"][rows].tolist())) > 1


@ALL
def test_link_faults_by_their_names(name: str) -> None:
    """A link fault is at both ends, or at a switch port's one chip."""
    generation = GENERATIONS[name]
    layout = generation.layout
    node = layout.find(generation.chip())
    assert node is not None
    lane = find_lane(layout, node.number, generation.lane)
    with pytest.raises(ValueError, match="has no sideways link"):
        find_lane(layout, node.number, "sideways")
    down = {"fault": "link_down", "target": f"{generation.chip()}:{generation.lane}", "at": 3}
    engine = engine_of(
        generation, down, links=[{"chip": generation.chip(2), "direction": generation.lane}]
    )
    healthy = engine.columns["links_up"].copy()
    for _ in range(6):
        tick = engine.step()
    changed = np.flatnonzero(engine.columns["links_up"] != healthy).tolist()
    far = neighbour(layout, node.number, lane)
    assert changed == sorted({node.number} | (set() if far is None else {far}))
    assert not engine.columns["links_up"][node.number] >> lane & 1
    assert tick is not None


@ALL
@pytest.mark.parametrize("fault", [each for each in FAULTS if not FAULTS[each].is_transport])
def test_every_fault_hits_what_it_can(name: str, fault: str) -> None:
    """A fault happens, or is refused in one line if the hardware is missing."""
    generation = GENERATIONS[name]
    row = FAULTS[fault]
    lane = generation.between if row.links is Links.BETWEEN_INSTANCES else generation.lane
    instance = generation.chip().rpartition("/")[0]
    target = {
        FaultScope.CHIP: generation.chip(),
        FaultScope.LINK: f"{generation.chip()}:{lane}",
        FaultScope.ULTRASERVER: generation.groups[0],
        FaultScope.CLUSTER: "uc1",
    }.get(row.scope, instance)
    entry = {"fault": fault, "target": target, "at": 2}
    if generation.ultraserver is None and (
        row.scope is FaultScope.ULTRASERVER or row.links is Links.BETWEEN_INSTANCES
    ):
        with pytest.raises(ConfigError, match=r"has no NeuronLink between|no ultraserver"):
            engine_of(generation, entry)
        return
    engine = engine_of(generation, entry)
    events = [event for _ in range(4) for event in engine.step().events]
    assert [incident.fault.name for incident in engine.incidents.active()] == [fault]
    if fault == "ultraserver_split":
        assert generation.ultraserver is not None
        told = next(event.text for event in events if event.name == fault)
        sides = {
            "torus": "3 nodes not found, falling back to 2+1",
            "switched": "5 nodes not found, falling back to 2+2+1",
        }
        assert sides[name] in told


@WITH_ULTRASERVER
def test_racks_and_their_limit(name: str) -> None:
    """Racks have the type's names and sizes, and a limit of power holds for each."""
    kind = GENERATIONS[name].ultraserver
    assert kind is not None
    racks = Racks.of(GENERATIONS[name].layout)
    labels = [racks.label(number) for number in range(len(racks))]
    assert labels[3 : 3 + len(kind.racks)] == [f"uc1/us-0001/{rack}" for rack in kind.racks]
    assert np.bincount(racks.of_instance)[3 : 3 + len(kind.racks)].sum() == kind.instances
    free = engine_of(GENERATIONS[name])
    limited = engine_of(GENERATIONS[name], rack_power_cap_w=5_500.0)
    for _ in range(20):
        free.step()
        limited.step()
    assert (
        limited.columns["power_w"].astype(float).sum() < free.columns["power_w"].astype(float).sum()
    )


@pytest.mark.parametrize("publishing", ENCODINGS, ids=lambda each: each.format)
@ALL
async def test_over_the_wire_to_a_monitor(name: str, publishing: Publishing) -> None:
    """The monitor has the engine's values, links by name, and findings naming them."""
    generation = GENERATIONS[name]
    down = {"fault": "link_down", "target": f"{generation.chip()}:{generation.lane}", "at": 2}
    run, monitor = await _watched(generation, publishing, down)
    store, engine = monitor.store, run.engine
    assert store.layout.chips == engine.layout.chips
    assert monitor.counts.undecodable == monitor.counts.rejected == monitor.counts.lost == 0
    assert all(
        np.array_equal(store.columns[each], column) for each, column in engine.columns.items()
    )
    descriptors = [
        decode_message(envelope.payload, Descriptor)
        for _, envelope in run.publisher.of(TopicClass.NODE)
    ]
    named = {kind: lanes for each in descriptors for kind, lanes in each.lanes.items()}
    usual = generation.member.lane_names == DIRECTIONS
    assert named.get(generation.member.name, DIRECTIONS) == generation.member.lane_names
    payloads = b"".join(envelope.payload for _, envelope in run.publisher.of(TopicClass.NODE))
    assert (b'"lanes"' in payloads) is not usual
    found = [each for each in monitor.findings.shown if each.path == generation.chip()]
    assert any(each.what == f"NeuronLink down: {generation.lane}" for each in found)


async def test_readers_use_the_descriptors_names() -> None:
    """A publisher's own lane names are shown instead of the catalogue's."""
    generation = GENERATIONS["switched"]
    run, _ = await _watched(generation, ENCODINGS[0])
    monitor = Monitor(SilentSource(), "made-up", clock=run.clock)
    batch = []
    for _, envelope in run.publisher.sent:
        if parse_topic(envelope.topic).topic_class is TopicClass.NODE:
            data = json.loads(envelope.payload)
            data["lanes"] = {
                kind: ["a", "b", "c", "d"][: len(lanes)] for kind, lanes in data["lanes"].items()
            }
            envelope = envelope._replace(payload=json.dumps(data).encode())  # noqa: PLW2901
        batch.append(envelope)
    monitor.apply(batch)
    monitor.compute()
    layout = monitor.store.layout
    assert layout.lane_names_of(layout.instance_index[generation.chip().rpartition("/")[0]]) == (
        "a",
        "b",
        "c",
        "d",
    )


async def _watched(
    generation: Generation, publishing: Publishing, *faults: dict[str, Any]
) -> tuple[SimulationRun, Monitor]:
    run = SimulationRun(engine_of(generation, *faults), publishing=publishing)
    monitor = Monitor(SilentSource(), "made-up", clock=run.clock)
    await run.run(4.5)
    # Without the goodbye at its end.
    monitor.apply(
        [envelope for _, envelope in run.publisher.sent if b'"offline"' not in envelope.payload]
    )
    monitor.compute()
    return run, monitor


@ALL
def test_alert_rules_about_links(name: str) -> None:
    """Rules over links have targets by topology name; rules over chips count failed links."""
    generation = GENERATIONS[name]
    rules = rules_of(
        {
            "name": "link",
            "scope": "link",
            "figure": "link_up",
            "equals": 0.0,
            "severity": "warning",
            "summary": "{target}",
        },
        {
            "name": "count",
            "scope": "chip",
            "figure": "links_down",
            "above": 0,
            "severity": "warning",
            "summary": "{target}",
        },
        {
            "name": "up",
            "scope": "chip",
            "figure": "links_up",
            "has": [generation.lane],
            "severity": "info",
            "summary": "{target}",
        },
    )
    bench = AlertBench(generation.pairs, rules)
    bench.tick()
    node = bench.layout.find(generation.chip())
    assert node is not None
    lane = find_lane(bench.layout, node.number, generation.lane)
    bench.store.columns["links_up"][node.number] &= 0xFF ^ (1 << lane)
    bench.tick()
    active = {(alert.rule.name, alert.target) for alert in bench.alerts.active()}
    first = generation.chip()
    assert ("count", first) in active
    assert ("up", first) not in active
    assert ("up", generation.chip(2)) in active
    assert any(rule == "link" and first.rpartition("/")[0] in target for rule, target in active)


@ALL
async def test_a_recording_replays_exactly(name: str, tmp_path: Path) -> None:
    """A recording restores the monitor, and its JSON lines have the lanes' values."""
    run, live = await _watched(GENERATIONS[name], ENCODINGS[1])
    path = tmp_path / "made-up.mcap"
    writer = RecordingWriter(path, About(id="made-up", seed=3))
    for at_s, envelope in run.publisher.sent:
        writer.write(WALL_NS + round((at_s - 100.0) * 1e9), envelope)
    writer.close()
    recording = Recording.open([path])
    clock = RecordingClock(
        SystemClock(), run.clock.wall_ns(), run.clock.monotonic_s(), recording.start_ns
    )
    past = PastMonitor(recording, Monitor(PastSource("test"), "made-up", clock=clock), clock)
    for _ in past.begin():
        pass
    for _ in past.advance(recording.end_ns):
        pass
    for column, values in live.store.columns.items():
        assert np.array_equal(past.monitor.store.columns[column], values), column
    lines = [
        json.loads(line) for line in NdjsonLines("trnfleet", "made-up").lines(recording, 0, 2**62)
    ]
    assert any(line.get("chip") == GENERATIONS[name].alone.chips - 1 for line in lines)
    recording.close()


@WITH_ULTRASERVER
def test_capacity_blocks(name: str) -> None:
    """An UltraServer of the generation is offered and bought as one block.

    It has its own price.
    """
    generation = GENERATIONS[name]
    kind = generation.ultraserver
    assert kind is not None
    block = {"on": [generation.groups[0]], "days": 7, "ends_after_days": 3}
    with pytest.raises(
        ConfigError, match=f"sold-as-capacity-block: {kind.instance.name} is not sold"
    ):
        engine_of(generation, blocks=[block])
    sells = [kind.instance.name, generation.alone.name]
    engine = engine_of(generation, blocks=[block], market={"sells": sells})
    engine.begin()
    (held,) = engine.account.blocks
    assert (held.offering.ultraserver_type, held.offering.instances) == (kind.name, kind.instances)
    ledger = engine.account.ledger
    offered, *_ = ledger.offerings(SearchRequest(days=1, ultraservers=1))
    bought = ledger.buy(offered.id)
    assert (bought.offering.instance_type, bought.offering.ultraserver_type) == (
        kind.instance.name,
        kind.name,
    )
    with pytest.raises(ConfigError, match="sold as an UltraServer only"):
        ledger.offerings(SearchRequest(days=1, instance_type=kind.instance.name))
    alone = ledger.offerings(
        SearchRequest(days=1, instance_type=generation.alone.name, instances=2)
    )
    assert alone[0].ultraserver_type is None


def test_a_host_is_known_by_its_chips() -> None:
    """A host without an instance's metadata has the type of its chips' name and number."""
    document = json.loads((DOCUMENTS / "trn2.48xlarge-lnc2.ndjson").read_text().splitlines()[1])
    document.pop("instance_info", None)
    document["neuron_hardware_info"] |= {
        "neuron_device_type": "trainium8",
        "neuron_device_count": 4,
    }
    reader = HostReader()
    reader.read(json.dumps(document).encode())
    assert reader.kind is GENERATIONS["switched"].alone
    assert len(reader.columns["nc_util_pct"]) == 4


@WITH_ULTRASERVER
def test_a_block_of_an_account_has_the_ultraservers_instances(name: str) -> None:
    """EC2 names the UltraServer's type; instances and their type follow from the catalogue."""
    kind = GENERATIONS[name].ultraserver
    assert kind is not None
    now = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
    block = {
        "CapacityBlockId": "cb-0123456789abcdef0",
        "UltraserverType": kind.name,
        "AvailabilityZone": "us-east-2b",
        "CapacityReservationIds": ["cr-1"],
        "StartDate": now - timedelta(days=3),
        "EndDate": now + timedelta(days=4),
        "CreateDate": now - timedelta(days=9),
        "State": "active",
    }
    reading = Reading(
        blocks=[block], statuses=None, reservations=None, extensions=[], instances=None
    )
    (message,), _ = messages_of(reading, int(now.timestamp()) * 10**9)
    assert (message.instance_type, message.instances) == (kind.instance.name, kind.instances)
