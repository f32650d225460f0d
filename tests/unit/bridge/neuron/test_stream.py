from __future__ import annotations

import io
import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnfleet.bridge.neuron.stream import read_documents


def read(text: bytes, most_bytes: int = 1_000) -> list[tuple[int, bytes | None]]:
    return [each[:2] for each in read_documents(io.BytesIO(text), most_bytes)]


def test_lines_and_indented_documents_follow_each_other() -> None:
    """Documents may be lines or indented, with blank lines between them.

    One may begin on the line another ends on.
    """
    text = b'{"a": 1}\n\n{\n  "b": {\n\n    "c": "}{"\n  }\n}{"d":\n [1,\n 2]\n}\n{"e": 1}\r\n'

    got = read(text)

    assert [line for line, _ in got] == [1, 3, 8, 12]
    assert [json.loads(each or b"") for _, each in got] == [
        {"a": 1},
        {"b": {"c": "}{"}},
        {"d": [1, 2]},
        {"e": 1},
    ]


def test_a_damaged_document_takes_no_other_with_it() -> None:
    """A cut document ends at the begin of the next, on a line or indented."""
    got = read(b'{"a": [{"b"\n{"c": 1}\n{\n "d": {\n{\n "e": 1\n}\nnoise\n} {\n "f": 1}\n{"g": {')

    assert [line for line, _ in got] == [1, 2, 3, 5, 8, 9, 9, 11]
    assert [each for _, each in got][1] == b'{"c": 1}'
    assert json.loads(got[3][1] or b"") == {"e": 1}


def test_documents_that_are_too_long_are_told() -> None:
    """Too long documents are reported but not stored, and the next ones are read.

    They may be in one line or in many.
    """
    long = b"{\n" + b' "key": "value",\n' * 9 + b' "end": 1\n}\n'

    got = read(b'{"a": "' + b"x" * 200 + b'"}\n' + long + b'{"b": 1}\n' + long[:-2], 100)

    assert got == [(1, None), (2, None), (14, b'{"b": 1}'), (15, None)]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b'[{"a": 1}, {"b": "],"}, {"c": [2]}]\n', [1, 1, 1]),
        (b'[\n{"a": 1},\n{"b": "],"}\n,\n{"c": [2]}\n]\n', [2, 3, 5]),
        (
            (
                b'[\n  {\n    "a": 1\n  },\n  {\n    "b": "],"\n  },\n  {\n    "c": [\n      2\n   '
                b" ]\n  }\n]\n"
            ),
            [2, 5, 8],
        ),
        (b'[{\n  "a": 1\n}, {\n  "b": "],"\n}, {"c": [2]\n}]\n', [1, 1, 1]),
    ],
)
def test_an_array_is_its_members(text: bytes, lines: list[int]) -> None:
    """An array may be one line, a member per line, or indented.

    `jq -s` and JSON libraries write it so.
    """
    got = read(text)

    assert [line for line, _ in got] == lines
    assert [json.loads(each or b"") for _, each in got] == [{"a": 1}, {"b": "],"}, {"c": [2]}]


def test_an_array_may_be_longer_than_a_document() -> None:
    """Where its members begin on lines of their own."""
    text = json.dumps([{"a": "x" * 50}] * 9, indent=2).encode()

    assert [json.loads(each or b"")["a"] for _, each in read(text, 80)] == ["x" * 50] * 9
    assert read(json.dumps([{"a": "x" * 50}] * 9).encode(), 80) == [(1, None)]


documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.text(), documents, max_size=3), st.sampled_from([None, 1, 4, "\t"])
        )
    )
)
def test_any_documents_come_back(told: list[tuple[dict[str, object], int | str | None]]) -> None:
    """However each is indented."""
    text = "".join(json.dumps(each, indent=indent) + "\n" for each, indent in told).encode()

    assert [json.loads(each or b"") for _, each in read(text, 10**6)] == [each for each, _ in told]


# logs

FIRST_NS = 1_767_603_600_000_000_000
TIME = "2026-01-05T09:00:00.123456789Z"
DOCUMENT = json.dumps({"text": 'a "b" ' * 9, "n": [1, {"c": 2}]})
INDENTED = json.dumps(json.loads(DOCUMENT), indent=2).splitlines()


def docker(text: str, stream: str = "stdout") -> str:
    return json.dumps({"log": text, "stream": stream, "time": TIME})


