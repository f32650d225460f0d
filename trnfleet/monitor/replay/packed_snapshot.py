"""Snapshots of a monitor as bytes, for those that are kept for long.

A snapshot is tens of thousands of small objects. Dozens of them, taken and dropped for hours among objects that live on, took several
times their size of the interpreter's memory, which they left in pieces. As compressed bytes each is one block, a sixth of the size.
"""

from __future__ import annotations

import io
import pickle  # of what this process has made itself, and kept in its own memory
import zlib
from typing import TYPE_CHECKING, Any

from trnfleet.domain.alerts.rules import Rule
from trnfleet.domain.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.monitor.monitor import Snapshot

SHARED = (Layout, Rule)
"""Types whose objects are compared by identity and are many snapshots' and the monitor's, and never change: they are kept as they are."""
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
        self._shared: list[object] = []
        places: dict[int, int] = {}

        def share(each: object) -> tuple[Callable[[int], object], tuple[int]]:
            place = places.setdefault(id(each), len(self._shared))
            if place == len(self._shared):
                self._shared.append(each)
            return _shared, (place,)

        file = io.BytesIO()
        pickler = pickle.Pickler(file, pickle.HIGHEST_PROTOCOL)
        pickler.dispatch_table = dict.fromkeys(SHARED, share)
        pickler.dump(snapshot)
        data = file.getvalue()
        self._is_compressed = len(data) <= COMPRESSED_BYTES
        self._data = zlib.compress(data, 1) if self._is_compressed else data

    @property
    def nbytes(self) -> int:
        """Memory that it takes, without what is shared."""
        return len(self._data)

    def unpack(self) -> Snapshot:
        """Return the snapshot, with objects of its own but for those that are shared."""
        data = zlib.decompress(self._data) if self._is_compressed else self._data
        snapshot: Snapshot = _Unpickler(io.BytesIO(data), self._shared).load()
        return snapshot


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, shared: list[object]) -> None:
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
