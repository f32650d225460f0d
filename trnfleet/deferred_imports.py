"""Deferred imports: modules loaded with the first use of one of their names.

Libraries import most of them early, and few commands use them. OpenSSL is the largest part: asyncio
and the MQTT clients import `ssl`, paho and pydantic `hashlib` and `secrets`, and without TLS none
of it is used. paho also imports an HTTP client. Measured with Python 3.11 on Linux, MiB resident:
5.0 for `ssl` and `hashlib`, 2.0 for `urllib.request`, 0.8 for the archives, 0.5 for `lz4.frame`
(needed for foreign recordings) and `locale`; 3.2 for the rest of the table: linear algebra and
descriptions of numpy, package metadata readers, and widgets for errors, trees and others.
"""

from __future__ import annotations

import functools
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
    "zipfile": "",
    "bz2": "_bz2",
    "lzma": "_lzma",
    "locale": "",
    "lz4.frame": "lz4",
    "difflib": "",
    "importlib.metadata": "",
    "mimetypes": "",
    "platformdirs": "",
    "numpy._core._add_newdocs": "",
    "numpy._core._add_newdocs_scalars": "",
    "numpy.linalg": "",
    "pydantic._internal._discriminated_union": "",
    "rich.panel": "",
    "rich.table": "",
    "rich.tree": "",
    "textual.pilot": "",
    "textual.widgets._directory_tree": "",
    "textual.widgets._placeholder": "",
    "textual.widgets._select": "",
}
"""Deferred modules, each with a module it requires. If the required one is missing, importers fail
at once."""
CALLED_LATER = {
    "difflib": {"get_close_matches"},
    "importlib.metadata": {"entry_points"},
    "platformdirs": {"user_downloads_path"},
    "numpy.linalg": {"eigvals", "inv", "lstsq", "matrix_power"},
    "rich.panel": {"Panel"},
    "rich.table": {"Table"},
    "rich.tree": {"Tree"},
    "textual.pilot": {"Pilot"},
    "textual.widgets._directory_tree": {"DirEntry"},
    "textual.widgets._placeholder": {"PlaceholderVariant"},
    "textual.widgets._select": {"NoSelection", "SelectType"},
}
"""Names imported from a module but called later. Some are only used in annotations, as in
`textual.types`."""
_OF_IMPORTS = frozenset(
    {"__class__", "__spec__", "__loader__", "__path__", "__name__", "__package__"}
)
"""Names read by import statements from a loaded module."""
_loading = threading.RLock()
_being_loaded: set[int] = set()
"""Modules being loaded by the thread with `_loading`."""


def defer_imports() -> None:
    """Defer the modules of `DEFERRED` not loaded yet, for the life of the process.

    pydantic searches all installed packages for plugins, and this would load the archives. The
    search is disabled.
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
                    if name in CALLED_LATER.get(self.__name__, ()):
                        return functools.partial(_call, self, name)
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


def _call(module: ModuleType, name: str, /, *arguments: Any, **named: Any) -> Any:
    """Load a deferred module and call one of its functions."""
    # Its names beside those of `CALLED_LATER` load it.
    _ = module.__dict__
    return getattr(module, name)(*arguments, **named)


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
