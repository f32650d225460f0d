"""One instance's ticks, picked out of a fleet's messages."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.neuron import START_NS, envelopes_of

from trnfleet.bridge.neuron import ticks as neuron_ticks
from trnfleet.bridge.neuron.documents import Host
from trnfleet.bridge.neuron.telemetry import default_path
from trnfleet.bridge.neuron.ticks import InstanceTicks, described_instances
from trnfleet.domain.metrics import METRICS
from trnfleet.errors import WireError
from trnfleet.wire.messages import Descriptor, decode_message


@pytest.mark.parametrize("encoding", ["json", "cbor"])
def test_one_instance_is_picked_out_tick_by_tick(encoding: str) -> None:
    """An instance's frames and JSON become its ticks with times; others are ignored."""
    reader, made = envelopes_of("trn2.48xlarge-lnc2", encoding)
    path = default_path(reader)
    assert [described_instances(each) for each in made[:2]] == [("", ()), ("lab", (path,))]
    others = envelopes_of("trn1.2xlarge", encoding)[1]
    ticks = InstanceTicks("lab", path)

    got = [tick for each in made + others if (tick := ticks.take(each)) is not None]
    last = ticks.finish()

    assert last is not None
    assert [tick.ts_ns - START_NS for tick in [*got, last]] == [
        0,
        1_000_000_000,
        2_000_000_000,
        3_000_000_000,
    ]
    assert last.period_s == 1.0
    for metric in METRICS:
        assert np.array_equal(last.columns[metric.name], reader.columns[metric.name]), metric.name
    assert ticks.host == Host(path, reader.kind, 2, reader.ec2_id)


def test_messages_about_the_instance_that_make_no_sense_are_refused() -> None:
    """Frames without their descriptor, late ones and unknown chips are refused."""
    _, made = envelopes_of("trn1.2xlarge", "cbor")
    samples = envelopes_of("trn1.2xlarge", "json")[1]
    path = "uc1/standalone/i-0a1b2c3d4e5f60718"
    ticks = InstanceTicks("lab", path)
    for early in (made[2], samples[2]):
        with pytest.raises(WireError, match="before its descriptor"):
            ticks.take(early)
    ticks.take(made[1])
    descriptor = json.loads(made[1].payload)
    other_kind = descriptor | {"instances": [descriptor["instances"][0] | {"type": "trn2.3xlarge"}]}
    unknown = descriptor | {"instances": [descriptor["instances"][0] | {"type": "trn9.3xlarge"}]}
    chip = json.loads(samples[3].payload)
    for bad, reason in (
        (made[1]._replace(payload=json.dumps(other_kind).encode()), "is a trn2.3xlarge now"),
        (
            made[1]._replace(payload=json.dumps(unknown).encode()),
            "unknown instance type 'trn9.3xlarge'",
        ),
        (made[1]._replace(payload=b"{}"), "Descriptor"),
        (made[2]._replace(payload=made[2].payload[:-1]), "not CBOR"),
        (
            samples[3]._replace(payload=json.dumps(chip | {"chip": 1}).encode()),
            "identity in the payload",
        ),
        (
            samples[3]._replace(
                topic=samples[3].topic.replace("chip00", "chip01"),
                payload=json.dumps(chip | {"chip": 1}).encode(),
            ),
            "a trn1.2xlarge has no such chip",
        ),
    ):
        with pytest.raises(WireError, match=reason):
            ticks.take(bad)
    assert ticks.take(made[3]) is None
    with pytest.raises(WireError, match="older than what came before"):
        ticks.take(made[2])
    ticks.take(made[1]._replace(payload=json.dumps(descriptor | {"revision": 7}).encode()))
    with pytest.raises(WireError, match="of another boot or revision than its descriptor"):
        ticks.take(made[4])
    last = ticks.finish()
    assert last is not None
    assert last.ts_ns == START_NS + 1_000_000_000


def test_only_what_is_about_the_instance_is_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeated and other descriptors are not parsed; a returned one is."""
    _, made = envelopes_of("trn1.2xlarge", "cbor")
    node = made[1]
    other = node._replace(
        payload=node.payload.replace(b"i-0a1b2c3d4e5f60718", b"i-0a1b2c3d4e5f60719")
    )
    other = other._replace(topic=other.topic.replace("i-0a1b2c3d4e5f60718", "i-0a1b2c3d4e5f60719"))
    changed = node._replace(payload=json.dumps(json.loads(node.payload) | {"revision": 7}).encode())
    parsed: list[bytes] = []

    def spied(payload: bytes, model: type[Descriptor]) -> Descriptor:
        parsed.append(payload)
        return decode_message(payload, model)

    monkeypatch.setattr(neuron_ticks, "decode_message", spied)
    ticks = InstanceTicks("lab", "uc1/standalone/i-0a1b2c3d4e5f60718")
    for each in (node, other, node, changed, changed, node):
        ticks.take(each)
    assert parsed == [node.payload, changed.payload, node.payload]
    assert ticks.take(made[2]) is None


def test_json_is_told_by_its_content_type() -> None:
    """Wherever its object begins."""
    _, made = envelopes_of("trn1.2xlarge", "json")
    ticks = InstanceTicks("lab", "uc1/standalone/i-0a1b2c3d4e5f60718")
    for each in made:
        ticks.take(each._replace(payload=b" " + each.payload))
    assert ticks.finish() is not None
