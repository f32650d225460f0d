from __future__ import annotations

import gc
import hashlib
import json
import tracemalloc
from typing import Any

import msgspec
import pytest
from support.monitor.feed import Feed, ultraservers, with_columns

from trnfleet.domain.metrics import SIMULATED
from trnfleet.errors import WireError
from trnfleet.wire.limits import Limits
from trnfleet.wire.messages import (
    COLUMN_SETS,
    STANDARD_COLUMNS,
    CommandMessage,
    Descriptor,
    EventMessage,
    JobMessage,
    PublisherMessage,
    ReplyMessage,
    decode_message,
    encode_message,
    parse_json_object,
)

GOOD = json.loads(Feed(ultraservers(1)).announcements()[1].payload)
EVENT = {
    "v": 1,
    "id": "boot-1-7",
    "ts": "2026-01-05T00:00:00Z",
    "path": "uc1/us-0001/trn2u-0001-2/chip05",
    "source": "hardware",
    "name": "hbm_uncorrectable",
    "severity": "critical",
    "text": "uncorrectable memory error",
    "job": "llama",
    "nrt": 1202,
}
COMMAND = {
    "v": 1,
    "id": "42",
    "client": "ops",
    "action": "inject",
    "target": "uc1/*/chip05",
    "args": {"fault": "straggler", "for_s": 300, "now": True, "magnitude": None},
    "expires": "2026-01-05T00:00:00Z",
    "by": "alice",
}
REPLY = {
    "v": 1,
    "id": "42",
    "ok": False,
    "reason": "no",
    "result": {"simulator": "sim-1", "active": [1]},
}

COLUMN_HASHES = {
    "standard/1": "169a14ec3dc73084883b0424f3faf418d6ccd717eaf554ec8dd04466b1a0949f",
}
"""SHA-256 of the columns of each set, a line each."""


def test_descriptor_round_trip() -> None:
    """A descriptor comes back as it was."""
    descriptor = decode_message(json.dumps(GOOD).encode(), Descriptor)
    assert decode_message(encode_message(descriptor), Descriptor) == descriptor
    assert descriptor.instances[0].type == "trn2u.48xlarge"


def test_columns_of_a_set_are_written_as_its_name() -> None:
    """Columns written one by one or as a set's name give the same descriptor.

    It is written with the name.
    """
    by_name = decode_message(json.dumps(GOOD).encode(), Descriptor)
    inline = with_columns(json.dumps(GOOD).encode())
    one_by_one = decode_message(json.dumps(inline).encode(), Descriptor)
    assert "columns" not in GOOD
    assert by_name == one_by_one
    assert by_name.columns is STANDARD_COLUMNS
    assert json.loads(encode_message(one_by_one)) == json.loads(encode_message(by_name))
    others = msgspec.structs.replace(one_by_one, columns=one_by_one.columns[1:])
    written = json.loads(encode_message(others))
    assert "column_set" not in written
    assert written["columns"] == inline["columns"][1:]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"column_set": "standard/0"},
            "unknown column_set 'standard/0': did you mean 'standard/",
        ),
        ({"column_set": "Standard"}, "column_set: must match .*, not 'Standard'"),
        ({"column_set": "standard/1", "columns": []}, "both columns and column_set"),
        ({"column_set": None}, "neither columns nor column_set"),
        ({"column_set": None, "columns": []}, "extra_columns without column_set"),
    ],
)
def test_columns_are_given_in_one_way(change: dict[str, Any], words: str) -> None:
    """A descriptor has either its columns or a known set's name.

    The error names the problem.
    """
    with pytest.raises(WireError, match=words):
        decode_message(json.dumps(GOOD | change).encode(), Descriptor)


