"""Who watches each cell of a fleet on a top broker, and why its alerts may not be as they are shown."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.alerts.watches import Word, word_of
from trnfleet.wire.alerts import CellAlertMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.monitor.fleet_state import FleetState


class CellWatch(NamedTuple):
    """Who watches a cell, as its relay passes it on."""

    cell: str
    is_observed: bool
    """Whether a relay sees it at present."""
    word: Word

    @property
    def doubt(self) -> str:
        """Why its alerts may not be as they are shown; empty where they are."""
        if not self.is_observed:
            return "not observed, its alerts are as last known"
        doubts = "; ".join(self.word.doubts)
        return doubts or ("" if self.word.leader is not None else "no watch publishes its alerts")


def cells_of(state: FleetState) -> tuple[CellWatch, ...]:
    """Return the cells that are described, or of which there are alerts, with who watches each."""
    ingest, now_s = state.ingest, state.clock.monotonic_s()
    observed = ingest.cells.seen(state.store.rolled.cells_observed(), now_s)
    messages = ingest.retained[CellAlertMessage].by_key.values()
    firing = Counter(each.cell for each in messages if each.state == "firing")
    return tuple(
        CellWatch(
            cell,
            observed.get(cell, False),
            word_of(ingest.cells.watches(cell, now_s), firing[cell]),
        )
        for cell in sorted({*observed, *firing})
    )


def are_watched(cells: Sequence[CellWatch]) -> bool:
    """Return whether there are cells, and a watch leads in each."""
    return bool(cells) and all(each.word.leader is not None for each in cells)
