"""EC2's events as EventBridge delivers them, and in the shapes of AWS's pages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.sim.capacity_account import at

from trnfleet.domain.reservations.blocks import ChangeKind
from trnfleet.domain.severity import Severity
from trnfleet.errors import WireError
from trnfleet.wire.eventbridge import (
    MOST_BYTES,
    Notice,
    block_notice,
    decode_eventbridge,
    encode_eventbridge,
    interruption_notice,
    region_of,
    zone_id_of,
)
from trnfleet.wire.messages import EventMessage, decode_message, encode_message

ACCOUNT = "111122223333"
END_NS = at("2026-01-05 11:30")
BLOCK = block_notice(ACCOUNT, "us-east-2b", "cr-0aa", END_NS)
INSTANCE = interruption_notice(ACCOUNT, "ap-southeast-4a", "i-0bb", at("2026-01-05 11:00"))


def event(kind: ChangeKind, notice: Notice | None, **change: Any) -> EventMessage:
    fields: dict[str, Any] = {
        "id": "boot-1-7",
        "ts": "2026-01-05T10:50:00.000Z",
        "path": "",
        "source": "ec2",
        "name": kind.event_name,
        "severity": Severity.WARNING,
        "text": "near",
        "detail_type": kind.detail_type,
    }
    if notice is not None:
        fields |= {"resources": notice.resources, "detail": notice.detail}
    return EventMessage(**(fields | change))


def delivered(kind: ChangeKind, notice: Notice) -> dict[str, Any]:
    line = encode_eventbridge(event(kind, notice))
    assert line is not None
    data: dict[str, Any] = json.loads(line)
    return data


def test_a_block_s_event_has_the_whole_envelope() -> None:
    """Keys are EventBridge's, the detail is AWS's page's, times are whole seconds."""
    data = delivered(ChangeKind.EXPIRATION_WARNING, BLOCK)
    assert len(data.pop("id")) == 36
    assert data == {
        "version": "0",
        "detail-type": "Capacity Block Expiration Warning",
        "source": "aws.ec2",
        "account": ACCOUNT,
        "time": "2026-01-05T10:50:00Z",
        "region": "us-east-2",
        "resources": [f"arn:aws:ec2:us-east-2:{ACCOUNT}:capacity-reservation/cr-0aa"],
        "detail": {"capacity-reservation-id": "cr-0aa", "end-date": "2026-01-05T11:30:00Z"},
    }


def test_an_instance_s_warning_names_it_and_its_termination() -> None:
    """The resource is the instance.

    The detail has its id, the action, the time, the zone and the lifecycle.
    """
    data = delivered(ChangeKind.INTERRUPTION_WARNING, INSTANCE)
    assert data["detail-type"] == "EC2 Capacity Reservation Instance Interruption Warning"
    assert data["resources"] == [f"arn:aws:ec2:ap-southeast-4:{ACCOUNT}:instance/i-0bb"]
    assert data["detail"] == {
        "instance-id": "i-0bb",
        "instance-action": "terminate",
        "instance-termination-time": "2026-01-05T11:00:00Z",
        "availability-zone-id": "apse4-az1",
        "instance-lifecycle": "capacity-block",
    }


def test_an_event_has_one_id() -> None:
    """The id follows from the event's own, so that a second delivery is recognized.

    It differs from other events' ids.
    """
    one, again = (delivered(ChangeKind.DELIVERED, BLOCK)["id"] for _ in range(2))
    other = encode_eventbridge(event(ChangeKind.DELIVERED, BLOCK, id="boot-1-8"))
    assert other is not None
    assert one == again != json.loads(other)["id"]


def test_what_eventbridge_has_not_is_not_written() -> None:
    """Events without a detail type, or without what it is about, are none of EventBridge's."""
    assert encode_eventbridge(event(ChangeKind.EXPIRED, None)) is None
    assert encode_eventbridge(event(ChangeKind.DELIVERED, None)) is None


@pytest.mark.parametrize(
    ("kind", "notice"), [(ChangeKind.DELIVERED, BLOCK), (ChangeKind.INTERRUPTION_WARNING, INSTANCE)]
)
def test_what_is_written_is_read(kind: ChangeKind, notice: Notice) -> None:
    """A written event is read back completely."""
    line = encode_eventbridge(event(kind, notice))
    assert line is not None
    read = decode_eventbridge(line)
    assert read is not None
    assert (read.kind, read.time_ns) == (kind, at("2026-01-05 10:50"))
    assert len(read.id) == 36
    assert (read.resources, read.detail) == notice


def page(detail_type: str, **change: Any) -> bytes:
    """Return an event in the shape of the page about Capacity Blocks."""
    data = {
        "customer_event_id": "cr-0aa-approaching-expiry",
        "detail_type": detail_type,
        "source": "aws.ec2",
        "account": ACCOUNT,
        "time": "2026-01-05T10:50:00Z",
        "resources": list(BLOCK.resources),
        "detail": BLOCK.detail,
    }
    return json.dumps({**data, **change}).encode()


