"""The rows of a view as a table of names and values, and as CSV."""

from __future__ import annotations

import io
import math
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.filters.columns import Column, Columns, Kind
from trnfleet.text import LONGEST, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trnfleet.domain.filters.language import Row

Value = str | float | None
MOST_ROWS = 100_000
"""Most rows of a table. A tree of a large fleet may have a million open."""
_FORMULA = ("=", "+", "-", "@")
"""Prefixes of a spreadsheet formula. Tab and line break, the other ones, are escaped."""


class ExportTable(NamedTuple):
    """Rows of a view."""

    columns: tuple[str, ...] = ()
    rows: Sequence[Sequence[Value]] = ()
    total: int = 0
    """Rows of the view if more than `MOST_ROWS`; else 0."""


def table_of(columns: Columns, rows: Iterable[Row]) -> ExportTable:
    """Return rows as seen by a filter, with all comparable columns."""
    named = columns.all
    return ExportTable(
        tuple(
            titled(column.name, "s" if column.kind is Kind.DURATION else column.unit)
            for column in named
        ),
        [[_value(column, row.value(column.name)) for column in named] for row in rows],
    )


def titled(name: str, unit: str) -> str:
    """Return a column's title: its name, and its unit in brackets."""
    return f"{name} [{unit}]" if unit else name


def csv_text(table: ExportTable) -> str:
    """Return a table as CSV (RFC 4180), in printable characters.

    Unknown values are empty.

    Publishers write texts: a text read as a formula by spreadsheets is prefixed with an apostrophe.
    """
    import csv  # noqa: PLC0415  for this alone, which few runs of the app need

    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(table.columns)
    writer.writerows([_cell(value) for value in row] for row in table.rows)
    return written.getvalue()


def markdown_text(table: ExportTable) -> str:
    """Return a table as Markdown, its values as in `csv_text`."""
    head, *rows = (
        " | ".join(re.sub(r"([\\|<`*_])", r"\\\1", _cell(value)) for value in row)
        for row in (table.columns, *table.rows)
    )
    rule = " | ".join("---" for _ in table.columns)
    return "".join(f"| {row} |\n" for row in (head, rule, *rows))


def _value(column: Column, value: Value) -> Value:
    """Return a value, and the word itself where it is the number of one."""
    if column.kind is Kind.WORDS and isinstance(value, int | float):
        return column.words[int(value)]
    if column.kind is Kind.DURATION and isinstance(value, int | float) and math.isfinite(value):
        return round(value)
    return value


def _cell(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        shown = plain(value, LONGEST)
        return f"'{shown}" if shown.startswith(_FORMULA) else shown
    if not math.isfinite(value):
        return ""
    # Counts and bytes to the last digit.
    return str(int(value)) if value == int(value) and abs(value) < sys.maxsize else f"{value:.10g}"
