"""The direction of imports, held against the source itself.

Every module under `trnfleet/` is parsed, so that imports inside functions and under TYPE_CHECKING count too: what a
module names is what it knows.
"""

from __future__ import annotations

import ast
import graphlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SOURCE = Path(__file__).resolve().parents[1] / "trnfleet"

RANKS = {
    "clock": 0,
    "errors": 0,
    "config": 0,
    "logs": 0,
    "tasks": 0,
    "text": 0,
    "domain": 1,
    "wire": 2,
    "sim": 3,
    "transport": 3,
    "record": 3,
    "monitor": 3,
    "bridge": 3,
    "export": 3,
    "tui": 4,
    "services": 4,
    "cli": 5,
    "__main__": 6,
}
"""Rank of each module and package at the top of `trnfleet/`; imports go to lower ranks only."""

ROOT_PACKAGE = "trnfleet"

TUI_MAY_NOT = {"sim", "transport", "record", "bridge", "export"}
"""Lower than the app, yet not for it: it shows a monitor and nothing else, so that live and replay look the same."""

HOME_OF = {
    "textual": "tui",
    "rich": "tui",
    "aiomqtt": "transport",
    "paho": "transport",
    "amqtt": "transport",
    "click": "cli",
    "boto3": "bridge",
    "botocore": "bridge",
    "httpx": "export",
    "mcap": "record",
    "zstandard": "record",
    "lz4": "record",
}
"""Libraries that one package alone may name."""

NOT_IN_DOMAIN = {"asyncio", "socket", "time", "os", "pathlib", "random", "subprocess", "io"}
"""The domain takes `now` and a generator as arguments and reads no clock, file or socket."""

CLOCK_CALLS = {
    "time.time",
    "time.time_ns",
    "time.monotonic",
    "time.monotonic_ns",
    "time.sleep",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
    "asyncio.sleep",
}
"""What only clock.py may name; ruff's TID251 says the same, but a `noqa` silences it."""

DYNAMIC_IMPORTS = {"importlib.import_module", "importlib.__import__", "__import__", "builtins.__import__"}
"""Imports that cannot be read here; `cli` alone may use them, as it may import everything anyway."""


class Import(NamedTuple):
    """One name that a module imports."""

    target: str
    """Dotted module, as deep as the tree or the statement tells."""
    line: int
    at_run_time: bool
    """Whether importing the module runs it: not inside a function, not under TYPE_CHECKING."""


@dataclass
class Module:
    """What the rules need to know about a module."""

    name: str
    path: str
    is_package: bool
    tree: ast.Module
    imports: list[Import] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    """The dotted origin of each local name that an import makes."""

    @property
    def top(self) -> str:
        """The package or module at the top of trnfleet to which it belongs; empty for trnfleet itself."""
        return top_of(self.name)


def top_of(name: str) -> str:
    """Return the second segment of a dotted name, or nothing."""
    return name.split(".")[1] if "." in name else ""


def read(source: Path) -> dict[str, Module]:
    """Parse every module of a source folder."""
    modules = {}
    for path in sorted(source.rglob("*.py")):
        parts = [ROOT_PACKAGE, *path.relative_to(source).with_suffix("").parts]
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
        modules[name] = Module(name, str(path.relative_to(source.parent)), is_package, tree)
    # A folder without __init__.py can be imported just the same.
    known = {name.rsplit(".", cut)[0] for name in modules for cut in range(name.count(".") + 1)}
    for module in modules.values():
        _collect(module, module.tree, known, at_run_time=True)
    return modules


def _collect(module: Module, parent: ast.AST, known: set[str], *, at_run_time: bool) -> None:
    """Gather the imports below a node."""
    if isinstance(parent, ast.If) and _is_type_checking(parent.test):
        for node in parent.body:
            _collect_one(module, node, known, at_run_time=False)
        for node in parent.orelse:
            _collect_one(module, node, known, at_run_time=at_run_time)
        return
    if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        at_run_time = False
    for child in ast.iter_child_nodes(parent):
        _collect_one(module, child, known, at_run_time=at_run_time)