@pytest.mark.parametrize(
    ("lines", "form", "micros"),
    [
        ([f"{TIME} {DOCUMENT}"], "lines with times", 123_456),
        ([f"{TIME} {line}" for line in INDENTED], "lines with times", 123_456),
        ([f"2026-01-05T10:00:00+01:00 {DOCUMENT}"], "lines with times", 0),
        ([f"[pod/a-x/monitor] {TIME} {DOCUMENT}"], "lines of kubectl logs --prefix", 123_456),
        ([f"[pod/a-x/monitor] {DOCUMENT}"], "lines of kubectl logs --prefix", None),
        (
            [
                f"{TIME} stdout P {DOCUMENT[:20]}",
                f"{TIME} stderr F a warning",
                f"2026-01-05T09:00:01Z stdout F {DOCUMENT[20:]}",
            ],
            "lines of a container runtime's log",
            123_456,
        ),
        (
            [f"{TIME} stdout F {line}" for line in INDENTED],
            "lines of a container runtime's log",
            123_456,
        ),
        (
            [f"2026-01-05T09:00:00+0000 host neuron-monitor[7]: {DOCUMENT}"],
            "lines of the journal",
            0,
        ),
        (
            [docker(DOCUMENT[:9]), docker("oh\n", "stderr"), docker(DOCUMENT[9:] + "\n")],
            "entries of Docker's json-file",
            123_456,
        ),
        ([docker(DOCUMENT)], "entries of Docker's json-file", 123_456),
        ([docker(line + "\n") for line in INDENTED], "entries of Docker's json-file", 123_456),
        (
            [json.dumps({"time": TIME, "stream": "stdout", "logtag": "F", "log": DOCUMENT})],
            "entries of a log in JSON",
            123_456,
        ),
        (
            [
                json.dumps(
                    {
                        "_PID": "7",
                        "__REALTIME_TIMESTAMP": f"{FIRST_NS // 1000}",
                        "MESSAGE": DOCUMENT,
                    }
                )
            ],
            "entries of a log in JSON",
            0,
        ),
        (
            [json.dumps({"message": "\n".join(INDENTED), "@timestamp": TIME})],
            "entries of a log in JSON",
            123_456,
        ),
        (
            [json.dumps({"log": DOCUMENT, "time": "yesterday"})],
            "entries of Docker's json-file",
            None,
        ),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_documents_in_a_log_have_its_times(
    lines: list[str], form: str, micros: int | None, end: str
) -> None:
    """Whatever writes the log; parts of a line are joined, and lines of stderr are counted."""
    forms: Counter[str] = Counter()
    text = "".join(line + end for line in [*lines, *lines])

    got = list(read_documents(io.BytesIO(text.encode()), 1_000, forms))

    assert [json.loads(each.text or b"") for each in got] == [json.loads(DOCUMENT)] * 2
    assert [each.line for each in got] == [1, 1 + len(lines)]
    expected = None if micros is None else FIRST_NS + micros * 1_000
    assert {each.ts_ns for each in got} == {expected}
    assert form in forms
    assert forms["stderr"] == 2 * any("stderr" in line for line in lines)


def test_a_log_that_is_cut_or_mixed_loses_only_what_is_missing() -> None:
    """Parts without their end, a cut entry, other lines, and a line that is too long."""
    part = f"{TIME} stdout P "
    lines = [
        part + DOCUMENT[:30],
        "no entry",
        f"{TIME} {DOCUMENT}",
        docker(DOCUMENT)[:40],
        part + "x" * 300,
        part + "x" * 300,
        f"{TIME} stdout F {DOCUMENT}",
        docker(DOCUMENT + "\n"),
        part + DOCUMENT[:20],
    ]

    got = read("\n".join(lines).encode(), 500)

    assert [line for line, _ in got] == [1, 2, 3, 4, 5, 8, 9]
    assert [number for number, (_, text) in enumerate(got) if text == DOCUMENT.encode()] == [2, 5]
    assert got[4] == (5, None)


@given(
    st.lists(
        st.sampled_from(
            [
                docker(DOCUMENT),
                docker("{"),
                f"{TIME} stdout P {{",
                f"{TIME} stderr F x",
                f"{TIME} [",
                f"[pod/a/b] {TIME} ",
                '{"log": 7}',
                '{"MESSAGE": null}',
                '{"log": "\\ud800"}',
                "}",
                DOCUMENT,
            ]
        ),
        max_size=6,
    ),
    st.binary(max_size=20),
)
def test_any_log_is_read_to_its_end(lines: list[str], noise: bytes) -> None:
    text = "\n".join(lines).encode() + noise
    assert all(line > 0 for line, _ in read(text) + read(text[:-3]))


@settings(max_examples=50)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_to_their_end(noise: bytes) -> None:
    """Nothing is lost but blank lines and ends of lines."""
    got = read(noise)

    assert b"".join((each or b"").split(b"\n")[0] for _, each in got[:1]).strip() in noise
    assert all(line > 0 for line, _ in got)