def test_a_set_of_columns_never_changes() -> None:
    """Each set is repeated here as a hash: other columns are extra ones."""
    lines = {
        name: "\n".join(
            f"{each.name} {each.type} {each.scale:g} {each.width} {each.per}" for each in columns
        )
        for name, columns in COLUMN_SETS.items()
    }
    assert {
        name: hashlib.sha256(text.encode()).hexdigest() for name, text in lines.items()
    } == COLUMN_HASHES, 'a set has changed: see "How to add a metric" in CONTRIBUTING.md'
    assert STANDARD_COLUMNS[: len(COLUMN_SETS["standard/1"])] == COLUMN_SETS["standard/1"]
    assert {column.name for column in STANDARD_COLUMNS} == {metric.name for metric in SIMULATED}


def test_new_columns_stand_beside_a_set() -> None:
    """A reader that does not know extra columns still reads those of the set."""
    written = json.loads(encode_message(decode_message(json.dumps(GOOD).encode(), Descriptor)))
    assert written["column_set"] == "standard/1"
    assert [column["name"] for column in written["extra_columns"]] == ["efa_retransmits"]
    del written["extra_columns"]
    older = decode_message(json.dumps(written).encode(), Descriptor)
    assert older.columns == COLUMN_SETS["standard/1"]


def test_unknown_fields_are_ignored() -> None:
    """A later minor version may add fields."""
    assert (
        decode_message(json.dumps({**GOOD, "new": {"a": 1}}).encode(), Descriptor).path
        == GOOD["path"]
    )


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"path": "a b"},
        {"path": "a/b/c/d/e/f"},
        {"period_s": 0},
        {"period_s": "1"},
        {"period_s": float("inf")},
        {"revision": -1},
        {"revision": True},
        {"instances": []},
        {"instances": [{"path": "uc1/x", "type": "trn2.48xlarge"}]},
        {"instances": [{"path": "uc1/x/\u202e", "type": "trn2.48xlarge"}]},
        {"instances": GOOD["instances"] * 2_000},
        {"columns": [{"name": "x", "type": "f32", "scale": 1, "width": 1}]},
        {"columns": [{"name": "x", "type": "u8", "scale": 0, "width": 1}]},
        {"publisher": "x" * 65},
    ],
)
def test_bad_descriptors(change: dict[str, Any]) -> None:
    """A broken rule is a WireError without the input."""
    with pytest.raises(WireError) as caught:
        decode_message(json.dumps({**GOOD, **change}).encode(), Descriptor)
    assert len(str(caught.value)) < 300
    assert "\u202e" not in str(caught.value)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"v":1' + b"9" * 5_000 + b"}",
        b'"\\ud800"',
        b"null",
        b"{",
        b'{"v": NaN}',
        b"x" * 200_000,
    ],
    ids=range(9),
)
@pytest.mark.parametrize(
    "model", [Descriptor, JobMessage, PublisherMessage, EventMessage, CommandMessage, ReplyMessage]
)
def test_garbage(payload: bytes, model: Any) -> None:
    """Decoding arbitrary bytes raises only WireError."""
    with pytest.raises(WireError):
        decode_message(payload, model)
    with pytest.raises(WireError):
        parse_json_object(payload)


def test_size_limit_comes_first() -> None:
    """A message over the limit is refused before it is parsed."""
    with pytest.raises(WireError, match="over the limit of 10"):
        decode_message(b"x" * 11, Descriptor, Limits(payload_bytes=10))


@pytest.mark.parametrize(
    ("model", "good"), [(EventMessage, EVENT), (CommandMessage, COMMAND), (ReplyMessage, REPLY)]
)
def test_events_commands_and_replies_round_trip(model: Any, good: dict[str, Any]) -> None:
    """An event, a command and a reply come back as they were, field by field."""
    message = decode_message(json.dumps(good).encode(), model)
    payload = encode_message(message)
    written = json.loads(payload)
    assert {key: written[key] for key in good} == good
    assert decode_message(payload, model) == message


def test_an_event_may_be_about_the_fleet() -> None:
    """An event without an address is about the whole fleet and no job."""
    few = {key: value for key, value in EVENT.items() if key not in {"job", "nrt"}}
    event = decode_message(json.dumps({**few, "path": ""}).encode(), EventMessage)
    assert (event.path, event.job, event.nrt) == ("", None, None)


