"""Stored descriptors: earlier descriptors do not affect the next one's decoding."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.monitor.feed import Feed, standalone, with_columns

from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES
from trnfleet.errors import WireError
from trnfleet.monitor.sources.descriptors import CompactDescriptor, Descriptors
from trnfleet.wire.limits import Limits
from trnfleet.wire.messages import STANDARD_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator

FEED = Feed(standalone(300, "inf2.48xlarge"))
PAYLOADS = [envelope.payload for envelope in FEED.announcements()[1:]]
MESSAGE: dict[str, Any] = json.loads(PAYLOADS[0])


def exhausted(slices: Iterator[None]) -> None:
    """Run work in slices to its end."""
    for _ in slices:
        pass


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
    found: dict[str, list[str]] = {}
    ec2_id = MESSAGE["instances"][0]["ec2_id"]
    exhausted(descriptors.search_ec2({ec2_id}, found))
    assert found == {ec2_id: [MESSAGE["path"]]}
