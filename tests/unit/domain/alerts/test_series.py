from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnfleet.domain.alerts.series import LONGEST, MOST_SAMPLES, Mark, parse_series

GAP, STALE = Mark.GAP, Mark.STALE


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 2 3", (1, 2, 3)),
        ("0+10x5", (0, 10, 20, 30, 40, 50)),
        ("5-2x3", (5, 3, 1, -1)),
        ("1x4", (1, 1, 1, 1, 1)),
        ("0x3", (0, 0, 0, 0)),
        ("-2+1.5x3", (-2, -0.5, 1, 2.5)),
        ("-4-1x1", (-4, -5)),
        ("_", (GAP,)),
        ("_x3 1", (GAP, GAP, GAP, 1)),
        ("_x0 1", (1,)),
        ("1 stale _ 2", (1, STALE, GAP, 2)),
        (".5 5. 1e3 -.5E-1 +4", (0.5, 5, 1000, -0.05, 4)),
        ('"running"x2 "hung"', ("running", "running", "running", "hung")),
        (r'"a b" "say \"x3\"" "\\"x1', ("a b", 'say "x3"', "\\", "\\")),
        ("  1\t2\n3 ", (1, 2, 3)),
    ],
)
def test_it_is_promtools_notation(text: str, expected: tuple[object, ...]) -> None:
    """Counts apply to following samples, gaps and stale markers stay, texts are quoted."""
    assert parse_series(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no sample"),
        ("_x0", "there is no sample"),
        ("1 2y 3", "'2y' is no sample"),
        ("1x", "'1x' is no sample"),
        ("1xx3", "'1xx3' is no sample"),
        ("1+x3", "'1+x3' is no sample"),
        ("1x-3", "'1x-3' is no sample"),
        ("_ x3", "'x3' is no sample"),
        ("nan", "'nan' is no sample"),
        ("STALE", "'STALE' is no sample"),
        ("stalex2", "'stalex2' is no sample"),
        ("0x1F", "'0x1F' is no sample"),
        ('1 "open', "'\"open' is no sample"),
        ('"a"b', "'\"a\"b' is no sample"),
        ("running", "'running' is no sample"),
        ("1e999", "'1e999' is too large"),
        ("1e308+1e308x5", "'1e308+1e308x5' is too large"),
        ("\u0661", "is no sample"),
        (f"1x{MOST_SAMPLES}", f"more than {MOST_SAMPLES} samples"),
        ("1x" + "9" * 5_000, f"more than {MOST_SAMPLES} samples"),
        ("9" * (LONGEST + 1), f"at most {LONGEST}"),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str) -> None:
    """A refusal names the token, or the limit."""
    with pytest.raises(ValueError, match=r"sample|too large|at most") as caught:
        parse_series(text)

    assert said in str(caught.value)
    assert len(str(caught.value)) < 200


@given(
    st.lists(
        st.one_of(
            st.floats(allow_nan=False, allow_infinity=False),
            st.just(GAP),
            st.just(STALE),
            st.text(max_size=8),
        ),
        min_size=1,
    )
)
def test_what_is_written_is_read_again(samples: list[float | str | Mark]) -> None:
    """Every list of samples survives writing and reading."""
    written = []
    for sample in samples:
        if isinstance(sample, Mark):
            written.append(sample.value)
        elif isinstance(sample, str):
            quoted = sample.replace("\\", "\\\\").replace('"', '\\"')
            written.append(f'"{quoted}"')
        else:
            written.append(repr(sample))

    assert parse_series(" ".join(written)) == tuple(samples)


@given(st.text('"\\x_+-019.e stale', max_size=200))
def test_anything_is_read_or_refused(text: str) -> None:
    """There is no other error, whatever the text."""
    with contextlib.suppress(ValueError):
        assert parse_series(text)
