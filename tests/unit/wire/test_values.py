from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from support.monitor.feed import Feed, ultraservers, with_columns

from trnfleet.clock import format_rfc3339, parse_rfc3339
from trnfleet.errors import WireError
from trnfleet.wire.alerts import AckMessage, AlertMessage, SilenceMessage
from trnfleet.wire.frames import FrameDecoder
from trnfleet.wire.messages import (
    STANDARD_COLUMNS,
    Descriptor,
    EventMessage,
    JobMessage,
    PublisherMessage,
    decode_message,
)
from trnfleet.wire.reservations import ReservationMessage
from trnfleet.wire.telemetry import decode_sample
from trnfleet.wire.values import LATEST_NS

T = "2026-01-05T00:00:00Z"
FEED = Feed(ultraservers(1))
GOOD: dict[Any, dict[str, Any]] = {
    Descriptor: with_columns(FEED.announcements()[1].payload),
    JobMessage: {"job": "j", "kind": "training", "state": "running", "ts": T, "on": [], "mfu": 0.4},
    PublisherMessage: {"client": "c", "state": "online", "boot": "b", "since": T},
    EventMessage: json.loads(FEED.event().payload),
    ReservationMessage: json.loads(FEED.reservation("cr-1").payload)
    | {
        "change": 1,
        "pay_by": T,
        "extensions": [
            {
                "id": "e",
                "state": "payment-succeeded",
                "bought": T,
                "start": T,
                "end": T,
                "fee": "1.00",
            },
        ],
    },
    AlertMessage: {
        "fingerprint": "0" * 16,
        "rule": "r",
        "severity": "info",
        "state": "resolved",
        "target": "",
        "value": 1.0,
        "since": T,
        "fired": T,
        "resolved": T,
        "watch": "w",
        "summary": "s",
        "members": 1,
    },
    AckMessage: {"fingerprint": "0" * 16, "owner": "o", "at": T, "until": T},
    SilenceMessage: {"id": "s", "matchers": ['a="b"'], "starts": T, "until": T, "who": "w"},
}
INSTANTS = [
    (Descriptor, "clock.epoch"),
    (JobMessage, "ts"),
    (PublisherMessage, "since"),
    (EventMessage, "ts"),
    *(
        (ReservationMessage, key)
        for key in (
            "ts",
            "created",
            "start",
            "end",
            "terminates",
            "pay_by",
            "extensions.0.bought",
            "extensions.0.start",
            "extensions.0.end",
        )
    ),
    *((AlertMessage, key) for key in ("since", "fired", "resolved")),
    *((AckMessage, key) for key in ("at", "until")),
    *((SilenceMessage, key) for key in ("starts", "until")),
]
NO_INSTANTS = (
    "soon",
    "",
    "2026-01-05",
    "2026-01-05T00:00:00",
    "2026-13-05T00:00:00Z",
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59",
    "1969-12-31T23:59:59Z",
    "1970-01-01T00:00:00+00:01",
    "2200-01-01T00:00:00Z",
    "2199-12-31T23:59:59-00:01",
    "9" * 70,
)
NUMBERS = [
    *((Descriptor, "clock.speed", value) for value in (1e300, 1.7e308, 5e-324, 1e12, 1e-4, 0, -1)),
    *((Descriptor, "period_s", value) for value in (0, 1e-9, -1, 86_401, 1e300)),
    *((Descriptor, "columns.0.scale", value) for value in (0, -1, 1e300, 5e-324)),
    (Descriptor, "revision", 10**30),
    *((JobMessage, "mfu", value) for value in (-1, 1e300)),
    (ReservationMessage, "change", 10**30),
    (ReservationMessage, "instances", 10**30),
    *((AlertMessage, "value", value) for value in (1e300, -1e300)),
    (AlertMessage, "members", 10**30),
]


