"""Modules of the app use colours and glyphs of the theme only.

Each check is also tested to fail on a violation.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

import trnfleet.tui
from trnfleet.tui.theme.glyphs import TWINS, to_ascii, twin

if TYPE_CHECKING:
    from collections.abc import Iterator

APP = Path(trnfleet.tui.__file__).parent
COLOR = re.compile(r"#[0-9a-fA-F]{3,8}\b|\brgba?\(|\bansi_\w+")
MAKERS = {"from_rgb", "from_ansi", "from_triplet"}
SAME_IN_ALL = {
    "SEVERITY_GLYPH",
    "STATE_GLYPH",
    "TILE_GLYPH",
    "RAMP_STEPS",
    "NAMES",
    "DEFAULT",
}
"""Attributes of the module that no theme changes."""
MIXES = {"fleet/heatmap_style.py"}
"""Modules that mix colours of the theme."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Yield the modules of the app except the themes."""
    for path in sorted(APP.rglob("*.py")):
        if path.parent.name != "theme":
            yield path.relative_to(APP).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def literal_colors(name: str, tree: ast.Module) -> list[str]:
    """Return where a module names a colour itself."""
    found = [
        f"{name}:{node.lineno}: {node.value!r}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and COLOR.search(node.value)
    ]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        texts = [
            each
            for each in (*node.args, *(word.value for word in node.keywords))
            if isinstance(each, ast.Constant)
        ]
        names_one = called in {"Style", "Style.parse", "Color.parse"} and any(
            isinstance(each.value, str) for each in texts
        )
        if names_one or (called.rpartition(".")[2] in MAKERS and name not in MIXES):
            found.append(f"{name}:{node.lineno}: {called}")
    return found


def kept_styles(name: str, tree: ast.Module) -> list[str]:
    """Return the places where a module stores styles of a theme.

    They are made at import, or imported by name.
    """
    found: list[str] = []

    def look(node: ast.AST) -> None:
        if isinstance(node, ast.Lambda):
            for default in (*node.args.defaults, *node.args.kw_defaults):
                look(default) if default is not None else None
            return
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            parts = (*node.args.defaults, *node.args.kw_defaults, *node.decorator_list)
            for each in parts:
                if each is not None:
                    look(each)
            return
        if isinstance(node, ast.ImportFrom) and node.module == "trnfleet.tui.theme":
            found.extend(
                f"{name}:{node.lineno}: {each.name}"
                for each in node.names
                if each.name.isupper() and each.name not in SAME_IN_ALL
            )
        if (
            isinstance(node, ast.Attribute)
            and ast.unparse(node.value) == "theme"
            and node.attr.isupper()
        ):
            found.extend(
                [f"{name}:{node.lineno}: theme.{node.attr}"] * (node.attr not in SAME_IN_ALL)
            )
        for child in ast.iter_child_nodes(node):
            look(child)

    look(tree)
    return found


def test_no_module_names_a_colour() -> None:
    assert [each for name, tree in modules() for each in literal_colors(name, tree)] == []
    sheets = {
        path.name: COLOR.findall(path.read_text(encoding="utf-8")) for path in APP.rglob("*.tcss")
    }
    # Names of widgets begin with the same sign.
    assert {
        name: [each for each in found if re.fullmatch(r"#(?:[0-9a-fA-F]{3}){1,2}", each)]
        for name, found in sheets.items()
    } == {"app.tcss": []}


def test_no_module_keeps_a_style() -> None:
    assert [each for name, tree in modules() for each in kept_styles(name, tree)] == []


@pytest.mark.parametrize(
    "source",
    [
        'RED = "#ff0000"',
        'Style(color="red")',
        "Color.from_rgb(1, 2, 3)",
        'CSS = "View { color: ansi_red; }"',
    ],
)
def test_a_literal_colour_is_found(source: str) -> None:
    assert len(literal_colors("x.py", ast.parse(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "QUIET = theme.QUIET",
        "def f(style=theme.BASE): ...",
        "class A:\n    fill = theme.BAR",
        "from trnfleet.tui.theme import RAMPS",
        "LOOKS = {1: theme.SEVERITY_STYLE[x]}",
    ],
)
def test_a_kept_style_is_found(source: str) -> None:
    assert len(kept_styles("x.py", ast.parse(source))) == 1
    assert (
        kept_styles("x.py", ast.parse("def f():\n    return theme.QUIET\nG = theme.SEVERITY_GLYPH"))
        == []
    )


def test_every_glyph_has_a_twin() -> None:
    """Each character beyond ASCII written by the app has a twin.

    So do those of units of measure.
    """
    from trnfleet.domain import quantities  # noqa: PLC0415  only here

    trees = [
        *modules(),
        ("quantities.py", ast.parse(Path(quantities.__file__).read_text(encoding="utf-8"))),
    ]
    documented = {
        ast.get_docstring(node, clean=False)
        for _, tree in trees
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
    }
    lacking = {
        (name, glyph)
        for name, tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value not in documented
        for glyph in node.value
        if not glyph.isascii() and set(twin(glyph)) == {"?"}
    }
    assert lacking == set()


def test_twins_take_as_many_cells() -> None:
    assert {
        glyph: each
        for glyph, each in TWINS.items()
        if not each.isascii() or cell_len(glyph) != len(each)
    } == {}
    assert to_ascii("▲ Straße 東京") == "! Stra?e ????"


@pytest.mark.parametrize(
    ("dots", "shown"), [("⠀", " "), ("⠉", "'"), ("⣀", "."), ("⣿", "#"), ("⡇", "|"), ("⠑", "'")]
)
def test_braille_becomes_a_mark_of_its_height(dots: str, shown: str) -> None:
    assert to_ascii(dots) == shown
