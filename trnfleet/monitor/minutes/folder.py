"""History of one fleet for charts: answers are ready, or read in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from trnfleet.domain.minutes import KeptSeries, Reach, Wanted


class FleetHistory(Protocol):
    """The files of months of one fleet."""

    @property
    def revision(self) -> int:
        """Increases with each answer and each problem."""

    @property
    def problem(self) -> str:
        """The unreadable file and the reason, in one line.

        Empty if all is readable.
        """

    @property
    def reach(self) -> Reach | None:
        """The covered times.

        None if there are none, or unknown yet.
        """

    def ask(self, wanted: Wanted) -> KeptSeries | None:
        """Return an answer, perhaps one from a little earlier.

        None while it is read.
        """