def test_a_command_is_understood_whole_or_not_at_all() -> None:
    """Unknown fields are refused in a command and ignored in other messages."""
    assert decode_message(json.dumps({**EVENT, "new": 1}).encode(), EventMessage).id == EVENT["id"]
    assert decode_message(json.dumps({**REPLY, "new": 1}).encode(), ReplyMessage).id == "42"
    with pytest.raises(
        WireError, match="CommandMessage dry_run: unknown field: choose from action, args"
    ):
        decode_message(json.dumps({**COMMAND, "dry_run": True}).encode(), CommandMessage)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"args": {"list": [1]}}, "args.list: must be true or false, a number or text"),
        ({"args": {"a b": 1}}, "args: must match ^[A-Za-z0-9_-]{1,64}$, not 'a b'"),
        ({"a\u202e": 1}, "'a\\u202e': unknown field: choose from action, "),
        ({"clients": "x"}, "clients: unknown field: did you mean 'client'?"),
    ],
)
def test_a_refused_command_is_told_why(change: dict[str, Any], words: str) -> None:
    """The answer names the field and what is valid there."""
    with pytest.raises(WireError) as refused:
        decode_message(json.dumps({**COMMAND, **change}).encode(), CommandMessage)
    assert str(refused.value).startswith(f"CommandMessage {words}")


@pytest.mark.parametrize(
    ("model", "good", "change"),
    [
        *(
            (EventMessage, EVENT, {"path": path})
            for path in ("a b", "/", "a/", "a/b/c/d/e/f", "a\n")
        ),
        (EventMessage, EVENT, {"severity": "fatal"}),
        (EventMessage, EVENT, {"nrt": -1}),
        (EventMessage, EVENT, {"nrt": 1.5}),
        (EventMessage, EVENT, {"text": "x" * 257}),
        (EventMessage, EVENT, {"id": "a/b"}),
        *((CommandMessage, COMMAND, {"id": name}) for name in ("", "..", "a/b", "a\n", 7)),
        *((CommandMessage, COMMAND, {"client": name}) for name in ("", "../x", "+", "x" * 65)),
        (CommandMessage, COMMAND, {"args": {"for_s": -1}}),
        (CommandMessage, COMMAND, {"args": {"for_s": float("inf")}}),
        (CommandMessage, COMMAND, {"args": {"a b": 1}}),
        (CommandMessage, COMMAND, {"args": {"list": [1]}}),
        (CommandMessage, COMMAND, {"args": {f"a{number}": 1 for number in range(17)}}),
        (CommandMessage, COMMAND, {"by": "x" * 257}),
        (CommandMessage, COMMAND, {"target": None}),
        (ReplyMessage, REPLY, {"ok": "yes"}),
        (ReplyMessage, REPLY, {"id": "../x"}),
        (ReplyMessage, REPLY, {"reason": "x" * 2_001}),
        (ReplyMessage, REPLY, {"result": []}),
    ],
)
def test_bad_events_commands_and_replies(
    model: Any, good: dict[str, Any], change: dict[str, Any]
) -> None:
    """What breaks a rule is a WireError."""
    with pytest.raises(WireError):
        decode_message(json.dumps({**good, **change}).encode(), model)


@pytest.mark.parametrize(("model", "given"), [(EventMessage, EVENT), (CommandMessage, COMMAND)])
def test_no_text_of_messages_is_kept_that_nobody_keeps(model: Any, given: dict[str, Any]) -> None:
    """Instants and ids of messages are not cached, because each would cost 80 bytes.

    A reader running for days sees a new instant a second.
    """
    payloads = [
        json.dumps({**given, "id": f"{model.__name__}-{number:08d}"}).encode()
        for number in range(3_000)
    ]
    decode_message(payloads[0], model)
    gc.collect()
    tracemalloc.start()
    try:
        for payload in payloads:
            decode_message(payload, model)
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < 32 * 2**10
