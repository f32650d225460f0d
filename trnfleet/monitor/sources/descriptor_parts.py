"""What descriptors have in common, and which of them a layout does not show yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from trnfleet.monitor.copies import copied
from trnfleet.monitor.room import held_bytes
from trnfleet.wire.messages import STANDARD_COLUMNS

if TYPE_CHECKING:
    from trnfleet.monitor.room import Room
    from trnfleet.monitor.sources.clocks import ClockKey
    from trnfleet.wire.messages import ColumnSpec

    Lanes = tuple[tuple[str, tuple[str, ...]], ...]

MOST_CHANGED = 64
"""Descriptors that a layout may differ by and be changed for each of them; one that differs by more is made from all."""
MOST_LANE_SETS = 64
"""Sets of lane names that are looked through for a changed layout."""


class _ColumnSet(NamedTuple):
    """Columns that descriptors have in common."""

    columns: tuple[ColumnSpec, ...]
    owner: str
    size_bytes: int
    uses: int
    """Descriptors that have them."""


class ColumnSets:
    """Columns other than the standard ones: those of many descriptors that are equal are one object."""

    def __init__(self) -> None:
        self._sets: dict[tuple[ColumnSpec, ...], _ColumnSet] = {}

    def __len__(self) -> int:
        return len(self._sets)

    def copy(self) -> ColumnSets:
        """Return a copy."""
        return copied(self, _sets=self._sets.copy())

    def identities(self) -> set[int]:
        """Return the identity of each object that descriptors have as their columns, and of the standard ones."""
        return {id(STANDARD_COLUMNS), *(id(each.columns) for each in self._sets.values())}

    def new_bytes(self, columns: tuple[ColumnSpec, ...]) -> int:
        """Return the memory that columns would take in addition."""
        return (
            0 if columns is STANDARD_COLUMNS or columns in self._sets else _columns_bytes(columns)
        )

    def share(
        self, columns: tuple[ColumnSpec, ...], publisher: str, room: Room
    ) -> tuple[ColumnSpec, ...]:
        """Return the one object for a descriptor's columns; it counts for the publisher that brought it first."""
        if columns is STANDARD_COLUMNS:
            return STANDARD_COLUMNS
        shared = self._sets.get(columns)
        if shared is None:
            shared = _ColumnSet(columns, publisher, _columns_bytes(columns), 0)
            room.change(shared.owner, shared.size_bytes)
        self._sets[shared.columns] = shared._replace(uses=shared.uses + 1)
        return shared.columns

    def release(self, columns: tuple[ColumnSpec, ...], room: Room) -> None:
        """Give back the columns of a descriptor that goes."""
        if columns is STANDARD_COLUMNS:
            return
        shared = self._sets[columns]
        if shared.uses > 1:
            self._sets[columns] = shared._replace(uses=shared.uses - 1)
        else:
            del self._sets[columns]
            room.change(shared.owner, -shared.size_bytes)


class LaneSets:
    """Names of link lanes that are not the usual ones, and how many descriptors give each set of them."""

    def __init__(self) -> None:
        self._uses: dict[Lanes, int] = {}

    def copy(self) -> LaneSets:
        """Return a copy."""
        return copied(self, _uses=self._uses.copy())

    def count(self, lanes: Lanes, more: int) -> None:
        """Count a descriptor that comes (1) or goes (-1)."""
        if lanes:
            left = self._uses.pop(lanes, 0) + more
            if left > 0:
                self._uses[lanes] = left

    def names(self) -> dict[str, tuple[str, ...]] | None:
        """Return the names of lanes by instance type; None where it depends on the order of descriptors which they are."""
        if len(self._uses) > MOST_LANE_SETS:
            return None
        found: dict[str, tuple[str, ...]] = {}
        for lanes in self._uses:
            for kind, names in lanes:
                if found.setdefault(kind, names) != names:
                    return None
        return found


class Published(Protocol):
    """What is noted of a descriptor: who publishes what it describes, and by which clock."""

    @property
    def publisher(self) -> str: ...

    @property
    def boot(self) -> str: ...

    @property
    def clock(self) -> ClockKey: ...


D = TypeVar("D", bound=Published)


class DescriptorChanges(NamedTuple, Generic[D]):
    """What has happened to descriptors since the layout was made."""

    former: dict[str, D | None]
    """By path, what each that has come, gone or become another one was then; None of one that was not there."""
    gone: dict[tuple[str, str, ClockKey], None]
    """Publisher, boot and clock of all that are not as they were, also of those that came and went since then."""


class ChangedDescriptors(Generic[D]):
    """Descriptors that the layout does not show as they are now."""

    def __init__(self) -> None:
        self._changes: DescriptorChanges[D] | None = DescriptorChanges({}, {})
        """None where they are too many."""

    def copy(self) -> ChangedDescriptors[D]:
        """Return a copy."""
        known = self._changes
        twin = None if known is None else DescriptorChanges(known.former.copy(), known.gone.copy())
        return copied(self, _changes=twin)

    def note(self, path: str, known: D | None) -> None:
        """Note that another one than is known comes to a path, or that it goes."""
        if self._changes is None:
            return
        former, gone = self._changes
        former.setdefault(path, known)
        if known is not None:
            gone[known.publisher, known.boot, known.clock] = None
        if max(len(former), len(gone)) > MOST_CHANGED:
            self._changes = None

    def take(self) -> DescriptorChanges[D] | None:
        """Return what has happened; None where that is too much.

        Until `begin` all count as changed: who does not get to the end of a layout leaves it to be made from all.
        """
        changes, self._changes = self._changes, None
        return changes

    def begin(self) -> None:
        """Begin again with a layout that shows all."""
        self._changes = DescriptorChanges({}, {})


def _columns_bytes(columns: tuple[ColumnSpec, ...]) -> int:
    """Return the memory of columns and of the decoder of their frames, which takes less than they do."""
    return 2 * held_bytes(columns)
