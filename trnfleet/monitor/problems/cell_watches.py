"""Watches of each cell on a top broker, and reasons to doubt its alerts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.alerts.watches import Word, word_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.monitor.fleet_state import FleetState


class CellWatch(NamedTuple):
    """Watches of a cell, as forwarded by its relay."""

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
    """Return the cells with a descriptor or alerts, with their watches."""
    ingest = state.ingest
    now_s = state.clock.monotonic_s()
    observed = ingest.cells.seen(state.store.rolled.cells_observed(), now_s)
    firing = state.alerts.cells.by_cell
    return tuple(
        CellWatch(
            cell,
            observed.get(cell, False),
            word_of(ingest.cells.watches(cell, now_s), firing.get(cell, 0)),
        )
        for cell in sorted({*observed, *firing})
    )


def are_watched(cells: Sequence[CellWatch]) -> bool:
    """Return whether there are cells, and a watch leads in each."""
    return bool(cells) and all(cell.word.leader is not None for cell in cells)


def doubts_of(cells: Sequence[CellWatch]) -> tuple[str, ...]:
    """Return the reasons to doubt alerts of cells, one line per affected cell."""
    return tuple(f"cell {cell.cell}: {cell.doubt}" for cell in cells if cell.doubt)