def _collect_one(module: Module, node: ast.AST, known: set[str], *, at_run_time: bool) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            module.imports.append(Import(alias.name, node.lineno, at_run_time))
            local = alias.asname or alias.name.split(".")[0]
            module.aliases[local] = alias.name if alias.asname else local
    elif isinstance(node, ast.ImportFrom):
        base = _base(module, node)
        for alias in node.names:
            full = f"{base}.{alias.name}"
            # `from package import module` names the module; `from module import name` names the module before it.
            module.imports.append(Import(full if full in known else base, node.lineno, at_run_time))
            module.aliases[alias.asname or alias.name] = full
    else:
        _collect(module, node, known, at_run_time=at_run_time)


def _base(module: Module, node: ast.ImportFrom) -> str:
    """Return the absolute module that a `from` names."""
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    kept = len(parts) - node.level + (1 if module.is_package else 0)
    return ".".join([*parts[:kept], *([node.module] if node.module else [])])


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def violations(source: Path) -> list[str]:
    """Return what breaks the rules, each with the place where it does."""
    modules = read(source)
    found = list(_unknown(source))
    for module in modules.values():
        for each in module.imports:
            found += [f"{module.path}:{each.line}: {problem}" for problem in _import_problems(module, each)]
        found += [f"{module.path}:{line}: {problem}" for line, problem in _use_problems(module)]
    return found + list(_cycles(modules))


def _unknown(source: Path) -> Iterator[str]:
    """Yield the parts at the top of the source that have no rank."""
    for path in sorted(source.iterdir()):
        holds_code = path.suffix == ".py" or (path.is_dir() and any(path.rglob("*.py")))
        if holds_code and path.stem not in {*RANKS, "__init__"}:
            yield f"{source.name}/{path.name} has no rank: give it one in RANKS"


def _import_problems(module: Module, each: Import) -> Iterator[str]:
    first = each.target.split(".")[0]
    if first == ROOT_PACKAGE:
        yield from _rank_problems(module.top, top_of(each.target))
        return
    home = HOME_OF.get(first)
    if home is not None and module.top != home:
        yield f"{first} is for {home} alone"
    if module.top == "domain" and first in NOT_IN_DOMAIN:
        yield f"the domain may not import {first}"


def _rank_problems(own: str, other: str) -> Iterator[str]:
    """Yield why a part may not import another one."""
    own_rank = RANKS.get(own, 0)
    other_rank = RANKS.get(other, 0)
    if own == other or own_rank == other_rank == 0:
        return
    if own_rank == other_rank:
        yield f"{own} and {other} are siblings: they meet in cli alone"
    elif own_rank < other_rank:
        yield f"{own or ROOT_PACKAGE} (rank {own_rank}) may not import {other} (rank {other_rank})"
    elif own == "tui" and other in TUI_MAY_NOT:
        yield f"tui may not import {other}: it shows a monitor and nothing else"


