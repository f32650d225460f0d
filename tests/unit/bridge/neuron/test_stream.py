from __future__ import annotations

import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnfleet.bridge.neuron.stream import read_documents


def read(text: bytes, most_bytes: int = 1_000) -> list[tuple[int, bytes | None]]:
    return list(read_documents(io.BytesIO(text), most_bytes))


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


@settings(max_examples=50)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_to_their_end(noise: bytes) -> None:
    """Nothing is lost but blank lines and ends of lines."""
    got = read(noise)

    assert b"".join((each or b"").split(b"\n")[0] for _, each in got[:1]).strip() in noise
    assert all(line > 0 for line, _ in got)
