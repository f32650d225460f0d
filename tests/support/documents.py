"""The pages of the documentation and the scripts in .ci that make and check them."""

from __future__ import annotations

import functools
import importlib.util
import re
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = tuple(
    sorted(
        (
            *DOCS.glob("*.md"),
            *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
        )
    )
)


@functools.cache
def script(name: str) -> ModuleType:
    """Return a script of `.ci` as a module.

    It has no suffix.
    """
    loader = SourceFileLoader(name.replace("-", "_"), str(ROOT / ".ci" / name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def read(page: str) -> str:
    """Return the text of a page of docs/."""
    return (DOCS / page).read_text(encoding="utf-8")


def fields(page: str, title: str) -> dict[str, bool]:
    """Return the fields in the table with first column `title`, and whether each is required."""
    found = re.search(
        rf"^\| {title} \| type \| needed \| [^\n]*\n\|[-|]+\|\n((?:\|[^\n]*\n)+)",
        read(page),
        re.MULTILINE,
    )
    assert found is not None, f"{page} has no table of {title}"
    listed: dict[str, bool] = {}
    for row in found[1].splitlines():
        names, _, needed, _ = (cell.strip() for cell in row.strip("|").split("|", 3))
        listed |= {name.strip("` "): needed == "yes" for name in names.split(",")}
    return listed