def _use_problems(module: Module) -> Iterator[tuple[int, str]]:
    """Yield uses of what a module may not call, however it was imported."""
    # What `from time import time` names is found where it is imported, and the name's uses need no second report.
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom):
            names = [f"{_base(module, node)}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            names = [_dotted(module, node)]
        elif isinstance(node, ast.Name) and node.id not in module.aliases:
            names = [node.id]
        else:
            continue
        for name in names:
            if name in CLOCK_CALLS and module.name != f"{ROOT_PACKAGE}.clock":
                yield node.lineno, f"{name} is for clock.py alone"
            if name in DYNAMIC_IMPORTS and module.top != "cli":
                yield node.lineno, f"{name} hides an import from this test"
            if name == "open" and module.top == "domain":
                yield node.lineno, "the domain may not open files"


def _dotted(module: Module, node: ast.Attribute) -> str:
    """Return the dotted origin of an attribute such as `dt.datetime.now`, or nothing where its root is no import."""
    attributes = [node.attr]
    value = node.value
    while isinstance(value, ast.Attribute):
        attributes.append(value.attr)
        value = value.value
    if not isinstance(value, ast.Name) or value.id not in module.aliases:
        return ""
    return ".".join([module.aliases[value.id], *reversed(attributes)])


def _cycles(modules: Mapping[str, Module]) -> Iterator[str]:
    """Yield a cycle of imports that run when modules are imported, if there is one."""
    graph = {
        name: {each.target for each in module.imports if each.at_run_time and each.target in modules}
        for name, module in modules.items()
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        # The sorter names predecessors first, which here are the imported.
        yield "import cycle: " + " -> ".join(reversed(error.args[1]))


def test_the_source_keeps_the_direction_of_imports() -> None:
    """The package itself breaks no rule."""
    assert read(SOURCE)
    assert violations(SOURCE) == []


SOUND = {
    "__init__": "from trnfleet.errors import TrnfleetError",
    "__main__": "from trnfleet.cli.main import main",
    "clock": "import asyncio, time\nfrom datetime import datetime\ntime.monotonic(), asyncio.sleep, datetime.now",
    "errors": "import difflib",
    "config": "from pathlib import Path\nfrom .errors import ConfigError\nopen",
    "domain.__init__": "",
    "domain.layout": "import numpy as np\nfrom datetime import datetime\nfrom trnfleet.domain import metrics",
    "domain.metrics": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from trnfleet.domain import layout",
    "wire.topics": "from trnfleet import errors\nfrom ..domain.layout import Layout",
    "sim.engine": "from trnfleet.wire import topics\nimport trnfleet.domain.layout",
    "transport.mqtt": "import aiomqtt\nfrom paho.mqtt import client\nfrom trnfleet import __version__",
    "transport.embedded": "def start():\n    import amqtt.broker\n    from trnfleet.transport import mqtt",
    "monitor.store": "def known(self):\n    return self.time.time()",
    "tui.app": "from textual.app import App\nfrom rich.style import Style\nfrom trnfleet.monitor import store",
    "cli.main": "import click, importlib\nimport trnfleet.tui.app, trnfleet.sim.engine\nimportlib.import_module",
}
"""A small package that uses each freedom which the rules leave."""


def write(folder: Path, sources: Mapping[str, str]) -> Path:
    """Write modules, named by their place in the package, and return the package's folder."""
    source = folder / ROOT_PACKAGE
    for name, text in sources.items():
        path = source.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    return source


def test_a_sound_package_has_no_violations(tmp_path: Path) -> None:
    """What the rules allow is not reported."""
    assert violations(write(tmp_path, SOUND)) == []


@pytest.mark.parametrize(
    ("module", "text", "expected"),
    [
        ("errors", "from trnfleet.domain import layout", "errors (rank 0) may not import domain (rank 1)"),
        ("__init__", "import trnfleet.wire.topics", "trnfleet (rank 0) may not import wire (rank 2)"),
        (
            "domain.fleet",
            "from trnfleet.wire.topics import x",
            "domain (rank 1) may not import wire (rank 2)",
        ),
        ("wire.ports", "import trnfleet.sim.engine", "wire (rank 2) may not import sim (rank 3)"),
        (
            "monitor.rollup",
            "from trnfleet.tui.app import App",
            "monitor (rank 3) may not import tui (rank 4)",
        ),
        ("tui.views", "from trnfleet import cli", "tui (rank 4) may not import cli (rank 5)"),
        ("cli.app", "import trnfleet.__main__", "cli (rank 5) may not import __main__ (rank 6)"),
        ("wire.ports", "from ..sim.engine import Engine", "wire (rank 2) may not import sim (rank 3)"),
        ("wire.ports", "from .. import sim", "wire (rank 2) may not import sim (rank 3)"),
        ("wire.__init__", "from ..sim import engine", "wire (rank 2) may not import sim (rank 3)"),
        (
            "wire.ports",
            "def f():\n    import trnfleet.sim.engine",
            "ports.py:2: wire (rank 2) may not import sim",
        ),
        (
            "wire.ports",
            "import typing\nif typing.TYPE_CHECKING:\n    from trnfleet.sim import engine",
            "ports.py:3: wire (rank 2) may not import sim (rank 3)",
        ),
        ("sim.hosts", "from trnfleet.transport import mqtt", "sim and transport are siblings"),
        ("monitor.ingest", "from trnfleet.transport import mqtt", "monitor and transport are siblings"),
        ("record.player", "from ..monitor.store import Store", "record and monitor are siblings"),
        ("bridge.neuron", "import trnfleet.sim.engine", "bridge and sim are siblings"),
        ("export.prometheus", "from trnfleet.monitor import store", "export and monitor are siblings"),
        ("tui.views", "from trnfleet.sim import engine", "tui may not import sim"),
        ("tui.views", "from trnfleet.transport import mqtt", "tui may not import transport"),
        ("tui.views", "from trnfleet.record import player", "tui may not import record"),
        ("tui.views", "from trnfleet.bridge import neuron", "tui may not import bridge"),
        ("tui.views", "from trnfleet.export import text", "tui may not import export"),
        ("cli.app", "from textual.app import App", "textual is for tui alone"),
        ("monitor.rollup", "import rich.style", "rich is for tui alone"),
        ("cli.app", "import aiomqtt", "aiomqtt is for transport alone"),
        ("record.player", "from paho.mqtt import client", "paho is for transport alone"),
        ("cli.broker", "def f():\n    from amqtt.broker import Broker", "amqtt is for transport alone"),
        ("logs", "import click", "click is for cli alone"),
        ("domain.fleet", "import asyncio", "the domain may not import asyncio"),
        ("domain.fleet", "import socket", "the domain may not import socket"),
        ("domain.fleet", "import time as t", "the domain may not import time"),
        ("domain.fleet", "import os.path", "the domain may not import os"),
        ("domain.fleet", "from pathlib import Path", "the domain may not import pathlib"),
        ("domain.fleet", "from random import Random", "the domain may not import random"),
        ("domain.fleet", "import subprocess", "the domain may not import subprocess"),
        ("domain.fleet", "import io", "the domain may not import io"),
        ("domain.fleet", "def f(name):\n    return open(name)", "fleet.py:2: the domain may not open files"),
        ("sim.hosts", "import time\ntime.time()", "hosts.py:2: time.time is for clock.py alone"),
        ("sim.hosts", "import time as t\nnow = t.monotonic", "time.monotonic is for clock.py alone"),
        (
            "sim.hosts",
            "from time import time_ns\ntime_ns()",
            "hosts.py:1: time.time_ns is for clock.py alone",
        ),
        (
            "logs",
            "from datetime import datetime\ndatetime.now()",
            "datetime.datetime.now is for clock.py alone",
        ),
        ("logs", "import datetime as dt\ndt.datetime.now()", "datetime.datetime.now is for clock.py alone"),
        ("tasks", "import asyncio\nasyncio.sleep(1)  # noqa: TID251", "asyncio.sleep is for clock.py alone"),
        ("tasks", "def f():\n    from asyncio import sleep", "asyncio.sleep is for clock.py alone"),
        ("sim.clock", "import time\ntime.monotonic()", "time.monotonic is for clock.py alone"),
        ("tasks", "import importlib\nimportlib.import_module", "importlib.import_module hides an import"),
        ("sim.hosts", "__import__('trnfleet.tui')", "__import__ hides an import"),
        ("helpers.text", "", "trnfleet/helpers has no rank"),
        ("helpers", "", "trnfleet/helpers.py has no rank"),
        ("errors", "from trnfleet.config import x", "trnfleet.errors -> trnfleet.config -> trnfleet.errors"),
        ("domain.metrics", "import trnfleet.domain.layout", "import cycle: "),
        (
            "sim.chips",
            "from trnfleet.sim import chips",
            "import cycle: trnfleet.sim.chips -> trnfleet.sim.chips",
        ),
        ("sim.__init__", "class A:\n    try:\n        from . import b\n    finally: pass", "import cycle: "),
    ],
)
def test_each_rule_fails_when_broken(tmp_path: Path, module: str, text: str, expected: str) -> None:
    """One broken module in a sound package gives exactly one violation, which says what and where."""
    others = {"sim.b": "from trnfleet.sim import B"} if module == "sim.__init__" else {}
    (found,) = violations(write(tmp_path, {**SOUND, **others, module: text}))

    assert expected in found


def test_imports_that_do_not_run_make_no_cycle(tmp_path: Path) -> None:
    """A cycle through a function or TYPE_CHECKING is none at run time; the else branch of TYPE_CHECKING runs."""
    lazy = "def f():\n    import trnfleet.sim.b"
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import trnfleet.sim.b\nelse:\n    "
    back = "import trnfleet.sim.a"

    assert violations(write(tmp_path / "lazy", {"sim.a": lazy, "sim.b": back})) == []
    assert violations(write(tmp_path / "typed", {"sim.a": typed + "pass", "sim.b": back})) == []
    (found,) = violations(write(tmp_path / "else", {"sim.a": typed + "import trnfleet.sim.b", "sim.b": back}))
    assert "import cycle" in found
