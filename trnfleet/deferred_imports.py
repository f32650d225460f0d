"""Deferred imports: modules loaded with the first use of one of their names.

asyncio and the MQTT clients import `ssl`, paho and pydantic `hashlib` and `secrets`, and paho an
HTTP client. Without TLS none of it is used. Measured with Python 3.11 on Linux, MiB resident: 5.0
for `ssl` and `hashlib`, 2.0 for `urllib.request`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from importlib.machinery import PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec

DEFERRED = {
    "ssl": "_ssl",
    "asyncio.sslproto": "_ssl",
    "hashlib": "",
    "secrets": "",
    "urllib.request": "",
}
"""Deferred modules, each with a module it requires. If the required one is missing, importers fail
at once."""
_OF_IMPORTS = frozenset(
    {"__class__", "__spec__", "__loader__", "__path__", "__name__", "__package__"}
)
"""Names read by import statements from a loaded module."""
_loading = threading.RLock()
_being_loaded: set[int] = set()
"""Modules being loaded by the thread with `_loading`."""


def defer_imports() -> None:
    """Defer the modules of `DEFERRED` not loaded yet, for the life of the process.

    pydantic's search of all installed packages for plugins is disabled.
    """
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Deferred(ModuleType):
    """A module loaded on its first attribute access, while other threads wait.

    `importlib.util.LazyLoader` is not enough: before Python 3.12 a second import of such a module
    loads it, and two threads load it twice.
    """

    def __getattribute__(self, name: str) -> Any:
        if name not in _OF_IMPORTS:
            with _loading:
                # Another thread may have loaded it meanwhile, and while it is loaded its own code
                # asks for names.
                if type(self) is _Deferred and id(self) not in _being_loaded:
                    _load(self)
        # It may be a plain module by now. `super` would fail then.
        return ModuleType.__getattribute__(self, name)


def _load(module: _Deferred) -> None:
    _being_loaded.add(id(module))
    try:
        module.__spec__.loader.load(module)  # type: ignore[union-attr]  # the finder below has set it
        module.__class__ = ModuleType  # type: ignore[assignment]  # mypy knows no change of a module's class
    finally:
        _being_loaded.remove(id(module))


class _Loader:
    """Loads a module late: `exec_module` only makes it a deferred one."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__class__ = _Deferred

    def load(self, module: ModuleType) -> None:
        """Load the module's own code."""
        self._loader.exec_module(module)


class _Finder:
    """Finds the deferred modules before any other finder does."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        needed = DEFERRED.get(name)
        if needed is None or (needed and importlib.util.find_spec(needed) is None):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]  # a loader by what it does
        return spec
