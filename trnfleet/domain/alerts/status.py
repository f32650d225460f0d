"""Alert states (inactive, pending, firing, resolved), their transitions, and the status shown.

`Track` follows all targets of a rule at once, in columns with a row for each target that is not
inactive: the cost depends on the few targets in trouble, not on a million chips. Instants are
nanoseconds, intervals half-open: an alert with a `for` of 10 s fires 10 s after its condition was
first true.
"""

from __future__ import annotations

import enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Rows = NDArray[np.int64]
    Flags = NDArray[np.bool_]


class AlertState(enum.IntEnum):
    """State of an alert in its lifecycle."""

    INACTIVE = 0
    PENDING = enum.auto()
    """Its condition holds, not yet for long enough."""
    FIRING = enum.auto()
    RESOLVED = enum.auto()
    """It has fired, and the condition is over."""


class AlertStatus(enum.Enum):
    """Status of an alert for people, most urgent first."""

    FIRING = "firing"
    """It fires, and is neither acknowledged nor hidden."""
    ACKED = "acknowledged"
    SILENCED = "silenced"
    INHIBITED = "inhibited"
    """A wider alert covers it."""
    PENDING = "pending"
    RESOLVED = "resolved"


NEXT_STATES: Mapping[AlertState, frozenset[AlertState]] = MappingProxyType(
    {
        AlertState.INACTIVE: frozenset({AlertState.PENDING, AlertState.FIRING}),
        AlertState.PENDING: frozenset({AlertState.FIRING, AlertState.INACTIVE}),
        AlertState.FIRING: frozenset({AlertState.RESOLVED}),
        AlertState.RESOLVED: frozenset(
            {AlertState.INACTIVE, AlertState.PENDING, AlertState.FIRING}
        ),
    }
)
"""Successors of each state. A pending alert whose condition ends has not notified, so it does not
resolve."""

NEVER = np.int64(-(2**62))
"""An instant that has not been."""
COLUMNS = ("clear_ns", "fired_ns", "rows", "silent", "since_ns", "states", "values")
"""Columns of a track, one value per target."""


