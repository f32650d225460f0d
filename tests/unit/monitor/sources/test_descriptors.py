"""Stored descriptors: earlier descriptors do not affect the next one's decoding."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.monitor.feed import Feed, standalone, ultraservers, with_columns

from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES
from trnfleet.errors import WireError
from trnfleet.monitor.sources.descriptors import CompactDescriptor, Descriptors
from trnfleet.wire.limits import Limits
from trnfleet.wire.messages import STANDARD_COLUMNS

FEED = Feed(standalone(300, "inf2.48xlarge"))
PAYLOADS = [envelope.payload for envelope in FEED.announcements()[1:]]
MESSAGE: dict[str, Any] = json.loads(PAYLOADS[0])


def test_what_was_read_before_lets_nothing_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """A type missing from the catalogue is refused, even if accepted before its removal."""
    for payload in PAYLOADS:
        CompactDescriptor.of(payload)
    monkeypatch.delitem(INSTANCE_TYPES, "inf2.48xlarge")
    with pytest.raises(
        WireError, match=r"unknown instance type 'inf2\.48xlarge': did you mean 'inf2\.8xlarge'\?"
    ):
        CompactDescriptor.of(PAYLOADS[0])


def test_no_more_is_read_than_the_limit() -> None:
    """A descriptor over the byte limit is refused, even after similar ones."""
    CompactDescriptor.of(PAYLOADS[0])
    with pytest.raises(WireError, match="over the limit of 100"):
        CompactDescriptor.of(PAYLOADS[0], Limits(payload_bytes=100))


def test_another_name_of_a_type_is_read_as_the_catalogues() -> None:
    """Also of its lanes, so that an older recording has the same hardware."""
    feed = Feed(standalone(2, "trn3e.24xlarge"))
    present = feed.announcements()[1].payload
    older = present.replace(b"trn3e.24xlarge", b"trn3s.16xlarge")
    assert older.count(b"trn3s.16xlarge") == 2
    read = CompactDescriptor.of(older)
    assert read.same_hardware(CompactDescriptor.of(present))
    assert read.types == ("trn3e.24xlarge",)
    assert read.whole().lanes == {"trn3e.24xlarge": ("sled", "server", "rack")}


@pytest.mark.parametrize(
    "payload",
    [
        PAYLOADS[0],
        json.dumps(MESSAGE, indent=2).encode(),
        json.dumps(with_columns(PAYLOADS[0])).encode(),
        PAYLOADS[0].replace(b'"i-', b'"\\u0069-'),
        json.dumps({"ec2_id": "x", **MESSAGE}).encode(),
    ],
    ids=["ours", "indented", "columns one by one", "escaped", "unknown field"],
)
def test_a_descriptor_is_whole_again_however_it_is_written(payload: bytes) -> None:
    """It has the same instances and columns, and its EC2 ids are found."""
    known = CompactDescriptor.of(payload)
    assert known.columns is STANDARD_COLUMNS
    assert known.whole() == CompactDescriptor.of(PAYLOADS[0]).whole()
    assert known.whole().columns == STANDARD_COLUMNS
    descriptors = Descriptors()
    descriptors.put(known)
    assert list(descriptors.addresses(MESSAGE["instances"][0]["ec2_id"])) == [MESSAGE["path"]]


def test_an_ec2_instance_at_two_addresses_is_named() -> None:
    """Both addresses are reported until one has another id."""
    feed = Feed(standalone(3))
    one, two, three = feed.layout.instances
    feed.ec2_ids = {one: "", two: "", three: "i-3"}
    feed.describe()
    assert not feed.monitor.ingest.descriptors.contested
    feed.revision = 1
    feed.ec2_ids = {one: "i-1", two: "i-1", three: "i-3"}
    feed.receive([*feed.announcements(), feed.reservation("cb-1", ec2_ids=["i-1"], instances=1)])

    def told() -> list[str]:
        feed.monitor.compute()
        problems = feed.monitor.pipeline().problems
        return [problem.text for problem in problems if problem.name == "instance-twice"]

    assert told() == [f"EC2 instance i-1 is described as {one} and {two}: its chips count twice"]
    assert [entry.rows for entry in feed.monitor.reservations.table()] == [(range(1),)]
    for path, ec2_id, problems in (
        (one, "i-4", 0),
        (one, "i-1", 1),
        (two, "i-3", 1),
        (two, "i-2", 0),
    ):
        feed.ec2_ids[path] = ec2_id
        feed.revision += 1
        feed.describe([path])
        assert len(told()) == problems
    descriptors = feed.monitor.ingest.descriptors
    for path in (one, two, three):
        descriptors.remove(path)
    assert not descriptors.contested
    assert not descriptors.addresses("i-1")


def test_one_address_in_two_descriptors_is_one_instance() -> None:
    """A descriptor of an UltraServer and one of its host agree about the host."""
    wide = Feed(ultraservers(1), grouped=True)
    descriptors = Descriptors()
    payloads = [feed.announcements()[1].payload for feed in (wide, Feed(ultraservers(1)))]
    for payload in payloads:
        descriptors.put(CompactDescriptor.of(payload))
    assert not descriptors.contested
    host = wide.layout.instances[0]
    descriptors.remove(host)
    assert list(descriptors.addresses(f"i-{0:017x}")) == [host]
