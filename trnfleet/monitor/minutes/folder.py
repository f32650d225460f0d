"""History of one fleet as charts read it: answers that are there at once, or are read behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from trnfleet.domain.minutes import KeptSeries, Reach, Wanted


class FleetHistory(Protocol):
    """The files of months of one fleet."""

    @property
    def revision(self) -> int:
        """Goes up with each answer and each problem."""

    @property
    def problem(self) -> str:
        """What cannot be read, with the file and the reason, in one line; empty for nothing."""

    @property
    def reach(self) -> Reach | None:
        """The times that it has anything of; None where that is nothing, or not known yet."""

    def ask(self, wanted: Wanted) -> KeptSeries | None:
        """Return an answer that is there, or one to the same question of a little earlier; None while it is read."""
