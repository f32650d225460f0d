"""Measures of the source with their ceilings.

`support.house` defines each count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.house import (
    Module,
    constant_count,
    modules,
    relative_words,
    repeated_classes,
    single_importers,
    statement_count,
    tuple_assignments,
    vague_names,
)
from support.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path


CEILINGS = {
    "statements of trnfleet": 72_170,
    "statements of tests and lab": 69_030,
    "numeric constants": 950,
    "tuple assignments": 193,
    "modules that one sibling imports": 47,
    "class names twice": 34,
    "vague names": 96,
}
"""Ceilings of counts. Lower one when you lower a count.

Only a feature may raise those of statements.
"""


@pytest.fixture(scope="module")
def program() -> list[Module]:
    """Return the modules of the program."""
    return modules(ROOT, "trnfleet")


@pytest.fixture(scope="module")
def tests() -> list[Module]:
    """Return the modules of the tests and of the lab."""
    return modules(ROOT, "tests", "lab")


def test_no_count_is_above_its_ceiling(program: list[Module], tests: list[Module]) -> None:
    counts = {
        "statements of trnfleet": sum(map(statement_count, program)),
        "statements of tests and lab": sum(map(statement_count, tests)),
        "numeric constants": sum(map(constant_count, program)),
        "tuple assignments": sum(len(tuple_assignments(each)) for each in [*program, *tests]),
        "modules that one sibling imports": len(single_importers(program)),
        "class names twice": len(repeated_classes(program)),
        "vague names": sum(vague_names(each).total() for each in program),
    }
    assert {name: count for name, count in counts.items() if count > CEILINGS[name]} == {}, (
        "above CEILINGS: remove as much elsewhere, or raise statements for a feature"
    )


def test_each_measure_counts_what_it_says(tmp_path: Path) -> None:
    text = (
        '"""Text."""\n\nfrom pkg import other\n\nLIMIT_S = 3.0\nTABLE = {"a": 1, "b": 2}\n\n\n'
        "class Twice:\n    wait_s: float = 5.0\n    is_on: bool = True\n    zero: int = 0\n\n\n"
        "class Code(enum.IntEnum):\n    FIRST = 7\n\n\n"
        "def take(each, of=7, one=1):\n    a, b = each, of\n    a, b = b, a\n    return a\n"
    )
    for name, content in (("one.py", text), ("other.py", "class Twice:\n    pass\n")):
        path = tmp_path / "pkg" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")
    parsed = modules(tmp_path, "pkg")
    one = parsed[0]
    assert statement_count(one) == 13
    assert constant_count(one) == 5
    assert tuple_assignments(one) == [20]
    assert vague_names(one) == {"take": 1, "each": 1, "of": 1}
    assert repeated_classes(parsed) == ["Twice"]
    assert single_importers(parsed) == {"pkg/other.py": "pkg/one.py"}
    assert relative_words("those that come, which is what we count") == pytest.approx(37.5)
