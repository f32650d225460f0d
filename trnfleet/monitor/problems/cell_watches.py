"""Who watches each cell of a fleet on a top broker, and why its alerts may not be as they are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.alerts.watches import Word, word_of

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
    return bool(cells) and all(each.word.leader is not None for each in cells)


def doubts_of(cells: Sequence[CellWatch]) -> tuple[str, ...]:
    """Return why alerts of cells may not be as they are shown, a line for each of which that is so."""
    return tuple(f"cell {each.cell}: {each.doubt}" for each in cells if each.doubt)