def changed(model: Any, place: str, value: Any) -> bytes:
    """Return a good message with another value at a place."""
    message = copy.deepcopy(GOOD[model])
    *way, last = place.split(".")
    at: Any = message
    for step in way:
        at = at[int(step)] if isinstance(at, list) else at[step]
    assert last in at
    at[last] = value
    return json.dumps(message).encode()


@pytest.mark.parametrize("model", GOOD, ids=lambda model: model.__name__)
def test_the_messages_that_are_changed_here_are_good(model: Any) -> None:
    """Each of them is taken as it is."""
    assert decode_message(json.dumps(GOOD[model]).encode(), model).v == 1


@pytest.mark.parametrize(("model", "place"), INSTANTS)
def test_a_time_is_an_instant_from_1970_to_2199(model: Any, place: str) -> None:
    """Any other time is refused with the key and the value.

    An offset counts as in UTC.
    """
    for text in NO_INSTANTS:
        with pytest.raises(WireError, match=f"{model.__name__} {place}: ") as refused:
            decode_message(changed(model, place, text), model)
        assert ascii(text)[1:40] in str(refused.value) or len(text) > 64
    for text in (
        "1970-01-01T00:00:00Z",
        "2199-12-31T23:59:59.999+00:00",
        "2200-01-01T01:00:00+01:30",
    ):
        decode_message(changed(model, place, text), model)


@pytest.mark.parametrize(("model", "place", "value"), NUMBERS)
def test_a_number_has_limits(model: Any, place: str, value: float) -> None:
    """A number too large for later arithmetic is refused.

    The refusal names the key, the limit and the value.
    """
    with pytest.raises(
        WireError,
        match=rf"{model.__name__} {place}: .*(than|equal to|at least|at most) [-0-9].*, not ",
    ) as refused:
        decode_message(changed(model, place, value), model)
    assert str(value) in str(refused.value) or value == 10**30 or isinstance(value, int)


def test_a_tick_has_a_limit_too() -> None:
    """An allowed period and speed are refused if their tick is a thousand years.

    The tick is in source time.
    """
    message = json.loads(changed(Descriptor, "clock.speed", 1e6))
    with pytest.raises(
        WireError, match=r"period_s x clock\.speed is 8\.64e\+10 s .* limit of 1e\+08 s"
    ):
        decode_message(json.dumps(message | {"period_s": 86_400}).encode(), Descriptor)
    assert (
        decode_message(json.dumps(message | {"period_s": 100}).encode(), Descriptor).period_s == 100
    )


@pytest.mark.parametrize("ts_ns", [LATEST_NS + 1, 2**63 - 1])
def test_telemetry_has_the_same_range_of_time(ts_ns: int) -> None:
    """A sample or frame after 2199 is refused, even with a known form."""
    feed = Feed(ultraservers(1), json=True)
    sample = feed.telemetry(ts_ns=ts_ns)[0]
    with pytest.raises(WireError, match=r"1970 to 2199, not '2[0-9]{3}-"):
        decode_sample(sample.payload)
    feed.json = False
    decoder = FrameDecoder(STANDARD_COLUMNS, 16, 1)
    with pytest.raises(WireError, match=str(ts_ns)):
        decoder.decode(feed.telemetry(ts_ns=ts_ns)[0].payload)
    for good_ns in (0, LATEST_NS):
        assert decoder.decode(feed.telemetry(ts_ns=good_ns)[0].payload).head.ts_ns == good_ns
    with pytest.raises(WireError, match=str(ts_ns)):
        decoder.decode(feed.telemetry(ts_ns=ts_ns)[0].payload)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
def test_every_instant_that_can_be_read_can_be_written(text: str) -> None:
    """An offset beyond the years 1 to 9999 is refused; readable instants are writable."""
    with pytest.raises(ValueError, match="years 1 to 9999"):
        parse_rfc3339(text)
    assert format_rfc3339(parse_rfc3339("0001-01-01T00:00:00Z")) == "0001-01-01T00:00:00.000Z"
    assert format_rfc3339(parse_rfc3339("9999-12-31T23:59:59Z")) == "9999-12-31T23:59:59.000Z"
