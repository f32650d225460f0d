"""Rows that say nothing: of an instance that boots, or whose agent hangs, all values are not available in a message.

Such a row is no news: the store keeps its last values with the time at which they came, so that they turn stale.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


_TOPS = {size: (1 << 8 * size) - 1 for size in (1, 2, 4, 8)}
"""The code that means not available, by a wire type's bytes."""


class Speaking(NamedTuple):
    """The rows of a message that have any value."""

    rows: slice | NDArray[np.int64]
    """Where they are in the store."""
    mask: NDArray[np.bool_] | None
    """Which rows of the message they are; None for all."""

    def of(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return an array's rows that have any value."""
        return array if self.mask is None else array[self.mask]


def speaking(columns: Mapping[str, NDArray[Any]], rows: slice | NDArray[np.int64]) -> Speaking:
    """Return the rows of a message in which any value is available.

    Args:
        columns: Wire codes of a message, (rows,) or (rows, width) each; without columns every row speaks.
        rows: Where the message's rows are in the store.
    """
    silent: NDArray[np.bool_] | None = None
    for codes in columns.values():
        missing = codes == _TOPS[codes.dtype.itemsize]
        # As a rule the first column has all its values.
        if not missing.any():
            return Speaking(rows, None)
        if missing.ndim > 1:
            missing = missing.all(axis=1)
        silent = missing if silent is None else silent & missing
        if not silent.any():
            return Speaking(rows, None)
    if silent is None:
        return Speaking(rows, None)
    told = ~silent
    return Speaking(np.arange(rows.start, rows.stop)[told] if isinstance(rows, slice) else rows[told], told)
