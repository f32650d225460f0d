"""Measures of the source, checked by `tests/test_house.py` and printed by this module.

Size is counted in statements without docstrings, because formatting changes lines but not
statements. A numeric constant counts in every place: a name in capitals, a field's default, a
parameter's default or a value of a table. Constants of hardware and physics with a source do not
count; they are in the modules of `SOURCED`. Members of an Enum do not count: their numbers are
identities, and nothing is tuned by them.
"""

# ruff: noqa: T201  figures go to the terminal

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCED = (
    "trnfleet/domain/hardware/",
    "trnfleet/sim/faults/",
    "trnfleet/sim/hardware/",
    "trnfleet/sim/jobs/",
)
"""Hardware and physics modules. Each of their numbers is marked measured, published or assumed."""

VAGUE_NAMES = frozenset({"each", "of", "take", "kept", "found", "taken", "owed", "wanted"})
"""Identifiers used in place of a noun."""

_CAPITALS = re.compile(r"_?[A-Z][A-Z0-9_]*")
_RELATIVE = re.compile(r"\b(which|who|whose|whom|what|that)\b", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")


@dataclass(frozen=True)
class Module:
    """One parsed module."""

    name: str
    """Its path below the root, with slashes."""
    text: str
    tree: ast.Module
    nodes: list[ast.AST]
    """All of its nodes, walked once."""


def modules(root: Path, *tops: str) -> list[Module]:
    """Return the modules below folders of a checkout, sorted by name."""
    paths = [path for top in tops for path in sorted((root / top).rglob("*.py"))]
    texts = [
        (path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")) for path in paths
    ]
    trees = [(name, text, ast.parse(text)) for name, text in texts]
    return [Module(name, text, tree, list(ast.walk(tree))) for name, text, tree in trees]


def statement_count(module: Module) -> int:
    """Count statements, docstrings apart."""
    return sum(isinstance(node, ast.stmt) and not _is_text(node) for node in module.nodes)


def constant_count(module: Module) -> int:
    """Count numeric constants: capitals, field and parameter defaults, table values."""
    if module.name.startswith(SOURCED):
        return 0
    count = 0
    for node in module.nodes:
        if isinstance(node, ast.Module | ast.ClassDef) and not _is_enum(node):
            count += sum(_constants_of(statement) for statement in node.body)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            defaults = [*node.args.defaults, *node.args.kw_defaults]
            count += sum(default is not None and _is_tuning(default) for default in defaults)
    return count


def tuple_assignments(module: Module) -> list[int]:
    """Return the lines with several unrelated values assigned at once.

    Swaps do not count.
    """
    return [
        node.lineno
        for node in module.nodes
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and isinstance(node.value, ast.Tuple)
        and {ast.dump(target).replace("Store", "Load") for target in node.targets[0].elts}
        != {ast.dump(value) for value in node.value.elts}
    ]


def vague_names(module: Module) -> Counter[str]:
    """Count definitions of functions, parameters and variables with a vague name."""
    names: Counter[str] = Counter()
    for node in module.nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
                names[name.lstrip("_")] += 1
            case ast.Name(id=name, ctx=ast.Store()):
                names[name.lstrip("_")] += 1
            case _:
                pass
    return Counter({name: count for name, count in names.items() if name in VAGUE_NAMES})


def repeated_classes(parsed: list[Module]) -> list[str]:
    """Return class names defined in several modules."""
    names = Counter(
        node.name
        for module in parsed
        for node in module.tree.body
        if isinstance(node, ast.ClassDef)
    )
    return sorted(name for name, count in names.items() if count > 1)


def single_importers(parsed: list[Module]) -> dict[str, str]:
    """Return modules with a single importer in the same folder, and this importer."""
    names = {module.name for module in parsed}
    importers: dict[str, set[str]] = {}
    for module in parsed:
        for imported in _imports(module, names):
            importers.setdefault(imported, set()).add(module.name)
    return {
        imported: next(iter(by))
        for imported, by in sorted(importers.items())
        if len(by) == 1
        and Path(imported).parent == Path(next(iter(by))).parent
        and not imported.endswith("__init__.py")
    }


def relative_words(text: str) -> float:
    """Return the number of relative words per 100 words."""
    words = len(_WORD.findall(text))
    return 100 * len(_RELATIVE.findall(text)) / words if words else 0.0


def docstrings(module: Module) -> Iterator[str]:
    """Yield the docstrings of a module, its classes, functions and fields."""
    for node in module.nodes:
        if isinstance(node, ast.stmt) and _is_text(node):
            yield ast.literal_eval(node.value)  # type: ignore[attr-defined]  # a string by _is_text


def _is_text(node: ast.stmt) -> bool:
    """Return whether a statement is a string alone."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _is_enum(node: ast.Module | ast.ClassDef) -> bool:
    """Return whether a class has a base of the enum module, such as IntEnum."""
    bases = [ast.unparse(base) for base in node.bases] if isinstance(node, ast.ClassDef) else []
    return any(base.endswith(("Enum", "Flag")) for base in bases)


def _is_number(node: ast.expr) -> bool:
    """Return whether an expression is a number, or arithmetic with one."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float) and not isinstance(value, bool)
        case ast.UnaryOp(operand=operand):
            return _is_number(operand)
        case ast.BinOp(left=left, right=right):
            return _is_number(left) or _is_number(right)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return bool(elements) and all(_is_number(element) for element in elements)
        case _:
            return False


def _is_tuning(node: ast.expr) -> bool:
    """Return whether a default is a number other than the neutral 0 and 1."""
    return _is_number(node) and not (isinstance(node, ast.Constant) and node.value in {0, 1})


def _constants_of(statement: ast.stmt) -> int:
    """Count the numeric constants in a statement of a module or class."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            pass
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            pass
        case _:
            return 0
    if _CAPITALS.fullmatch(name):
        if isinstance(value, ast.Dict):
            return sum(_is_number(element) for element in value.values)
        return int(_is_number(value))
    return int(_is_tuning(value))


def _imports(module: Module, names: set[str]) -> set[str]:
    """Return the imported modules of the checkout."""
    imported: set[str] = set()
    for node in module.nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            base = node.module.replace(".", "/")
            imported.update(f"{base}/{alias.name}.py" for alias in node.names)
            imported.add(f"{base}.py")
        elif isinstance(node, ast.Import):
            imported.update(alias.name.replace(".", "/") + ".py" for alias in node.names)
    return imported & names - {module.name}


def main(root: Path) -> None:
    """Print the measures by room."""
    parsed = modules(root, *(top for top in ("trnfleet", "tests", "lab") if (root / top).is_dir()))
    rooms: dict[str, list[Module]] = {}
    for module in parsed:
        parts = module.name.split("/")
        whole = "trnfleet (all)" if parts[0] == "trnfleet" else "tests and lab (all)"
        rooms.setdefault("/".join(parts[:2]) if len(parts) > 2 else parts[0], []).append(module)
        rooms.setdefault(whole, []).append(module)
    print("room                    files   lines  statements  constants  tuples")
    for room, members in sorted(rooms.items()):
        lines = sum(module.text.count("\n") for module in members)
        statements = sum(statement_count(module) for module in members)
        constants = sum(constant_count(module) for module in members)
        tuples = sum(len(tuple_assignments(module)) for module in members)
        print(f"{room:22} {len(members):6} {lines:7} {statements:11} {constants:10} {tuples:7}")
    program = [module for module in parsed if module.name.startswith("trnfleet/")]
    texts = " ".join(text for module in program for text in docstrings(module))
    pages = [path.read_text(encoding="utf-8") for path in sorted((root / "docs").glob("*.md"))]
    print("modules that one sibling imports:", len(single_importers(program)))
    print("class names twice:", len(repeated_classes(program)))
    vague = sum((vague_names(module) for module in program), Counter[str]())
    print("vague names:", ", ".join(f"{name} {count}" for name, count in vague.most_common()))
    print(
        f"relative words of 100: docstrings {relative_words(texts):.1f}, docs"
        f" {relative_words(' '.join(pages)):.1f}"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd())
