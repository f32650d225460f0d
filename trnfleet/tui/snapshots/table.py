"""The rows of a view as a table of names and values, and that as CSV."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.filters.columns import Kind
from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trnfleet.domain.filters.columns import Column, Columns
    from trnfleet.domain.filters.language import Row

Value = str | float | None
MOST_ROWS = 100_000
"""Rows of a table, at most: a tree of a large fleet may have a million of them open."""
LONGEST = 1_000
"""Characters of a value, at most."""
_EXACT_BELOW = 2**63
"""Whole numbers that are written with all of their digits."""
_FORMULA = ("=", "+", "-", "@")
"""What a spreadsheet takes for a formula where a text begins with it; tab and line break, the others, are written out."""


class Table(NamedTuple):
    """Rows of a view."""

    columns: tuple[str, ...] = ()
    rows: Sequence[Sequence[Value]] = ()
    total: int = 0
    """Rows that the view has, where they are more than `MOST_ROWS`; else 0."""


def table_of(columns: Columns, rows: Iterable[Row]) -> Table:
    """Return rows as a filter sees them, with all columns that it can compare."""
    named = columns.all
    return Table(
        tuple(
            titled(each.name, "s" if each.kind is Kind.DURATION else each.unit) for each in named
        ),
        [[_value(each, row.value(each.name)) for each in named] for row in rows],
    )


def titled(name: str, unit: str) -> str:
    """Return a column's title: its name, and its unit in brackets."""
    return f"{name} [{unit}]" if unit else name


def csv_text(table: Table) -> str:
    """Return a table as CSV (RFC 4180): what is not known is empty, texts have printable characters only.

    Publishers write texts: one that would be a formula to a spreadsheet begins with an apostrophe.
    """
    import csv  # noqa: PLC0415  for this alone, which few runs of the app need

    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(table.columns)
    writer.writerows([_cell(value) for value in row] for row in table.rows)
    return written.getvalue()


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
    return str(int(value)) if value == int(value) and abs(value) < _EXACT_BELOW else f"{value:.10g}"