class Track:
    """Pending or firing targets of one rule, ascending by row."""

    __slots__ = ("at_ns", *COLUMNS)

    def __init__(self) -> None:
        self.at_ns = NEVER
        """The last instant."""
        self.rows: Rows = np.zeros(0, np.int64)
        """Numbers of the targets; shape (active,), as of all columns."""
        self.states: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self.since_ns: Rows = np.zeros(0, np.int64)
        """Since when the condition holds."""
        self.fired_ns: Rows = np.zeros(0, np.int64)
        """Begin of firing; `NEVER` while it is pending."""
        self.clear_ns: Rows = np.zeros(0, np.int64)
        """Since when the condition of a firing target does not hold; `NEVER` while it does."""
        self.values: NDArray[np.float64] = np.zeros(0)
        """The value that was seen last."""
        self.silent: Flags = np.zeros(0, np.bool_)
        """Whether nothing is known of it at present."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def firing(self) -> Flags:
        """Mask of the rows that fire."""
        flags: Flags = self.states == AlertState.FIRING
        return flags

    def step(
        self,
        now_ns: int,
        raised: Rows,
        values: NDArray[np.float64],
        look: Callable[[Rows], tuple[Flags, Flags, NDArray[np.float64]]],
        *,
        for_ns: int = 0,
        keep_ns: int = 0,
        holds_silent: bool = True,
        waits_silent: bool = False,
    ) -> None:
        """Advance to an instant.

        Args:
            now_ns: The instant; if it is before the last one, later times are set to it.
            raised: Targets with a true condition, ascending.
            values: Their values.
            look: For targets with a false condition: whether anything is known of each, whether it
                is
                not yet on the good side of the limit for clearing, and its value.
            for_ns: Time with a true condition until the target fires.
            keep_ns: Time with a false condition until it resolves.
            holds_silent: Whether targets without known values go on firing.
            waits_silent: Whether pending targets without known values wait that much longer; else
                they
                are forgotten.
        """
        passed_ns = max(0, now_ns - int(self.at_ns))
        self.at_ns = np.int64(now_ns)
        if not len(self.rows) and not len(raised):
            return
        if len(self.rows):
            np.minimum(self.since_ns, now_ns, out=self.since_ns)
            np.minimum(self.fired_ns, now_ns, out=self.fired_ns)
            np.minimum(self.clear_ns, now_ns, out=self.clear_ns)
            keep = self._carry_on(now_ns, raised, values, look, keep_ns, holds_silent=holds_silent)
            if waits_silent:
                keep |= self._wait(passed_ns, ~keep & ~self.firing, look)
            new = np.ones(len(raised), np.bool_)
            spots = np.searchsorted(raised, self.rows)
            is_raised = spots < len(raised)
            is_raised[is_raised] = raised[spots[is_raised]] == self.rows[is_raised]
            new[spots[is_raised]] = False
            if not keep.all():
                self._select(keep)
            raised = raised[new]
            values = values[new]
        if len(raised):
            self._insert(raised, values, now_ns)
        due = (self.states == AlertState.PENDING) & (now_ns - self.since_ns >= for_ns)
        if due.any():
            self.states[due] = AlertState.FIRING
            self.fired_ns[due] = now_ns

    def restore(self, row: int, since_ns: int, fired_ns: int, value: float) -> None:
        """Restore a target as firing, from a state recorded elsewhere."""
        place = int(np.searchsorted(self.rows, row))
        if place == len(self.rows) or self.rows[place] != row:
            self._insert(np.array([row]), np.array([value]), since_ns)
            place = int(np.searchsorted(self.rows, row))
        self.states[place] = AlertState.FIRING
        self.since_ns[place], self.fired_ns[place] = since_ns, fired_ns

    def move(self, places: Rows) -> None:
        """Renumber targets for a new layout.

        Args:
            places: The new number of each active target; negative for targets that are gone. These
                are
                forgotten.
        """
        self.rows = places
        self._select(places >= 0)
        order = np.argsort(self.rows, kind="stable")
        self._select(order)

    def shift(self, passed_ns: int) -> None:
        """Skip a time without evaluations.

        Pending and resolving targets wait that much longer.
        """
        self.since_ns[~self.firing] += passed_ns
        self.clear_ns[self.clear_ns != NEVER] += passed_ns
        self.at_ns += np.int64(passed_ns)

    def _wait(
        self,
        passed_ns: int,
        chosen: Flags,
        look: Callable[[Rows], tuple[Flags, Flags, NDArray[np.float64]]],
    ) -> Flags:
        """Skip the time since the last instant for chosen targets without known values.

        Return these targets.
        """
        waiting = np.zeros(len(self.rows), np.bool_)
        places = np.flatnonzero(chosen)
        if len(places):
            waiting[places] = ~look(self.rows[places])[0]
            self.since_ns[waiting] += passed_ns
            self.silent[waiting] = True
        return waiting

    def _carry_on(
        self,
        now_ns: int,
        raised: Rows,
        values: NDArray[np.float64],
        look: Callable[[Rows], tuple[Flags, Flags, NDArray[np.float64]]],
        keep_ns: int,
        *,
        holds_silent: bool,
    ) -> Flags:
        """Update active targets, and return which of them stay."""
        spots = np.searchsorted(raised, self.rows)
        is_raised = spots < len(raised)
        is_raised[is_raised] = raised[spots[is_raised]] == self.rows[is_raised]
        self.values[is_raised] = values[spots[is_raised]]
        self.silent[is_raised] = False
        self.clear_ns[is_raised] = NEVER
        keep = is_raised.copy()
        others = np.flatnonzero(~is_raised & self.firing)
        if not len(others):
            return keep
        known, held, seen = look(self.rows[others])
        # A target without known values stays as it was, or is over.
        self.silent[others] = ~known
        keep[others[~known]] = holds_silent
        self.clear_ns[others[known & held]] = NEVER
        keep[others[known & held]] = True
        # A target that is over keeps its last bad value for the record.
        live = known & held & ~np.isnan(seen)
        self.values[others[live]] = seen[live]
        ending = others[known & ~held] if holds_silent else others[~(known & held)]
        self.clear_ns[ending] = np.where(
            self.clear_ns[ending] == NEVER, now_ns, self.clear_ns[ending]
        )
        keep[ending] = now_ns - self.clear_ns[ending] < keep_ns
        return keep

    def _insert(self, rows: Rows, values: NDArray[np.float64], now_ns: int) -> None:
        count = len(rows)
        columns: dict[str, NDArray[Any]] = {
            "rows": rows,
            "states": np.full(count, AlertState.PENDING, np.uint8),
            "since_ns": np.full(count, now_ns, np.int64),
            "fired_ns": np.full(count, NEVER, np.int64),
            "clear_ns": np.full(count, NEVER, np.int64),
            "values": values,
            "silent": np.zeros(count, np.bool_),
        }
        before = len(self.rows)
        for name, added in columns.items():
            setattr(
                self, name, np.concatenate([getattr(self, name), added]) if before else added.copy()
            )
        if before:
            self._select(np.argsort(self.rows, kind="stable"))

    def _select(self, chosen: NDArray[np.bool_] | NDArray[np.int64] | NDArray[np.intp]) -> None:
        for name in COLUMNS:
            setattr(self, name, getattr(self, name)[chosen])
