from __future__ import annotations

from trnfleet.cli.tables import LONGEST_CELL, table_lines


def test_tables_are_aligned() -> None:
    """Columns are as wide as their widest cell, and lines end without spaces."""
    assert table_lines([("A", "B"), ("long", "")]) == ["A     B", "long"]
    assert table_lines([("A", "B", "C"), ("x", "wide", "z")]) == ["A  B     C", "x  wide  z"]


def test_cells_are_plain_and_cut() -> None:
    """What a terminal could act upon is written out, and a cell has a limit."""
    assert table_lines([("A",), ("\x1b[2J",)]) == ["A", "\\u001b[2J"]
    assert len(table_lines([("A",), ("x" * 1_000,)])[1]) == LONGEST_CELL
