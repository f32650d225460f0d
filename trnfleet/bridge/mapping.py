"""From EC2's answers to reservation messages: pure, and forgiving about what a newer API may say."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from trnfleet import logs
from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.reservations import rules
from trnfleet.domain.reservations.states import ExtensionState, InterconnectStatus, ReservationState
from trnfleet.wire.reservations import MOST_EXTENSIONS, MOST_INSTANCES, ExtensionSpec, ReservationMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trnfleet.bridge.ec2 import Reading

log = logs.get_logger(__name__)


def messages_of(
    reading: Reading, now_ns: int, *, with_default: bool = True
) -> tuple[list[ReservationMessage], int]:
    """Return the reservations in a reading, and how many made no sense.

    Args:
        reading: What EC2 told.
        now_ns: When, nanoseconds since 1970 UTC.
        with_default: Whether On-Demand Capacity Reservations that are no block are told of, too.
    """
    by_id = {each.get("CapacityReservationId"): each for each in reading.reservations or ()}
    statuses = {each.get("CapacityBlockId"): each for each in reading.statuses or ()}
    made: list[ReservationMessage] = []
    skipped = 0

    def attempt(build: Any, *arguments: Any) -> None:
        nonlocal skipped
        try:
            made.append(build(*arguments))
        except (ValidationError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            skipped += 1
            log.warning("reservation_not_understood", error=" ".join(str(error).split())[:300])

    of_block: set[str] = set()
    for block in reading.blocks or ():
        ids = list(block.get("CapacityReservationIds", ()))
        of_block.update(ids)
        parts = [by_id[name] for name in ids if name in by_id]
        attempt(_block, block, parts, statuses.get(block.get("CapacityBlockId")), reading, now_ns)
    for each in reading.reservations or ():
        name = each.get("CapacityReservationId")
        is_block = each.get("ReservationType") == "capacity-block"
        if name in of_block or (not is_block and not with_default):
            continue
        # Where blocks may not be described, their reservations still may.
        attempt(_single, each, statuses.get(each.get("CapacityBlockId")), reading, now_ns, is_block)
    return made, skipped


def _block(
    block: dict[str, Any],
    parts: list[dict[str, Any]],
    status: dict[str, Any] | None,
    reading: Reading,
    now_ns: int,
) -> ReservationMessage:
    ids = tuple(block.get("CapacityReservationIds", ()))
    kind = next((part["InstanceType"] for part in parts if "InstanceType" in part), None)
    is_ultraserver = bool(block.get("UltraserverType"))
    if kind is None:
        kind = "trn2u.48xlarge" if is_ultraserver else "unknown"
    total = _total(status, parts)
    return _message(
        block["CapacityBlockId"], "capacity-block", block["State"], block, ids, kind, total, status, parts, reading,
        now_ns,
    )  # fmt: skip  # as one line of facts


def _single(
    each: dict[str, Any], status: dict[str, Any] | None, reading: Reading, now_ns: int, is_block: bool
) -> ReservationMessage:
    name = each["CapacityReservationId"]
    return _message(
        (each.get("CapacityBlockId") or name) if is_block else name,
        "capacity-block" if is_block else "default",
        each["State"], each, (name,), each["InstanceType"], _total(status, [each]), status, [each], reading, now_ns,
    )  # fmt: skip  # as one line of facts


def _message(
    name: str,
    kind: str,
    state: str,
    told: dict[str, Any],
    ids: tuple[str, ...],
    instance_type: str,
    total: int,
    status: dict[str, Any] | None,
    parts: list[dict[str, Any]],
    reading: Reading,
    now_ns: int,
) -> ReservationMessage:
    end_ns = _ns(told.get("EndDate"))
    start_ns = _ns(told.get("StartDate")) or _ns(told.get("CreateDate")) or now_ns
    ultraserver_type = told.get("UltraserverType") or None
    extensions = sorted(_specs(reading.extensions, ids), key=lambda each: each.bought)[-MOST_EXTENSIONS:]
    lead_s = (
        rules.ULTRASERVER_TERMINATION_BEFORE_END_S if ultraserver_type else rules.TERMINATION_BEFORE_END_S
    )
    is_block = kind == "capacity-block"
    terminates_ns = end_ns - lead_s * NS_PER_S if is_block and end_ns is not None else None
    running = [
        str(each["InstanceId"])
        for each in reading.instances or ()
        if each.get("CapacityReservationId") in ids and "InstanceId" in each
    ]
    return ReservationMessage(
        id=name,
        type="capacity-block" if is_block else "default",
        state=ReservationState(state),
        ts=format_rfc3339(now_ns),
        reservation_ids=ids[:256],
        instance_type=instance_type,
        ultraserver_type=ultraserver_type,
        zone=str(told.get("AvailabilityZone") or told.get("AvailabilityZoneId") or "unknown"),
        instances=total,
        launched=_launched(parts, len(running), reading),
        unavailable=None if status is None else int(status.get("TotalUnavailableCapacity", 0)),
        created=format_rfc3339(_ns(told.get("CreateDate")) or start_ns),
        start=format_rfc3339(start_ns),
        end=None if end_ns is None else format_rfc3339(end_ns),
        terminates=None if terminates_ns is None else format_rfc3339(terminates_ns),
        # EC2 tells the fees of extensions and not the block's own, so that no sum would be right.
        fee=None,
        interconnect=_interconnect(status, ultraserver_type),
        extensions=tuple(extensions),
        ec2_ids=tuple(sorted(running)[:MOST_INSTANCES]),
        origin="ec2",
    )


def _total(status: dict[str, Any] | None, parts: Iterable[dict[str, Any]]) -> int:
    if status is not None and "TotalCapacity" in status:
        return int(status["TotalCapacity"])
    return sum(int(part.get("TotalInstanceCount", 0)) for part in parts)


def _launched(parts: list[dict[str, Any]], running: int, reading: Reading) -> int | None:
    """Return what runs in it: what is not available, or what was seen running."""
    if parts and all("AvailableInstanceCount" in part for part in parts):
        return sum(
            max(0, int(part.get("TotalInstanceCount", 0)) - int(part["AvailableInstanceCount"]))
            for part in parts
        )
    return None if reading.instances is None else running


def _interconnect(status: dict[str, Any] | None, ultraserver_type: str | None) -> InterconnectStatus | None:
    told = None if status is None else status.get("InterconnectStatus")
    if not told or not ultraserver_type:
        return None
    try:
        return InterconnectStatus(told)
    except ValueError:
        return InterconnectStatus.INSUFFICIENT_DATA


def _specs(history: list[dict[str, Any]] | None, ids: tuple[str, ...]) -> Iterator[ExtensionSpec]:
    for each in history or ():
        if each.get("CapacityReservationId") not in ids:
            continue
        try:
            yield ExtensionSpec(
                id=each["CapacityBlockExtensionOfferingId"],
                state=ExtensionState(each["CapacityBlockExtensionStatus"]),
                bought=format_rfc3339(_ns(each["CapacityBlockExtensionPurchaseDate"]) or 0),
                start=format_rfc3339(_ns(each["CapacityBlockExtensionStartDate"]) or 0),
                end=format_rfc3339(_ns(each["CapacityBlockExtensionEndDate"]) or 0),
                fee=f"{Decimal(each['UpfrontFee']):f}",
                currency=str(each.get("CurrencyCode") or "USD").upper(),
            )
        except (ValidationError, ValueError, KeyError, ArithmeticError) as error:
            log.warning("extension_not_understood", error=" ".join(str(error).split())[:300])


def _ns(moment: datetime | None) -> int | None:
    if moment is None:
        return None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1_000) * 1_000_000
