"""EC2's answers as reservation messages."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from support.ec2_account import END, NOW, NOW_NS, block, extension, part, reading, status

from trnfleet.bridge.ec2.mapping import messages_of

if TYPE_CHECKING:
    from trnfleet.bridge.ec2.client import Reading


def only(found: Reading, **options: Any) -> Any:
    messages, problems = messages_of(found, NOW_NS, **options)
    assert problems == []
    (message,) = messages
    return message


def test_an_ultraserver_block() -> None:
    """A block includes its reservation: type, use, times, interconnect and instances."""
    message = only(reading())
    assert (message.id, message.type, message.state.value) == (
        "cb-0123456789abcdef0",
        "capacity-block",
        "active",
    )
    assert (message.reservation_ids, message.instance_type) == (("cr-1",), "trn2u.48xlarge")
    assert (message.instances, message.launched, message.unavailable) == (4, 3, 0)
    assert (message.end, message.terminates) == (
        "2026-01-09T11:30:00.000Z",
        "2026-01-09T11:00:00.000Z",
    )
    assert (message.interconnect.value, message.zone) == ("ok", "us-east-2b")
    assert message.ec2_ids == ("i-1", "i-2", "i-3")
    assert (message.fee, message.origin, message.on) == (None, "ec2", ())


def test_a_fee_is_of_a_given_price() -> None:
    """A price an instance and hour gives the fee of a term; EC2 has none, and unknown is not 0."""
    prices = {"trn2u.48xlarge": Decimal("35.76"), "trn1.32xlarge": Decimal(1)}
    # 7 days and 2.5 hours of four instances.
    assert only(reading(), prices=prices).fee == "24388.32"
    assert only(reading(), prices={"trn1.32xlarge": Decimal(1)}).fee is None


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ({"statuses": None}, "interconnect", None),
        ({"statuses": None}, "unavailable", None),
        ({"reservations": None, "instances": None}, "launched", None),
        ({"instances": None}, "ec2_ids", ()),
        ({"extensions": None}, "extensions", ()),
        ({"statuses": [{"CapacityBlockId": "cb-0123456789abcdef0"}]}, "unavailable", None),
        ({"reservations": None, "statuses": None}, "instances", 4),
    ],
)
def test_what_could_not_be_read_is_unknown(change: dict[str, Any], field: str, value: Any) -> None:
    """Without a call's answer its fields are not known, never zero, and the rest stands."""
    message = only(reading(**change))
    assert getattr(message, field) == value
    assert message.state.value == "active"


def test_without_blocks_their_reservations_are_published() -> None:
    """A block's Capacity Reservation replaces it if blocks are forbidden.

    It has the block's id.
    """
    message = only(reading(blocks=None, reservations=[part(EndDate=END)]))
    assert (message.id, message.type) == ("cb-0123456789abcdef0", "capacity-block")
    assert message.terminates == "2026-01-09T11:00:00.000Z"


def test_on_demand_reservations() -> None:
    """A reservation without a block has no end or termination, and is optional."""
    default = part("cr-2", ReservationType="default", InstanceType="trn2.48xlarge", State="pending")
    del default["CapacityBlockId"]
    found = reading(blocks=[], statuses=[], reservations=[default], instances=[])
    message = only(found)
    assert (message.id, message.type, message.state.value) == ("cr-2", "default", "pending")
    assert (message.end, message.terminates, message.interconnect) == (None, None, None)
    assert messages_of(found, NOW_NS, with_default=False) == ([], [])


def test_extensions_keep_their_fee() -> None:
    """Extensions are sorted oldest first with exact fees; only invalid ones are dropped."""
    older = extension(
        "payment-succeeded",
        CapacityBlockExtensionOfferingId="cbe-0",
        CapacityBlockExtensionPurchaseDate=NOW - timedelta(days=1),
    )
    strange = extension("no-such-state", CapacityBlockExtensionOfferingId="cbe-2")
    (message,), problems = messages_of(reading(extensions=[extension(), older, strange]), NOW_NS)
    assert len(problems) == 1
    assert [(each.id, each.state.value, each.fee) for each in message.extensions] == [
        ("cbe-0", "payment-succeeded", "24030.720"),
        ("cbe-1", "payment-pending", "24030.720"),
    ]


