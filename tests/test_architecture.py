"""Checks beyond import-linter and ruff: `noqa` uses, the domain's files, sizes.

The direction of imports is in pyproject.toml as contracts, checked by `make lint`.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest
from support.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAY_USE_BANNED = {
    "trnfleet/clock.py": "the one module that reads clocks and waits",
    "trnfleet/cli/command_table.py": "imports the module of a command when it is called",
}
"""Modules with a `noqa` for ruff's banned API. Any other would read a clock or hide an import from
import-linter."""

MOST_FILES = 25
"""Modules in a folder, `__init__` apart: more no longer show the structure."""
WIDE_FOLDERS = {"trnfleet/cli/commands": "a module a command"}

MOST_LINES = 800
LONG_FILES = {"tests/unit/transport/test_inbox.py": "a test for each rule of one class"}
"""Files that are longer, each with the reason."""

BANNED = re.compile(r"#\s*noqa:[^#]*\bTID251\b")


def sources(root: Path) -> Iterator[Path]:
    """Yield every module of the program and its tests."""
    for top in ("trnfleet", "tests", "lab"):
        yield from sorted((root / top).rglob("*.py"))


def hidden_uses(root: Path) -> list[str]:
    """Return modules with unlisted exceptions from ruff's list of banned calls."""
    names = {path.relative_to(root).as_posix(): path for path in (root / "trnfleet").rglob("*.py")}
    return [
        f"{name}: a noqa for TID251"
        for name, path in sorted(names.items())
        if name not in MAY_USE_BANNED and BANNED.search(path.read_text(encoding="utf-8"))
    ]


def opened_files(root: Path) -> list[str]:
    """Return where the domain opens files; its imports are a contract's matter."""
    found = []
    for path in sorted((root / "trnfleet" / "domain").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "open"
            ):
                found.append(f"{path.relative_to(root).as_posix()}:{node.lineno}: opens a file")  # noqa: PERF401  nested loops read better
    return found


def wide_folders(root: Path) -> list[str]:
    """Return folders with more modules than a reader takes in."""
    counts: dict[str, int] = {}
    for path in sources(root):
        if path.stem != "__init__":
            folder = path.parent.relative_to(root).as_posix()
            counts[folder] = counts.get(folder, 0) + 1
    return [
        f"{folder}: {count} modules"
        for folder, count in counts.items()
        if count > MOST_FILES and folder not in WIDE_FOLDERS
    ]


def long_files(root: Path) -> list[str]:
    """Return files over the usual length, and listed files no longer over it."""
    lengths = {
        path.relative_to(root).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in sources(root)
    }
    found = [
        f"{name}: {length} lines"
        for name, length in lengths.items()
        if length > MOST_LINES and name not in LONG_FILES
    ]
    return found + [
        f"{name}: not long, yet listed" for name in LONG_FILES if lengths.get(name, 0) <= MOST_LINES
    ]


@pytest.mark.parametrize("check", [hidden_uses, opened_files, wide_folders, long_files])
def test_the_source_keeps_its_structure(check: object) -> None:
    assert callable(check)
    assert check(ROOT) == []


def write(root: Path, name: str, text: str) -> None:
    """Write one module below a folder."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_each_check_fails_when_broken(tmp_path: Path) -> None:
    write(
        tmp_path,
        "trnfleet/sim/hosts.py",
        "import time\ntime.time()  # noqa: S101, TID251  a reason\n",
    )
    write(tmp_path, "trnfleet/clock.py", "import time\ntime.time()  # noqa: TID251\n")
    write(tmp_path, "trnfleet/domain/fleet.py", "def f(name):\n    return open(name)\n")
    write(tmp_path, "tests/test_long.py", "x = 1\n" * (MOST_LINES + 1))
    for number in range(MOST_FILES + 1):
        write(tmp_path, f"trnfleet/wire/m{number}.py", "")
        write(tmp_path, f"trnfleet/cli/commands/m{number}.py", "")

    assert hidden_uses(tmp_path) == ["trnfleet/sim/hosts.py: a noqa for TID251"]
    assert opened_files(tmp_path) == ["trnfleet/domain/fleet.py:2: opens a file"]
    assert wide_folders(tmp_path) == [f"trnfleet/wire: {MOST_FILES + 1} modules"]
    assert long_files(tmp_path)[0] == f"tests/test_long.py: {MOST_LINES + 1} lines"
