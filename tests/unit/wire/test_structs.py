"""Refusals of structs in words: field, limit, value and nearest choice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.monitor.feed import Feed, ultraservers, with_columns

from trnfleet.errors import WireError
from trnfleet.wire.messages import Descriptor, decode_message

GOOD = with_columns(Feed(ultraservers(1)).announcements()[1].payload)
INSTANCE = GOOD["instances"][0]
COLUMN = GOOD["columns"][0]


def refusal(change: dict[str, Any]) -> str:
    """Return why a descriptor with a change is refused."""
    with pytest.raises(WireError) as caught:
        decode_message(json.dumps(GOOD | change).encode(), Descriptor)
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"path": "a b"},
            "path: must match ^[A-Za-z0-9_-]{1,64}(/[A-Za-z0-9_-]{1,64}){0,4}$, not 'a b'",
        ),
        (
            {"path": "a\n"},
            r"path: must match ^[A-Za-z0-9_-]{1,64}(/[A-Za-z0-9_-]{1,64}){0,4}$, not 'a\n'",
        ),
        ({"path": None}, "path: must be text, not None"),
        ({"v": 2}, "v: must be 1, not 2"),
        ({"v": True}, "v: must be a whole number, not True"),
        ({"revision": 1.5}, "revision: must be a whole number, not 1.5"),
        (
            {"revision": 10**30},
            "revision: must be at most 9007199254740992, not a number of over 64 bits",
        ),
        ({"period_s": "1"}, "period_s: must be a number, not '1'"),
        ({"replay": 1}, "replay: must be true or false, not 1"),
        ({"origin": "nueron"}, "origin: unknown value 'nueron': did you mean 'neuron'?"),
        ({"clock": []}, "clock: must be an object"),
        ({"clock": {}}, "clock.epoch: is missing"),
        ({"clock": {"epoch": "x" * 65}}, "clock.epoch: must have at most 64 characters, not 65"),
        (
            {"clock": {"epoch": "soon"}},
            "clock.epoch: not a time with its zone, such as 2026-01-31T23:59:58Z, not 'soon'",
        ),
        ({"instances": []}, "instances: must have at least 1 items, not 0"),
        ({"instances": [INSTANCE, {"path": "uc1/us-1/i"}]}, "instances.1.type: is missing"),
        ({"instances": [INSTANCE | {"lnc": 9}]}, "instances.0.lnc: must be at most 8, not 9"),
        (
            {"instances": [INSTANCE | {"versions": {"a": "", "b": 1}}]},
            "instances.0.versions.b: must be text, not 1",
        ),
        (
            {"instances": [INSTANCE | {"versions": {"a": "", "\u202e": ""}}]},
            r"instances.0.versions: must match ^[A-Za-z0-9_-]{1,64}$, not '\u202e'",
        ),
        ({"lanes": {"a": ["x", "y", ""]}}, "lanes.a.2: must match ^[A-Za-z0-9_-]{1,64}$, not ''"),
        ({"lanes": {"a": ["x", "x"]}}, "lanes: two link lanes of the same name"),
        (
            {"columns": [COLUMN | {"type": "u9"}]},
            "columns.0.type: unknown value 'u9': choose from u16, u32, u64, u8",
        ),
        (
            {"columns": [COLUMN | {"per": "chips"}]},
            "columns.0.per: unknown value 'chips': did you mean 'chip'?",
        ),
    ],
)
def test_a_refusal_names_field_limit_and_value(change: dict[str, Any], words: str) -> None:
    """At any depth, a refusal names the place and the valid value."""
    assert refusal(change) == f"Descriptor {words}"


def test_a_key_that_is_there_twice_is_refused_in_words_too() -> None:
    """The way to the wrong value leads nowhere in what is left of the message."""
    payload = json.dumps(GOOD).encode()[:-1] + b',"clock":{"epoch":5},"clock":"x"}'
    with pytest.raises(WireError, match=r"Descriptor .*epoch"):
        decode_message(payload, Descriptor)


@pytest.mark.parametrize(
    "payload",
    [b"{", b'{"path": 1, "x": [', b'{"x": "\\ud800"}', b"\xff", b'{"x":' + b"[" * 100_000],
)
def test_what_is_no_json_is_called_so(payload: bytes) -> None:
    """Invalid JSON is reported even if a field before the damage is wrong."""
    with pytest.raises(WireError, match="Descriptor is not JSON: "):
        decode_message(payload, Descriptor)
