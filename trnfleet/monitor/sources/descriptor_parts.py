"""Shared parts of descriptors, and the descriptors a layout does not show yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from trnfleet.monitor.room import held_bytes
from trnfleet.wire.messages import STANDARD_COLUMNS

if TYPE_CHECKING:
    from trnfleet.monitor.room import Room
    from trnfleet.monitor.sources.clocks import ClockKey
    from trnfleet.wire.messages import ColumnSpec

    Lanes = tuple[tuple[str, tuple[str, ...]], ...]

MOST_CHANGED = 64
"""Most changed descriptors, or sets of lane names, for a layout to be changed one by one. Above it,
the layout is built from all."""


class _ColumnSet(NamedTuple):
    """Columns that descriptors have in common."""

    columns: tuple[ColumnSpec, ...]
    owner: str
    size_bytes: int
    uses: int
    """Descriptors that have them."""


class ColumnSets:
    """Non-standard columns.

    Equal columns of many descriptors are one object.
    """

    def __init__(self) -> None:
        self._sets: dict[tuple[ColumnSpec, ...], _ColumnSet] = {}

    def __len__(self) -> int:
        return len(self._sets)

    def identities(self) -> set[int]:
        """Return the identities of all column objects in use, and of the standard ones."""
        return {
            id(STANDARD_COLUMNS),
            *(id(column_set.columns) for column_set in self._sets.values()),
        }

    def new_bytes(self, columns: tuple[ColumnSpec, ...]) -> int:
        """Return the additional memory columns would need."""
        return (
            0 if columns is STANDARD_COLUMNS or columns in self._sets else _columns_bytes(columns)
        )

    def share(
        self, columns: tuple[ColumnSpec, ...], publisher: str, room: Room
    ) -> tuple[ColumnSpec, ...]:
        """Return the shared object for a descriptor's columns.

        It counts towards the first publisher to use it.
        """
        if columns is STANDARD_COLUMNS:
            return STANDARD_COLUMNS
        shared = self._sets.get(columns)
        if shared is None:
            shared = _ColumnSet(columns, publisher, _columns_bytes(columns), 0)
            room.change(shared.owner, shared.size_bytes)
        self._sets[shared.columns] = shared._replace(uses=shared.uses + 1)
        return shared.columns

    def release(self, columns: tuple[ColumnSpec, ...], room: Room) -> None:
        """Release the columns of a removed descriptor."""
        if columns is STANDARD_COLUMNS:
            return
        shared = self._sets[columns]
        if shared.uses > 1:
            self._sets[columns] = shared._replace(uses=shared.uses - 1)
        else:
            del self._sets[columns]
            room.change(shared.owner, -shared.size_bytes)


class LaneSets:
    """Unusual names of link lanes, with the number of descriptors using each set."""

    def __init__(self) -> None:
        self._uses: dict[Lanes, int] = {}

    def count(self, lanes: Lanes, more: int) -> None:
        """Count an added (1) or removed (-1) descriptor."""
        if lanes:
            left = self._uses.pop(lanes, 0) + more
            if left > 0:
                self._uses[lanes] = left

    def names(self) -> dict[str, tuple[str, ...]] | None:
        """Return the lane names by instance type.

        None if they depend on the order of descriptors.
        """
        if len(self._uses) > MOST_CHANGED:
            return None
        by_kind: dict[str, tuple[str, ...]] = {}
        for lanes in self._uses:
            for kind, names in lanes:
                if by_kind.setdefault(kind, names) != names:
                    return None
        return by_kind


class Published(Protocol):
    """A descriptor's publisher and clock."""

    @property
    def publisher(self) -> str: ...

    @property
    def boot(self) -> str: ...

    @property
    def clock(self) -> ClockKey: ...


D = TypeVar("D", bound=Published)


class DescriptorChanges(NamedTuple, Generic[D]):
    """Changes of descriptors since the layout was built."""

    former: dict[str, D | None]
    """Former descriptor of each added, removed or replaced path. None if it was new."""
    gone: dict[tuple[str, str, ClockKey], None]
    """Publisher, boot and clock of all changed descriptors, including any added and removed since.
    """


class ChangedDescriptors(Generic[D]):
    """Descriptors not yet shown in their present form by the layout."""

    def __init__(self) -> None:
        self._changes: DescriptorChanges[D] | None = DescriptorChanges({}, {})
        """None where they are too many."""

    def note(self, path: str, known: D | None) -> None:
        """Record a replaced or removed descriptor of a path."""
        if self._changes is None:
            return
        former, gone = self._changes
        former.setdefault(path, known)
        if known is not None:
            gone[known.publisher, known.boot, known.clock] = None
        if max(len(former), len(gone)) > MOST_CHANGED:
            self._changes = None

    def take(self) -> DescriptorChanges[D] | None:
        """Return the changes; None if there are too many.

        All count as changed until `begin`: an unfinished layout is built from all next time.
        """
        changes = self._changes
        self._changes = None
        return changes

    def begin(self) -> None:
        """Begin again with a layout that shows all."""
        self._changes = DescriptorChanges({}, {})


def _columns_bytes(columns: tuple[ColumnSpec, ...]) -> int:
    """Return the memory of columns and of the smaller decoder of their frames."""
    return 2 * held_bytes(columns)
