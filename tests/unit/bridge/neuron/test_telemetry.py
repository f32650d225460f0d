"""A host of neuron-monitor as a monitor shows it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.monitor.feed import SilentSource
from support.neuron import START_NS, envelopes_of, feed, trn1, trn2

from trnfleet.bridge.neuron.host_reader import HostReader
from trnfleet.bridge.neuron.telemetry import (
    Holder,
    HostTelemetry,
    check_path,
    default_path,
    job_segments,
)
from trnfleet.clock import ManualClock
from trnfleet.domain.address import is_segment
from trnfleet.domain.metrics import METRICS
from trnfleet.errors import ConfigError
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.monitor import Monitor
from trnfleet.wire.messages import ClaimMessage, EventMessage, decode_message

HOST = "uc1/standalone/x"


@pytest.mark.parametrize("encoding", ["json", "cbor"])
@pytest.mark.parametrize("name", ["trn2.48xlarge-lnc2", "trn1.2xlarge"])
def test_a_monitor_shows_the_host(name: str, encoding: str) -> None:
    """A host's messages bring a monitor its values, none lost or refused."""
    reader, made = envelopes_of(name, encoding)
    monitor = Monitor(SilentSource(), "lab", clock=ManualClock(START_NS + 4_000_000_000, 1_000.0))
    # The descriptor's layout takes effect before telemetry is taken.
    monitor.apply(made[:2])
    monitor.compute()
    monitor.apply([each._replace(received_s=1_000.0) for each in made[2:]])
    monitor.compute()

    path = default_path(reader)
    assert path == f"uc1/standalone/{reader.ec2_id}"
    assert monitor.store.layout.instances == (path,)
    for metric in METRICS:
        codes = monitor.store.columns[metric.name]
        expected = reader.columns.get(metric.name, metric.blank(len(codes)))
        assert np.array_equal(codes, expected), metric.name
    assert monitor.store.count(Freshness.LIVE) == reader.kind.chips
    told = monitor.ingest.descriptors.whole(path)
    assert told is not None
    assert (told[0].origin, told[1].ec2_id, told[1].lnc) == ("neuron", reader.ec2_id, reader.lnc)
    assert told[1].versions == reader.versions
    counts = monitor.counts
    assert (
        counts.lost,
        counts.undecodable,
        counts.misplaced,
        counts.rejected,
        counts.undescribed,
    ) == (0,) * 5
    assert counts.messages == 4 * (1 if encoding == "cbor" else 1 + reader.kind.chips)


def test_a_changed_host_has_a_new_descriptor() -> None:
    """A new pairing of cores publishes a descriptor before the next frame.

    It has the next revision.
    """
    reader = HostReader()
    feed(reader, trn2())
    telemetry = HostTelemetry(reader, "lab", "uc1/standalone/x", boot="b", period_s=1.0)
    first = list(telemetry.envelopes(START_NS))
    again = list(telemetry.envelopes(START_NS + 1))
    changed = trn2()
    changed["neuron_hardware_info"] |= {
        "neuroncore_per_device_count": 8,
        "logical_neuroncore_config": 1,
    }
    feed(reader, changed)
    third = list(telemetry.envelopes(START_NS + 2))

    assert [each.retain for each in first] == [True, True, False]
    assert len(again) == 1
    assert [each.retain for each in third] == [True, True, False]
    told = json.loads(third[1].payload)
    assert (told["revision"], told["origin"], told["instances"][0]["lnc"]) == (1, "neuron", 1)
    assert told["clock"] == {"epoch": "2026-01-05T00:00:00.000Z", "speed": 1.0}


def test_addresses_of_hosts() -> None:
    """A host is named by its EC2 id, else by a valid name tag.

    An address must be an instance's.
    """
    reader = HostReader()
    document = trn1()
    document["instance_info"] |= {"instance_id": "", "instance_name": "My host"}
    feed(reader, document)
    assert default_path(reader) == "uc1/standalone/host"
    document["instance_info"]["instance_name"] = "node-7"
    feed(reader, document)
    assert default_path(reader) == "uc1/standalone/node-7"
    assert check_path("a/b/c") == "a/b/c"
    for bad in ("a/b", "a/b/c/chip00", "a/b/c d"):
        with pytest.raises(ConfigError, match="address"):
            check_path(bad)


def test_process_tags_are_claims() -> None:
    """A tag claims its process's chips, once per change; the default tag, the pid, claims none."""
    reader = HostReader()
    telemetry = HostTelemetry(reader, "lab", "uc1/standalone/x", boot="b", period_s=1.0)
    document = trn2()

    def claims(tag: str, tick: int) -> list[ClaimMessage]:
        document["neuron_runtime_data"][0]["neuron_runtime_tag"] = tag
        feed(reader, document)
        return [
            decode_message(made.payload, ClaimMessage)
            for made in telemetry.envelopes(START_NS + tick * 1_000_000_000)
            if "/claim/uc1/standalone/x" in made.topic and made.retain
        ]

    pid = str(document["neuron_runtime_data"][0]["pid"])
    assert claims(pid, 0) == []
    [message] = claims("ns/llama3.1", 1)
    [claim] = message.claims
    assert (claim.job, claim.display_name, claim.source, claim.since) == (
        "ns-llama3-1",
        "ns/llama3.1",
        "process-tag",
        "2026-01-05T00:00:01.000Z",
    )
    assert set(claim.chips) == reader.tagged["ns/llama3.1"]
    assert claims("ns/llama3.1", 2) == []
    assert [message.claims for message in claims(pid, 3)] == [()]


