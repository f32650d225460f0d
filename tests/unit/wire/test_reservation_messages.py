from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from trnfleet.domain.reservations.rules import MOST_EXTENSIONS
from trnfleet.domain.reservations.states import ReservationState
from trnfleet.errors import WireError
from trnfleet.wire.limits import DEFAULT_LIMITS, Limits
from trnfleet.wire.messages import decode_message, encode_message
from trnfleet.wire.reservations import (
    OfferingSpec,
    ReservationMessage,
)

EXTENSION = {
    "id": "cbe-1",
    "state": "payment-pending",
    "bought": "2026-01-05T00:00:00Z",
    "start": "2026-01-06T11:30:00Z",
    "end": "2026-01-08T11:30:00Z",
    "fee": "4800.00",
}
GOOD = {
    "v": 1,
    "id": "cb-0123456789abcdef0",
    "type": "capacity-block",
    "state": "active",
    "ts": "2026-01-03T11:30:00Z",
    "change": 3,
    "reservation_ids": ["cr-1"],
    "instance_type": "trn2.48xlarge",
    "zone": "us-east-2b",
    "instances": 2,
    "launched": 2,
    "unavailable": 0,
    "created": "2026-01-01T11:30:00Z",
    "start": "2026-01-03T11:30:00Z",
    "end": "2026-01-06T11:30:00Z",
    "terminates": "2026-01-06T11:00:00Z",
    "fee": "7200.50",
    "interconnect": "ok",
    "extensions": [EXTENSION],
    "on": ["uc1/standalone/trn2-0001..trn2-0002"],
    "origin": "simulated",
    "boot": "boot-1",
}
OFFERING = {
    "id": "cbo-1",
    "instance_type": "trn2.48xlarge",
    "instances": 2,
    "zone": "us-east-2b",
    "start": "2026-01-03T11:30:00Z",
    "end": "2026-01-06T11:30:00Z",
    "hours": 72.0,
    "fee": "7200.50",
}


def decoded(**change: Any) -> ReservationMessage:
    return decode_message(json.dumps(GOOD | change).encode(), ReservationMessage)


def test_a_round_trip() -> None:
    """A reservation comes back as it was, with exact money and its extensions."""
    message = decoded()
    assert decode_message(encode_message(message), ReservationMessage) == message
    assert (message.state, message.fee) == (ReservationState.ACTIVE, "7200.50")
    assert message.extensions[0].state.value == "payment-pending"
    assert decoded(later_field={"a": 1}) == message


def test_what_may_be_left_out() -> None:
    """Only fields of every reservation are required; others are unknown, not 0."""
    needed = ("id", "state", "ts", "instance_type", "zone", "instances", "created", "start")
    message = decode_message(
        json.dumps({"v": 1} | {name: GOOD[name] for name in needed}).encode(), ReservationMessage
    )
    assert (message.end, message.fee, message.launched, message.boot) == (None, None, None, None)
    assert (message.type, message.currency, message.change) == ("capacity-block", "USD", 0)
    for name in needed:
        with pytest.raises(WireError, match=name):
            decode_message(
                json.dumps({key: value for key, value in GOOD.items() if key != name}).encode(),
                ReservationMessage,
            )


@pytest.mark.parametrize("state", list(ReservationState))
def test_every_state_of_the_api(state: ReservationState) -> None:
    """Each EC2 state of a reservation is understood."""
    assert decoded(state=state.value).state is state


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"id": ""},
        {"id": "cb/1"},
        {"id": "x" * 65},
        {"state": "running"},
        {"type": "spot"},
        {"change": -1},
        {"change": "3"},
        {"instances": -1},
        {"instances": 1_000_001},
        {"instances": 1.5},
        {"launched": -1},
        {"fee": 7200.5},
        {"fee": "-1"},
        {"fee": "1e3"},
        {"fee": "NaN"},
        {"fee": "1.1234567"},
        {"fee": "1234567890123"},
        {"currency": "usd"},
        {"currency": "[b]"},
        {"instance_type": "Trn2 48"},
        {"zone": "z" * 257},
        {"interconnect": "broken"},
        {"on": "uc1"},
        {"on": ["x"] * (DEFAULT_LIMITS.instances + 1)},
        {"on": ["x" * 401]},
        {"ec2_ids": ["i-1"] * (DEFAULT_LIMITS.instances + 1)},
        {"extensions": [EXTENSION] * (MOST_EXTENSIONS + 1)},
        {"extensions": [EXTENSION | {"fee": "-1"}]},
        {"extensions": [EXTENSION | {"state": "paid"}]},
        {"origin": "azure"},
        {"boot": "a b"},
    ],
)
def test_what_is_no_reservation(change: dict[str, Any]) -> None:
    """A field out of bounds makes the message invalid; the error names it."""
    with pytest.raises(WireError, match=next(iter(change))):
        decoded(**change)


def test_bounds_are_part_of_them() -> None:
    """The largest allowed lists and amounts pass."""
    message = decoded(
        on=["x" * 400] * 10,
        ec2_ids=["i-1"] * DEFAULT_LIMITS.instances,
        fee="999999999999.999999",
        instances=1_000_000,
    )
    assert len(message.ec2_ids) == DEFAULT_LIMITS.instances
    assert len(decoded(on=["uc1"] * DEFAULT_LIMITS.instances).on) == DEFAULT_LIMITS.instances


@pytest.mark.parametrize("payload", [b"", b"[]", b"null", b"{", b"\xff", b"\xa1\x01\x02"])
def test_what_is_no_message(payload: bytes) -> None:
    """Bytes other than a JSON object are refused without a crash."""
    with pytest.raises(WireError):
        decode_message(payload, ReservationMessage)


def test_a_message_that_is_too_long() -> None:
    """More bytes than the limit are refused before they are parsed."""
    with pytest.raises(WireError, match="64"):
        decode_message(json.dumps(GOOD).encode(), ReservationMessage, Limits(payload_bytes=64))


def test_offerings() -> None:
    """An offering has its hours and exact fee; an invalid time is dropped."""
    assert msgspec.convert(OFFERING, OfferingSpec).fee == "7200.50"
    for hours in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="hours"):
            msgspec.convert(OFFERING | {"hours": hours}, OfferingSpec)
