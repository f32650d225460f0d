"""Codes of columns, and the freshness of values among them."""

from __future__ import annotations

import enum

STALE_AFTER_PERIODS = 3
"""Periods without a message after which values are stale and a source's time stops."""


class Code(enum.IntEnum):
    """Code of a column, numbered from 0 by `enum.auto`."""

    @staticmethod
    def _generate_next_value_(_name: str, _start: int, count: int, _values: list[int]) -> int:
        return count


class Freshness(Code):
    """Freshness of a row's values, from best to worst.

    Columns are compared with the `value`: NumPy takes the enumeration's own for a number of 64
    bits, and ten times as long.
    """

    LIVE = enum.auto()
    STALE = enum.auto()
    """Nothing has come for three periods."""
    OFFLINE = enum.auto()
    """Its publisher has disconnected, as it or its last will announced."""
    UNKNOWN = enum.auto()
    """Described less than three periods ago, and nothing has come yet."""
    UNOBSERVED = enum.auto()
    """Not observed: no relay sees it at present, so its state is unknown here."""
