from __future__ import annotations

import io
import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.paths import FIXTURES

from trnfleet.clock import parse_rfc3339
from trnfleet.errors import WireError
from trnfleet.record.format import lines
from trnfleet.record.format.envelopes import MAX_NS
from trnfleet.record.format.lines import decode_line, decode_lines, encode_line
from trnfleet.wire.ndjson import LeftOut
from trnfleet.wire.ports import Envelope, Stored

LINES = FIXTURES / "mosquitto"
NOON_NS = parse_rfc3339("2026-01-05T12:00:00Z")

topics = st.text(
    st.characters(exclude_characters="+#\0", exclude_categories=["Cs"]), min_size=1, max_size=40
)
envelopes = st.builds(
    Envelope,
    topic=topics,
    payload=st.one_of(st.binary(max_size=200), st.text(max_size=60).map(str.encode)),
    qos=st.integers(0, 2),
    retain=st.booleans(),
    content_type=st.one_of(st.none(), st.sampled_from(["application/json", "application/cbor"])),
    received_s=st.just(0.0),
    shed=st.just(0),
    link=st.just(0),
    properties=st.none(),
)


def line(**changed: Any) -> bytes:
    fields = {
        "tst": "2026-01-05T12:00:00.000000Z+0000",
        "topic": "t",
        "qos": 0,
        "retain": 0,
        "payloadlen": 2,
        "payload": "{}",
    }
    return json.dumps(
        {key: value for key, value in (fields | changed).items() if value != "absent"}
    ).encode()


def read(text: bytes) -> tuple[list[Stored], LeftOut]:
    counts = LeftOut()
    return list(decode_lines(io.BytesIO(text), counts)), counts


@given(envelopes, st.integers(0, MAX_NS))
def test_a_line_gives_the_message_back(envelope: Envelope, time_ns: int) -> None:
    """A line is printable ASCII and gives the same message at the same nanosecond."""
    stored = Stored(time_ns, envelope)

    written = encode_line(stored)

    assert re.fullmatch(rb"[ -~]+\n", written)
    assert decode_line(written) == stored


def test_lines_have_the_keys_of_mosquitto_sub_in_their_order() -> None:
    """Lines have mosquitto_sub's keys first, then the ones for binary payloads."""
    text = Envelope("t", b'{"a":1}', 1, retain=True, content_type="application/json")

    assert (
        encode_line(Stored(NOON_NS, text))
        == b'{"tst":"2026-01-05T12:00:00.000000Z+0000","topic":"t","qos":1,"retain":1,"payloadlen":7,"mid":0,'  # noqa: E501
        b'"properties":{"content-type":"application/json"},"payload":"{\\"a\\":1}"}\n'
    )
    assert (
        encode_line(Stored(NOON_NS + 1, Envelope("t", b"\xa3\x00")))
        == b'{"tst":"2026-01-05T12:00:00.000000001Z+0000","topic":"t","qos":0,"retain":0,"payloadlen":2,'  # noqa: E501
        b'"payload":null,"payload_base64":"owA="}\n'
    )
    # Programs in C would take what is before the NUL for all of it.
    assert json.loads(encode_line(Stored(NOON_NS, Envelope("t", b"a\0b"))))["payload"] is None


@pytest.mark.parametrize("character", ["\x7f", "\x9b", "\u202e", "\u2066", "✓", "\U0001f600"])
def test_what_a_terminal_would_act_upon_is_an_escape(character: str) -> None:
    """DEL, C1 controls and direction overrides are escaped, and survive."""
    stored = Stored(NOON_NS, Envelope(f"t/{character}", f'{{"a":"{character}"}}'.encode()))

    written = encode_line(stored)

    assert character.encode() not in written
    assert written.count(b"\\u") >= 2
    assert decode_line(written) == stored


def test_what_mosquitto_sub_wrote_is_read_and_written_alike() -> None:
    """Lines of mosquitto_sub -F %j equal ours in the same order, without message ids."""
    counts = LeftOut()
    with (LINES / "payload-text.ndjson").open("rb") as stream:
        taken = list(decode_lines(stream, counts=counts))
    theirs = [
        json.loads(each)
        for each in (LINES / "payload-text.ndjson").read_bytes().splitlines()
        if b"raw" not in each
    ]

    assert len(taken) == 10
    for stored, line_of_theirs in zip(taken, theirs, strict=True):
        ours = json.loads(encode_line(stored))
        assert list(ours) == list(line_of_theirs)
        assert ours | {"mid": 0} == line_of_theirs | {"mid": 0}
    assert taken[0].envelope.retain
    assert taken[2].envelope.content_type == "application/json"
    assert taken[-1].envelope.payload.decode() == 'geschlossen ✓ "west"'
    assert counts.taken == 10
    assert counts.count == 1
    assert counts.first.startswith("line 10: not JSON")


def test_values_as_json_give_the_same_messages() -> None:
    """Lines of -F %J, with JSON payloads as values, give the messages of %j."""
    counts = LeftOut()
    with (LINES / "payload-text.ndjson").open("rb") as stream:
        text = [each.envelope for each in decode_lines(stream)]
    with (LINES / "payload-values.ndjson").open("rb") as stream:
        values = [each.envelope for each in decode_lines(stream, counts=counts)]

    assert len(values) == 9
    for one, other in zip(text, values, strict=False):
        assert one._replace(payload=b"") == other._replace(payload=b"")
        assert json.loads(one.payload) == json.loads(other.payload)
    assert counts.text("message").startswith("9 messages, 2 left out (first line 10: empty")


