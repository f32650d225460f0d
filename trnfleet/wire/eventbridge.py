"""EventBridge's form of EC2 events about Capacity Blocks: writing and reading.

Sources: the EC2 user guide's pages about monitoring Capacity Blocks and interruptible Capacity
Reservations, and EventBridge's about the envelope. The examples of the former have `detail_type`
and no region; delivered events have `detail-type`, a version, an id and the region. Pages about
China and older ones have other detail types. All of these are read.
"""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import from_json, to_json

from trnfleet.clock import format_rfc3339, parse_rfc3339
from trnfleet.domain.reservations.blocks import ChangeKind
from trnfleet.errors import WireError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnfleet.wire.messages import EventMessage

SOURCE = "aws.ec2"
DETAIL_TYPES: Mapping[str, ChangeKind] = {
    **{kind.detail_type: kind for kind in ChangeKind if kind.detail_type is not None},
    "Capacity Block Reservation Delivered": ChangeKind.DELIVERED,
    "Capacity Block Reservation Expiration Warning": ChangeKind.EXPIRATION_WARNING,
    "EC2 Interruptible Capacity Reservation Instance Interruption Warning": (
        ChangeKind.INTERRUPTION_WARNING
    ),
}
"""Changes by their events' detail types, including China's and older pages'."""
MOST_BYTES = 262_144
"""Longest event read; EventBridge's own limit of an entry."""

_REGION = re.compile(r"(?P<region>[a-z]+(?:-[a-z]+)+-[0-9]+)(?P<letter>[a-z])?")
_DIRECTIONS = {
    "central": "c",
    "east": "e",
    "north": "n",
    "northeast": "ne",
    "northwest": "nw",
    "south": "s",
    "southeast": "se",
    "southwest": "sw",
    "west": "w",
    "gov": "g",
    "iso": "i",
}
_ID_SPACE = uuid.UUID("8a0b3c42-6f0e-5a34-9d5c-6f5d0f1b2a77")
"""Namespace of the ids: an event has the same id at every writer."""
_DETAIL = {
    ChangeKind.DELIVERED: ("capacity-reservation-id", "end-date"),
    ChangeKind.EXPIRATION_WARNING: ("capacity-reservation-id", "end-date"),
    ChangeKind.INTERRUPTION_WARNING: (
        "instance-id",
        "instance-action",
        "instance-termination-time",
    ),
}
"""Keys that an event's detail must have."""
_MORE_DETAIL = ("availability-zone-id", "azId", "instance-lifecycle")
"""Keys that it may have besides."""


class Notice(NamedTuple):
    """An EventBridge event without its detail type and time."""

    resources: tuple[str, ...]
    """ARNs."""
    detail: dict[str, str]


class Ec2Notification(NamedTuple):
    """An event of EC2 as it was read."""

    id: str
    """Unique; empty if missing."""
    kind: ChangeKind
    time_ns: int
    resources: tuple[str, ...]
    detail: dict[str, str]


def region_of(zone: str) -> str:
    """Return the region of an Availability Zone or Local Zone.

    Other text is returned unchanged.
    """
    match = _REGION.match(zone)
    return zone if match is None else match["region"]


def zone_id_of(zone: str) -> str:
    """Return the id of an Availability Zone, such as use2-az2 of us-east-2b.

    Other text is returned unchanged. AWS maps letters to zones per account; here they are in the
    order of the ids, an assumption.
    """
    match = _REGION.fullmatch(zone)
    if match is None or match["letter"] is None:
        return zone
    first, *middle, number = match["region"].split("-")
    short = "".join(_DIRECTIONS.get(part, part[:1]) for part in middle)
    return f"{first}{short}{number}-az{ord(match['letter']) - ord('a') + 1}"


def seconds_text(instant_ns: int) -> str:
    """Return an instant as AWS writes it in events: RFC 3339 in whole seconds."""
    return f"{format_rfc3339(instant_ns)[:19]}Z"


