"""Silent instances: rows are "not available" while their counters continue underneath."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.domain.metrics import BY_NAME, Scope

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout


class SilentRows:
    """Hides the rows of silent instances between two steps."""

    def __init__(self, layout: Layout, columns: dict[str, NDArray[Any]]) -> None:
        self._layout = layout
        self._columns = columns
        self._hidden: dict[str, tuple[NDArray[np.int64], NDArray[Any]]] = {}

    def restore(self) -> None:
        """Restore the values of hidden rows, because a step reads them and adds to them."""
        for name, (rows, held) in self._hidden.items():
            self._columns[name][rows] = held
        self._hidden.clear()

    def hide(self, silent: NDArray[np.bool_], own: range) -> None:
        """Hide the rows of the silent ones among the instances `own`."""
        instances = np.flatnonzero(silent[own.start : own.stop]) + own.start
        if not len(instances):
            return
        rows = {Scope.INSTANCE: instances, Scope.CHIP: self._layout.chip_rows(instances)}
        for name, column in self._columns.items():
            metric = BY_NAME[name]
            chosen = rows[metric.scope]
            self._hidden[name] = (chosen, column[chosen])
            column[chosen] = metric.top