@pytest.mark.parametrize(
    "bad", [{"State": "teleported"}, {"CapacityBlockId": "a/b"}, {"EndDate": 5}]
)
def test_what_a_newer_api_says_is_skipped_and_counted(bad: dict[str, Any]) -> None:
    """Only an invalid block is skipped, and counted."""
    found = reading(blocks=[block(**bad), block(CapacityBlockId="cb-2")], reservations=[])
    messages, problems = messages_of(found, NOW_NS)
    assert len(problems) == 1
    assert [message.id for message in messages] == ["cb-2"]


@pytest.mark.parametrize("state", ["scheduled", "payment-pending", "expired"])
def test_nothing_runs_before_the_begin_and_after_the_end(state: str) -> None:
    """Before begin and after end, nothing available does not mean running."""
    message = only(
        reading(blocks=[block(state)], reservations=[part(AvailableInstanceCount=0)], instances=[])
    )
    assert message.launched == 0


def test_what_runs_is_unknown_without_permissions() -> None:
    """Without reservations and instances, running instances are unknown.

    With instances alone they are counted.
    """
    found = reading(reservations=None, instances=None)
    assert only(found).launched is None
    assert only(reading(reservations=None)).launched == 3


def test_another_ultraserver_is_not_taken_for_trn2() -> None:
    """From the block alone, other UltraServers get no assumed instance type."""
    found = reading(
        blocks=[block(UltraserverType="u-p6e-gb200x72")], reservations=None, statuses=None
    )
    assert (only(found).instance_type, only(found).instances) == ("unknown", 0)


def test_reservations_of_one_block_are_one_message() -> None:
    """Where blocks may not be described, several Capacity Reservations of one are told together."""
    found = reading(
        blocks=None,
        reservations=[part("cr-1", EndDate=END), part("cr-2", EndDate=END)],
        statuses=None,
    )
    message = only(found)
    assert (message.reservation_ids, message.instances, message.launched) == (
        ("cr-1", "cr-2"),
        8,
        6,
    )


def test_what_was_cancelled_before_it_began_has_no_end() -> None:
    """A reservation cancelled before its start has no end.

    EC2 reports the cancellation time as its end; readers refuse an end before the start.
    """
    default = part(
        "cr-2", ReservationType="default", State="cancelled", EndDate=NOW - timedelta(days=4)
    )
    assert only(reading(blocks=[], reservations=[default])).end is None


@pytest.mark.parametrize(
    ("found", "pay_by"),
    [
        (reading(), None),
        (reading(extensions=[extension("payment-succeeded")]), None),
        (reading(extensions=[extension()]), "2026-01-05T21:00:00.000Z"),
        (
            reading(blocks=[block(EndDate=NOW + timedelta(hours=6))], extensions=[extension()]),
            "2026-01-05T14:25:00.000Z",
        ),
        (reading(blocks=[block("payment-pending", CreateDate=NOW)]), "2026-01-05T21:00:00.000Z"),
    ],
)
def test_a_pending_payment_has_an_hour(found: Reading, pay_by: str | None) -> None:
    """A pending payment fails after 12 hours.

    An extension's fails 35 minutes before the end if that is first.
    """
    assert only(found).pay_by == pay_by


def test_fees_with_many_decimals_are_kept() -> None:
    """A fee with more decimals than the wire has is rounded, and its extension stays."""
    message = only(reading(extensions=[extension(UpfrontFee="24030.72000000")]))
    assert message.extensions[0].fee == "24030.720000"


def test_a_new_interconnect_status_is_no_status() -> None:
    """An unknown status counts as insufficient data, and is reported."""
    (message,), problems = messages_of(reading(statuses=[status("something-new")]), NOW_NS)
    assert message.interconnect is not None
    assert (message.interconnect.value, len(problems)) == ("insufficient-data", 1)