def block_notice(account: str, zone: str, reservation_id: str, end_ns: int) -> Notice:
    """Return the notice of a Capacity Block's delivery or approaching end."""
    arn = _arn(account, zone, f"capacity-reservation/{reservation_id}")
    return Notice(
        (arn,), {"capacity-reservation-id": reservation_id, "end-date": seconds_text(end_ns)}
    )


def interruption_notice(account: str, zone: str, instance_id: str, terminates_ns: int) -> Notice:
    """Return the notice of an instance's termination in a Capacity Block at an instant."""
    detail = {
        "instance-id": instance_id,
        "instance-action": "terminate",
        "instance-termination-time": seconds_text(terminates_ns),
        "availability-zone-id": zone_id_of(zone),
        "instance-lifecycle": "capacity-block",
    }
    return Notice((_arn(account, zone, f"instance/{instance_id}"),), detail)


def encode_eventbridge(event: EventMessage) -> bytes | None:
    """Return EventBridge's JSON for a wire event; None if it has no such event."""
    if event.detail_type is None or not event.resources:
        return None
    _, _, _, region, account, *_ = event.resources[0].split(":", 5)
    return to_json(
        {
            "version": "0",
            "id": str(uuid.uuid5(_ID_SPACE, event.id)),
            "detail-type": event.detail_type,
            "source": SOURCE,
            "account": account,
            "time": seconds_text(parse_rfc3339(event.ts)),
            "region": region,
            "resources": event.resources,
            "detail": event.detail,
        }
    )


def decode_eventbridge(line: bytes) -> Ec2Notification | None:
    """Return the event of a line; None where it is an event about something else.

    Raises:
        WireError: it is no event, or one about Capacity Blocks that lacks what is documented.
    """
    if len(line) > MOST_BYTES:
        raise WireError(f"an event has at most {MOST_BYTES} bytes, not {len(line)}")
    try:
        data = from_json(line, cache_strings="keys")
    except ValueError as error:
        raise WireError(f"no JSON: {error}") from None
    if not isinstance(data, dict):
        raise WireError("an event is a JSON object")
    detail_type = data.get("detail-type", data.get("detail_type"))
    if not isinstance(detail_type, str):
        keys = [key for key in data if isinstance(key, str)]
        raise WireError(f"an event has a detail-type: {nearest('detail-type', keys[:16])}")
    kind = DETAIL_TYPES.get(detail_type)
    if kind is None or data.get("source") != SOURCE:
        return None
    try:
        time_ns = parse_rfc3339(_text(data, "time"))
    except (ValueError, OverflowError):
        raise WireError(f"time = {data.get('time')!r}: no time of RFC 3339 with its zone") from None
    resources = data.get("resources")
    arns = resources if isinstance(resources, list) else [resources]
    name = data.get("id")
    return Ec2Notification(
        name if isinstance(name, str) and len(name) <= 64 else "",
        kind,
        time_ns,
        tuple(arn for arn in arns[:4] if isinstance(arn, str) and _ARN.fullmatch(arn)),
        _detail(kind, data.get("detail")),
    )


_ARN = re.compile(r"arn:[!-~]{1,250}")


def _detail(kind: ChangeKind, detail: Any) -> dict[str, str]:
    """Return the documented part of a detail.

    Raises:
        WireError: a key is missing, or its value is no short text.
    """
    if not isinstance(detail, dict):
        raise WireError("detail: it is a JSON object")
    texts = {key: _text(detail, key, "detail.") for key in _DETAIL[kind]}
    return texts | {key: _text(detail, key, "detail.") for key in _MORE_DETAIL if key in detail}


def _text(data: Mapping[str, Any], key: str, where: str = "") -> str:
    value = data.get(key)
    if not isinstance(value, str) or not 1 <= len(value) <= 128:
        raise WireError(
            f"{where}{key} = {str(value)[:60]!r}: a text of 1 to 128 characters is needed"
        )
    return value


def _arn(account: str, zone: str, resource: str) -> str:
    region = region_of(zone)
    partition = (
        "aws-cn"
        if region.startswith("cn-")
        else "aws-us-gov"
        if region.startswith("us-gov-")
        else "aws"
    )
    return f"arn:{partition}:ec2:{region}:{account}:{resource}"
