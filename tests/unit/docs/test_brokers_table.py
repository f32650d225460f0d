"""The table of brokers in docs/brokers.md."""

from __future__ import annotations

import re

from support.documents import read

from lab.brokers.cases import CASES
from lab.brokers.limits import LIMITS
from lab.brokers.table import BEGIN, BROKERS, END, Cell, table

NAMES = [each.name for each in BROKERS]


def test_each_cell_says_what_came_of_it() -> None:
    """A pass has its result, a known limit its note's number, anything else is failed."""
    versions = dict.fromkeys(NAMES, "1.0")
    cells = {(name, case.name): Cell("", passed=True) for name in NAMES for case in CASES}
    cells["Mosquitto", "version"] = Cell("5", passed=True)
    cells["Mosquitto", "will"] = Cell("", passed=False)
    lines = table(versions, cells).splitlines()
    assert lines[0] == "| case | " + " | ".join(f"{name} 1.0" for name in NAMES) + " |"
    rows = {
        line.split(" | ")[0].removeprefix("| "): line.split(" | ")[1:]
        for line in lines
        if line[:1] == "|"
    }
    titles = {case.name: case.title for case in CASES}
    assert rows[titles["version"]][0] == "5"
    assert rows[titles["will"]][0] == "FAILED"
    column = NAMES.index("RabbitMQ")
    assert re.fullmatch(r"no \(\d\)( \|)?", rows[titles["silence"]][column])
    for note in set(LIMITS.values()):
        assert sum(line.endswith(note) for line in lines) == 1


def test_limits_are_of_cases_and_brokers_that_there_are() -> None:
    """Every note is about an existing case and broker."""
    assert {broker for broker, _ in LIMITS} <= set(NAMES)
    assert {case for _, case in LIMITS} <= {case.name for case in CASES}


def test_the_page_has_a_whole_table() -> None:
    """The table has a row per case and a column per broker.

    No cell is empty or failed.
    """
    body = read("brokers.md").split(BEGIN)[1].split(END)[0]
    lines = [line for line in body.splitlines() if line.startswith("|")]
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines[2:]] == [
        case.title for case in CASES
    ]
    for name in NAMES:
        assert re.search(rf"\| {re.escape(name)} [\d.]+ ", lines[0]), name
    assert "FAILED" not in body
    assert all(cell.strip() for line in lines for cell in line.strip("|").split("|"))
