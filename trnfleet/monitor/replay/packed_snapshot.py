"""Snapshots of a monitor as bytes, for those that are kept for long.

A snapshot is tens of thousands of small objects. Dozens of them, taken and dropped for hours among objects that live on, took several
times their size of the interpreter's memory, which they left in pieces. As compressed bytes each is one block, a sixth of the size.
"""

from __future__ import annotations

import io
import pickle  # of what this process has made itself, and kept in its own memory
import zlib
from typing import TYPE_CHECKING, Any

from trnfleet.domain.alerts.alert import Alert
from trnfleet.domain.alerts.rules import Rule
from trnfleet.domain.alerts.status import AlertState
from trnfleet.domain.layout import Layout
from trnfleet.monitor.alerting.store import AlertTransition
from trnfleet.monitor.sources.descriptors import CompactDescriptor
from trnfleet.monitor.store.events import Event

if TYPE_CHECKING:
    from trnfleet.monitor.monitor import Monitor, Snapshot

SHARED = (Layout, Rule, CompactDescriptor, Event)
"""Types whose objects never change, and are compared by identity or many in all snapshots: they are kept as they are."""
COMPRESSED_BYTES = 2**20
"""More bytes are kept as they are: compressing a mebibyte takes 10 ms, in which no key is served."""


class PackedSnapshot:
    """A snapshot as bytes, and the objects that it shares with its monitor."""

    __slots__ = ("_data", "_is_compressed", "_shared")

    def __init__(self, snapshot: Snapshot) -> None:
        """Pack a snapshot.

        Raises:
            Exception: it has something that cannot be pickled, such as a lambda; tests pack all that a monitor keeps.
        """
        file = io.BytesIO()
        pickler = _Pickler(file)
        pickler.dump(snapshot)
        self._shared = tuple(pickler.shared)
        data = file.getvalue()
        self._is_compressed = len(data) <= COMPRESSED_BYTES
        self._data = zlib.compress(data, 1) if self._is_compressed else data

    @classmethod
    def of(cls, monitor: Monitor) -> PackedSnapshot:
        """Pack what a monitor knows now; its alerts need no copy before, since packing is one."""
        return cls(monitor.snapshot(with_alerts=False))

    @property
    def nbytes(self) -> int:
        """Memory that it takes, without what is shared."""
        return len(self._data)

    def unpack(self) -> Snapshot:
        """Return the snapshot, with objects of its own but for those that are shared."""
        data = zlib.decompress(self._data) if self._is_compressed else self._data
        snapshot: Snapshot = _Unpickler(io.BytesIO(data), self._shared).load()
        return snapshot


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.shared: list[object] = []
        self._places: dict[int, int] = {}

    def reducer_override(self, each: object) -> Any:
        """Return the place of what is shared; else leave it to the library."""
        if not (isinstance(each, SHARED) or _is_over(each)):
            return NotImplemented
        place = self._places.setdefault(id(each), len(self.shared))
        if place == len(self.shared):
            self.shared.append(each)
        return _shared, (place,)


def _is_over(each: object) -> bool:
    """Return whether this is an alert that has resolved, or a transition of one: they never change."""
    alert = each.alert if isinstance(each, AlertTransition) else each
    return isinstance(alert, Alert) and alert.state is AlertState.RESOLVED


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, shared: tuple[object, ...]) -> None:
        super().__init__(file)
        self._shared = shared

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Return what a name stands for, and for that of `_shared` the way to what this snapshot shares."""
        if (module_name, global_name) == (_shared.__module__, _shared.__qualname__):
            return self._shared.__getitem__
        return super().find_class(module_name, global_name)


def _shared(place: int) -> object:
    """Stand in a pickle for the way to what is shared."""
    raise LookupError(place)
