"""The filter language: parsing, matching, and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnfleet.domain.filters.columns import SEVERITY, Column, Columns, Kind
from trnfleet.domain.filters.language import Filter, Part, compared, hint, parse
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

POWER = Column("power", Kind.NUMBER, "W", ("power_w",))
COLUMNS = Columns(
    (
        POWER,
        Column("hbm", Kind.NUMBER, "bytes"),
        Column("link", Kind.NUMBER, "bytes/s"),
        Column("job"),
        SEVERITY,
        Column("age", Kind.DURATION),
        Column("at", Kind.PLACE),
    )
)


class Thing(NamedTuple):
    words: str
    power: float
    job: str
    sev: float
    at: str

    def value(self, column: str) -> str | float | None:
        found: str | float | None = getattr(self, column, None)
        return found

    def has(self, part: str) -> bool:
        return part in self.words


THINGS = [
    Thing("us-0001 hot", 480.0, "pretrain-70b", 2.0, "uc1/us-0001/i-0/chip03"),
    Thing("us-0001", 300.0, "pretrain-70b", np.nan, "uc1/us-0001/i-1"),
    Thing("us-0002", 451.0, "", 1.0, "uc1/us-0002"),
    Thing("idle and waiting", np.nan, "serve", 0.0, ""),
]


class Things:
    """The same as columns."""

    def having(self, part: str) -> NDArray[np.bool_]:
        return np.array([part in each.words for each in THINGS])

    def numbers(self, column: str) -> NDArray[np.float64]:
        return np.array([getattr(each, column, np.nan) for each in THINGS], np.float64)

    def named(self, column: str, fits: Callable[[str], bool]) -> NDArray[np.bool_]:
        return np.array([fits(getattr(each, column, "")) for each in THINGS])

    def at(self, address: str) -> NDArray[np.bool_]:
        at = compared(Column("at", Kind.PLACE), "=", address)
        return np.array([at.keeps(each) for each in THINGS])


CASES = {
    "": "0123",
    "us-0001": "01",
    "US-0001": "01",
    "!us-0001": "23",
    "power>450": "02",
    "power > 450 W": "02",
    "power>0.45kW": "02",
    "power>=451": "02",
    "power<=451 & power!=300": "2",
    "power>450 & job=pretrain-70b": "0",
    "power>450 and job=PRETRAIN-70B": "0",
    "power>450 job=pretrain-70b": "0",
    "POWER_W<400": "1",
    "!power>450": "13",
    "job=": "2",
    "job!=serve": "012",
    "job~train": "01",
    "job=~train": "",
    "job=~.*train.*": "01",
    "job!~p.*": "23",
    "sev>=warning": "02",
    "sev=crit": "0",
    "severity<warn": "3",
    "sev=~crit.*|info": "03",
    "at=uc1/us-0001": "01",
    "at=uc1/us-0002/i-9": "2",
    "at!=uc1/us-0001": "23",
    '"idle and waiting"': "3",
    "idle and waiting": "3",
    "idle & waiting": "3",
    "hot, us": "",
    "us-0002 or idle": "23",
    "us-0002 | job=serve": "23",
    "power>450 & job=pretrain-70b or job=serve": "03",
    "power>450 and (job=pretrain-70b or job=serve)": "0",
    "(us-0001 or idle) & !hot": "13",
    "job=serve or (sev>=warning and not power>470)": "23",
    "not (us-0001 & hot)": "123",
    "!(us-0001 or us-0002)": "3",
    "not job=serve": "012",
    "not idle": "",
    "((us-0002))or(idle)": "23",
    "(power > 450 W)": "02",
    "job=~(pre|se).*": "013",
    "(job=~(pre|se).*)": "013",
    "(job=~pre.* or job=)": "012",
    "()": "0123",
    "us-0002 or": "2",
    "or idle": "",
    "power>450 &": "02",
    "!": "0123",
}


@pytest.mark.parametrize(("text", "left"), CASES.items())
def test_what_is_left(text: str, left: str) -> None:
    """Rows one by one and a table as a whole give the same."""
    wanted = parse(text, COLUMNS)
    assert "".join(str(number) for number, each in enumerate(THINGS) if wanted.keeps(each)) == left
    mask = wanted.mask(Things())
    assert "".join(map(str, np.flatnonzero(np.ones(4) if mask is None else mask))) == left
    assert bool(wanted) is (mask is not None)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("link>40G", 40e9),
        ("link>40 GB/s", 40e9),
        ("hbm<64Gi", 64 * 2**30),
        ("age>10m", 600.0),
        ("age<1h & x", 3600.0),
    ],
)
def test_units(text: str, limit: float) -> None:
    """Prefixes, units and durations belong to the column."""
    term = parse(text, COLUMNS).terms[0]
    assert getattr(term, "limit", None) == limit


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "powr>450",
            (
                "'powr' is not a column: did you mean 'power'? Columns: power, hbm, link, job, sev,"
                " age, at."
            ),
        ),
        ("severty=critical", "did you mean 'severity'?"),
        ("x>3", "choose from age, at, hbm, job, link, power, power_w, sev, severity Text with"),
        ("power>", "power>: a value is missing, such as power>450"),
        ("power>much", "power: 'much' is not a number; write one in W, such as power>450"),
        ("power>450V", "power: 'V' is another unit; write it in W, such as power>450"),
        ("power~4", "power: ~ does not go with it; write power>450"),
        ("job>3", "job is a text: compare it with =, != or ~, such as job=name"),
        ("job=~(", "not a valid regular expression: missing )"),
        ("job~(a+", "not a valid regular expression: missing ): (a+"),
        ("sev>=bad", "sev: 'bad' is not one of its words: choose from critical, info, warning"),
        (
            "age>soon",
            "age: 'soon' is not a duration; write it as 90s, 500ms, 5m, 1h30m, 1d12h or 1w",
        ),
        ("at>uc1", "at: > does not go with it; write at=uc1/us-0001"),
        ("(us-0001 or", "a bracket is open: write ) behind the group"),
        ("(" * 10, "groups in groups: at most 9"),
        ("a" * 401, "a filter of 401 characters: at most 400"),
    ],
)
def test_mistakes(text: str, said: str) -> None:
    """An error names the column, the nearest valid one, and the right syntax."""
    with pytest.raises(ConfigError) as error:
        parse(text, COLUMNS)
    assert said in str(error.value)


def test_a_column_alone_is_explained() -> None:
    """Where a text is but a column's name, the hint says how to compare it."""
    assert hint("power", COLUMNS) == "power is a column; write power>450"
    assert hint(" !Power_W", COLUMNS) == "power is a column; write power>450"
    assert hint("us-0001", COLUMNS) == hint("", COLUMNS) == ""


@given(st.text(max_size=60) | st.text(alphabet='ab &!,=<>~"\\power450andnot|()', max_size=40))
def test_anything_may_be_typed(text: str) -> None:
    """Any text is a filter or an explained error.

    A filter written again means the same.
    """
    try:
        wanted = parse(text, COLUMNS)
    except ConfigError:
        return
    assert parse(str(wanted), COLUMNS) == wanted


@given(st.lists(st.text(min_size=1, max_size=12).map(lambda text: Part(text.lower())), max_size=4))
def test_quoted_texts_are_taken_as_they_are(parts: list[Part]) -> None:
    wanted = Filter(tuple(parts))
    assert parse(str(wanted), COLUMNS).terms == tuple(Part(each.part.lower()) for each in parts)
