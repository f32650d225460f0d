"""Text of files in any encoding and packing."""

from __future__ import annotations

import bz2
import gzip
import io

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from trnfleet.errors import ConfigError
from trnfleet.wire.ndjson import TextFile

TEXT = '{"name": "äöü"}\n{"b": 2}\n'
PLAIN = TEXT.encode()


@pytest.mark.parametrize(
    ("content", "forms"),
    [
        (PLAIN, []),
        (TEXT.encode("utf-8-sig"), ["UTF-8 with a byte order mark"]),
        (TEXT.encode("utf-16"), ["UTF-16"]),
        (b"\xfe\xff" + TEXT.encode("utf-16-be"), ["UTF-16"]),
        (TEXT.encode("utf-16-le"), ["UTF-16-LE"]),
        (TEXT.encode("utf-16-be"), ["UTF-16-BE"]),
        (TEXT.encode("utf-32"), ["UTF-32"]),
        (gzip.compress(PLAIN, mtime=0), ["gzip"]),
        (
            gzip.compress(PLAIN[:9], mtime=0)
            + b"\0" * 700
            + gzip.compress(PLAIN[9:], mtime=0)
            + b"\0" * 9,
            ["gzip"],
        ),
        (gzip.compress(TEXT.encode("utf-16"), mtime=0), ["UTF-16", "gzip"]),
        (zstandard.compress(PLAIN[:9]) + zstandard.compress(PLAIN[9:]), ["zstd"]),
    ],
)
def test_a_text_is_read_as_utf8(content: bytes, forms: list[str]) -> None:
    text = TextFile(io.BytesIO(content))

    assert text.read() == PLAIN
    assert (text.forms, text.problem, text.is_whole) == (forms, "", True)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_packed_data_that_are_cut_or_damaged_are_read_up_to_there(pack: object) -> None:
    assert callable(pack)
    long = b"".join(b"line %d of a text\n" % number for number in range(50_000))
    packed = pack(long)

    cut = TextFile(io.BytesIO(packed[: len(packed) // 2]))
    read = cut.read()
    assert 0 < len(read) < len(long)
    assert long.startswith(read)
    assert "are cut off" in cut.problem

    damaged = TextFile(io.BytesIO(pack(PLAIN) + b"and no other part"))
    assert damaged.read() == PLAIN
    assert "data are damaged" in damaged.problem


def test_a_packing_that_cannot_be_read_is_named() -> None:
    with pytest.raises(ConfigError, match="packed with bzip2: unpack it, or pack it with gzip"):
        TextFile(io.BytesIO(bz2.compress(PLAIN)))


def test_a_long_text_of_few_packed_bytes_is_read_in_parts() -> None:
    """Lines are bounded, however little of the file they are."""
    for packed in (gzip.compress(b" " * 10**7, mtime=0), zstandard.compress(b" " * 10**7)):
        text = TextFile(io.BytesIO(packed))
        assert len(text.readline(1_000)) == 1_000


@given(
    st.sampled_from([gzip.compress(PLAIN, mtime=0), zstandard.compress(PLAIN)]),
    st.binary(max_size=40),
)
def test_any_packed_bytes_are_read_to_their_end(packed: bytes, noise: bytes) -> None:
    for cut in (2, 9, len(packed)):
        TextFile(io.BytesIO(packed[:cut] + noise)).read()
