"""Snapshots of a monitor as bytes, for long storage.

A snapshot is tens of thousands of small objects. Dozens of them, made and dropped for hours among
long-lived objects, used several times their size in the interpreter's memory, and left it
fragmented. As compressed bytes each is one block, a sixth of the size.
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
    from trnfleet.monitor.monitor import Monitor, MonitorState

SHARED = (Layout, Rule, CompactDescriptor, Event)
"""Types with immutable objects, compared by identity or numerous in all snapshots. They are not
packed."""
COMPRESSED_BYTES = 2**20
"""Larger data is stored uncompressed: compressing a mebibyte takes 10 ms without serving keys."""


class PackedSnapshot:
    """The state of a monitor as bytes, with the objects shared with the monitor."""

    __slots__ = ("_data", "_is_compressed", "_shared", "events")

    def __init__(self, monitor: Monitor) -> None:
        """Pack a monitor's present state.

        Raises:
            Exception: it contains something not picklable, such as a lambda. Tests pack everything
                in a monitor.
        """
        file = io.BytesIO()
        pickler = _Pickler(file)
        pickler.dump(monitor.state())
        self._shared = tuple(pickler.shared)
        self.events = monitor.revision.events
        """Events received before it, including those of alerts."""
        data = file.getvalue()
        self._is_compressed = len(data) <= COMPRESSED_BYTES
        self._data = zlib.compress(data, 1) if self._is_compressed else data

    @property
    def nbytes(self) -> int:
        """Memory used, without shared objects."""
        return len(self._data)

    def unpack(self) -> MonitorState:
        """Return a new state: its objects are its own, except shared ones."""
        data = zlib.decompress(self._data) if self._is_compressed else self._data
        state: MonitorState = _Unpickler(io.BytesIO(data), self._shared).load()
        return state


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.shared: list[object] = []
        self._places: dict[int, int] = {}

    def reducer_override(self, value: object) -> Any:
        """Return the place of a shared object.

        Leave others to the library.
        """
        if not (isinstance(value, SHARED) or _is_over(value)):
            return NotImplemented
        place = self._places.setdefault(id(value), len(self.shared))
        if place == len(self.shared):
            self.shared.append(value)
        return _shared, (place,)


def _is_over(value: object) -> bool:
    """Return whether this is a resolved alert or its transition.

    They never change.
    """
    alert = value.alert if isinstance(value, AlertTransition) else value
    return isinstance(alert, Alert) and alert.state is AlertState.RESOLVED


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, shared: tuple[object, ...]) -> None:
        super().__init__(file)
        self._shared = shared

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Return the object of a name.

        For `_shared`, return the access to shared objects.
        """
        if (module_name, global_name) == (_shared.__module__, _shared.__qualname__):
            return self._shared.__getitem__
        return super().find_class(module_name, global_name)


def _shared(place: int) -> object:
    """Mark the access to shared objects in a pickle."""
    raise LookupError(place)
