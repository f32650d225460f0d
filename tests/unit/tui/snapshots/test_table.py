"""Tables as CSV, for programs reading numbers and spreadsheets reading formulas."""

from __future__ import annotations

import csv
import io
import math

import pytest

from trnfleet.domain.filters.columns import Column, Columns, Kind
from trnfleet.tui.snapshots.table import ExportTable, Value, csv_text, table_of


def read(table: ExportTable) -> list[list[str]]:
    return list(csv.reader(io.StringIO(csv_text(table), newline="")))


@pytest.mark.parametrize("text", ["=HYPERLINK(1)", "+1", "-2+3", "@SUM(A1)"])
def test_a_text_is_no_formula(text: str) -> None:
    """A published text is never a formula to a spreadsheet.

    Its characters matter only at the beginning.
    """
    assert read(ExportTable(("text", "text"), [(text, f"a{text}")]))[1] == [f"'{text}", f"a{text}"]


def test_numbers_are_numbers() -> None:
    """Negative numbers and durations in seconds are unchanged.

    Unknown and non-finite ones are empty.
    """
    rows: list[list[Value]] = [[-1.5, -2, None, math.nan, math.inf, ""]]
    assert read(ExportTable(tuple("abcdef"), rows))[1] == ["-1.5", "-2", "", "", "", ""]


def test_counts_and_bytes_have_all_of_their_digits() -> None:
    """A register of 48 bits, or the memory of a chip, is no approximation."""
    rows = [[23_269_998_592.0, 2**48 - 1, -0.0, 1e30, 0.1 + 0.2]]
    assert read(ExportTable(tuple("abcde"), rows))[1] == [
        "23269998592",
        "281474976710655",
        "0",
        "1e+30",
        "0.3",
    ]


def test_a_control_character_is_written_out() -> None:
    """Control characters are escaped, so that a tab or a line break begins no formula."""
    assert read(ExportTable(("text",), [("\t=1\r\n",)]))[1] == ["\\u0009=1\\u000d\\u000a"]


class Ending:
    """A row with a past end."""

    def value(self, column: str) -> float:
        assert column == "ends"
        return -90.4

    def has(self, _part: str) -> bool:
        raise AssertionError("nothing looks for a text")


def test_a_duration_is_a_number_of_whole_seconds() -> None:
    """Also one that is over."""
    columns = Columns([Column("ends", Kind.DURATION)])
    assert read(table_of(columns, [Ending()])) == [["ends [s]"], ["-90"]]