@pytest.mark.parametrize(
    ("detail_type", "kind"),
    [
        ("Capacity Block Delivered", ChangeKind.DELIVERED),
        ("Capacity Block Expiration Warning", ChangeKind.EXPIRATION_WARNING),
        ("Capacity Block Reservation Delivered", ChangeKind.DELIVERED),
        ("Capacity Block Reservation Expiration Warning", ChangeKind.EXPIRATION_WARNING),
    ],
)
def test_usual_and_older_names_are_read(detail_type: str, kind: ChangeKind) -> None:
    """Events in the page's shape are read with usual and with older names.

    China's and older pages have other names.
    """
    read = decode_eventbridge(page(detail_type))
    assert read is not None
    assert (read.id, read.kind) == ("", kind)
    assert read.detail == BLOCK.detail


def test_one_resource_without_a_list_is_read() -> None:
    """A resource without a list and another key for the zone are read.

    The page about interruptible reservations has them.
    """
    detail = {**INSTANCE.detail, "azId": "apse4-az1"}
    line = page(
        "EC2 Capacity Reservation Instance Interruption Warning",
        resources=INSTANCE.resources[0],
        detail=detail,
    )
    read = decode_eventbridge(line)
    assert read is not None
    assert (read.kind, read.resources, read.detail) == (
        ChangeKind.INTERRUPTION_WARNING,
        INSTANCE.resources,
        detail,
    )


@pytest.mark.parametrize(
    "line",
    [
        page("EC2 Spot Instance Interruption Warning"),
        page("Capacity Block Delivered", source="my.app"),
        b'{"detail-type": "AWS Health Event", "source": "aws.health"}',
    ],
)
def test_other_events_are_passed_over(line: bytes) -> None:
    """Other events delivered by a rule are skipped, not refused."""
    assert decode_eventbridge(line) is None


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{", "no JSON"),
        (b"[]", "a JSON object"),
        (b'{"detailtype": "x"}', "did you mean 'detailtype'"),
        (
            page("Capacity Block Delivered", time="yesterday"),
            "time = 'yesterday': no time of RFC 3339",
        ),
        (page("Capacity Block Delivered", time=5), "time = '5': a text"),
        (page("Capacity Block Delivered", detail=None), "detail: it is a JSON object"),
        (
            page("Capacity Block Delivered", detail={"end-date": "x"}),
            "detail.capacity-reservation-id = 'None'",
        ),
        (
            page("Capacity Block Delivered", detail={**BLOCK.detail, "end-date": "9" * 129}),
            "detail.end-date = '999",
        ),
        (
            page("EC2 Capacity Reservation Instance Interruption Warning"),
            "detail.instance-id = 'None'",
        ),
        (b" " * (MOST_BYTES + 1), "has at most 262144 bytes"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(line: bytes, says: str) -> None:
    """An invalid or incomplete line is refused with the key and the requirement."""
    with pytest.raises(WireError, match=says):
        decode_eventbridge(line)


def test_what_is_no_arn_is_left_out() -> None:
    """Resources are passed on only as far as they are ARNs."""
    read = decode_eventbridge(
        page("Capacity Block Delivered", resources=["\x1b[2J", 5, *BLOCK.resources])
    )
    assert read is not None
    assert read.resources == BLOCK.resources


@pytest.mark.parametrize(
    ("zone", "region", "zone_id"),
    [
        ("us-east-2b", "us-east-2", "use2-az2"),
        ("ap-south-2b", "ap-south-2", "aps2-az2"),
        ("ap-southeast-4c", "ap-southeast-4", "apse4-az3"),
        ("cn-north-1a", "cn-north-1", "cnn1-az1"),
        ("us-gov-west-1a", "us-gov-west-1", "usgw1-az1"),
        ("us-east-1-dfw-2a", "us-east-1", "us-east-1-dfw-2a"),
        ("lab", "lab", "lab"),
    ],
)
def test_regions_and_zone_ids(zone: str, region: str, zone_id: str) -> None:
    """A zone's region and id follow from its name; other text is unchanged."""
    assert (region_of(zone), zone_id_of(zone)) == (region, zone_id)


@pytest.mark.parametrize(
    ("zone", "partition"),
    [("us-east-2b", "aws"), ("cn-north-1a", "aws-cn"), ("us-gov-west-1a", "aws-us-gov")],
)
def test_arns_have_their_partition(zone: str, partition: str) -> None:
    """ARNs of China and GovCloud have partitions of their own."""
    assert (
        block_notice(ACCOUNT, zone, "cr-0aa", END_NS)
        .resources[0]
        .startswith(f"arn:{partition}:ec2:")
    )


def test_detail_and_resources_are_in_the_message_where_there_are_any() -> None:
    """A wire event may carry detail and resources; events without them are unchanged."""
    message = event(ChangeKind.DELIVERED, BLOCK)
    assert decode_message(encode_message(message), EventMessage) == message
    assert json.loads(encode_message(message))["detail"] == BLOCK.detail
    assert {"detail", "resources"}.isdisjoint(
        json.loads(encode_message(event(ChangeKind.EXPIRED, None)))
    )