def test_a_replayed_host_with_tagged_processes_shows_a_job() -> None:
    """A monitor makes a job of a tag: chips, state, utilisation and memory."""
    reader = HostReader()
    document = trn2()
    document["neuron_runtime_data"][0]["neuron_runtime_tag"] = "llama"
    feed(reader, document)
    telemetry = HostTelemetry(reader, "lab", "uc1/standalone/x", boot="b", period_s=1.0)
    monitor = Monitor(SilentSource(), "lab", clock=ManualClock(START_NS, 1_000.0))
    for made in telemetry.envelopes(START_NS):
        monitor.apply([made._replace(received_s=1_000.0)])
        monitor.compute()
    job = monitor.ingest.jobs["llama"]
    assert (job.kind, job.state, job.on) == ("claimed", "running", ("uc1/standalone/x",))
    assert job.mfu is None
    assert job.steps_completed is None
    claimed = monitor.ingest.job_table.claimed_figures("llama", monitor.store)
    assert claimed is not None
    assert claimed.chips == len(reader.tagged["llama"])
    assert claimed.nc_util_pct > 0
    assert claimed.hbm_used_bytes > 0


def test_a_changed_name_tag_reaches_the_screen() -> None:
    """The descriptor is published again; telemetry of the new revision counts."""
    reader = HostReader()
    document = trn2()
    telemetry: HostTelemetry | None = None
    monitor = Monitor(SilentSource(), "lab", clock=ManualClock(START_NS, 1_000.0))
    for tick, name in enumerate(("worker-1", "worker-2", "worker-2", "")):
        document["instance_info"]["instance_name"] = name
        feed(reader, document)
        telemetry = telemetry or HostTelemetry(reader, "lab", HOST, boot="b", period_s=1.0)
        made = list(telemetry.envelopes(START_NS + tick * 1_000_000_000))
        assert any("/node/" in envelope.topic for envelope in made) == (tick < 2)
        for envelope in made:
            monitor.apply([envelope._replace(received_s=1_000.0 + tick)])
            monitor.compute()
        assert monitor.ingest.names.segment(HOST) == (name or "worker-2")
    assert (monitor.counts.messages, monitor.counts.undescribed) == (4, 0)


def test_the_most_precise_source_has_a_chip() -> None:
    """A tag, then a pod, then a mapping; a holder without chips left has no claim."""
    reader = HostReader()
    document = trn2()
    document["neuron_runtime_data"][0]["neuron_runtime_tag"] = "llama"
    feed(reader, document)
    tagged = reader.tagged["llama"]
    telemetry = HostTelemetry(reader, "lab", "uc1/standalone/x", boot="b", period_s=1.0)
    every = frozenset(range(16))
    telemetry.holders = (
        Holder("912", every, "job-mapping", "2026-01-04T23:00:00.000Z"),
        Holder("913", frozenset({15}), "job-mapping"),
        Holder("ml/web-0", every - {15}, "pod-resources"),
        Holder("ml/web-1", frozenset(tagged), "pod-resources"),
    )

    def claims(tick: int) -> list[tuple[str, str | None, str, set[int], str | None]]:
        return [
            (claim.job, claim.display_name, claim.source, set(claim.chips), claim.since)
            for made in telemetry.envelopes(START_NS + tick * 1_000_000_000)
            if "/claim/" in made.topic
            for claim in decode_message(made.payload, ClaimMessage).claims
        ]

    assert claims(0) == [
        ("llama", None, "process-tag", tagged, None),
        ("ml-web-0", "ml/web-0", "pod-resources", set(every - tagged - {15}), None),
        ("912", None, "job-mapping", {15}, "2026-01-04T23:00:00.000Z"),
        ("913", None, "job-mapping", {15}, None),
    ]
    telemetry.holders = (Holder("914", frozenset({15}), "job-mapping"),)
    assert claims(1)[1:] == [("914", None, "job-mapping", {15}, "2026-01-05T00:00:01.000Z")]


def test_names_with_one_segment_stay_two_jobs() -> None:
    """The second has a hash, and keeps it; a name that is a segment is the same on all hosts."""
    first = job_segments(["a.b"], {})
    assert first == {"a.b": "a-b"}
    both = job_segments(["a/b", "a.b", "训练"], first)
    assert both == {"a.b": "a-b", "a/b": "a-b-c14cddc0", "训练": "--"}
    assert job_segments(["a/b"], both) == {"a/b": "a-b-c14cddc0"}
    exact = job_segments(["a-b", "a.b"], first)
    assert exact["a-b"] == "a-b"
    assert exact["a.b"].startswith("a-b-")
    long = job_segments(["n/" + "x" * 80, "n/" + "x" * 81], {})
    assert len(set(long.values())) == 2
    assert all(map(is_segment, long.values()))


def test_failed_executions_are_events() -> None:
    """One a status, of the chip if it is only one; those of before are told once."""
    reader = HostReader()
    document = trn2()
    summary = document["neuron_runtime_data"][0]["report"]["execution_stats"]["execution_summary"]
    summary |= {"timed_out": 3, "completed_with_num_err": 1}
    feed(reader, document)
    telemetry = HostTelemetry(reader, "lab", "uc1/standalone/x", boot="b", period_s=1.0)

    events = [
        decode_message(each.payload, EventMessage)
        for each in telemetry.envelopes(START_NS)
        if "/event/" in each.topic
    ]
    assert [(each.nrt, each.text) for each in events] == [
        (1003, "1 execution failed: EXEC_COMPLETED_WITH_NUM_ERR"),
        (5, "3 executions failed: TIMEOUT"),
    ]
    assert len({each.id for each in events}) == 2
    summary |= {"timed_out": 0, "completed_with_num_err": 0}
    feed(reader, document)
    assert not [each for each in telemetry.envelopes(START_NS + 1) if "/event/" in each.topic]
