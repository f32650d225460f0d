"""EC2 answers about one Capacity Block, EventBridge events, and a bridge's view of both."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from trnfleet.bridge.ec2.client import Reading
from trnfleet.bridge.ec2.service import Bridge
from trnfleet.clock import NS_PER_S
from trnfleet.wire.topics import TopicClass, parse_topic

if TYPE_CHECKING:
    from trnfleet.wire.ports import Envelope

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
NOW_NS = int(NOW.timestamp()) * NS_PER_S
END = datetime(2026, 1, 9, 11, 30, tzinfo=UTC)


def block(state: str = "active", **change: Any) -> dict[str, Any]:
    return {
        "CapacityBlockId": "cb-0123456789abcdef0",
        "UltraserverType": "u-trn2x64",
        "AvailabilityZone": "us-east-2b",
        "CapacityReservationIds": ["cr-1"],
        "StartDate": NOW - timedelta(days=3),
        "EndDate": END,
        "CreateDate": NOW - timedelta(days=9),
        "State": state,
    } | change


def part(name: str = "cr-1", **change: Any) -> dict[str, Any]:
    return {
        "CapacityReservationId": name,
        "InstanceType": "trn2u.48xlarge",
        "AvailabilityZone": "us-east-2b",
        "TotalInstanceCount": 4,
        "AvailableInstanceCount": 1,
        "State": "active",
        "StartDate": NOW - timedelta(days=3),
        "CreateDate": NOW - timedelta(days=9),
        "ReservationType": "capacity-block",
        "CapacityBlockId": "cb-0123456789abcdef0",
    } | change


def status(interconnect: str = "ok", unavailable: int = 0) -> dict[str, Any]:
    return {
        "CapacityBlockId": "cb-0123456789abcdef0",
        "InterconnectStatus": interconnect,
        "TotalCapacity": 4,
        "TotalAvailableCapacity": 1,
        "TotalUnavailableCapacity": unavailable,
    }


def extension(state: str = "payment-pending", **change: Any) -> dict[str, Any]:
    return {
        "CapacityReservationId": "cr-1",
        "CapacityBlockExtensionOfferingId": "cbe-1",
        "CapacityBlockExtensionStatus": state,
        "CapacityBlockExtensionPurchaseDate": NOW,
        "CapacityBlockExtensionStartDate": END,
        "CapacityBlockExtensionEndDate": END + timedelta(days=7),
        "UpfrontFee": "24030.720",
        "CurrencyCode": "USD",
    } | change


def reading(**change: Any) -> Reading:
    whole: dict[str, Any] = {
        "blocks": [block()],
        "statuses": [status()],
        "reservations": [part()],
        "extensions": [],
        "instances": [
            {"InstanceId": f"i-{number}", "CapacityReservationId": "cr-1"} for number in (2, 1, 3)
        ],
    }
    return Reading(**(whole | change))


def made(*, forget: bool = False) -> Bridge:
    return Bridge("prod", client_id="bridge-1", boot="boot-1", forget=forget)


def sorted_out(envelopes: list[Envelope]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return reservations and events."""
    told: dict[TopicClass, list[dict[str, Any]]] = {}
    for envelope in envelopes:
        told.setdefault(parse_topic(envelope.topic).topic_class, []).append(
            json.loads(envelope.payload)
        )
    return told.get(TopicClass.RESERVATION, []), told.get(TopicClass.EVENT, [])


def line(kind: str = "Capacity Block Expiration Warning", **change: Any) -> bytes:
    """Return an event of the block as EventBridge delivers it."""
    data = {
        "version": "0",
        "id": "0a1b2c3d-0000-4000-8000-000000000001",
        "detail-type": kind,
        "source": "aws.ec2",
        "account": "111122223333",
        "time": "2026-01-09T10:50:02Z",
        "region": "us-east-2",
        "resources": ["arn:aws:ec2:us-east-2:111122223333:capacity-reservation/cr-1"],
        "detail": {"capacity-reservation-id": "cr-1", "end-date": "2026-01-09T11:30:00Z"},
    }
    return json.dumps({**data, **change}).encode() + b"\n"


INTERRUPTION = line(
    "EC2 Capacity Reservation Instance Interruption Warning",
    resources=["arn:aws:ec2:us-east-2:111122223333:instance/i-2"],
    detail={
        "instance-id": "i-2",
        "instance-action": "terminate",
        "instance-termination-time": "2026-01-09T11:00:00Z",
    },
)
