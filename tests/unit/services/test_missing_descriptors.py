"""Descriptors that a recorder asks for."""

from __future__ import annotations

import functools

from trnfleet.monitor.ingest.missing import GRACE_S
from trnfleet.services.record import MissingDescriptors
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import parse_topic


def test_what_is_recorded_without_a_descriptor_is_asked_for() -> None:
    """One descriptor is requested per instance and fleet.

    None is requested if it has arrived, or for topics other than telemetry.
    """
    missing = MissingDescriptors("trnfleet", functools.partial(parse_topic, root="trnfleet"))
    missing.take(
        Envelope(f"trnfleet/v1/{topic}", b"{}")
        for topic in (
            "a/telemetry/uc1/us-0001/t-1/chip00",
            "a/telemetry/uc1/us-0001/t-1/chip01",
            "b/telemetry/uc1/us-0001/t-1",
            "b/telemetry/uc1/us-0001/t-2",
            "b/node/uc1/us-0001/t-2",
            "b/job/train",
            "b/nonsense/uc1",
        )
    )
    assert missing.due(100.0) == []
    assert missing.due(100.0 + GRACE_S) == [
        "trnfleet/v1/a/node/uc1/us-0001/t-1",
        "trnfleet/v1/b/node/uc1/us-0001/t-1",
    ]