@pytest.mark.parametrize(
    ("fields", "payload"),
    [
        ({"payload": '"text"', "payloadlen": 6}, b'"text"'),
        ({"payload": "text", "payloadlen": 6}, b'"text"'),
        ({"payload": "text", "payloadlen": 4}, b"text"),
        ({"payload": None, "payloadlen": 4}, b"null"),
        ({"payload": None, "payloadlen": 0}, b""),
        ({"payload": "", "payloadlen": 0}, b""),
        ({"payload": "x", "payloadlen": "absent"}, b"x"),
        ({"payload": [1, 2], "payloadlen": 6}, b"[1,2]"),
        (
            {"payload": {"n": 9.00719925474099e15, "x": 2.5}, "payloadlen": 40},
            b'{"n":9007199254740990,"x":2.5}',
        ),
    ],
)
def test_text_and_value_are_told_apart_by_their_length(
    fields: dict[str, Any], payload: bytes
) -> None:
    """The length shows whether a string or null is %j or %J.

    The payload's bytes, or its JSON value.
    """
    assert decode_line(line(**fields)).envelope.payload == payload


@pytest.mark.parametrize(
    ("tst", "expected"),
    [
        ("2026-01-05T12:00:00.250000Z+0000", "2026-01-05T12:00:00.250Z"),
        ("2026-01-05T13:00:00.250000Z+0100", "2026-01-05T12:00:00.250Z"),
        ("2026-01-05T13:00:00.25+01:00", "2026-01-05T12:00:00.250Z"),
        ("2026-01-05T07:30:00-0430", "2026-01-05T12:00:00Z"),
        ("2026-01-05T12:00:00Z", "2026-01-05T12:00:00Z"),
        (1_767_614_400, "2026-01-05T12:00:00Z"),
        (1_767_614_400.5, "2026-01-05T12:00:00.500Z"),
    ],
)
def test_times_are_read_with_and_without_fraction_and_zone(tst: object, expected: str) -> None:
    """A local time with its zone is an instant in any notation.

    Older ones are seconds.
    """
    assert decode_line(line(tst=tst)).time_ns == parse_rfc3339(expected)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"{", "not JSON"),
        (b"[]", "not a JSON object"),
        (b'"\xff"', "does not keep binary payloads"),
        (b"[" * 100_000, "not JSON"),
        (line(topic=7), "topic"),
        (line(topic=""), "topic"),
        (line(topic="a/#"), "topic"),
        (line(topic="ä" * 40_000), "topic"),
        (line(qos=3), "qos"),
        (line(qos=True), "qos"),
        (line(retain=2), "retain"),
        (line(retain=[]), "retain"),
        (line(payload="absent"), "no payload"),
        (line(payload="cut", payloadlen=9), "3 of 9 bytes"),
        (line(payload=None, payloadlen=9), "0 of 9 bytes"),
        (line(payloadlen=-1), "payloadlen"),
        (line(payload_base64="!"), "payload_base64"),
        (line(payload_base64=5), "payload_base64"),
        (line(payload_base64="AAAA"), "3 of 2 bytes"),
        (line(properties=[]), "properties"),
        (line(properties={"content-type": 1}), "content-type"),
        (line(tst="absent"), "tst"),
        (line(tst="2026-01-05T12:00:00"), "tst"),
        (line(tst="2026-13-05T12:00:00Z"), "tst"),
        (line(tst="2026-01-05T12:00:00+9999"), "tst"),
        (line(tst="0001-01-01T00:00:00+2359"), "tst"),
        (line(tst="9999-12-31T00:00:00Z"), "tst is before 1970 or after 2262"),
        (line(tst=-1), "tst is before 1970"),
        (line(tst=10**400), "tst is before 1970 or after"),
        (line(tst=1e308), "tst is before 1970 or after"),
    ],
)
def test_what_is_no_message_is_left_out_with_its_reason(bad: bytes, reason: str) -> None:
    """An invalid line is refused and counted with its number.

    Its neighbours are read.
    """
    with pytest.raises(WireError, match=reason):
        decode_line(bad)

    taken, counts = read(b"\n".join([line(), bad, line(), bad]))

    assert len(taken) == counts.taken == 2
    assert counts.count == 2
    assert counts.first.startswith("line 2: ")
    assert reason in counts.first


def test_times_that_go_back_are_held() -> None:
    """A clock set back does not make a recording's times fall."""
    seconds = (5, 3, 7)
    text = b"\n".join(line(tst=datetime.fromtimestamp(each, UTC).isoformat()) for each in seconds)

    taken, _ = read(text)

    assert [each.time_ns for each in taken] == [5_000_000_000, 5_000_000_000, 7_000_000_000]


def test_a_line_without_end_is_not_read_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines beyond the limit are skipped in pieces, and the next line is read."""

    class Counting(io.BytesIO):
        longest = 0

        def readline(self, size: int | None = -1, /) -> bytes:
            got = super().readline(size)
            Counting.longest = max(Counting.longest, len(got))
            return got

    stream = Counting(b"x" * 1_000_000 + b"\n" + line() + b"\n" + b"y" * 3_000)
    counts = LeftOut()

    monkeypatch.setattr(lines, "MOST_LINE_BYTES", 1_000)
    taken = list(decode_lines(stream, counts))

    assert len(taken) == 1
    assert Counting.longest <= 1_001
    assert counts.text("message") == "1 message, 2 left out (first line 1: longer than 1000 bytes)"


@given(st.binary(max_size=400), st.integers(0, 3_000))
def test_damaged_files_raise_nothing(noise: bytes, cut: int) -> None:
    """Reading any file ends, and its messages can be written again."""
    whole = (LINES / "payload-text.ndjson").read_bytes()
    counts = LeftOut()

    taken = list(
        decode_lines(io.BytesIO(whole[:cut] + noise + whole[cut : cut + 2_000]), counts=counts)
    )

    assert counts.taken == len(taken)
    for stored in taken:
        assert decode_line(encode_line(stored)) == stored
