"""The shipped fleets of Trainium3 and of all generations.

They are run, published, read, recorded and replayed.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING
from unittest import mock

import numpy as np
import pytest
from support.paths import FIXTURES
from support.sim.shipped import FLEETS, reader_of, sent, shipped_run
from support.sim.simulation import WALL_NS, SimulationRun

from trnfleet.clock import SystemClock
from trnfleet.domain.fleet import Publishing
from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES, ULTRASERVER_TYPES
from trnfleet.domain.hardware.topology import DIRECTIONS
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.replay.past_monitor import PastMonitor, PastSource, RecordingClock
from trnfleet.record.format.metadata import About
from trnfleet.record.read.ndjson import NdjsonLines
from trnfleet.record.read.recording import Recording
from trnfleet.record.write.writer import RecordingWriter
from trnfleet.wire.messages import STANDARD_COLUMNS, Descriptor, decode_message
from trnfleet.wire.topics import TopicClass, parse_topic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trnfleet.wire.ports import Envelope

ALL = pytest.mark.parametrize("name", FLEETS)
FRAMES = Publishing(format="cbor", granularity="ultraserver")
FIRST_TYPES = frozenset(
    {
        "trn1.2xlarge",
        "trn1.32xlarge",
        "trn1n.32xlarge",
        "trn2.3xlarge",
        "trn2.48xlarge",
        "trn2u.48xlarge",
    }
)
"""Instance types of the catalogue of version 1.0."""
GEN1 = ("port0", "port1", "port2", "port3", "uplink0", "uplink1")


def descriptors(envelopes: list[Envelope]) -> list[Descriptor]:
    """Return the descriptors among messages."""
    return [
        decode_message(each.payload, Descriptor)
        for each in envelopes
        if parse_topic(each.topic).topic_class is TopicClass.NODE
    ]


@contextlib.contextmanager
def older_catalogue() -> Iterator[None]:
    """Remove the types unknown to a monitor of version 1.0."""
    with mock.patch.dict(INSTANCE_TYPES), mock.patch.dict(ULTRASERVER_TYPES):
        for name in set(INSTANCE_TYPES) - FIRST_TYPES:
            del INSTANCE_TYPES[name]
        for name in set(ULTRASERVER_TYPES) - {"u-trn2x64"}:
            del ULTRASERVER_TYPES[name]
        yield


@pytest.mark.parametrize("publishing", [Publishing(), FRAMES], ids=lambda each: each.format)
@ALL
async def test_a_monitor_has_what_the_engine_has(name: str, publishing: Publishing) -> None:
    """Every value of every generation arrives in both encodings, and every job works."""
    run = await shipped_run(name, publishing, 2.5)
    monitor, engine = reader_of(run), run.engine
    counts = monitor.counts
    assert counts.undecodable == counts.rejected == counts.lost == counts.undescribed == 0
    assert monitor.store.layout.chips == engine.layout.chips
    assert all(
        np.array_equal(monitor.store.columns[each], column)
        for each, column in engine.columns.items()
    )
    busy = engine.job_of_instance[engine.layout.instance_of_chip] >= 0
    assert (engine.columns["tflops"][busy] > 0).all()
    assert set(engine.job_of_instance.tolist()) >= set(range(len(engine.fleet.jobs)))
    lit = engine.columns["links_up"]
    assert (lit == engine.layout.chip_links_mask).all()


@ALL
async def test_descriptors_name_lanes_and_lnc(name: str) -> None:
    """Lanes beyond the six of version 1.0 are named by type.

    LNC is the file's, or the chip's.
    """
    run = await shipped_run(name, FRAMES, 0.5)
    found = descriptors(sent(run))
    lanes = {kind: names for each in found for kind, names in each.lanes.items()}
    expected = {
        "trn3": {"trn3e.24xlarge": ("sled", "server", "rack"), "trn3.48xlarge": GEN1},
        "mixed": {
            "inf2.24xlarge": ("prev", "next"),
            "inf2.48xlarge": ("prev", "next"),
            "trn3.48xlarge": GEN1,
        },
    }
    assert lanes == expected[name]
    lnc = {instance.type: instance.lnc for each in found for instance in each.instances}
    if name == "trn3":
        assert lnc == {"trn3.48xlarge": 2, "trn3e.24xlarge": 1}
    else:
        assert (
            lnc["trn2.3xlarge"],
            lnc["trn2u.48xlarge"],
            lnc["trn1.32xlarge"],
            lnc["inf2.48xlarge"],
        ) == (
            1,
            2,
            1,
            1,
        )


async def test_ports_of_a_chip_carry_their_own_bandwidth() -> None:
    """A lane's traffic is within its own peak.

    A slow port carries less than its neighbour.
    """
    run = await shipped_run("trn3", FRAMES, 50.0)
    layout = run.engine.layout
    columns = run.engine.columns
    gen2 = layout.find_instances("uc1/us-0002")
    slow, beside = (layout.find(f"uc1/us-0002/trn3e-0002-05/chip{number:02d}") for number in (2, 3))
    assert gen2 is not None
    assert slow is not None
    assert beside is not None
    sent_gb = columns["link_tx_bytes_per_s"] * 0.01
    rows = slice(layout.chip_start[gen2.start], layout.chip_start[gen2.stop])
    assert (sent_gb[rows, :3] <= np.array([256.0, 320.0, 128.0])).all()
    assert (columns["link_tx_bytes_per_s"][rows, 3:] == 65_535).all()
    assert 0 < sent_gb[slow.number, 0] <= 0.08 * 256
    assert sent_gb[slow.number, 0] < 0.95 * sent_gb[beside.number, 0]


@ALL
async def test_a_recording_replays_exactly(name: str, tmp_path: Path) -> None:
    """A recording gives the monitor back, and JSON lines of its frames have all chips."""
    run = await shipped_run(name, FRAMES)
    live = reader_of(run)
    recording = recorded(run, tmp_path)
    clock = RecordingClock(
        SystemClock(), run.clock.wall_ns(), run.clock.monotonic_s(), recording.start_ns
    )
    past = PastMonitor(recording, Monitor(PastSource("test"), name, clock=clock), clock)
    for _ in past.begin():
        pass
    for _ in past.advance(recording.end_ns):
        pass
    for column, values in live.store.columns.items():
        assert np.array_equal(past.monitor.store.columns[column], values), column
    lines = [json.loads(line) for line in NdjsonLines("trnfleet", name).lines(recording, 0, 2**62)]
    chips = {(each["instance"], each["chip"]) for each in lines if each.get("chip") is not None}
    assert len(chips) == run.engine.layout.chips
    recording.close()


def recorded(run: SimulationRun, folder: Path) -> Recording:
    """Return a recording of all messages of a run."""
    path = folder / "run.mcap"
    writer = RecordingWriter(path, About(id="shipped", seed=3))
    for at_s, envelope in run.publisher.sent:
        writer.write(WALL_NS + round((at_s - 100.0) * 1e9), envelope)
    writer.close()
    return Recording.open([path])


async def test_an_older_monitor_names_what_it_does_not_know_and_draws_the_rest() -> None:
    """Trainium3 and Inferentia2 are refused by name.

    Trainium1 and 2 are drawn as ever.
    """
    run = await shipped_run("mixed", FRAMES, 2.5)
    engine = run.engine
    with older_catalogue():
        monitor = reader_of(run)
        store = monitor.store
        assert {kind.name for kind in store.layout.types} == {
            "trn1.32xlarge",
            "trn2.3xlarge",
            "trn2u.48xlarge",
        }
        assert store.layout.chips == 2 * 16 + 1 + 64
        assert monitor.counts.undescribed > 0
        assert sum(monitor.counts.refused.values()) >= 3
        assert "unknown instance type" in monitor.counts.last_problem
        for path in store.layout.instances:
            there = engine.layout.instance_index[path]
            here = store.layout.instance_index[path]
            theirs = slice(*engine.layout.chip_start[there : there + 2])
            ours = slice(*store.layout.chip_start[here : here + 2])
            assert np.array_equal(store.columns["power_w"][ours], engine.columns["power_w"][theirs])


async def test_the_first_types_keep_their_bytes() -> None:
    """Columns and lanes of a version 1.0 recording are unchanged, also beside newer types."""
    recording = Recording.open([FIXTURES / "schemas" / "wire-1.0.mcap"])
    kept = descriptors(
        [each.envelope for each in recording.read(recording.start_ns - 1, recording.end_ns)]
    )
    recording.close()
    assert kept
    run = await shipped_run("mixed", FRAMES, 0.5)
    old = [
        each
        for each in descriptors(sent(run))
        if {instance.type for instance in each.instances} <= FIRST_TYPES
    ]
    assert len(old) == 4
    for each in (*kept, *old):
        assert not each.lanes
        assert {column.width for column in each.columns if column.name.startswith("link_")} <= {
            len(DIRECTIONS)
        }
    assert {column for each in kept for column in each.columns} <= set(STANDARD_COLUMNS)
    assert {each.columns for each in old} == {STANDARD_COLUMNS}
